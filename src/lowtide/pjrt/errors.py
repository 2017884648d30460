"""Errors as PJRT passes them on: a code and a text."""

from __future__ import annotations

import ctypes
import inspect
import logging
import sys
from types import FrameType
from typing import Any, Final

from lowtide.client.errors import OverMemoryError
from lowtide.host_calls.python_calls import raised_in
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.pjrt.native_code import native_code

_logger: Final = logging.getLogger(__name__)

INVALID_ARGUMENT: Final = 3
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13


class PluginError(LowtideError):
    """What a function of the plugin refuses to do, with the code of the error in C."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException) -> int:
    """Return the code that stands for an exception."""
    if isinstance(error, PluginError):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return INTERNAL


_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (UnsupportedOpError, UNIMPLEMENTED),
    (OverMemoryError, RESOURCE_EXHAUSTED),
    (MemoryError, RESOURCE_EXHAUSTED),
    (InputError, INVALID_ARGUMENT),
    (LowtideError, INVALID_ARGUMENT),
    (ValueError, INVALID_ARGUMENT),
)


def text_of(error: BaseException) -> str:
    """Return what a user reads: the message of our own errors, with the type of all others.

    Of what a callback raised it is the traceback, which is logged, too, as JAX does: the error may
    be seen late or by nobody.
    """
    callback, traceback = raised_in(error)
    if callback:
        _logger.error("%s failed\n%s", callback, traceback)
        return f"{callback} failed: {traceback}"
    message = str(error)
    if isinstance(error, LowtideError | MemoryError) and message:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def error_at(address: int) -> PluginError:
    """Return an error in C, which is freed, as an exception."""
    size = ctypes.c_int64.from_address(address + 16).value
    code = ctypes.c_int32.from_address(address + 24).value
    text = ctypes.string_at(address + 32, size).decode()
    native_code().error_free(address)
    return PluginError(code, text)


def new_error(error: BaseException) -> int:
    """Return the address of an error in C, which its reader frees."""
    text = text_of(error).encode()
    address: int = native_code().new_error(code_of(error), text, len(text))
    return address


# -- what handlers of signals raise ----------------------------------------------------------------
#
# Python runs handlers between any two lines of its main thread, so also within functions of the
# plugin, out of which no exception may come. What one raised is kept, and is raised where Python
# goes on in the user's code, as if the signal had come then.

unraised: Final[list[BaseException]] = []
"""What handlers raised and nobody has seen yet."""


def is_of_signal(error: BaseException) -> bool:
    """Whether a handler of a signal raised an exception."""
    if isinstance(error, KeyboardInterrupt):
        return True
    step = error.__traceback__
    while step is not None:
        if _is_handler(step.tb_frame):
            return True
        step = step.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    """Whether a frame has the one that it interrupted as an argument: none but a handler's has."""
    interrupted = frame.f_back
    if interrupted is None:
        return False
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is interrupted:
            return True
        if isinstance(value, tuple) and any(x is interrupted for x in value):
            return True
    return False


def handed_over() -> int:
    """Return the address of the first that nobody has seen, for who raises it; 0 without one."""
    if not unraised:
        return 0
    error = unraised.pop(0)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
    return id(error)


def keep_what_leaves() -> None:
    """Keep exceptions of handlers that come before a callback's first line or after its last.

    ctypes gives them to Python's hook for what nobody can catch.
    """
    tell = sys.unraisablehook

    def keep(found: Any) -> None:
        error, place = found.exc_value, getattr(found.object, "__module__", None) or ""
        if error is not None and place.startswith("lowtide.pjrt.") and is_of_signal(error):
            unraised.append(error)
        else:
            tell(found)

    sys.unraisablehook = keep
