"""Select-and-scatter: the gradient of pooling by a maximum, and whatever else has its form.

A piece of work is a block of the operand along one dimension, for one index of the dimensions that
windows do not reach along. First each window over the block selects a position, and its number goes
to scratch. Then each element adds up what the windows that selected it have. So nothing is written
twice, and pieces do not depend on one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.parts import within
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded, thread_scratch
from lowtide.codegen.library.selection import SelectWriter, WindowSelection
from lowtide.ir import Instruction
from lowtide.ir.attributes import ReduceWindow, WindowDimension
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

NUMBERS_BYTES: Final = 128 << 10
"""The numbers of positions that a piece keeps, at most, if a block can be so small."""


def plan_select_and_scatter(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how a select-and-scatter runs, for any computations and element types."""
    if not instruction.shape.element_count:
        return KernelPlan(lambda: KernelCode((), ()))
    scheme = _scheme(instruction, target)
    nbytes = rounded(scheme.windows_at_once * max(1, scheme.lanes) * 4)
    return KernelPlan(lambda: _code(instruction, target, scheme), thread_bytes=nbytes)


@dataclass(frozen=True, slots=True)
class SelectScheme(WindowSelection):
    """How it is cut: `alone` are dimensions of windows of one element, and `over` the others.

    The last dimension has lanes if it is alone. A block has `block` elements along over[0].
    """

    alone: tuple[int, ...]
    block: int

    @property
    def blocks(self) -> int:
        """The blocks along the first dimension that windows reach along."""
        return -(-self.sizes[self.over[0]] // self.block) if self.over else 1

    @property
    def lane_blocks(self) -> int:
        """The vectors along the last dimension."""
        return -(-self.sizes[-1] // self.lanes) if self.lanes else 1

    @property
    def units(self) -> int:
        """The pieces of work."""
        return prod([self.sizes[d] for d in self.alone]) * self.blocks * self.lane_blocks

    @property
    def block_places(self) -> int:
        """The most places of windows over a block, along the dimension that is cut."""
        if not self.over:
            return 1
        d = self.over[0]
        x = self.windows[d]
        reach = (self.block - 1) * x.base_dilation + (x.size - 1) * x.window_dilation
        return min(self.places[d], reach // x.stride + 1)

    @property
    def windows_at_once(self) -> int:
        """The most windows over a block."""
        return self.block_places * prod([self.places[d] for d in self.over[1:]])


def _scheme(instruction: Instruction, target: Target) -> SelectScheme:
    operand, source = (x.shape.dimensions for x in instruction.operands[:2])
    windows = instruction.attributes_as(ReduceWindow).window.dimensions
    windows = windows if operand else ()
    wide = max(instruction.shape.element_type.bits // 8, 4)
    has_lanes = bool(operand) and _is_alone(windows[-1]) and operand[-1] > 1
    lanes = target.vector_bytes // wide if has_lanes else 0
    last = len(operand) - 1
    alone = [d for d, x in enumerate(windows) if _is_alone(x) and not (lanes and d == last)]
    over = [d for d, x in enumerate(windows) if not _is_alone(x)]
    block = operand[over[0]] if over else 1
    found = SelectScheme(operand, source, windows, lanes, tuple(over), tuple(alone), block)
    while block > 1 and found.windows_at_once * max(1, lanes) * 4 > NUMBERS_BYTES:
        block = -(-block // 2)
        found = SelectScheme(operand, source, windows, lanes, tuple(over), tuple(alone), block)
    return found


def _is_alone(x: WindowDimension) -> bool:
    plain = x.stride == x.base_dilation == 1
    return x.size == 1 and plain and x.padding_low == x.padding_high == 0


def _code(instruction: Instruction, target: Target, scheme: SelectScheme) -> KernelCode:
    fn = Function("select_and_scatter", ARGUMENTS)
    elements = vector_elements(fn, target, scheme.lanes)
    writer = _BlockWriter(elements, instruction, scheme, bind(fn, instruction))
    nbytes = rounded(scheme.windows_at_once * max(1, scheme.lanes) * 4)
    writer.numbers = thread_scratch(fn, nbytes)
    with elements.scopes.loop("%begin", "%end") as loop:
        writer.piece(loop.index)
    operand = instruction.operands[0].shape
    each = operand.element_count / scheme.units
    cycles = each / max(1, scheme.lanes) * (scheme.positions + 20)
    phase = Phase(fn.name, scheme.units, seconds(2 * operand.nbytes / scheme.units, cycles))
    return KernelCode((fn,), (phase,), "\n".join(elements.globals.values()))


@dataclass(eq=False, slots=True)
class _BlockWriter(SelectWriter):
    """Writes a piece of work; numbers of windows lie at `numbers`."""

    scheme: SelectScheme
    numbers: str = ""
    first: Integer = 0
    """The first place, along the dimension that is cut, of windows over the block."""

    def piece(self, unit: Integer) -> None:
        """Write a piece of work."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        at: dict[int, Affine] = {}
        mask: Mask | None = None
        rest = unit
        if scheme.lanes:
            start = fn.mul(fn.rem(rest, scheme.lane_blocks), scheme.lanes)
            rest = fn.div(rest, scheme.lane_blocks)
            at[len(scheme.sizes) - 1] = elements.indices.variable(
                start, scheme.sizes[-1], is_lane=True
            )
            mask = self._mask(at[len(scheme.sizes) - 1])
        block = fn.rem(rest, scheme.blocks)
        rest = fn.div(rest, scheme.blocks)
        for d in reversed(scheme.alone):
            at[d] = elements.indices.variable(fn.rem(rest, scheme.sizes[d]), scheme.sizes[d])
            rest = fn.div(rest, scheme.sizes[d])
        ranges = [(0, scheme.sizes[d]) for d in scheme.over]
        low: Integer = fn.mul(block, scheme.block)
        bounds: list[tuple[Integer, Integer]] = list(ranges)
        windows: list[tuple[Integer, Integer]] = [(0, scheme.places[d]) for d in scheme.over]
        if bounds:
            high = fn.min(fn.add(low, scheme.block), scheme.sizes[scheme.over[0]])
            bounds[0] = low, high
            windows[0] = self.reached(scheme.over[0], low, fn.sub(high, 1))
            self.first = windows[0][0]
        self._over(scheme.over, windows, at, lambda x: self.select(x, mask))
        elements.scopes.forget()
        self._over(scheme.over, bounds, at, lambda x: self.scatter(x, mask))

    def _mask(self, lane: Affine) -> Mask | None:
        if self.scheme.sizes[-1] % self.scheme.lanes == 0:
            return None
        if self.scheme.lane_blocks == 1:
            return tail_mask(self.scheme.lanes, self.scheme.sizes[-1])
        found = within(self.elements, Affine(lane.terms, 0, 0, 1 << 40), 0, self.scheme.sizes[-1])
        assert isinstance(found, Mask)
        return found

    def _over(
        self,
        dimensions: Sequence[int],
        ranges: Sequence[tuple[Integer, Integer]],
        at: dict[int, Affine],
        body: Callable[[dict[int, Affine]], None],
    ) -> None:
        """Write loops over dimensions, outermost first."""
        if not dimensions:
            body(at)
            return
        d = dimensions[0]
        with self.elements.scopes.loop(*ranges[0]) as loop:
            extent = max(self.scheme.sizes[d], self.scheme.places[d])
            x = self.elements.indices.variable(loop.index, extent)
            self._over(dimensions[1:], ranges[1:], {**at, d: x}, body)

    def slot(self, at: dict[int, Affine]) -> str:
        """Return the address of the number of a window."""
        elements, scheme, fn = self.elements, self.scheme, self.elements.function
        total: Integer = 0
        for number, d in enumerate(scheme.over):
            place = elements.indices.scalar(at[d])
            relative = fn.sub(place, self.first) if number == 0 else place
            size = scheme.block_places if number == 0 else scheme.places[d]
            total = fn.add(fn.mul(total, size), relative)
        return fn.gep(self.numbers, fn.mul(total, 4 * max(1, scheme.lanes)))
