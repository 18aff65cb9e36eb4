"""The command, from its script and as `python -m abw`: an early Ctrl-C ends it with one line, too."""

import sys


def main() -> None:
    """Import the command line, which takes longest of all that `abw --help` does, and run it."""
    try:
        from abw.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
