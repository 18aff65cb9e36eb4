"""The command, from its script and as `python -m abw`: an early Ctrl-C or SIGTERM ends it in order, too."""

import sys


def main() -> None:
    """Import the command line, which takes longest of all that `abw --help` does, and run it."""
    from abw.core.base.interrupts import Terminated, end_in_order

    try:
        end_in_order()
        from abw.cli.main import main as run

        run()
    except (KeyboardInterrupt, Terminated) as end:  # before the command line is there, which else tells it
        _ended(end)
    except RuntimeError as error:  # Python before 3.12 makes one of all that comes while a class is made
        if not isinstance(error.__cause__, KeyboardInterrupt | Terminated):
            raise
        _ended(error.__cause__)


def _ended(end: BaseException) -> None:
    """Say that the command was ended, and exit as it would have."""
    by_user = isinstance(end, KeyboardInterrupt)
    print("interrupted" if by_user else "terminated", file=sys.stderr)
    sys.exit(130 if by_user else getattr(end, "code", 1))


if __name__ == "__main__":
    main()
