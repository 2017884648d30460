"""The function of a kernel of loops: pieces of work, loops, and vectors in the innermost one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from lowtide.codegen import indexing
from lowtide.codegen.cost import element_bytes, seconds, vector_cycles, widest
from lowtide.codegen.domain import Domain, Trial
from lowtide.codegen.elements import Elements, Index, Mask
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.loop import Output, Part, stored
from lowtide.codegen.operands import bind, members
from lowtide.codegen.order import order_of
from lowtide.codegen.space import Space, groups_of, lane_variable
from lowtide.codegen.strided import first_lanes
from lowtide.codegen.tiles import Tile
from lowtide.ir import Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

PIECE: Final = 8192
"""Elements of a piece of work, about: less would not be worth the indices of its start."""

_TILES: Final = 4
"""Tiles that follow each other along the loop that they are tiles of."""

Positions = Mapping[int, Affine]
"""The position along each group of axes by its number."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over the positions of a group of axes, `step` at a time."""

    group: int
    size: int
    step: int

    @property
    def trips(self) -> int:
        """How often it runs."""
        return -(-self.size // self.step)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Which pieces of work there are: by all positions of the first `outer` loops, and `block`
    positions of the next one.
    """

    outer: int
    block: int
    units: int
    elements: int


class LoopKernel:
    """Writes a function that computes and stores the elements of a domain of outputs."""

    def __init__(
        self,
        instruction: Instruction,
        target: Target,
        outputs: Sequence[Output],
        name: str,
        domain: Domain,
        trial: Trial,
    ) -> None:
        self.instruction = instruction
        self.outputs = outputs
        self.domain = domain
        self.members = members(instruction)
        self.function = Function(name, ARGUMENTS)
        self.space = Space(domain.sizes, groups_of(trial, domain.sizes), 0)
        sizes = self.space.sizes
        most = max(target.vector_bytes // widest(self.members), 2)
        self.order = order_of(trial, self.space.groups, sizes, most, len(self.members))
        self.elements = Elements(self.function, target, self.order.lanes)
        self.bound = bind(self.function, instruction)
        self.loops = self._loops(sizes)
        self.slots: dict[tuple[int, int], str] = {}

    def _loops(self, sizes: Sequence[int]) -> list[_Loop]:
        order = self.order
        inner = (order.lane, order.unrolled, order.tiled)
        loops = [_Loop(group, size, 1) for group, size in enumerate(sizes) if group not in inner]
        if order.tiled is not None:
            loops.append(_Loop(order.tiled, sizes[order.tiled], order.rows * _TILES))
        return [*loops, _Loop(order.lane, sizes[order.lane], max(order.lanes, 1))]

    def write(self) -> Part:
        """Write the function."""
        pieces = self._pieces()
        if pieces.outer:
            self._blocks(pieces)
        else:
            size, fn = self.loops[0].size, self.function
            start = fn.mul("%begin", pieces.block)
            self._run(0, {}, start, fn.min(fn.mul("%end", pieces.block), size))
        text = "\n".join(self.elements.globals.values())
        return Part(self.function, pieces.units, self._seconds() * pieces.elements, text)

    # -- pieces --------------------------------------------------------------------------------

    def _pieces(self) -> _Pieces:
        """Loops are split as far out as pieces are small enough."""
        unrolled = self.order.unrolled
        rest = 1 if unrolled is None else self.space.sizes[unrolled]
        inside = []
        for loop in reversed(self.loops):
            inside.append(rest)
            rest *= loop.size
        inside.reverse()
        fitting = [i for i, x in enumerate(self.loops) if x.step * inside[i] <= PIECE]
        outer = fitting[0] if fitting else len(self.loops) - 1
        loop = self.loops[outer]
        block = max(PIECE // inside[outer] // loop.step, 1) * loop.step
        count = -(-loop.size // block)
        block = -(-loop.size // count // loop.step) * loop.step
        count = -(-loop.size // block)
        units = prod([x.trips for x in self.loops[:outer]]) * count
        return _Pieces(outer, block, units, rest // max(units, 1))

    def _blocks(self, pieces: _Pieces) -> None:
        fn, elements = self.function, self.elements
        loop = self.loops[pieces.outer]
        with elements.loop("%begin", "%end") as unit:
            count = -(-loop.size // pieces.block)
            start = fn.mul(fn.rem(unit.index, count), pieces.block)
            rest = fn.div(unit.index, count)
            at: dict[int, Affine] = {}
            for number, outer in reversed(list(enumerate(self.loops[: pieces.outer]))):
                place = rest if number == 0 else fn.rem(rest, outer.trips)
                rest = fn.div(rest, outer.trips)
                at[outer.group] = elements.variable(fn.mul(place, outer.step), outer.size)
            stop: Integer = fn.min(fn.add(start, pieces.block), loop.size)
            self._run(pieces.outer, at, start, stop)

    # -- loops ---------------------------------------------------------------------------------

    def _run(self, number: int, at: Positions, start: Integer, stop: Integer) -> None:
        """Write a loop from start to stop, and those in it."""
        loop = self.loops[number]
        if number == len(self.loops) - 1:
            self._line(at, start, stop, loop.size)
            return
        with self.elements.loop(start, stop, loop.step) as running:
            here = self.elements.variable(running.index, loop.size)
            self._run(number + 1, {**at, loop.group: here}, 0, self.loops[number + 1].size)

    def _line(self, at: Positions, start: Integer, stop: Integer, size: int) -> None:
        """The elements from start to stop along the lanes, the rest of them under a mask."""
        elements, fn, lanes = self.elements, self.function, self.order.lanes
        rest = size % max(lanes, 1)
        whole = size - rest
        with elements.loop(start, fn.min(stop, whole) if rest else stop, max(lanes, 1)) as loop:
            self._vector(at, loop.index, None)
        if not rest:
            return
        mask = Mask(first_lanes(rest, lanes), lanes, 0, rest)
        if isinstance(stop, int):
            self._vector(at, whole, mask)
            return
        with elements.when(fn.compare("eq", stop, size)):
            self._vector(at, whole, mask)

    def _vector(self, at: Positions, start: Integer, mask: Mask | None) -> None:
        lane = self.order.lane
        here = lane_variable(self.elements, start, self.space.sizes[lane])
        at = {**at, lane: here}
        if self.order.tiled is None:
            self._point(at, mask)
        else:
            self._tiles(self.order.tiled, at, mask)

    def _tiles(self, group: int, at: Positions, mask: Mask | None) -> None:
        """Some tiles one after the other, and in each a loop over its steps."""
        fn, elements, rows = self.function, self.elements, self.order.rows
        size = self.space.sizes[group]
        first = elements.scalar(at[group])
        end = fn.min(fn.add(first, rows * _TILES), size)
        with elements.loop(first, end, rows) as tiles:
            start = elements.variable(tiles.index, size)
            count = fn.min(rows, fn.sub(size, tiles.index))
            with elements.loop(0, count) as steps:
                row = elements.variable(steps.index, rows)
                ((variable, _),) = row.terms
                elements.tile = Tile(variable, rows, start, size, self.slots)
                self._point({**at, group: (start + row).within(0, size - 1)}, mask)
                elements.tile = None

    # -- elements ------------------------------------------------------------------------------

    def _point(self, at: Positions, mask: Mask | None) -> None:
        """What is computed and stored at a position of all loops."""
        unrolled = self.order.unrolled
        if unrolled is None:
            indices = [self._index(at)]
        else:
            steps = range(self.space.sizes[unrolled])
            indices = [self._index({**at, unrolled: indexing.constant(x)}) for x in steps]
        stored(self.elements, self.outputs, self.bound, indices, mask)

    def _index(self, at: Positions) -> Index:
        positions = [at[group] for group in range(len(self.space.groups))]
        found = self.space.index(self.elements, positions)
        return self.domain.index(found[: len(self.domain.axes)])

    def _seconds(self) -> float:
        """About how long an element takes."""
        nbytes = sum([x.shape.element_type.nbytes for x in self.bound.results])
        for x in self.instruction.operands:
            if x.shape.is_array and x.shape.rank:
                nbytes += element_bytes(x.shape.element_type)
        cycles = vector_cycles(self.members) / max(self.order.lanes, 1)
        return seconds(nbytes, cycles)
