"""The functions of the plugin that are machine code, since no Python may run where C++ calls them.

They are called under a lock that a thread may hold which waits for the interpreter, while an
exception is pending, or after the interpreter has ended.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final, TypeVar

from lowtide.backends.kept import kept
from lowtide.llvm.file_pages import forget_llvm_pages
from lowtide.llvm.library import Library
from lowtide.llvm.objects import unit_object
from lowtide.llvm.target import host_target
from lowtide.native import NativeFunction, NativeUnit
from lowtide.options import Options
from lowtide.pjrt import native_answers as answers
from lowtide.pjrt import native_calls as calls
from lowtide.pjrt import native_errors as errors
from lowtide.pjrt import native_events as events
from lowtide.pjrt import native_hosts as hosts
from lowtide.pjrt import native_idle as idle
from lowtide.pjrt import native_jobs as jobs
from lowtide.pjrt import native_objects as objects
from lowtide.pjrt import native_python as python
from lowtide.pjrt import native_queue as queue

T = TypeVar("T")

_ASKED: Final[tuple[NativeFunction[..., Any], ...]] = (
    *(errors.destroy_error, errors.message, errors.code, events.is_ready, events.event_error),
    *(events.await_event, events.on_ready, events.destroy_event, events.ready_event),
    *(objects.destroy, objects.delete, objects.is_deleted, objects.share, objects.give_back),
    *(answers.nothing, answers.yes, answers.no, answers.no_list, answers.device, answers.memory),
    *(answers.dimensions, answers.on_device_size, answers.element_type, answers.pointer),
    *(answers.layout_of, answers.layout_text, answers.kind, answers.result_count, queue.execute),
    hosts.from_host,
)
"""Functions of the table."""

_CALLED: Final[dict[NativeFunction[..., Any], str]] = {
    python.take: "p",
    python.fill: "vnp",
    python.refuse: "v",
    python.set_nested: "vp",
    python.set_sweeper: "vp",
    python.set_raiser: "vp",
    python.set_kept: "vn",
    errors.new_error: "picn",
    errors.error_free: "vp",
    events.new_event: "p",
    events.retain: "vp",
    events.release: "vp",
    events.has_happened: "bp",
    idle.account: "vpn",
    idle.signal: "vp",
    idle.notice: "vp",
    idle.unsettle: "vp",
    idle.settle: "vp",
    objects.drop: "vp",
    objects.let_go: "vp",
    objects.free_storage: "vp",
    objects.release_block: "vp",
    objects.new_storage: "pppnn",
    objects.borrow: "pp",
    objects.new_cell: "pppnpp",
    calls.claim: "ppppp",
    hosts.note_form: "vp",
    calls.discard: "vp",
    calls.announce: "vpp",
    queue.again: "vpp",
    queue.take_arena: "pp",
}
"""Functions that Python calls with its lock: the types of result and arguments, by letters."""

_WITHOUT_LOCK: Final[dict[NativeFunction[..., Any], str]] = {
    events.complete: "vpp",
    events.on_ready: "pp",
    events.wait_for: "pp",
    jobs.finish: "vpp",
    queue.back_pressure: "vp",
    queue.enqueue: "vpp",
    queue.execute: "pp",
    queue.failed: "pp",
    queue.next_job: "ppn",
}
"""Those that may take other locks or time, so that the interpreter is free meanwhile."""

_LETTERS: Final[dict[str, Any]] = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_int64,
    "i": ctypes.c_int,
    "c": ctypes.c_char_p,
    "b": ctypes.c_bool,
    "v": None,
}

UNIT: Final = NativeUnit(
    "plugin", [*dict.fromkeys([*_ASKED, *_CALLED, *_WITHOUT_LOCK]), *python.ENTRIES]
)


def immortal(thing: T) -> T:
    """Return what stays until the process ends, since C++ uses it after Python has gone."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


class NativeCode:
    """The functions as they are linked: `library` has addresses, the attributes are for Python."""

    def __init__(self) -> None:
        target = host_target()
        code = unit_object(UNIT, target, kept("objects", Options()))
        self.library = immortal(Library([code], UNIT.names, target))
        for make, called in ((ctypes.PYFUNCTYPE, _CALLED), (ctypes.CFUNCTYPE, _WITHOUT_LOCK)):
            for function, letters in called.items():
                result, *given = [_LETTERS[x] for x in letters]
                setattr(self, function.name, make(result, *given)(self.library[function.name]))

    def __getattr__(self, name: str) -> Any:
        """Any other attribute is none of the functions."""
        raise AttributeError(f"no function {name!r} is called from Python")


@cache
def native_code() -> NativeCode:
    """Return the functions, compiled or taken from the cache once."""
    code = immortal(NativeCode())
    forget_llvm_pages()
    return code
