"""Reduce-window along dimensions other than the last one, as in pooling: vectors over the last.

For each place the range of positions that meet elements is computed first, so that no position in
the padding takes any time, and no element is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.reducers import Reducer, carried, renamed
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index, constant
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value, register_bytes
from lowtide.ir import Instruction
from lowtide.ir.attributes import ReduceWindow, WindowDimension
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

PIECE: Final = 4096
"""Elements of a piece of work, at least: less would not be worth the indices of its start."""

MOST_VECTORS: Final = 4
"""Vectors that go through a window together."""


def plan_reduce_window(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how a reduce-window runs, None where its windows reach along the last dimension.

    It is None for dilated operands, reversed windows, and empty results as well.
    """
    count = len(instruction.operands) // 2
    shape = instruction.operands[0].shape
    windows = instruction.attributes_as(ReduceWindow).window.dimensions
    places = _places(instruction)
    if not places or 0 in places or not shape.element_count or places[-1] == 1:
        return None
    if any(x.base_dilation != 1 or x.reversal for x in windows) or not _is_alone(windows[-1]):
        return None
    types = [x.shape.element_type for x in instruction.operands[:count]]
    wide = max([register_bytes(x) for x in types])
    lanes = max(2, target.vector_bytes // max(wide, 4))
    while lanes > 2 and lanes // 2 >= places[-1]:
        lanes //= 2
    return KernelPlan(lambda: _Writer(instruction, target, lanes, places).code())


def _places(instruction: Instruction) -> tuple[int, ...]:
    """The dimensions of each result."""
    return next(leaf for _, leaf in instruction.shape.leaves() if leaf.is_array).dimensions


def _is_alone(x: WindowDimension) -> bool:
    return x.size == 1 and x.stride == 1 and x.padding_low == x.padding_high == 0


@dataclass(eq=False, slots=True)
class _Writer:
    instruction: Instruction
    target: Target
    lanes: int
    places: tuple[int, ...]
    fn: Function = field(init=False)
    elements: Elements = field(init=False)
    bound: Bound = field(init=False)
    reducer: Reducer = field(init=False)

    def __post_init__(self) -> None:
        self.fn = Function("reduce_window", ARGUMENTS)
        self.elements = vector_elements(self.fn, self.target, self.lanes)
        self.bound = bind(self.fn, self.instruction)
        self.reducer = Reducer.of(self.instruction.called_computations[0])

    @property
    def windows(self) -> tuple[WindowDimension, ...]:
        """The window along each dimension."""
        return self.instruction.attributes_as(ReduceWindow).window.dimensions

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions of the operands."""
        return self.instruction.operands[0].shape.dimensions

    @property
    def count(self) -> int:
        """How many arrays are reduced together."""
        return len(self.instruction.operands) // 2

    def code(self) -> KernelCode:
        """Return the one phase: pieces are indices of the first dimensions."""
        outer = 1
        while outer < len(self.places) - 1 and prod(self.places[outer:]) > 2 * PIECE:
            outer += 1
        outer = min(outer, len(self.places) - 1)
        units = prod(self.places[:outer])
        with self.elements.scopes.loop("%begin", "%end") as loop:
            at = decomposed(self.elements, loop.index, self.places[:outer])
            self._over(at)
        positions = prod([x.size for x in self.windows])
        each = prod(self.places[outer:])
        cycles = each / self.lanes * (2 * positions + 10)
        nbytes = 2 * sum([x.shape.nbytes for x in self.instruction.operands]) / units
        phase = Phase(self.fn.name, units, seconds(nbytes, cycles))
        return KernelCode((self.fn,), (phase,), "\n".join(self.elements.globals.values()))

    def _over(self, at: list[Affine]) -> None:
        """Write the loops over the places of a piece, and along the last dimension.

        A single element is no vector: LLVM 22 writes too much where it narrows and stores one lane.
        """
        elements, d = self.elements, len(at)
        if d < len(self.places) - 1:
            with elements.scopes.loop(0, self.places[d]) as loop:
                self._over([*at, elements.indices.variable(loop.index, self.places[d])])
            return
        size, lanes = self.places[-1], self.lanes
        vectors = max(1, min(MOST_VECTORS // self.count, size // lanes))
        ranges = [self._range(d, x) for d, x in enumerate(at)]
        whole = size // (vectors * lanes) * vectors * lanes
        with elements.scopes.loop(0, whole, vectors * lanes) as loop:
            starts = [self._lane(loop.index, j * lanes) for j in range(vectors)]
            self._place(at, ranges, starts, None)
        rest = (size - whole) // lanes * lanes + whole
        with elements.scopes.loop(whole, rest, lanes) as loop:
            self._place(at, ranges, [self._lane(loop.index, 0)], None)
        if rest < size:
            mask = tail_mask(lanes, size - rest) if size - rest > 1 else None
            start = self._lane(rest, 0) if mask is not None else constant(rest)
            self._place(at, ranges, [start], mask)

    def _lane(self, start: Integer, offset: int) -> Affine:
        return self.elements.indices.variable(start, self.sizes[-1], is_lane=True) + offset

    def _range(self, d: int, place: Affine) -> tuple[Integer, Integer]:
        """The positions of the window at a place that meet elements, the end excluded."""
        fn, x = self.fn, self.windows[d]
        start = fn.mul(self.elements.indices.scalar(place), x.stride)
        least = fn.sub(x.padding_low + x.window_dilation - 1, start)
        most = fn.sub(self.sizes[d] - 1 + x.padding_low + x.window_dilation, start)
        first = fn.div(fn.max(least, 0), x.window_dilation)
        return first, fn.min(fn.div(fn.max(most, 0), x.window_dilation), x.size)

    def _place(
        self,
        at: list[Affine],
        ranges: Sequence[tuple[Integer, Integer]],
        starts: list[Affine],
        mask: Mask | None,
    ) -> None:
        """Write the reduction of a place, for some vectors along the last dimension."""
        elements, count = self.elements, self.count
        given = [
            elements.all_at(x, (), self.bound.frame) for x in self.instruction.operands[count:]
        ]
        initial = [x.values[0] for x in self.reducer.taken(elements, given)]
        first = [self._as_wide(x, starts[0]) for x in initial]
        totals = self._window(0, at, [], ranges, starts, first * len(starts), mask)
        for j, start in enumerate(starts):
            results = self.reducer.finished(elements, totals[j * count : (j + 1) * count])
            for array, value in zip(self.bound.results, results, strict=True):
                elements.store(array, (*at, start), value, mask)

    def _window(
        self,
        d: int,
        at: list[Affine],
        met: list[Affine],
        ranges: Sequence[tuple[Integer, Integer]],
        starts: list[Affine],
        totals: list[Value],
        mask: Mask | None,
    ) -> list[Value]:
        """Write the loops over positions; return the totals behind them."""
        elements, fn = self.elements, self.fn
        if d == len(at):
            return self._combined(tuple(met), starts, totals, mask)
        x = self.windows[d]
        if _is_alone(x):
            return self._window(d + 1, at, [*met, at[d]], ranges, starts, totals, mask)
        base = fn.sub(fn.mul(elements.indices.scalar(at[d]), x.stride), x.padding_low)
        with elements.scopes.loop(*ranges[d], 1, carried(totals)) as loop:
            place = fn.add(base, fn.mul(loop.index, x.window_dilation))
            here = [*met, elements.indices.variable(place, self.sizes[d])]
            before = renamed(totals, loop.values)
            after = self._window(d + 1, at, here, ranges, starts, before, mask)
            loop.next = [name for value in after for name in value.names]
        return renamed(totals, loop.results)

    def _combined(
        self, met: Index, starts: list[Affine], totals: list[Value], mask: Mask | None
    ) -> list[Value]:
        """The totals after one element of each vector and array."""
        elements, count = self.elements, self.count
        found: list[Value] = []
        for j, start in enumerate(starts):
            operands = self.instruction.operands[:count]
            values: list[Element] = [
                elements.all_at(x, (*met, start), self.bound.frame, mask) for x in operands
            ]
            taken = [x.values[0] for x in self.reducer.taken(elements, values)]
            before = totals[j * count : (j + 1) * count]
            after = self.reducer.combined(elements, before, taken)
            found += [self._as_wide(x, start) for x in after]
        return found

    def _as_wide(self, value: Value, start: Affine) -> Value:
        """A value as a vector, if it is for a place that differs from lane to lane."""
        if value.lanes or not start.varies:
            return value
        return self.elements.vectors.splat(value)
