"""The native half of a call from Python: arguments are checked and results are filled in place.

It reads the fields of NumPy's array objects where they lie, with Python's lock held; `layout.py`
verifies beforehand that they lie there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, TypeAlias

from lowtide.llvm.callee import COPY, parameters, pointed
from lowtide.llvm.function import Function, Integer
from lowtide.runtime.cpu.looking import RELEASE, TAKE, THREAD_STATE

CONTEXT_WORDS: Final = 6
"""The block of a call: table, bases, control, arguments, results, and the type of arrays."""

ARGUMENT_WORDS: Final = 7
"""An argument: dtype object, number of dimensions, address of the dimensions, the bits that its
address must not have, the allocation that it is (or one that is not used), the flags that it must
have, and its bytes. Their number stands before the first."""

RESULT_WORDS: Final = 4
"""A result: what to do with it, allocation, offset, bytes. Their number stands before the first."""


class Fill(IntEnum):
    """How an array that is to be a result gets its values."""

    NONE = 0
    """Not here."""
    COPY = 1
    """It is copied from its slice after the run."""
    PLACE = 2
    """It is the allocation of its slice."""
    RENEW = 3
    """It is the allocation of its slice, and has the bytes of the argument given for that."""


TUPLE_COUNT: Final = 16
TUPLE_ITEMS: Final = 24
ARRAY_DATA: Final = 16
ARRAY_RANK: Final = 24
ARRAY_SHAPE: Final = 32
ARRAY_DTYPE: Final = 56
ARRAY_FLAGS: Final = 64
"""Where the fields of tuples and arrays lie in CPython with its lock, and in NumPy 1 and 2."""

C_CONTIGUOUS: Final = 0x1
WRITEABLE: Final = 0x400
"""Flags of arrays. An argument that must be writeable is overwritten."""


def entry_function(run: Function) -> Function:
    """Write `i64 entry(ptr arguments, ptr results, ptr context)`, given two tuples of arrays.

    It returns 0, or where the run did not come to its end what `run` returns; or -1, and runs
    nothing, where the arguments are not plain arrays of the wanted types and shapes, contiguous and
    aligned, or where one that is overwritten meets another.
    """
    f = Function("entry", parameters(arguments="ptr", results="ptr", context="ptr"), "i64")
    words = [f.load("ptr", f.gep("%context", 8 * i), 8) for i in range(CONTEXT_WORDS)]
    table, bases, control, arguments, results, array_type = words
    _check(f, arguments, array_type, bases)
    _check_overwritten(f, arguments)
    _each_result(f, results, bases, Fill.PLACE, _place)
    with _without_lock(f, control):
        _each_result(f, results, bases, Fill.RENEW, _renew)
        status = f.call(run, [table, bases, control])
        with f.when(f.compare("eq", status, 0)):
            _each_result(f, results, bases, Fill.COPY, _copy)
    f.ret("i64", status)
    f.label("refused")
    f.do("ret i64 -1")
    return f


def unlocked_function(run: Function) -> Function:
    """Write `i64 unlocked(ptr table, ptr bases, ptr control)`: `run` without Python's lock.

    The caller holds the lock, before and after.
    """
    f = Function("unlocked", run.parameters, "i64")
    with _without_lock(f, "%control"):
        status = f.call(run, ["%table", "%bases", "%control"])
    f.ret("i64", status)
    return f


@contextmanager
def _without_lock(f: Function, control: str) -> Iterator[None]:
    """Write what runs without Python's lock, where the control block says how to release it."""
    release, take = (f.load("ptr", f.gep(control, 8 * i), 8) for i in (RELEASE, TAKE))
    frees = f.op(f"icmp ne ptr {release}, null")
    state = f.gep(control, 8 * THREAD_STATE)
    with f.when(frees):
        f.store("ptr", f.call(pointed(release, "ptr"), []), state, 8)
    yield
    with f.when(frees):
        f.call(pointed(take, "void", "ptr"), [f.load("ptr", state, 8)])
        f.store("ptr", "null", state, 8)


def _refuse_unless(f: Function, condition: str) -> None:
    good = f.fresh_label("good")
    f.do(f"br i1 {condition}, label %{good}, label %refused")
    f.label(good)


def _item(f: Function, number: Integer) -> str:
    """The argument of a number."""
    return f.load("ptr", f.gep(f.gep("%arguments", TUPLE_ITEMS), number, "i64"), 8)


def _wanted(f: Function, arguments: str, number: Integer) -> str:
    """The words of what is wanted of an argument."""
    return f.gep(f.gep(arguments, 8), f.mul(number, ARGUMENT_WORDS), "i64")


def _check(f: Function, arguments: str, array_type: str, bases: str) -> None:
    count = f.load("i64", arguments, 8)
    given = f.load("i64", f.gep("%arguments", TUPLE_COUNT), 8)
    _refuse_unless(f, f.compare("eq", given, count))
    with f.loop(0, count) as each:
        item, wanted = _item(f, each.index), _wanted(f, arguments, each.index)
        kind = f.load("ptr", f.gep(item, 8), 8)
        _refuse_unless(f, f.op(f"icmp eq ptr {kind}, {array_type}"))
        dtype = f.load("ptr", f.gep(item, ARRAY_DTYPE), 8)
        same = f.op(f"icmp eq ptr {dtype}, {f.load('ptr', wanted, 8)}")
        rank = f.load("i64", f.gep(wanted, 8), 8)
        found = f.op(f"sext i32 {f.load('i32', f.gep(item, ARRAY_RANK), 4)} to i64")
        good = f.op(f"and i1 {same}, {f.compare('eq', rank, found)}")
        flags = f.op(f"sext i32 {f.load('i32', f.gep(item, ARRAY_FLAGS), 4)} to i64")
        needed = f.load("i64", f.gep(wanted, 40), 8)
        has = f.compare("eq", f.op(f"and i64 {flags}, {needed}"), needed)
        good = f.op(f"and i1 {good}, {has}")
        data = f.load("i64", f.gep(item, ARRAY_DATA), 8)
        odd = f.op(f"and i64 {data}, {f.load('i64', f.gep(wanted, 24), 8)}")
        _refuse_unless(f, f.op(f"and i1 {good}, {f.compare('eq', odd, 0)}"))
        sizes = f.load("ptr", f.gep(item, ARRAY_SHAPE), 8)
        right = f.load("ptr", f.gep(wanted, 16), 8)
        with f.loop(0, rank) as axis:
            size = f.load("i64", f.gep(sizes, axis.index, "i64"), 8)
            need = f.load("i64", f.gep(right, axis.index, "i64"), 8)
            _refuse_unless(f, f.compare("eq", size, need))
        allocation = f.load("i64", f.gep(wanted, 32), 8)
        f.store("i64", data, f.gep(bases, allocation, "i64"), 8)


def _check_overwritten(f: Function, arguments: str) -> None:
    """Refuse where the bytes of an argument that is overwritten are also those of another one."""
    count = f.load("i64", arguments, 8)

    def stretch(number: Integer) -> tuple[str, str, str]:
        words = _wanted(f, arguments, number)
        begin = f.load("i64", f.gep(_item(f, number), ARRAY_DATA), 8)
        size = f.load("i64", f.gep(words, 48), 8)
        return begin, str(f.add(begin, size)), words

    with f.loop(0, count) as one:
        begin, end, words = stretch(one.index)
        needed = f.op(f"and i64 {f.load('i64', f.gep(words, 40), 8)}, {WRITEABLE}")
        with f.when(f.compare("ne", needed, 0)), f.loop(0, count) as other:
            low, high, _ = stretch(other.index)
            apart = f.op(f"or i1 {f.compare('sle', high, begin)}, {f.compare('sle', end, low)}")
            itself = f.compare("eq", one.index, other.index)
            _refuse_unless(f, f.op(f"or i1 {apart}, {itself}"))


Write: TypeAlias = "Callable[[Function, str, str, str], None]"
"""Writes what is done with a result, given its words, its base's place and its array's data."""


def _each_result(f: Function, results: str, bases: str, fill: Fill, write: Write) -> None:
    """Write what is done with each result that is filled in one of the ways."""
    count = f.load("i64", results, 8)
    with f.loop(0, count) as each:
        spec = f.gep(f.gep(results, 8), f.mul(each.index, RESULT_WORDS), "i64")
        with f.when(f.compare("eq", f.load("i64", spec, 8), fill.value)):
            item = f.load("ptr", f.gep(f.gep("%results", TUPLE_ITEMS), each.index, "i64"), 8)
            data = f.load("ptr", f.gep(item, ARRAY_DATA), 8)
            base = f.gep(bases, f.load("i64", f.gep(spec, 8), 8), "i64")
            write(f, spec, base, data)


def _place(f: Function, spec: str, base: str, data: str) -> None:
    f.store("ptr", data, base, 8)


def _renew(f: Function, spec: str, base: str, data: str) -> None:
    _bytes(f, data, f.load("ptr", base, 8), f.load("i64", f.gep(spec, 24), 8))
    f.store("ptr", data, base, 8)


def _copy(f: Function, spec: str, base: str, data: str) -> None:
    source = f.gep(f.load("ptr", base, 8), f.load("i64", f.gep(spec, 16), 8))
    _bytes(f, data, source, f.load("i64", f.gep(spec, 24), 8))


def _bytes(f: Function, target: str, source: str, count: str) -> None:
    f.call(COPY, [target, source, count, "false"])
