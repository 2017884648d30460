"""Errors of a program beside its module: too much memory, or a fault in its code."""

from __future__ import annotations

from pathlib import Path

from lowtide.budgeting.errors import OverMemoryError as OverMemoryError
from lowtide.ir.errors import InputError, LowtideError
from lowtide.ir.literal import Array


class SanitizerError(LowtideError):
    """A step of native code did what it must not.

    `thunk` is the name of the instruction whose step it is, "" where no single one is at fault, and
    `operands` are the arrays that it read, where they are known.
    """

    def __init__(self, message: str, thunk: str = "") -> None:
        super().__init__(message)
        self.thunk = thunk
        self.operands: tuple[Array, ...] = ()


class WrongResultError(SanitizerError):
    """A call whose result is not the evaluator's, and was not returned.

    `path` is the file that repeats it, None where none could be written.
    """

    def __init__(self, message: str, thunk: str = "", path: Path | None = None) -> None:
        super().__init__(message, thunk)
        self.path = path


class UntrustedProgramError(InputError):
    """A stored program that is not known to be one that this user compiled."""
