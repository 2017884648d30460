"""Sorting by the bytes of keys, the lowest first.

Source: H. Hollerith (1889), "An electric tabulating system"; D. Knuth (1998), "The art of computer
programming", vol. 3, 5.2.5. One pass counts all bytes; a byte that all keys share costs nothing.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.library.records import Records
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function

BUCKETS: Final = 256


def count_bytes(records: Records) -> int:
    """Return the bytes of the counts."""
    return records.digits * BUCKETS * 4


def radix_function(records: Records) -> Function:
    """Return a function that sorts `n` > 0 records of `a`, from the one numbered `first` on.

    Records with equal keys keep their order. What lies in `b` at the same places is lost.
    """
    given = parameters(a="ptr", b="ptr", counts="ptr", first="i64", n="i64")
    fn = Function("radix", given, linkage="internal")
    _count(fn, records)
    source, other = "%a", "%b"
    for digit in range(records.digits):
        source, other = _pass(fn, records, digit, source, other)
    with fn.when(fn.op(f"icmp ne ptr {source}, %a")), fn.loop(0, "%n") as loop:
        place = fn.add("%first", loop.index)
        records.store(fn, "%a", place, records.load(fn, source, place))
    return fn


def _count(fn: Function, records: Records) -> None:
    """Count the records by each byte of their keys."""
    with fn.loop(0, records.digits * BUCKETS, 16) as loop:
        fn.store("<16 x i32>", "zeroinitializer", fn.gep("%counts", loop.index, "i32"), 4)
    with fn.loop(0, "%n") as loop:
        record = records.load(fn, "%a", fn.add("%first", loop.index))
        for digit in range(records.digits):
            place = fn.add(records.digit(fn, record, digit), digit * BUCKETS)
            pointer = fn.gep("%counts", place, "i32")
            fn.store("i32", fn.op(f"add i32 {fn.load('i32', pointer, 4)}, 1"), pointer, 4)


def _pass(fn: Function, records: Records, digit: int, source: str, other: str) -> tuple[str, str]:
    """Order the records by a byte; return where they are then, and the other array."""
    counts = fn.gep("%counts", digit * BUCKETS, "i32")
    first = records.digit(fn, records.load(fn, source, "%first"), digit)
    alike = fn.op(f"zext i32 {fn.load('i32', fn.gep(counts, first, 'i32'), 4)} to i64")

    def move() -> list[str]:
        _add_up(fn, counts)
        with fn.loop(0, "%n") as loop:
            record = records.load(fn, source, fn.add("%first", loop.index))
            pointer = fn.gep(counts, records.digit(fn, record, digit), "i32")
            place = fn.load("i32", pointer, 4)
            fn.store("i32", fn.op(f"add i32 {place}, 1"), pointer, 4)
            records.store(fn, other, fn.op(f"zext i32 {place} to i64"), record)
        return [other, source]

    found = fn.choose(fn.compare("eq", alike, "%n"), ["ptr", "ptr"], lambda: [source, other], move)
    return found[0], found[1]


def _add_up(fn: Function, counts: str) -> None:
    """Replace each count by the sum of those before it."""
    first = fn.op("trunc i64 %first to i32")
    with fn.loop(0, BUCKETS, 1, [("i32", first)]) as loop:
        pointer = fn.gep(counts, loop.index, "i32")
        count = fn.load("i32", pointer, 4)
        fn.store("i32", loop.values[0], pointer, 4)
        loop.next = [fn.op(f"add i32 {loop.values[0]}, {count}")]
