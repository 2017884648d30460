"""Records put in order: many by the bytes of their keys, few by their ranks.

Source: H. Hollerith (1889), "An electric tabulating system"; D. Knuth (1998), "The art of computer
programming", vol. 3, 5.2.5. One pass counts all bytes of keys, then records are moved by the lowest
byte first; a byte that all share costs nothing. The rank of a record is the number of those before.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.library.records import Records
from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

MOST_RANKED: Final = 96
"""Records, at most, for which ranks are faster."""

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


def ranking_function(target: Target) -> Function:
    """Return a function that sorts `n` packed records of `a`; `b` gets the result.

    Both have room for a vector more; every record differs from every other.
    """
    lanes = target.vector_bytes // 8
    vector = f"<{lanes} x i64>"
    fn = Function("ranking", parameters(a="ptr", b="ptr", n="i64"), linkage="internal")
    with fn.loop(0, lanes) as loop:
        fn.store("i64", "-1", fn.gep("%a", fn.add("%n", loop.index), "i64"), 8)
    with fn.loop(0, "%n") as each:
        record = fn.load("i64", fn.gep("%a", each.index, "i64"), 8)
        mine = fn.splat("i64", record, lanes)
        with fn.loop(0, "%n", lanes, [(vector, "zeroinitializer")]) as loop:
            theirs = fn.load(vector, fn.gep("%a", loop.index, "i64"), 8)
            before = fn.op(f"icmp ult {vector} {theirs}, {mine}")
            ones = fn.op(f"sext <{lanes} x i1> {before} to {vector}")
            loop.next = [fn.op(f"sub {vector} {loop.values[0]}, {ones}")]
        total = external(f"llvm.vector.reduce.add.v{lanes}i64", "i64", vector)
        rank = fn.call(total, [loop.results[0]])
        fn.store("i64", record, fn.gep("%b", rank, "i64"), 8)
    return fn
