"""The loops along a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias, final

from lowtide.codegen import indexing
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.llvm.function import Integer
from lowtide.records import dataclass

_MOST_STRAIGHT: Final = 16
"""Points of a row that are written without a loop."""


@dataclass(frozen=True, eq=False, slots=True)
class StripStep:
    """One point of a row, or `lanes` points: `inner` positions in the loops, `linear` the number.

    `mask` tells which lanes are points. `is_first`, where it is asked for, is an i1 that tells
    whether no point was added to these totals before.
    """

    inner: tuple[Affine, ...]
    linear: Affine
    mask: Mask | None
    is_first: str | None


Body: TypeAlias = Callable[[StripStep, list[Value]], list[Value]]
"""Writes what is done at a step, with the totals so far; returns the totals after it."""


@final
class Strip:
    """Loops over the points of a row, of `sizes`, which carry totals.

    With lanes along the row there may be several totals, which take turns; `span` is the part of
    the outermost loop that is run through, all of it where it is not given. Its start has to be a
    multiple of as many points as all totals take at once, and so has its end, or be the size.
    """

    def __init__(
        self,
        elements: Elements,
        sizes: Sequence[int],
        lanes: int,
        *,
        has_first: bool,
        span: tuple[Integer, Integer] | None = None,
    ) -> None:
        self.elements = elements
        self.sizes = tuple(sizes)
        self.lanes = lanes
        self.has_first = has_first
        self.span = span

    def write(self, totals: list[list[Value]], body: Body) -> list[list[Value]]:
        """Write the loops; return the totals after them."""
        is_small = prod(self.sizes) <= _MOST_STRAIGHT
        if not self.lanes and is_small and self.span is None:
            return self._straight(totals, body)
        return self._loops((), totals, body)

    def _straight(self, totals: list[list[Value]], body: Body) -> list[list[Value]]:
        (total,) = totals
        for number in range(prod(self.sizes)):
            inner, rest = [], number
            for size in reversed(self.sizes):
                rest, place = divmod(rest, size)
                inner.append(indexing.constant(place))
            first = ("true" if number == 0 else "false") if self.has_first else None
            step = StripStep(tuple(reversed(inner)), indexing.constant(number), None, first)
            total = body(step, total)
        return [total]

    def _loops(
        self, inner: tuple[Affine, ...], totals: list[list[Value]], body: Body
    ) -> list[list[Value]]:
        depth = len(inner)
        if depth == len(self.sizes) - 1 and self.lanes:
            return self._line(inner, totals, body)
        size = self.sizes[depth]
        start, stop = self._range(depth)
        flat = [x for total in totals for x in total]
        with self.elements.scopes.loop(start, stop, 1, carried(flat)) as loop:
            here = (*inner, self.elements.indices.variable(loop.index, size))
            within = _split(renamed(flat, loop.values), len(totals))
            if depth + 1 < len(self.sizes):
                after = self._loops(here, within, body)
            else:
                step = StripStep(here, self._linear(here), None, self._first(here, 0))
                after = [body(step, within[0]), *within[1:]]
            loop.next = [name for total in after for x in total for name in x.names]
        return _split(renamed(flat, loop.results), len(totals))

    def _range(self, depth: int) -> tuple[Integer, Integer]:
        if depth == 0 and self.span is not None:
            return self.span
        return 0, self.sizes[depth]

    def _linear(self, inner: Sequence[Affine]) -> Affine:
        return indexing.linear(tuple(inner), self.sizes)

    def _first(self, inner: Sequence[Affine], slot: int) -> str | None:
        """Whether these are the first points of totals number `slot`."""
        if not self.has_first:
            return None
        fn = self.elements.function
        lead = self.span[0] if self.span is not None else 0
        number = self.elements.indices.scalar(self._linear(inner))
        begin = fn.add(fn.mul(lead, prod(self.sizes[1:])), slot * self.lanes)
        return str(fn.compare("eq", number, begin))

    # -- vectors -------------------------------------------------------------------------------

    def _line(
        self, inner: tuple[Affine, ...], totals: list[list[Value]], body: Body
    ) -> list[list[Value]]:
        """The points along the last loop: whole turns of all totals, then what is left."""
        elements, size = self.elements, self.sizes[-1]
        start, stop = self._range(len(inner))
        turn = len(totals) * self.lanes
        end = size - size % turn
        flat = [x for total in totals for x in total]
        last = end if isinstance(stop, int) else elements.function.min(stop, end)
        with elements.scopes.loop(start, last, turn, carried(flat)) as loop:
            after = self._turn(inner, loop.index, renamed(flat, loop.values), totals, body)
            loop.next = [name for total in after for x in total for name in x.names]
        flat = renamed(flat, loop.results)
        if not size % turn:
            return _split(flat, len(totals))
        if isinstance(stop, int):
            return self._rest(inner, _split(flat, len(totals)), body)
        return self._rest_if(inner, stop, flat, len(totals), body)

    def _turn(
        self,
        inner: tuple[Affine, ...],
        index: Integer,
        flat: list[Value],
        totals: list[list[Value]],
        body: Body,
    ) -> list[list[Value]]:
        size = self.sizes[-1]
        fn, after = self.elements.function, []
        for slot, total in enumerate(_split(flat, len(totals))):
            first = fn.add(index, slot * self.lanes)
            here = (*inner, self.elements.indices.variable(first, size, is_lane=True))
            step = StripStep(here, self._linear(here), None, self._first(here, slot))
            after.append(body(step, total))
        return after

    def _rest_if(
        self, inner: tuple[Affine, ...], stop: Integer, flat: list[Value], count: int, body: Body
    ) -> list[list[Value]]:
        """The rest of the line where the span reaches its end: a loop that runs once, or never."""
        fn = self.elements.function
        is_inside = fn.compare("slt", stop, self.sizes[-1])
        begin = fn.op(f"zext i1 {is_inside} to i64")
        with self.elements.scopes.loop(begin, 1, 1, carried(flat)) as loop:
            after = self._rest(inner, _split(renamed(flat, loop.values), count), body)
            loop.next = [name for total in after for x in total for name in x.names]
        return _split(renamed(flat, loop.results), count)

    def _rest(
        self, inner: tuple[Affine, ...], totals: list[list[Value]], body: Body
    ) -> list[list[Value]]:
        """What is left of a line after whole turns: vectors, then a part of one."""
        size, lanes = self.sizes[-1], self.lanes
        after = list(totals)
        begin = size - size % (len(totals) * lanes)
        for slot, start in enumerate(range(begin, size, lanes)):
            base = self.elements.indices.variable(start, size, is_lane=True)
            left = size - start
            mask = Mask(first_lanes(left, lanes), lanes, 0) if left < lanes else None
            here = (*inner, base)
            after[slot] = body(StripStep(here, self._linear(here), mask, None), after[slot])
        return after


def _split(flat: list[Value], count: int) -> list[list[Value]]:
    """As many lists of equal length."""
    if not count:
        return []
    each = len(flat) // count
    return [flat[i * each : (i + 1) * each] for i in range(count)]
