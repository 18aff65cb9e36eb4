"""The command, from its script and as `python -m abw`: an early Ctrl-C or SIGTERM ends it in order, too."""

import sys


def main() -> None:
    """Import the command line, which takes longest of all that `abw --help` does, and run it."""
    from abw.core.base.interrupts import Terminated, end_in_order

    try:
        end_in_order()
        from abw.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Terminated as end:  # before the command line is there, which else tells it
        print("terminated", file=sys.stderr)
        sys.exit(end.code)


if __name__ == "__main__":
    main()
