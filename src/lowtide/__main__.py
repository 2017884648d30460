"""The command `lowtide`, also `python -m lowtide`."""

import sys


def main() -> int:
    """Run the command line of the process and return the exit status."""
    try:
        from lowtide.cli.main import main as command
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
