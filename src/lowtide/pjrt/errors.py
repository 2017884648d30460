"""Errors as PJRT passes them on: a code and a text."""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from types import CodeType
from typing import Any, Final

from lowtide.client.errors import OverMemoryError
from lowtide.host_calls.python_calls import raised_in
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError
from lowtide.pjrt.native_code import immortal, native_code

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
# plugin, out of which no exception may come. What one raised is kept, the call is done again, and
# then Python raises it where it goes on in the user's code, as if the signal had come then.

_unraised: Final[list[BaseException]] = []
"""What handlers raised and nobody has seen yet."""

_here: Final = threading.local()
"""What left a call on another thread than the main one."""


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _keep(error: BaseException) -> None:
    _unraised.append(error)
    native_code().set_kept(1)


def is_kept(error: BaseException) -> bool:
    """Whether an exception is not a call's own; it is kept then, and the call is to be done again.

    No handler is known by its looks. What the call itself raises comes again, from the same place,
    when it is done again, and is its error then; ours and those of callbacks need no proof.
    """
    if not isinstance(error, KeyboardInterrupt):
        if not _is_main_thread() or isinstance(error, LowtideError | MemoryError):
            return False
        if raised_in(error)[0]:
            return False
        if isinstance(error, Exception) and _unraised and _is_alike(_unraised[-1], error):
            _unraised.pop()
            return False
    _keep(error)
    return True


def _is_alike(one: BaseException, other: BaseException) -> bool:
    """Whether two exceptions say the same and come from the same place."""
    said = [(type(x), str(x)) for x in (one, other)]
    return said[0] == said[1] and _place(one) == _place(other)


def _place(error: BaseException) -> list[tuple[CodeType, int]]:
    step, found = error.__traceback__, []
    while step is not None:
        found.append((step.tb_frame.f_code, step.tb_lasti))
        step = step.tb_next
    return found


def see_what_left(*, may_fail: bool) -> None:
    """Look at why a call is done again.

    Where another's hook got what left it, it is taken for an interrupt. What left a call on another
    thread than the main one, where no handler runs, is raised, if the call may fail.
    """
    if not _is_main_thread():
        error = _here.__dict__.pop("left", None)
        if error is not None and may_fail:
            raise error
    elif not _unraised:
        _keep(KeyboardInterrupt())


def _raise_kept() -> None:
    """Raise what is kept: the last, with those before as its context."""
    if not _unraised:
        native_code().set_kept(0)
        return
    error = _unraised.pop()
    try:
        _raise_kept()
    finally:
        raise error


def keep_what_leaves(call: CodeType) -> None:
    """Keep exceptions that leave a function of the plugin, before its first line or after its last.

    ctypes gives them to Python's hook for what nobody can catch. The code `call` catches its own,
    so what leaves it is of a handler, or of a tracer.
    """
    native_code().set_raiser(id(immortal(_raise_kept)))
    tell = sys.unraisablehook

    def keep(found: Any) -> None:
        error = found.exc_value
        code, place = _left_function(found)
        is_handlers = isinstance(error, KeyboardInterrupt) or _is_main_thread()
        if code is call and not is_handlers:
            _here.left = error
        is_ours = place.startswith("lowtide.pjrt.") and not isinstance(error, Exception)
        if is_handlers and (code is call or is_ours):
            _keep(error)
        else:
            tell(found)

    sys.unraisablehook = keep


def _left_function(found: Any) -> tuple[CodeType | None, str]:
    """Return the code and the module of what an exception left; some Pythons name no object."""
    function = found.object
    if hasattr(function, "__code__"):
        return function.__code__, function.__module__ or ""
    if function is None and found.exc_traceback is not None:
        frame = found.exc_traceback.tb_frame
        return frame.f_code, frame.f_globals.get("__name__", "")
    return None, ""
