"""The end of a command after Ctrl-C. It imports nothing, as Ctrl-C may come during imports."""

import sys
from typing import Final

INTERRUPTED: Final = 130
"""The status of interrupted commands."""


class CommandStage:
    """What a command is doing: its name, and the work in which an error was raised.

    `work` is "" where none is known, else in words such as "reading step.hlo".
    """

    def __init__(self) -> None:
        self.command = ""
        self.work = ""

    def begin(self, command: str) -> None:
        """Begin a command."""
        self.command, self.work = command, ""

    def failed(self, work: str) -> None:
        """Note the innermost work that an error ended."""
        self.work = self.work or work

    @property
    def place(self) -> str:
        """The words that say behind an error where it was raised."""
        if self.work:
            return f" while {self.work}"
        name = f"lowtide {self.command}".rstrip()
        return f" in `{name}`"


STAGE: Final = CommandStage()
"""Of the command that runs."""


def interrupted() -> int:
    """Say that Ctrl-C ended the command, and return its status."""
    sys.stderr.write(f"error: interrupted{STAGE.place}\n")
    return INTERRUPTED
