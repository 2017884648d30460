"""Sorting a few records by counting, for each, those that come before it."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

MOST: Final = 96
"""Records for which that is faster than sorting by bytes."""


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
