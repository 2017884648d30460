"""The end of a command after Ctrl-C. It imports nothing, as Ctrl-C may come during imports."""

import sys
from typing import Final

INTERRUPTED: Final = 130
"""The status of interrupted commands."""


class PressedAgainError(BaseException):
    """Ctrl-C was pressed again: the command ends as it is, with no plan."""


def interrupted() -> int:
    """Say that Ctrl-C ended the command, and return its status."""
    sys.stderr.write("error: interrupted\n")
    return INTERRUPTED
