"""Errors of building, which name the line of the program that made the mistake."""

from __future__ import annotations

import os
import sys
from typing import final

from lowtide.ir.errors import LowtideError

_PACKAGE = __name__.partition(".")[0] + "."


@final
class BuildError(LowtideError):
    """An operation cannot be built; `file` and `line` are where the program asked for it."""

    def __init__(self, message: str, *, operation: str = "") -> None:
        self.file, self.line = caller()
        self.operation = operation
        place = f"{self.file}:{self.line}" if self.line else ""
        super().__init__(": ".join([part for part in (place, operation, message) if part]))


def caller() -> tuple[str, int]:
    """Return file and line of the innermost call from outside of lowtide; ("", 0) for none.

    A file below the working directory is named relative to it.
    """
    frame = sys._getframe(1)
    while (frame.f_globals.get("__name__") or "").startswith(_PACKAGE):
        if frame.f_back is None:
            return "", 0
        frame = frame.f_back
    file = frame.f_code.co_filename
    here = os.getcwd() + os.sep
    return file.removeprefix(here), frame.f_lineno
