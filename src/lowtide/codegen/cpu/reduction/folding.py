"""The lanes of vectors added up: of all of them together, or of each of as many as have lanes.

Both ways combine lanes half a vector apart first, then those half as far apart, so that a row has
the same total by either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from lowtide.codegen.value import Value
from lowtide.llvm.function import Function

Combine: TypeAlias = "Callable[[Sequence[Value], Sequence[Value]], list[Value]]"
"""Returns what two lists of totals make together."""

_BLOCK: Final = 4
"""Lanes within which, and of which whole, two vectors are shuffled by one instruction.

That is so for elements of 4 bytes; others take a few more.
"""


def folded_lanes(fn: Function, totals: Sequence[Sequence[Value]], combine: Combine) -> list[Value]:
    """Return what all lanes of all totals make together, without lanes."""
    values = folded_turns(totals, combine)
    step = max([x.lanes for x in values], default=0) // 2
    while step:
        values = combine(values, [_exchanged(fn, x, step) for x in values])
        step //= 2
    return [_first_lane(fn, x) for x in values]


def folded_turns(totals: Sequence[Sequence[Value]], combine: Combine) -> list[Value]:
    """Return what several totals make together, lane by lane."""
    left = [list(x) for x in totals]
    while len(left) > 1:
        half = -(-len(left) // 2)
        merged = [combine(a, b) for a, b in zip(left, left[half:], strict=False)]
        left = merged + left[len(merged) : half]
    (values,) = left
    return values


def folded_rows(
    fn: Function, row: Callable[[int], list[Value]], lanes: int, combine: Combine
) -> list[Value]:
    """Return totals whose lane i is what all lanes of `row(i)` make together.

    Two rows share a vector after the first step, four after the second, and so on, so that a row
    takes as many instructions as a step has for all of them.
    """
    rows = [row(i) for i in _order(lanes)]
    step = lanes // 2
    while step:
        low, high = (_lanes_taken(lanes, step, x) for x in (False, True))
        rows = [
            combine(_shuffled(fn, a, b, low), _shuffled(fn, a, b, high))
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        step //= 2
    return rows[0]


def _lanes_taken(lanes: int, step: int, upper: bool) -> list[int]:
    """The lanes of two vectors that go into one: those that have others `step` above or below."""

    def taken(numbers: Iterable[int]) -> list[int]:
        return [x for x in numbers if bool(x & step) is upper]

    if step >= _BLOCK:
        return taken(range(2 * lanes))
    block = min(lanes, _BLOCK)
    found: list[int] = []
    for first in range(0, lanes, block):
        found += taken(range(first, first + block))
        found += taken(range(lanes + first, lanes + first + block))
    return found


@lru_cache(maxsize=16)
def _order(lanes: int) -> tuple[int, ...]:
    """The rows in the order in which the steps have to take them, so that row i ends in lane i."""
    rows = [[number] * lanes for number in range(lanes)]
    step = lanes // 2
    while step:
        low = _lanes_taken(lanes, step, upper=False)
        rows = [[(a + b)[x] for x in low] for a, b in zip(rows[::2], rows[1::2], strict=True)]
        step //= 2
    found = [0] * lanes
    for lane, number in enumerate(rows[0]):
        found[number] = lane
    return tuple(found)


def _shuffled(
    fn: Function, a: Sequence[Value], b: Sequence[Value], lanes: Sequence[int]
) -> list[Value]:
    found = []
    for x, y in zip(a, b, strict=True):
        pairs = zip(x.names, y.names, strict=True)
        names = [fn.shuffle(x.llvm_type, one, other, lanes) for one, other in pairs]
        found.append(Value(tuple(names), x.type, x.lanes))
    return found


def _exchanged(fn: Function, value: Value, step: int) -> Value:
    """The lanes in another order: each pair `step` apart changes places."""
    order = [i ^ step for i in range(value.lanes)]
    names = [fn.shuffle(value.llvm_type, x, "poison", order) for x in value.names]
    return Value(tuple(names), value.type, value.lanes)


def _first_lane(fn: Function, value: Value) -> Value:
    if not value.lanes:
        return value
    names = [fn.op(f"extractelement {value.llvm_type} {x}, i64 0") for x in value.names]
    return Value(tuple(names), value.type)
