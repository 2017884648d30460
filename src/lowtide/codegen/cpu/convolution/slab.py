"""The part of the input that a piece of work reads, copied with zeros where there is no element.

The copy has the dimensions in the order in which they lie in memory. Elements are converted, and
what is fused into the input is computed, once for each copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from lowtide.codegen import elementwise
from lowtide.codegen.arrays import Array, strides
from lowtide.codegen.cpu.contraction.packing import or_zero
from lowtide.codegen.cpu.convolution.scheme import (
    BATCH,
    FEATURE,
    LANE,
    ConvolutionScheme,
    InputAxis,
)
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import ZERO, Affine, Index
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.llvm.callee import FunctionParameter, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_Read: TypeAlias = "Callable[[tuple[Affine, ...], Mask | None], Value]"
"""What gives elements by the indices along all axes."""


def parameters_of(scheme: ConvolutionScheme) -> tuple[FunctionParameter, ...]:
    """Return the parameters: for each axis the first input index, which may be negative."""
    names = [f"{x}{i}" for i in range(len(scheme.axes())) for x in ("start", "count")]
    return parameters(buffers="ptr", to="ptr", group="i64", **dict.fromkeys(names, "i64"))


def slab_function(
    name: str,
    scheme: ConvolutionScheme,
    target: Target,
    kernel: Instruction,
    data: Instruction,
    constants: dict[str, str],
) -> Function:
    """Write the copy of the input; `data` is what computes it in the kernel.

    Constant arrays that it needs are added to `constants`.
    """
    fn = Function(name, parameters_of(scheme), linkage="internal")
    elements = vector_elements(fn, target, scheme.lanes)
    writer = _SlabWriter(elements, scheme, data, bind(fn, kernel), list(scheme.axes()))
    writer.write()
    constants.update(elements.globals)
    return fn


@dataclass(frozen=True, slots=True)
class _Range:
    """The input indices along an axis that are copied: from `low` to `high`, which is excluded.

    `start` is the index that the first place of the copy stands for.
    """

    axis: InputAxis
    start: Integer
    low: Integer
    high: Integer
    size: int


@dataclass(eq=False, slots=True)
class _SlabWriter:
    elements: Elements
    scheme: ConvolutionScheme
    data: Instruction
    bound: Bound
    axes: list[InputAxis]
    ranges: list[_Range] = field(default_factory=list)

    def write(self) -> None:
        """Write zeros if any are needed, then the loops over what is inside."""
        fn = self.elements.function
        missing: Integer = 0
        for number, axis in enumerate(self.axes):
            start, count, size = f"%start{number}", f"%count{number}", self._size(axis.kind)
            low, high = fn.max(start, 0), fn.min(fn.add(start, count), size)
            self.ranges.append(_Range(axis, start, low, high, size))
            if axis.kind in (BATCH, LANE):
                continue
            inside = fn.max(fn.sub(high, low), 0)
            missing = fn.add(missing, fn.sub(count, inside))
        with self.elements.scopes.when(fn.compare("ne", missing, 0)):
            self._zeros()
        if self._merges():
            self._merged()
            return
        self._along(self.ranges, (), "%to", self._value)

    def _size(self, kind: int) -> int:
        problem = self.scheme.problem
        if kind >= 0:
            return problem.spatial[kind].size
        sizes = {BATCH: problem.batch, FEATURE: problem.features, LANE: self.scheme.all_columns}
        return sizes[kind]

    def _zeros(self) -> None:
        fn, scheme = self.elements.function, self.scheme
        width = self.elements.target.vector_bytes
        with fn.loop(0, scheme.slab_bytes, width) as loop:
            there = fn.gep("%to", loop.index)
            fn.store(f"<{width} x i8>", "zeroinitializer", there, 1)

    # -- loops -----------------------------------------------------------------------------------

    def _along(self, ranges: list[_Range], at: tuple[Affine, ...], to: str, read: _Read) -> None:
        """Write a loop for each axis; the last one takes vectors."""
        this, rest = ranges[0], ranges[1:]
        elements, nbytes = self.elements, self.scheme.how.unit_bytes
        fn = elements.function
        if not rest:
            self._line(this, at, to, read)
            return
        with elements.scopes.loop(this.low, this.high) as loop:
            x = elements.indices.variable(loop.index, this.size)
            steps = fn.mul(fn.sub(loop.index, this.start), this.axis.step * nbytes)
            self._along(rest, (*at, x), fn.gep(to, steps), read)

    def _line(self, this: _Range, at: tuple[Affine, ...], to: str, read: _Read) -> None:
        """Write the copy of a line: whole vectors, then the rest under a mask."""
        elements, lanes = self.elements, self.scheme.lanes
        fn = elements.function
        count = fn.sub(this.high, this.low)
        whole = fn.sub(this.high, fn.op(f"and i64 {fn.max(count, 0)}, {lanes - 1}"))
        with elements.scopes.loop(this.low, whole, lanes) as loop:
            x = elements.indices.variable(loop.index, this.size, is_lane=True)
            self._store(read((*at, x), None), to, fn.sub(loop.index, this.start), None)
        with elements.scopes.when(fn.compare("slt", whole, this.high)):
            numbers = fn.splat("i64", str(fn.sub(this.high, whole)), lanes)
            inside = fn.op(f"icmp ult <{lanes} x i64> {memory.lane_numbers(lanes)}, {numbers}")
            mask = Mask(inside, lanes, elements.scopes.level)
            x = elements.indices.variable(whole, this.size, is_lane=True)
            self._store(read((*at, x), mask), to, fn.sub(whole, this.start), mask)

    def _store(self, value: Value, to: str, at: Integer, mask: Mask | None) -> None:
        elements, how = self.elements, self.scheme.how
        fn = elements.function
        if value.type is not how.element:
            value = elementwise.emit_op(
                fn, elements.target, Opcode.CONVERT, NO_ATTRIBUTES, how.element, [value]
            )
        if not value.lanes:
            value = elements.vectors.splat(value)
        if mask is not None:
            value = or_zero(elements, value, mask)
        there = fn.gep(to, fn.mul(at, how.unit_bytes))
        memory.store(fn, elements.target, value, there, None if mask is None else mask.name)

    # -- elements --------------------------------------------------------------------------------

    def _value(self, at: tuple[Affine, ...], mask: Mask | None) -> Value:
        kinds = dict(zip([x.kind for x in self.axes], at, strict=True))
        return self.elements.at(self.data, self._index(kinds), self.bound.frame, mask)

    def _index(self, at: dict[int, Affine]) -> Index:
        """The index in the input of a place in the copy."""
        problem, numbers = self.scheme.problem, self.scheme.problem.numbers
        found = [ZERO] * problem.input.rank
        for i, d in enumerate(numbers.input_spatial):
            found[d] = at[i]
        found[numbers.input_batch] = at[BATCH]
        found[numbers.input_feature] = at[FEATURE]
        if problem.groups == 1:
            return tuple(found)
        d, size = numbers.input_feature, problem.features
        if problem.is_batch_grouped:
            d, size = numbers.input_batch, problem.batch
        found[d] = found[d] + self._group(at) * size
        return tuple(found)

    def _group(self, at: dict[int, Affine]) -> Affine:
        if self.scheme.is_lanewise:
            return self.elements.indices.split(at[LANE], self.scheme.problem.outputs)[0]
        return self.elements.indices.variable("%group", self.scheme.problem.groups)

    # -- two axes as one -------------------------------------------------------------------------

    def _merges(self) -> bool:
        """Whether the last two axes are one in memory and in the copy, and short lines are bad."""
        scheme, problem = self.scheme, self.scheme.problem
        if self.data not in self.bound.frame.arrays or len(self.axes) < 2:
            return False
        before, last = self.axes[-2:]
        if last.kind != FEATURE or before.kind < 0 or problem.groups > 1:
            return False
        features = problem.features
        is_whole = last.extent == features and before.step == features
        return is_whole and features % scheme.lanes != 0

    def _merged(self) -> None:
        elements, problem = self.elements, self.scheme.problem
        fn, features = elements.function, problem.features
        before = self.ranges[-2]
        start, low, high = (fn.mul(x, features) for x in (before.start, before.low, before.high))
        axis = InputAxis(before.axis.kind, before.axis.extent * features, 1)
        line = _Range(axis, start, low, high, before.size * features)
        steps = strides(problem.input)
        order = sorted(range(problem.input.rank), key=lambda d: -steps[d])
        sizes = [problem.input.dimensions[d] for d in order[:-2]]
        shape = array_shape(problem.input.element_type, (*sizes, line.size))
        array = Array(self.bound.frame.arrays[self.data].pointer, shape)
        self._along(
            [*self.ranges[:-2], line],
            (),
            "%to",
            lambda at, mask: elements.read(array, at, mask).values[0],
        )
