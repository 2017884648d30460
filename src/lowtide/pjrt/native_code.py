"""The functions of the plugin that are machine code, since no Python may run where C++ calls them.

C++ destroys objects while a Python exception is pending and after the interpreter has ended. Thus
destroying an object only pushes it on a list, which Python empties at its next turn. Other
functions are called under a lock that a thread may hold which waits for the interpreter: whether
an event has happened, the dimensions of a buffer. And errors are made and read by C++ alone.

A cell is what a handle points to: a word for a table of functions, the next destroyed cell, and six
words of data. An event counts its references; the list of those who wait for it ends where it
becomes `done`. Offsets are in bytes; the fields of arguments begin at 16.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final, TypeVar

from lowtide.backends.kept import kept
from lowtide.llvm.file_pages import forget_llvm_pages
from lowtide.llvm.library import Library
from lowtide.llvm.objects import runtime_object
from lowtide.llvm.target import host_target
from lowtide.options import Options
from lowtide.pjrt.blocks import HandleCell, offset
from lowtide.pjrt.native_parts import queue_functions
from lowtide.pjrt.native_texts import CALLS, ERRORS, EVENTS, LISTS
from lowtide.runtime.cpu.system import System, system_of

T = TypeVar("T")

_ARGUMENT: Final = "define ptr @{name}(ptr %a) {{\n{body}\n  ret ptr null\n}}\n"


def _field(name: str, offset: int, type_: str = "ptr", base: str = "%a") -> str:
    """A value `name` that is loaded at so many bytes from `base`."""
    return (
        f"  %{name}.at = getelementptr i8, ptr {base}, i64 {offset}\n"
        f"  %{name} = load {type_}, ptr %{name}.at"
    )


def _store(value: str, offset: int, type_: str, base: str = "%a") -> str:
    """A store of a value at so many bytes from `base`."""
    place = f"%to.{offset}"
    return (
        f"  {place} = getelementptr i8, ptr {base}, i64 {offset}\n"
        f"  store {type_} {value}, ptr {place}"
    )


def _function(name: str, *lines: str) -> str:
    return _ARGUMENT.format(name=name, body="\n".join(lines))


def _words(name: str, *words: str) -> str:
    """A function that copies fields of a cell, in order, into what it returns."""
    lines = [_field("object", 16)]
    for nth, word in enumerate(words):
        lines.append(_field(word, offset(HandleCell, word), "i64", "%object"))
        lines.append(_store(f"%{word}", 24 + 8 * nth, "i64"))
    return _function(name, *lines)


def _entry(number: int) -> str:
    """A function of the table that calls the function of Python in a slot."""
    slot = f"getelementptr ([{SLOTS} x ptr], ptr @slots, i64 0, i64 {number})"
    return (
        f"define ptr @python{number}(ptr %a) {{\n"
        f"  %found = call ptr @enter(ptr %a, ptr {slot})\n  ret ptr %found\n}}\n"
    )


SLOTS: Final = 160
"""How many functions of Python the table may have."""

_SIMPLE: Final = (
    _function(
        "ready_event",
        _field("object", 16),
        _field("event", offset(HandleCell, "event"), "ptr", "%object"),
        "  call void @retain(ptr %event)",
        _store("%event", 24, "ptr"),
    ),
    _function("nothing"),
    _function("yes", _store("1", 24, "i8")),
    _function("no_list", _store("null", 24, "ptr"), _store("0", 32, "i64")),
    _words("device", "device"),
    _words("memory", "memory"),
    _words("dimensions", "dimensions", "rank"),
    _words("on_device_size", "nbytes"),
)

NAMES: Final = (
    *("destroy", "take", "new_error", "destroy_error", "message", "code", "refuse", "set_nested"),
    *("new_event", "retain", "release", "complete", "is_ready", "event_error", "await"),
    *("on_ready", "destroy_event", "ready_event", "nothing", "yes", "no_list"),
    *("device", "memory", "dimensions", "is_deleted", "fill", "on_device_size", "wait_for"),
    *("account", "signal", "free_storage", "release_block", "drop", "let_go", "new_storage"),
    *("finish", "delete", "share", "give_back", "pointer", "element_type", "kind"),
    *("result_count", "execute", "next_job", "again", "has_happened", "borrow", "new_cell"),
    *("error_free", "take_arena", "claim", "discard", "announce", "enqueue", "back_pressure"),
    *("failed", "settle", "notice", "unsettle", "set_sweeper"),
    *[f"python{i}" for i in range(SLOTS)],
)


def _constant_error(name: str, code: int, text: str) -> str:
    """A function without arguments that returns a new error with a text."""
    return (
        f'@{name}.text = internal constant [{len(text)} x i8] c"{text}"\n'
        f"define internal ptr @{name}() {{\n"
        f"  %error = call ptr @new_error(i32 {code}, ptr @{name}.text, i64 {len(text)})\n"
        "  ret ptr %error\n}\n"
    )


_SWEEPER: Final = """
@sweeper = internal global ptr null
define void @set_sweeper(ptr %queue) {
  store atomic ptr %queue, ptr @sweeper release, align 8
  ret void
}
"""
"""The queue whose worker lets go of what was destroyed and Python holds."""

_FILL: Final = """
define void @fill(i64 %number, ptr %function) {{
  %slot = getelementptr [{slots} x ptr], ptr @slots, i64 0, i64 %number
  store ptr %function, ptr %slot
  ret void
}}
"""


def native_text(system: System) -> str:
    """Return the module of these functions in LLVM IR."""
    slots = f"@slots = internal global [{SLOTS} x ptr] zeroinitializer\n"
    written = [slots, LISTS, ERRORS, EVENTS, CALLS, _SWEEPER, _FILL.format(slots=SLOTS), *_SIMPLE]
    written.append(_constant_error("deleted_error", 3, "Array has been deleted or donated."))
    written += [_entry(i) for i in range(SLOTS)]
    text = "".join(written)
    functions = queue_functions(system)
    declared = dict.fromkeys([line for x in functions for line in x.globals])
    missing = [x for x in declared if f"@{_name_of(x)}(" not in text]
    return "\n".join([text, *missing, *[x.text() for x in functions]])


def _name_of(declaration: str) -> str:
    """The name that a line declares."""
    return declaration.partition("@")[2].partition("(")[0]


def immortal(thing: T) -> T:
    """Return what stays until the process ends, since C++ uses it after Python has gone."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


_CALLED: Final = {
    "take": "p",
    "new_error": "picn",
    "new_event": "p",
    "retain": "vp",
    "release": "vp",
    "fill": "vnp",
    "refuse": "v",
    "set_nested": "vp",
    "drop": "vp",
    "let_go": "vp",
    "account": "vpn",
    "signal": "vp",
    "free_storage": "vp",
    "release_block": "vp",
    "new_storage": "pppnn",
    "again": "vpp",
    "take_arena": "pp",
    "borrow": "pp",
    "new_cell": "pppnpp",
    "error_free": "vp",
    "has_happened": "bp",
    "claim": "ppppp",
    "discard": "vp",
    "announce": "vpp",
    "notice": "vp",
    "unsettle": "vp",
    "set_sweeper": "vp",
    "settle": "vp",
}
"""Functions that Python calls with its lock: the types of result and arguments, by letters."""

_WITHOUT_LOCK: Final = {
    "back_pressure": "vp",
    "complete": "vpp",
    "enqueue": "vpp",
    "execute": "pp",
    "failed": "pp",
    "finish": "vpp",
    "next_job": "ppn",
    "on_ready": "pp",
    "wait_for": "pp",
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


class NativeCode:
    """The functions as they are linked: `library` has addresses, the attributes are for Python."""

    def __init__(self) -> None:
        target = host_target()
        text = native_text(system_of(target))
        code = runtime_object(text, target, kept("objects", Options()))
        self.library = immortal(Library([code], list(NAMES), target))
        for make, called in ((ctypes.PYFUNCTYPE, _CALLED), (ctypes.CFUNCTYPE, _WITHOUT_LOCK)):
            for name, letters in called.items():
                result, *given = [_LETTERS[x] for x in letters]
                kind = make(result, *given)
                setattr(self, name, kind(self.library[name]))

    def __getattr__(self, name: str) -> Any:
        """Any other attribute is none of the functions."""
        raise AttributeError(f"no function {name!r} is called from Python")


@cache
def native_code() -> NativeCode:
    """Return the functions, compiled or taken from the cache once."""
    code = immortal(NativeCode())
    forget_llvm_pages()
    return code
