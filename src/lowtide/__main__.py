"""The command `lowtide`, also `python -m lowtide`."""

import sys

from lowtide.cli.interrupted import STAGE, interrupted


def main() -> int:
    """Run the command line of the process and return the exit status."""
    STAGE.begin("")
    try:
        from lowtide.cli.main import main as command
    except KeyboardInterrupt:
        return interrupted()
    return command()


if __name__ == "__main__":
    sys.exit(main())
