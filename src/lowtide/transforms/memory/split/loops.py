"""A section of instructions as a loop over its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, final

import numpy as np

from lowtide.builder import Builder
from lowtide.builder.values import Op, SubComputation
from lowtide.ir import (
    NO_ANNOTATIONS,
    Computation,
    ElementType,
    Instruction,
    Opcode,
    Shape,
    array_shape,
)
from lowtide.ir.attributes import Constant
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import tuple_shape
from lowtide.ops.resizing import attributes_at
from lowtide.passes.call_sites import mark
from lowtide.passes.matching import identity_of
from lowtide.transforms.control_flow.while_unroller import KEPT
from lowtide.transforms.memory.split.alignments import WHOLE, Alignment, counts_along
from lowtide.transforms.memory.split.sections import Section


def run_in_parts(section: Section, parts: int) -> Instruction:
    """Replace the members of a section by a loop of so many steps; return the loop.

    Parts of exits are written into whole arrays. Terms of folds are added up in f32 where their own
    type is a narrower floating point type. Loops are kept from being unrolled.
    """
    parent = next(iter(section.how)).parent
    outside = Builder.inside(parent)
    inputs = [x for x in section.inputs if x.opcode is not Opcode.CONSTANT]
    starts = [outside.constant(0, ElementType.S32), *[outside.value(x) for x in inputs]]
    starts += [_filled(outside, x.shape) for x in section.exits]
    starts += [_start(outside, x, section.how[x]) for x in section.folds]
    first = outside.tuple(starts)
    body = _Body(section, parts, inputs, parent.module.add_computation("part")).build(first.shape)
    condition = _condition(parent.module.add_computation("more_parts"), first.shape, parts)
    called = [SubComputation(condition), SubComputation(body)]
    loop = outside.emit(Opcode.WHILE, [first], called=called)
    loop.instruction.set_metadata(max(section.how, key=lambda x: x.shape.nbytes).raw_metadata)
    mark(loop.instruction, KEPT)
    _replace(section, loop, 1 + len(inputs))
    return loop.instruction


def _condition(computation: Computation, state: Shape, parts: int) -> Computation:
    build = Builder.inside(computation)
    number = build.get_tuple_element(build.parameter(0, state), 0)
    computation.root = number.lt(parts).instruction
    return computation


def _replace(section: Section, loop: Op, first: int) -> None:
    """Have all others read the results of the loop, from number `first` on."""
    build = loop.builder
    for number, x in enumerate((*section.exits, *section.folds), first):
        result = build.get_tuple_element(loop, number)
        result.instruction.set_metadata(x.raw_metadata)
        if result.element_type is not x.shape.element_type:
            result = build.convert(result, x.shape.element_type)
        x.replace_all_uses_with(result.instruction)
    for x in reversed(list(section.how)):
        if x not in section.copies:
            x.parent.remove(x)


# -- what the loop starts from -----------------------------------------------------------------


def _filled(build: Builder, shape: Shape) -> Op:
    zero = build.constant(np.zeros((), DTYPES[shape.element_type]))
    return build.broadcast(zero, shape.dimensions, ()) if shape.rank else zero


def _start(build: Builder, x: Instruction, how: Alignment) -> Op:
    """What a folded value is before the first part."""
    if how.is_update:
        return build.value(x.operands[0])
    shape = _wide(x.shape)
    if x.opcode is not Opcode.REDUCE:
        return _filled(build, shape)
    start = build.value(x.operands[1])
    if shape is not x.shape:
        start = build.convert(start, shape.element_type)
    return build.broadcast(start, shape.dimensions, ()) if shape.rank else start


_NARROW: Final = frozenset({ElementType.F16, ElementType.BF16})


def _wide(shape: Shape) -> Shape:
    """The shape in which terms are added up."""
    if shape.element_type not in _NARROW:
        return shape
    return array_shape(ElementType.F32, shape.dimensions)


# -- one part ----------------------------------------------------------------------------------


@final
class _Body:
    """The members on parts of their operands.

    The state is the number of the part, the inputs, the exits, then the folded values.
    """

    def __init__(
        self, section: Section, parts: int, inputs: list[Instruction], computation: Computation
    ) -> None:
        self.section, self.parts, self.inputs = section, parts, inputs
        self.computation = computation
        self.build_in = Builder.inside(computation)
        self.made: dict[Instruction, Op] = {}
        """The part of each member."""
        self.whole: dict[Instruction, Op] = {}
        self.cut: dict[tuple[Instruction, int], Op] = {}
        self.offsets: dict[int, Op] = {}

    def build(self, state: Shape) -> Computation:
        """Return the computation from state to state."""
        build, section = self.build_in, self.section
        self.number, *values = build.parameter(0, state)
        count = len(self.inputs)
        self.whole = dict(zip(self.inputs, values[:count], strict=True))
        held = dict(zip((*section.exits, *section.folds), values[count:], strict=True))
        results: dict[Instruction, Op] = {}
        for x, how in section.how.items():
            with build.metadata(x.raw_metadata):
                part = self.made[x] = self._part(x, how, held)
                if x in held:
                    results[x] = self._kept(x, how, held[x], part)
        kept = [self.number + 1, *values[:count], *[results[x] for x in held]]
        self.computation.root = build.tuple(kept).instruction
        return self.computation

    def _kept(self, x: Instruction, how: Alignment, held: Op, part: Op) -> Op:
        """What the state holds of an exit or fold after this part."""
        build = self.build_in
        if not how.folds:
            return build.dynamic_update_slice(held, part, self._starts(x.shape, how.result))
        if how.is_update:
            return part
        assert how.terms is not None
        if part.element_type is not held.element_type:
            part = build.convert(part, held.element_type)
        return build.emit(how.terms, [held, part])

    def _part(self, x: Instruction, how: Alignment, held: Mapping[Instruction, Op]) -> Op:
        """An operation on parts of its operands: a part of its result, or a term of it."""
        build = self.build_in
        if counts_along(x, how.result):
            return self._counted(x, how.result)
        if how.is_update:
            rest = zip(x.operands[1:], how.operands[1:], strict=True)
            operands = [held[x], *[self._operand(y, k) for y, k in rest]]
        else:
            operands = [self._operand(y, k) for y, k in zip(x.operands, how.operands, strict=True)]
        shape = _part_shape(x.shape, how.result, self.parts)
        if how.terms is not None and x.opcode is Opcode.REDUCE:
            neutral = identity_of(how.terms, x.shape.element_type)
            operands[1] = build.constant(neutral, x.shape.element_type)
        elif how.terms is not None:
            shape = _wide(x.shape)
        called = [SubComputation(y) for y in x.called_computations]
        attributes = attributes_at(x, [y.shape.dimensions for y in operands], shape.dimensions)
        with build.annotations(**_stamps(x)):
            return build.emit(x.opcode, operands, attributes, called, shape, x.name)

    def _counted(self, x: Instruction, dimension: int) -> Op:
        """The part of an iota; numbers are rounded once only."""
        build = self.build_in
        sizes = _part_shape(x.shape, dimension, self.parts).dimensions
        offset = build.broadcast(self._offset(sizes[dimension]), sizes, ())
        number = build.iota(array_shape(ElementType.S32, sizes), dimension) + offset
        return build.convert(number, x.shape.element_type)

    # -- operands ------------------------------------------------------------------------------

    def _operand(self, x: Instruction, dimension: int) -> Op:
        """A value as an operation needs it: as a whole, or the part of this step."""
        if dimension == WHOLE:
            return self._all_of(x)
        if self.section.reads_part(x, dimension):
            return self.made[x]
        key = (x, dimension)
        if key not in self.cut:
            whole = self._all_of(x)
            sizes = _part_shape(x.shape, dimension, self.parts).dimensions
            starts = self._starts(x.shape, dimension)
            self.cut[key] = self.build_in.dynamic_slice(whole, starts, sizes)
        return self.cut[key]

    def _all_of(self, x: Instruction) -> Op:
        if x not in self.whole:
            self.whole[x] = self.build_in.emit(
                Opcode.CONSTANT, (), x.attributes_as(Constant), shape=x.shape, name=x.name
            )
        return self.whole[x]

    def _starts(self, shape: Shape, dimension: int) -> list[Op]:
        """Where this part begins in a whole array."""
        zero = self._offset(0)
        offset = self._offset(shape.dimensions[dimension] // self.parts)
        return [offset if i == dimension else zero for i in range(shape.rank)]

    def _offset(self, size: int) -> Op:
        """The number of the part times a size."""
        if size not in self.offsets:
            build = self.build_in
            self.offsets[size] = self.number * size if size else build.constant(0, ElementType.S32)
        return self.offsets[size]


def _stamps(x: Instruction) -> dict[str, object]:
    """What is said of an instruction, but for how the whole of it is distributed."""
    if x.annotations is NO_ANNOTATIONS:
        return {}
    stamps = replace(x.annotations, sharding=None)
    return {name: getattr(stamps, name) for name in stamps.__dataclass_fields__}


def _part_shape(shape: Shape, dimension: int, parts: int) -> Shape:
    if dimension == WHOLE:
        return shape
    if shape.is_tuple:
        return tuple_shape([_part_shape(x, dimension, parts) for x in shape.tuple_shapes])
    sizes = _smaller(shape.dimensions, dimension, parts)
    return array_shape(shape.element_type, sizes)


def _smaller(sizes: tuple[int, ...], dimension: int, parts: int) -> tuple[int, ...]:
    return (*sizes[:dimension], sizes[dimension] // parts, *sizes[dimension + 1 :])
