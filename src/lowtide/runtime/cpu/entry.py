"""The native half of a call from Python: arguments are checked and results are filled in place.

It reads the fields of NumPy's array objects where they lie, with Python's lock held; `layout.py`
verifies beforehand that they lie there.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

from lowtide.native import (
    I32,
    Address,
    NativeItems,
    NativeRecord,
    array_at,
    at,
    behind,
    copy_bytes,
    native,
    offset,
    size_of,
)
from lowtide.runtime.cpu.signals import ControlRecord, release_lock, take_lock
from lowtide.runtime.cpu.walker import run


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


class ArrayObject(NativeRecord):
    """An array of NumPy 1 and 2."""

    references: int
    kind: Address
    data: Address
    rank: I32
    shape: NativeItems[int]
    strides: Address
    base: Address
    dtype: Address
    flags: I32


class TupleObject(NativeRecord):
    """A tuple of CPython with its lock; its items lie behind it."""

    references: int
    kind: Address
    count: int


class ArgumentWords(NativeRecord):
    """What is wanted of an argument.

    It has the dtype object, the number of dimensions and these, the bits that the address must not
    have, the allocation that it is (or one that is not used), the flags that it must have, and its
    bytes.
    """

    dtype: Address
    rank: int
    shape: NativeItems[int]
    odd_bits: int
    allocation: int
    flags: int
    nbytes: int


class ResultWords(NativeRecord):
    """A result: what to do with it, allocation, offset, bytes."""

    fill: int
    allocation: int
    offset: int
    nbytes: int


class ListWords(NativeRecord):
    """How many arguments or results lie behind it."""

    count: int


class CallContext(NativeRecord):
    """The block of a call; `kind` is the type of arrays."""

    table: NativeItems[int]
    bases: NativeItems[Address]
    control: ControlRecord
    arguments: ListWords
    results: ListWords
    kind: Address


CONTEXT_WORDS: Final = ctypes.sizeof(CallContext) // 8

TUPLE_COUNT: Final = offset(TupleObject, "count")
TUPLE_ITEMS: Final = ctypes.sizeof(TupleObject)
ARRAY_DATA: Final = offset(ArrayObject, "data")
ARRAY_RANK: Final = offset(ArrayObject, "rank")
ARRAY_SHAPE: Final = offset(ArrayObject, "shape")
ARRAY_DTYPE: Final = offset(ArrayObject, "dtype")
ARRAY_FLAGS: Final = offset(ArrayObject, "flags")
"""Where the fields of tuples and arrays lie."""

C_CONTIGUOUS: Final = 0x1
WRITEABLE: Final = 0x400
"""Flags of arrays. An argument that must be writeable is overwritten."""

REFUSED: Final = -1
"""What a call returns whose arguments are not taken."""


@native
def entry(arguments: TupleObject, results: TupleObject, context: CallContext) -> int:
    """Run a program on two tuples of arrays; return 0, or what `run` does where it was ended.

    It returns REFUSED, and runs nothing, where the arguments are not plain arrays of the wanted
    types and shapes, contiguous and aligned, or where one that is overwritten meets another.
    """
    if not are_taken(arguments, context) or are_overwritten(arguments, context.arguments):
        return REFUSED
    place_results(results, context)
    control, bases = context.control, context.bases
    release_lock(control)
    renew_results(results, context)
    status = run(context.table, bases, control)
    if not status:
        copy_results(results, context)
    take_lock_back(control)
    return status


@native
def unlocked(table: NativeItems[int], bases: NativeItems[Address], control: ControlRecord) -> int:
    """Run without Python's lock, which the caller holds before and after."""
    release_lock(control)
    status = run(table, bases, control)
    take_lock_back(control)
    return status


@native
def take_lock_back(control: ControlRecord) -> None:
    """Take Python's lock again at the end of a run."""
    take_lock(control)
    if control.release is not None:
        control.thread_state = 0


@native
def item_of(items: TupleObject, number: int) -> ArrayObject:
    """Return an item of a tuple, an array for all that is known."""
    return at(ArrayObject, array_at(int, behind(items))[number])


@native
def wanted_of(arguments: ListWords, number: int) -> ArgumentWords:
    """Return what is wanted of an argument."""
    return at(ArgumentWords, behind(arguments) + number * size_of(ArgumentWords))


@native
def result_of(results: ListWords, number: int) -> ResultWords:
    """Return what is done with a result."""
    return at(ResultWords, behind(results) + number * size_of(ResultWords))


@native
def are_taken(arguments: TupleObject, context: CallContext) -> bool:
    """Return whether the arguments are what is wanted; their addresses are bases from then on."""
    count, kind, bases = context.arguments.count, context.kind, context.bases
    if arguments.count != count:
        return False
    items, place = array_at(int, behind(arguments)), behind(context.arguments)
    for number in range(count):
        found, wanted = at(ArrayObject, items[number]), at(ArgumentWords, place)
        if found.kind != kind or not is_taken(found, wanted):
            return False
        bases[wanted.allocation] = found.data
        place += size_of(ArgumentWords)
    return True


@native
def is_taken(found: ArrayObject, wanted: ArgumentWords) -> bool:
    """Return whether an array is what is wanted."""
    if found.dtype != wanted.dtype or found.rank != wanted.rank:
        return False
    if found.flags & wanted.flags != wanted.flags or found.data & wanted.odd_bits:
        return False
    rank, sizes, right, axis = wanted.rank, found.shape, wanted.shape, 0
    while axis < rank and sizes[axis] == right[axis]:
        axis += 1
    return axis == rank


@native
def are_overwritten(arguments: TupleObject, wanted: ListWords) -> bool:
    """Return whether the bytes of an argument that is overwritten are also those of another one."""
    place = behind(wanted)
    for one in range(wanted.count):
        words = at(ArgumentWords, place)
        place += size_of(ArgumentWords)
        if words.flags & WRITEABLE:
            begin = item_of(arguments, one).data
            for other in range(wanted.count):
                low = item_of(arguments, other).data
                high = low + wanted_of(wanted, other).nbytes
                if one != other and high > begin and begin + words.nbytes > low:
                    return True
    return False


@native
def place_results(results: TupleObject, context: CallContext) -> None:
    """Have the program write results where they are to be."""
    for number in range(context.results.count):
        words = result_of(context.results, number)
        if words.fill == Fill.PLACE:
            context.bases[words.allocation] = item_of(results, number).data


@native
def renew_results(results: TupleObject, context: CallContext) -> None:
    """Have the program write results where they are to be, which get what was given for that."""
    for number in range(context.results.count):
        words = result_of(context.results, number)
        if words.fill == Fill.RENEW:
            data = item_of(results, number).data
            copy_bytes(data, context.bases[words.allocation], words.nbytes)
            context.bases[words.allocation] = data


@native
def copy_results(results: TupleObject, context: CallContext) -> None:
    """Copy results to where they are to be."""
    for number in range(context.results.count):
        words = result_of(context.results, number)
        if words.fill == Fill.COPY:
            source = context.bases[words.allocation] + words.offset
            copy_bytes(item_of(results, number).data, source, words.nbytes)
