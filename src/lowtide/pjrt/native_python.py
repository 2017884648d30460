"""Machine code for the way into Python, and for what is destroyed where no Python may run.

C++ destroys objects while a Python exception is pending and after the interpreter has ended. Thus
destroying an object only pushes it on a list, which Python empties at its next turn.

A signal's exception may come before the first line of a function of Python, or after its last one,
where nobody catches it. A state says how far it got.
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
from lowtide.pjrt.native_errors import new_error

SLOTS: Final = 160
"""How many functions of Python the table may have."""

FRONTS: Final = ("execute", "kind", "result_count", "from_host")
"""Functions of the table that are machine code, and now and then ask Python: they have the first
slots, in this order."""

EXECUTE, KIND, RESULT_COUNT, FROM_HOST = range(len(FRONTS))

NOT_ENTERED, WHOLE = 0, 2
"""How far a function of Python got; 1 is in between."""

CANCELLED: Final = 1
INTERRUPTED: Final = b"interrupted"

_Entry: TypeAlias = Callable[[Address, Address], Address]
_Nested: TypeAlias = Callable[[Address, Address], None]


class PluginState(NativeRecord):
    """What the plugin has once: the list of what was destroyed, and ways into Python.

    `refusing` says that calls are refused; the worker of `sweeper` lets go of what was destroyed
    and Python holds.
    """

    destroyed: Atomic[Address]
    refusing: Atomic[int]
    sweeper: Atomic[Queue | None]
    nested: _Nested
    slots: NativeItems[_Entry] = inline(SLOTS)


state: Final = shared(PluginState)


class EntryState(NativeRecord):
    """How far a function of Python got, and what a handler of a signal raised meanwhile."""

    how_far: int
    raised: Address


@external
def PyErr_SetInterrupt() -> None:  # noqa: N802
    """Have Python see a signal."""
    raise NotImplementedError


@external
def Py_AddPendingCall(function: Address, argument: Address) -> I32:  # noqa: N802
    """Have Python's main thread call a function as soon as it runs code of Python."""
    raise NotImplementedError


@external
def PyObject_Type(value: Address) -> Address:  # noqa: N802
    """Return the type of an object of Python."""
    raise NotImplementedError


@external
def PyErr_SetObject(kind: Address, value: Address) -> None:  # noqa: N802
    """Have Python raise an exception."""
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
def raise_in_python(error: Address) -> I32:
    """Have Python raise an exception: what it calls for that, holding its lock."""
    kind = PyObject_Type(error)
    PyErr_SetObject(kind, error)
    Py_DecRef(kind)
    Py_DecRef(error)
    return I32(-1)


@native
def python_of(a: Address, number: int) -> Address:
    """Call the function of Python in a slot; return its error or 0.

    Where it was not entered it is called again. What a handler of a signal raised is raised behind
    it; where that is not known, the signal is taken for an interrupt.
    """
    reached = on_stack(EntryState)
    is_again = False
    while True:
        reached.how_far = NOT_ENTERED
        reached.raised = 0
        found = the(state).slots[number](a, address_of(reached))
        if reached.how_far != NOT_ENTERED:
            break
        is_again = True
    if reached.raised != 0:
        if Py_AddPendingCall(address_of(raise_in_python), reached.raised) != 0:
            PyErr_SetInterrupt()
    elif is_again:
        PyErr_SetInterrupt()
    if reached.how_far == WHOLE:
        return found
    return address_of(new_error(CANCELLED, address_of(INTERRUPTED), len(INTERRUPTED)))


@native
def entry(a: Address, number: int) -> Address:
    """Call the function of Python in a slot, as C++ does."""
    return python_of(a, number)


ENTRIES: Final = tuple([entry.bound(f"python{i}", number=i) for i in range(SLOTS)])
"""The functions of the table that call those in the slots."""
