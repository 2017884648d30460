"""Services to foreign functions while they run: errors, memory, tasks, results that come later."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import field
from functools import cache
from itertools import count
from threading import Event
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.host_calls.foreign.structures import (
    FfiAnswer,
    FfiErrorArguments,
    FfiErrorQuestion,
    FfiFreed,
    FfiFutureArguments,
    FfiMemory,
    FfiTask,
)
from lowtide.ir.literal import Array
from lowtide.records import dataclass

VERSION: Final = (0, 3)
"""The version of the header, major and minor."""


@dataclass(slots=True)
class _Later:
    """A result that comes later: an event, and the error with which it came."""

    done: Event = field(default_factory=Event)
    error: int = 0


_names: Final = count(1)
_errors: Final[dict[int, bytes]] = {}
_memory: Final[dict[int, dict[int, Array]]] = {}
_later: Final[dict[int, _Later]] = {}
"""By number, which functions take for a pointer: messages of errors, the memory of each call in
progress by address, and results that come later."""


def new_context() -> int:
    """Return the number of a new call; `close_context` ends it."""
    number = next(_names)
    _memory[number] = {}
    return number


def close_context(number: int) -> None:
    """Give back the memory of a call."""
    del _memory[number]


def taken_error(number: int) -> str:
    """Return the message of an error, which is forgotten then."""
    return _errors.pop(number).decode(errors="replace")


def awaited(number: int) -> str:
    """Wait for a result that comes later; return the message of its error, "" for none."""
    later = _later[number]
    later.done.wait()
    del _later[number]
    return taken_error(later.error) if later.error else ""


def _error(message: bytes) -> int:
    number = next(_names)
    _errors[number] = message
    return number


# -- what functions call -------------------------------------------------------------------------


def _error_create(arguments: Any) -> int:
    return _error(arguments.message or b"")


def _error_message(arguments: Any) -> None:
    arguments.message = _errors[arguments.error]


def _error_destroy(arguments: Any) -> None:
    _errors.pop(arguments.error, None)


def _allocate(arguments: Any) -> int | None:
    block = np.empty(arguments.size + arguments.alignment + 1, np.uint8)
    start = int(block.ctypes.data)
    address = start + -start % max(arguments.alignment, 1)
    _memory[arguments.context][address] = block
    arguments.data = address
    return None


def _free(arguments: Any) -> int | None:
    _memory[arguments.context].pop(arguments.data, None)
    return None


def _schedule(arguments: Any) -> int | None:
    """Run a task at once: the caller's thread is one that may run it."""
    ctypes.CFUNCTYPE(None, c_void_p)(arguments.task)(arguments.data)
    return None


def _thread_count(arguments: Any) -> int | None:
    c_int64.from_address(arguments.answer).value = 1
    return None


def _no_stream(arguments: Any) -> int | None:
    arguments.answer = None
    return None


def _run_number(arguments: Any) -> int | None:
    c_int64.from_address(ctypes.addressof(arguments) + FfiAnswer.answer.offset).value = 0
    return None


def _device_number(arguments: Any) -> int | None:
    c_int32.from_address(ctypes.addressof(arguments) + FfiAnswer.answer.offset).value = 0
    return None


def _future(arguments: Any) -> int | None:
    arguments.future = next(_names)
    _later[arguments.future] = _Later()
    return None


def _available(arguments: Any) -> int | None:
    _later[arguments.future].done.set()
    return None


def _failed(arguments: Any) -> int | None:
    later = _later[arguments.future]
    later.error = arguments.error or 0
    later.done.set()
    return None


def _refused(name: str) -> Callable[[Any], int]:
    return lambda _: _error(f"lowtide does not have XLA_FFI_{name}".encode())


_Service: TypeAlias = Callable[[Any], "int | None"]

_SERVICES: Final[tuple[tuple[str, Any, _Service], ...]] = (
    ("Error_Create", FfiErrorArguments, _error_create),
    ("Error_GetMessage", FfiErrorQuestion, _error_message),
    ("Error_Destroy", FfiErrorQuestion, _error_destroy),
    ("Handler_Register", FfiAnswer, _refused("Handler_Register")),
    ("Stream_Get", FfiAnswer, _no_stream),
    ("Type_Register", FfiAnswer, _refused("Type_Register")),
    ("ExecutionContext_Get", FfiAnswer, _refused("ExecutionContext_Get")),
    ("State_Set", FfiAnswer, _refused("State_Set")),
    ("State_Get", FfiAnswer, _refused("State_Get")),
    ("DeviceMemory_Allocate", FfiMemory, _allocate),
    ("DeviceMemory_Free", FfiFreed, _free),
    ("ThreadPool_Schedule", FfiTask, _schedule),
    ("ThreadPool_NumThreads", FfiAnswer, _thread_count),
    ("Future_Create", FfiFutureArguments, _future),
    ("Future_SetAvailable", FfiFutureArguments, _available),
    ("Future_SetError", FfiFutureArguments, _failed),
    ("RunId_Get", FfiAnswer, _run_number),
    ("DeviceOrdinal_Get", FfiAnswer, _device_number),
)
"""In the order of the header: the name of a function, its arguments, and what it does."""

_Callback: Final = ctypes.CFUNCTYPE(c_void_p, c_void_p)


def _callback(structure: Any, service: _Service) -> Any:
    """What a function calls: nothing that Python raises may leave it."""
    read = structure.from_address

    def call(address: int) -> int | None:
        try:
            return service(read(address))
        except Exception as error:
            return _error(f"{type(error).__name__}: {error}".encode())

    return _Callback(call)


class FfiVersion(ctypes.Structure):
    """A version of the header."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("major", c_int),
        ("minor", c_int),
    )


@cache
def services() -> int:
    """Return the address of the table of services, which stays for good."""
    head = (
        *(("struct_size", c_size_t), ("extension_start", c_void_p)),
        *(("version", FfiVersion), ("internal", c_void_p)),
    )
    fields = (*head, *[(name, c_void_p) for name, _, _ in _SERVICES])
    kind = type("FfiApi", (ctypes.Structure,), {"_fields_": fields})
    version = FfiVersion(ctypes.sizeof(FfiVersion), None, *VERSION)
    table: Any = kind(ctypes.sizeof(kind), None, version, None)
    for name, structure, service in _SERVICES:
        callback = _callback(structure, service)
        _kept.append(callback)
        setattr(table, name, ctypes.cast(callback, c_void_p).value)
    _kept.append(table)
    return ctypes.addressof(table)


_kept: Final[list[Any]] = []
