"""The function of a kernel of loops: its pieces, its loops, and vectors in the innermost one."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from lowtide.codegen import indexing
from lowtide.codegen.cpu.element_streaming import cache_for, fence, fetch_ahead
from lowtide.codegen.cpu.fetching import fetching_for
from lowtide.codegen.cpu.loop_nest import LoopNest
from lowtide.codegen.cpu.tiles import TransposedTile
from lowtide.codegen.cpu.vector_elements import VectorMemory, vector_elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.moves import retyped
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.outputs import stored
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.space import lane_variable
from lowtide.llvm.function import Function, Integer

Positions = Mapping[int, Affine]
"""The position along each group of axes, by its number."""


class LoopWriter:
    """Writes a function that computes and stores outputs.

    With `is_streaming` they are stored past the caches; results then begin at multiples of 64.
    """

    def __init__(self, nest: LoopNest, name: str, *, is_streaming: bool = False) -> None:
        self.nest = nest
        self.sizes = nest.space.sizes
        self.function = Function(name, ARGUMENTS)
        self.memory = VectorMemory(is_streaming, nest.order.is_paired)
        target, lanes = nest.job.target, nest.order.lanes
        self.elements = vector_elements(self.function, target, lanes, self.memory)
        self.elements.raw = nest.job.raw
        self.bound = retyped(bind(self.function, nest.job.instruction), nest.job.raw)
        self.ahead = fetching_for(nest.job.target).arrays
        self.cache = cache_for(nest.job.target, nest.job.instruction, prod(nest.domain.sizes))
        self.slots: dict[tuple[int, int], str] = {}

    @property
    def globals(self) -> str:
        """Constants that the function needs."""
        return "\n".join(self.elements.globals.values())

    def write(self) -> None:
        """Write the function."""
        fn, pieces = self.function, self.nest.pieces
        if pieces.units == 1:
            with self.elements.scopes.when(fn.compare("slt", "%begin", "%end")):
                self._run(0, {}, 0, self.nest.loops[0].size)
        elif pieces.outer:
            self._pieces()
        else:
            size = self.nest.loops[0].size
            stop = fn.min(fn.mul("%end", pieces.block), size)
            self._run(0, {}, fn.mul("%begin", pieces.block), stop)
        if self.memory.is_streaming:
            fence(fn)

    def _pieces(self) -> None:
        """A loop over pieces, whose numbers say where they begin."""
        fn, elements = self.function, self.elements
        pieces, loops = self.nest.pieces, self.nest.loops
        loop = loops[pieces.outer]
        with elements.scopes.loop("%begin", "%end") as unit:
            count = -(-loop.size // pieces.block)
            start = fn.mul(fn.rem(unit.index, count), pieces.block)
            rest = fn.div(unit.index, count)
            at: dict[int, Affine] = {}
            for outer in reversed(loops[1 : pieces.outer]):
                place = fn.mul(fn.rem(rest, outer.trips), outer.step)
                at[outer.group] = elements.indices.variable(place, outer.size)
                rest = fn.div(rest, outer.trips)
            first = loops[0]
            at[first.group] = elements.indices.variable(fn.mul(rest, first.step), first.size)
            stop: Integer = loop.size
            if count > 1:
                stop = fn.min(fn.add(start, pieces.block), loop.size)
            self._run(pieces.outer, at, start, stop)

    # -- loops ---------------------------------------------------------------------------------

    def _run(self, number: int, at: Positions, start: Integer, stop: Integer) -> None:
        """Write a loop from start to stop, and those in it."""
        loop = self.nest.loops[number]
        if number == len(self.nest.loops) - 1:
            self._line(at, start, stop)
            return
        with self.elements.scopes.loop(start, stop, loop.step) as running:
            here = self.elements.indices.variable(running.index, loop.size)
            self._run(number + 1, {**at, loop.group: here}, 0, self.nest.loops[number + 1].size)

    def _line(self, at: Positions, start: Integer, stop: Integer) -> None:
        """The elements from start to stop along the lanes, the rest of them under a mask."""
        elements, fn, lanes = self.elements, self.function, self.nest.order.lanes
        size = self.sizes[self.nest.order.lane]
        step = max(lanes, 1)
        rest = size % step
        whole = size - rest
        with elements.scopes.loop(start, fn.min(stop, whole) if rest else stop, step) as loop:
            self._vector(at, loop.index, None)
        if not rest:
            return
        mask = Mask(first_lanes(rest, lanes), lanes, 0, rest)
        if isinstance(stop, int):
            self._vector(at, whole, mask)
            return
        with elements.scopes.when(fn.compare("eq", stop, size)):
            self._vector(at, whole, mask)

    def _vector(self, at: Positions, start: Integer, mask: Mask | None) -> None:
        order = self.nest.order
        here = lane_variable(self.elements, start, self.sizes[order.lane])
        positions = {**at, order.lane: here}
        if order.tiled is None:
            self._point(positions, mask)
        else:
            self._tiles(order.tiled, positions, mask)

    def _tiles(self, group: int, at: Positions, mask: Mask | None) -> None:
        """Some tiles one after the other, and in each a loop over its steps."""
        fn, elements, rows = self.function, self.elements, self.nest.order.rows
        size = self.sizes[group]
        first = elements.indices.scalar(at[group])
        end = fn.min(fn.add(first, self.nest.loops[-2].step), size)
        with elements.scopes.loop(first, end, rows) as tiles:
            start = elements.indices.variable(tiles.index, size)
            if self.nest.order.in_registers:
                for number in range(rows):
                    self._row(group, start, indexing.row(number, rows), at, mask)
                return
            count = fn.min(rows, fn.sub(size, tiles.index))
            with elements.scopes.loop(0, count) as steps:
                self._row(group, start, elements.indices.variable(steps.index, rows), at, mask)

    def _row(
        self, group: int, start: Affine, row: Affine, at: Positions, mask: Mask | None
    ) -> None:
        """A step of a tile."""
        size = self.sizes[group]
        ((variable, _),) = row.terms
        self.memory.tile = TransposedTile(variable, self.nest.order.rows, start, size, self.slots)
        self._point({**at, group: (start + row).within(0, size - 1)}, mask)
        self.memory.tile = None

    # -- elements ------------------------------------------------------------------------------

    def _point(self, at: Positions, mask: Mask | None) -> None:
        """What is computed and stored at a position of all loops."""
        unrolled = self.nest.order.unrolled
        if unrolled is None:
            places = self._at_once(at)
        else:
            steps = range(self.sizes[unrolled])
            places = [{**at, unrolled: indexing.constant(x)} for x in steps]
        indices = [index for place in places for index in self._indices(place)]
        before = len(self.elements.reads)
        stored(self.elements, self.nest.job.outputs, self.bound, indices, mask)
        if mask is None:
            fetch_ahead(self.elements, self.elements.reads[before:], self.ahead, self.cache)

    def _at_once(self, at: Positions) -> list[Positions]:
        """The positions of all steps that the last loop but one takes at once."""
        if self.nest.at_once == 1:
            return [at]
        loop = self.nest.loops[-2]
        first = at[loop.group]
        steps = range(self.nest.at_once)
        return [{**at, loop.group: (first + x).within(0, loop.size - 1)} for x in steps]

    def _indices(self, at: Positions) -> list[Index]:
        space, domain = self.nest.space, self.nest.domain
        positions = [at[group] for group in range(len(space.groups))]
        return domain.indices(space.index(self.elements, positions)[: len(domain.axes)])
