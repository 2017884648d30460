"""The operands of a product by row or column and place along the contracted dimension."""

from __future__ import annotations

import math
from typing import TypeAlias

from lowtide.codegen import elementwise
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.geometry import Roles, placed
from lowtide.codegen.cpu.contraction.views import View, views_behind
from lowtide.codegen.cpu.cost import vector_cycles, vectors_abreast
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.values import CallFrame, Mask
from lowtide.codegen.indexing import ZERO, Affine
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES, Dimensions, ReducePrecision
from lowtide.ir.traversal import reached
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class LanePosition:
    """An index along merged dimensions; lane i is `lane` + i behind `start`.

    `is_aligned` says that the start is a multiple of the number of lanes.
    """

    start: Affine
    lane: Affine | None = None
    is_aligned: bool = False

    @property
    def index(self) -> Affine:
        """The index as one expression."""
        return self.start if self.lane is None else self.start + self.lane


def digits(
    elements: Elements, position: LanePosition, sizes: tuple[int, ...]
) -> tuple[Affine, ...]:
    """Return the index along each of the dimensions that a position numbers in row-major order.

    A vector that lies within the last dimension stays one of consecutive elements.
    """
    wide = [i for i, size in enumerate(sizes) if size != 1]
    found = [ZERO] * len(sizes)
    if not wide or 0 in sizes:
        return tuple(found)
    last = wide[-1]
    stays = position.lane is not None and (
        len(wide) == 1 or (position.is_aligned and sizes[last] % elements.lanes == 0)
    )
    rest = position.start if stays else position.index
    for i in reversed(wide[1:]):
        rest, found[i] = elements.indices.split(rest, sizes[i])
    found[wide[0]] = rest
    if stays and position.lane is not None:
        found[last] = found[last] + position.lane
    return tuple(found)


@dataclass(frozen=True, slots=True)
class OperandSide:
    """One operand of a product: what computes it, the roles of its dimensions, how it lies.

    `kernel` is the instruction that runs: the dot, or the fusion that it is in. Elements are
    rounded to `rounded_to` before they are multiplied, where that is given.
    """

    instruction: Instruction
    roles: Roles
    view: View | None
    kernel: Instruction
    rounded_to: ReducePrecision | None = None

    @property
    def type(self) -> ElementType:
        """The type of the elements in memory."""
        return self.instruction.shape.element_type

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of the operand."""
        return self.instruction.shape.dimensions

    def sizes(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of some dimensions."""
        return tuple([self.dimensions[d] for d in dimensions])

    def is_plain(self, how: Arithmetic) -> bool:
        """Whether memory has the elements as they are multiplied."""
        return (
            self.view is not None
            and self.type is how.element_of(self.type)
            and self.rounded_to is None
        )

    @property
    def lies_along_k(self) -> bool:
        """Whether neighbours along the contracted dimension are neighbours in memory, mostly."""
        if self.view is None:
            return minor_dimension(self.instruction) in self.roles.inner
        inner, free = self.view.runs(self.roles.inner), self.view.runs(self.roles.free)
        if free and free[-1].step == 1:
            return False
        return not free or bool(inner and inner[-1].step == 1)

    def computing_cycles(self, target: Target) -> float:
        """Return about how many cycles it takes to compute an element, 0 of one that lies so."""
        if self.view is not None:
            return 0.0
        lanes = max(1, target.vector_bytes // self.type.nbytes)
        return vector_cycles(reached([self.instruction])) / lanes

    def vectors_abreast(self, target: Target) -> int:
        """Return how many vectors are to be computed side by side; 1 of one that lies so."""
        if self.view is not None:
            return 1
        return vectors_abreast(target, reached([self.instruction]))

    @property
    def panel(self) -> int:
        """The columns of a panel, 0 where the operand does not lie in panels.

        In a panel the columns of each step of k lie side by side, and the steps behind one another;
        so do panels.
        """
        if self.view is None:
            return 0
        free, along = self.view.runs(self.roles.free), self.view.single(self.roles.inner)
        if len(free) != 2 or free[-1].step != 1 or free[-1].size != along:
            return 0
        panel = along * math.prod(self.sizes(self.roles.inner))
        return along if free[0].step == panel else 0

    def reader(self, elements: Elements, how: Arithmetic) -> OperandReader:
        """Write the loads of addresses, and return what reads elements of the operand."""
        return OperandReader(self, elements, how, bind(elements.function, self.kernel).frame)

    def sources(self) -> tuple[View, ...]:
        """Return how what it is computed from lies, element by element; its own view if it has one.

        Long computations have the arrays of their last steps only.
        """
        if self.view is not None:
            return (self.view,)
        return views_behind(self.instruction, self.kernel)

    def address(self, fn: Function, batch: Integer, of: View | None = None) -> str:
        """Write the address of the first element of a matrix of a batch, as the view has it.

        With `of`, which is one of `sources`, it is that of what the operand is computed from.
        """
        view = self.view if of is None else of
        assert view is not None
        total: Integer = view.offset
        rest = batch
        found = view.runs(self.roles.batch)
        for number, run in enumerate(reversed(found)):
            is_last = number == len(found) - 1
            digit = rest if is_last else fn.rem(rest, run.size)
            rest = rest if is_last else fn.div(rest, run.size)
            total = fn.add(total, fn.mul(digit, run.step))
        base = bind(fn, self.kernel).frame.arrays[view.source].pointer
        return fn.gep(base, fn.mul(total, view.source.shape.element_type.nbytes))


_Groups: TypeAlias = tuple[tuple[tuple[int, ...], LanePosition], ...]
"""Dimensions of an operand, and the position along them."""


@dataclass(frozen=True, slots=True)
class OperandReader:
    """Reads elements of an operand in one function, converted to what is multiplied."""

    side: OperandSide
    elements: Elements
    how: Arithmetic
    frame: CallFrame

    def at(
        self, batch: Affine, free: LanePosition, inner: LanePosition, mask: Mask | None
    ) -> Value:
        """Return elements by batch, row or column, and place along the contracted dimension."""
        side = self.side
        groups = (
            (side.roles.batch, LanePosition(batch)),
            (side.roles.free, free),
            (side.roles.inner, inner),
        )
        value = self._element(groups, mask) if side.view is None else self._lying(groups, mask)
        if side.rounded_to is not None:
            value = self._rounded(value, side.rounded_to)
        return self._converted(value, self.how.element_of(value.type))

    def _element(self, groups: _Groups, mask: Mask | None) -> Value:
        """The element as the kernel computes it."""
        side, elements = self.side, self.elements
        placed_ = [(d, digits(elements, x, side.sizes(d))) for d, x in groups]
        index = placed(len(side.dimensions), tuple(placed_))
        return elements.at(side.instruction, index, self.frame, mask)

    def _lying(self, groups: _Groups, mask: Mask | None) -> Value:
        """The element where it lies: dimensions that lie like one are numbered like one."""
        view, elements = self.side.view, self.elements
        assert view is not None
        array = self.frame.arrays[view.source]
        place = ZERO + view.offset
        for dimensions, position in groups:
            found = view.runs(dimensions)
            along = digits(elements, position, tuple([x.size for x in found]))
            for entry, run in zip(along, found, strict=True):
                place = place + entry * run.step
        last = max(array.shape.element_count - 1, 0)
        return elements.read_place(array, place.within(0, last), mask).values[0]

    def _rounded(self, value: Value, how: ReducePrecision) -> Value:
        fn, target = self.elements.function, self.elements.target
        return elementwise.emit_op(fn, target, Opcode.REDUCE_PRECISION, how, value.type, [value])

    def _converted(self, value: Value, type_: ElementType) -> Value:
        if value.type is type_:
            return value
        fn, target = self.elements.function, self.elements.target
        return elementwise.emit_op(fn, target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value])


def minor_dimension(instruction: Instruction) -> int:
    """Return the dimension along which what an operand is made of lies in memory.

    It follows the largest operand through elementwise operations and transposes.
    """
    order = list(range(instruction.shape.rank))
    source = instruction
    while source.opcode is not Opcode.PARAMETER and source.operands:
        if source.opcode is Opcode.TRANSPOSE:
            places = source.attributes_as(Dimensions).dimensions
            before = dict(zip(places, order, strict=True))
            order = [before[d] for d in range(len(order))]
            source = source.operands[0]
            continue
        same = [x for x in source.operands if x.shape.dimensions == source.shape.dimensions]
        if not same:
            break
        source = max(same, key=_weight)
    wide = [d for d in range(source.shape.rank) if source.shape.dimensions[d] != 1]
    return order[wide[-1]] if wide else -1


def _weight(instruction: Instruction) -> int:
    """How much memory traffic an operand stands for; what is spread out takes little."""
    return 0 if instruction.opcode is Opcode.BROADCAST else instruction.shape.nbytes
