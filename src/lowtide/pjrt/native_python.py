"""Machine code for the way into Python, and for what is destroyed where no Python may run.

C++ destroys objects while a Python exception is pending and after the interpreter has ended. Thus
destroying an object only pushes it on a list, which Python empties at its next turn.

A signal's exception may come before the first line of a function of Python, or after its last one,
where nobody catches it. The function notes when it is whole, and is called again until it is. What
was raised is kept in Python, which is asked to raise it behind the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Address,
    Atomic,
    NativeItems,
    NativeRecord,
    address_of,
    at,
    external,
    inline,
    native,
    on_stack,
    shared,
    the,
)
from lowtide.pjrt.blocks import Counted, Queue, QueuedCall

SLOTS: Final = 160
"""How many functions of Python the table may have."""

FRONTS: Final = ("execute", "kind", "result_count", "from_host")
"""Functions of the table that are machine code, and now and then ask Python: they have the first
slots, in this order."""

EXECUTE, KIND, RESULT_COUNT, FROM_HOST = range(len(FRONTS))

_Entry: TypeAlias = Callable[[Address, Address], None]
_Nested: TypeAlias = Callable[[Address, Address], None]


class PluginState(NativeRecord):
    """What the plugin has once: the list of what was destroyed, and ways into Python.

    `refusing` says that calls are refused; the worker of `sweeper` lets go of what was destroyed
    and Python holds; `kept` says that exceptions are kept, and the object `raiser` raises them.
    """

    destroyed: Atomic[Address]
    refusing: Atomic[int]
    sweeper: Atomic[Queue | None]
    nested: _Nested
    kept: Atomic[int]
    raiser: Address
    slots: NativeItems[_Entry] = inline(SLOTS)


state: Final = shared(PluginState)


class EntryState(NativeRecord):
    """What a call of Python tells, and is told.

    It tells whether it is whole, and its error in C or 0; it is told how many times it was begun
    before.
    """

    is_whole: int
    error: Address
    times: int


@external
def Py_AddPendingCall(function: Address, argument: Address) -> I32:  # noqa: N802
    """Have Python's main thread call a function as soon as it runs code of Python."""
    raise NotImplementedError


@external
def PyObject_CallNoArgs(function: Address) -> Address:  # noqa: N802
    """Call an object of Python; return a result to let go of, or 0 where it raises."""
    raise NotImplementedError


@external
def Py_DecRef(value: Address) -> None:  # noqa: N802
    """Let go of an object of Python."""
    raise NotImplementedError


# -- what is destroyed ---------------------------------------------------------------------------


@native
def push(block: Address) -> None:
    """Push what is destroyed on the list that Python empties: from then on it may be gone."""
    old = the(state).destroyed.load(RELAXED)
    while True:
        at(Counted, block).next = old
        seen = the(state).destroyed.compare_exchange(old, block, RELEASE)
        if seen == old:
            return
        old = seen


@native
def take() -> Address:
    """Take the whole list."""
    return the(state).destroyed.exchange(0, ACQUIRE)


@native
def set_sweeper(queue: Queue) -> None:
    """Have the worker of a queue let go of what was destroyed."""
    the(state).sweeper.store(queue, RELEASE)


# -- the way into Python -------------------------------------------------------------------------


@native
def refuse() -> None:
    """Have Python see to all calls from now on."""
    the(state).refusing.store(1, SEQ_CST)


@native
def fill(number: int, function: _Entry) -> None:
    """Put a function of Python into a slot."""
    the(state).slots[number] = function


@native
def set_nested(function: _Nested) -> None:
    """Note the function of Python that runs calls within calls."""
    the(state).nested = function


@native
def run_nested(queue: Queue, job: QueuedCall) -> None:
    """Have Python run a call within a call."""
    the(state).nested(address_of(queue), address_of(job))


@native
def set_raiser(function: Address) -> None:
    """Note the object of Python that raises what is kept."""
    the(state).raiser = function


@native
def set_kept(is_kept: int) -> None:
    """Note whether exceptions are kept."""
    the(state).kept.store(is_kept, RELAXED)


@native
def raise_in_python(function: Address) -> I32:
    """Call what raises: what Python calls for that, holding its lock."""
    found = PyObject_CallNoArgs(function)
    if found == 0:
        return I32(-1)
    Py_DecRef(found)
    return I32(0)


@native
def python_of(a: Address, number: int) -> Address:
    """Call the function of Python in a slot until it is whole; return its error or 0.

    Python is asked to raise what is kept as soon as its main thread goes on; where too much is
    asked of it already, the next call asks again.
    """
    reached = on_stack(EntryState)
    reached.is_whole = 0
    reached.times = 0
    while True:
        reached.error = 0
        the(state).slots[number](a, address_of(reached))
        if reached.is_whole != 0:
            break
        reached.times = reached.times + 1
    if the(state).kept.load(RELAXED) != 0:
        Py_AddPendingCall(address_of(raise_in_python), the(state).raiser)
    return reached.error


@native
def entry(a: Address, number: int) -> Address:
    """Call the function of Python in a slot, as C++ does."""
    return python_of(a, number)


ENTRIES: Final = tuple([entry.bound(f"python{i}", number=i) for i in range(SLOTS)])
"""The functions of the table that call those in the slots."""
