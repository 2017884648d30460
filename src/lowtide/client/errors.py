"""Errors of a program beside its module: too much memory, or a fault in its code."""

from __future__ import annotations

from lowtide.budgeting.errors import OverMemoryError as OverMemoryError
from lowtide.ir.errors import InputError, LowtideError


class SanitizerError(LowtideError):
    """A step of native code did what it must not.

    `thunk` is the name of the instruction whose step it is, "" where no single one is at fault.
    """

    def __init__(self, message: str, thunk: str = "") -> None:
        super().__init__(message)
        self.thunk = thunk


class UntrustedProgramError(InputError):
    """A stored program that is not known to be one that this user compiled."""
