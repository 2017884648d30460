"""Errors as PJRT passes them on: a code and a text."""

from __future__ import annotations

import ctypes
import logging
from typing import Final

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
