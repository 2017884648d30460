"""Exit statuses of the commands: the one place that maps errors to them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from lowtide.cli.interrupted import INTERRUPTED
from lowtide.client.errors import OverMemoryError, SanitizerError
from lowtide.ir.errors import LowtideError, UnsupportedOpError


class ExitCode(IntEnum):
    """The exit status of `lowtide`."""

    DONE = 0
    BAD_INPUT = 1
    """Also wrong usage."""
    OVER_BUDGET = 2
    UNSUPPORTED = 3
    NOT_VERIFIED = 4
    INTERNAL_ERROR = 70
    INTERRUPTED = INTERRUPTED
    BROKEN_PIPE = 141


class UsageError(LowtideError):
    """The command line asks for what the command does not have."""


class ClosedPipeError(Exception):
    """Nobody reads the output any more."""


class OverBudgetError(LowtideError):
    """What was asked for does not fit the memory that is given, as far as is known."""


class VerificationError(LowtideError):
    """A result did not pass its check."""


_STATUS: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (UnsupportedOpError, ExitCode.UNSUPPORTED),
    (VerificationError, ExitCode.NOT_VERIFIED),
    (SanitizerError, ExitCode.NOT_VERIFIED),
    (OverBudgetError, ExitCode.OVER_BUDGET),
    (OverMemoryError, ExitCode.OVER_BUDGET),
    (LowtideError, ExitCode.BAD_INPUT),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (ClosedPipeError, ExitCode.BROKEN_PIPE),
    (BrokenPipeError, ExitCode.BROKEN_PIPE),
    (OSError, ExitCode.BAD_INPUT),
    (MemoryError, ExitCode.BAD_INPUT),
)
"""The first class that an error belongs to decides."""


def exit_code(error: BaseException) -> ExitCode:
    """Return the status with which a command ends that raised `error`."""
    for kind, code in _STATUS:
        if isinstance(error, kind):
            return code
    return ExitCode.INTERNAL_ERROR


def error_text(error: BaseException, place: str = "") -> str:
    """Return what to tell the user about an error; "" for what needs no words.

    Its notes say in which pass it was raised. `place`, such as " while reading step.hlo", stands
    behind an error that names nothing itself.
    """
    code = exit_code(error)
    if code is ExitCode.BROKEN_PIPE:
        return ""
    if isinstance(error, MemoryError) and not isinstance(error, LowtideError):
        return f"out of memory{place}"
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror.lower()
        return f"{error.filename}: {reason}" if error.filename else f"{reason}{place}"
    notes = getattr(error, "__notes__", ())
    if code is not ExitCode.INTERNAL_ERROR:
        return ", ".join([str(error), *notes])
    culprit = "that pass" if notes else "lowtide"
    return (
        f"{' '.join(['lowtide failed', *notes])}: {type(error).__name__}: {error}\n"
        f"This is a fault in {culprit}, not in the input; LOWTIDE_TRACEBACK=1 shows where."
    )
