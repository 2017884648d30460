"""The part of the input that a piece of work reads, copied with zeros where there is no element.

The copy has the dimensions in the order in which they lie in memory. Elements are converted, and
what is fused into the input is computed, once for each copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Final, TypeAlias

from lowtide.codegen import elementwise
from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.contraction.operands import minor_dimension
from lowtide.codegen.cpu.contraction.packing import or_zero
from lowtide.codegen.cpu.convolution.axes import BATCH, FEATURE, LANE, InputAxis, memory_order
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.tiles import LINE, TransposedTile, side_of
from lowtide.codegen.cpu.vector_elements import VectorMemory, vector_elements
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

_FEW: Final = 4
"""Features that are copied one by one."""

_LEAST_SIDE: Final = 4
"""Places along another axis that are loaded at once, or it does not pay to transpose them."""

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
    fill: int,
    constants: dict[str, str],
) -> Function:
    """Write the copy of the input; `data` is what computes it in the kernel, around it is `fill`.

    Constant arrays that it needs are added to `constants`.
    """
    fn = Function(name, parameters_of(scheme), linkage="internal")
    memory = VectorMemory()
    elements = vector_elements(fn, target, _lanes(scheme, data, target), memory)
    bound, axes = bind(fn, kernel), list(scheme.axes())
    writer = _SlabWriter(elements, memory, scheme, data, fill, bound, axes)
    writer.write()
    constants.update(elements.globals)
    return fn


def _lanes(scheme: ConvolutionScheme, data: Instruction, target: Target) -> int:
    """Elements that are copied at once: as many as fill a vector, if lines have so many.

    What has to be computed is as wide as sums.
    """
    lanes, how = scheme.lanes, scheme.how
    if data.opcode is not Opcode.PARAMETER or not how.total.is_integer:
        return lanes
    most = lanes * how.unit_bytes // how.row_element_bytes
    axis = scheme.axes()[-1]
    size = scheme.problem.channels if axis.kind == FEATURE else axis.extent
    while most > lanes and size % most and (target.vector_bytes < 64 or size < most):
        most //= 2
    return most


@dataclass(frozen=True, slots=True)
class _Range:
    """The input indices along an axis that are copied: from `low` to `high`, which is excluded.

    `start` is the index that the first place of the copy stands for. Features are counted one by
    one.
    """

    axis: InputAxis
    start: Integer
    low: Integer
    high: Integer
    size: int


@dataclass(eq=False, slots=True)
class _SlabWriter:
    elements: Elements
    memory: VectorMemory
    scheme: ConvolutionScheme
    data: Instruction
    fill: int
    bound: Bound
    axes: list[InputAxis]
    ranges: list[_Range] = field(default_factory=list)
    slots: dict[tuple[int, int], str] = field(default_factory=dict)

    def write(self) -> None:
        """Write what is around if any is needed, then the loops over what is inside."""
        fn = self.elements.function
        missing: Integer = 0
        for number, axis in enumerate(self.axes):
            start: Integer = f"%start{number}"
            count: Integer = f"%count{number}"
            size = self._size(axis.kind)
            if axis.kind == FEATURE:
                unit = self.scheme.problem.unit
                start, count = fn.mul(start, unit), fn.mul(count, unit)
            low, high = fn.max(start, 0), fn.min(fn.add(start, count), size)
            self.ranges.append(_Range(axis, start, low, high, size))
            if axis.kind in (BATCH, LANE):
                continue
            inside = fn.max(fn.sub(high, low), 0)
            missing = fn.add(missing, fn.sub(count, inside))
        with self.elements.scopes.when(fn.compare("ne", missing, 0)):
            self._fill()
        if self._merges():
            self._merged()
            return
        turned = self._turned_axis()
        if turned is not None:
            self._turned(turned, self.ranges[:-1], {}, "%to")
            return
        self._along(self.ranges, (), "%to", self._value)

    def _size(self, kind: int) -> int:
        problem = self.scheme.problem
        if kind >= 0:
            return problem.spatial[kind].size
        sizes = {BATCH: problem.batch, FEATURE: problem.channels, LANE: self.scheme.all_columns}
        return sizes[kind]

    def _fill(self) -> None:
        fn, scheme = self.elements.function, self.scheme
        width, each = self.elements.target.vector_bytes, scheme.how.row_element_bytes
        value = "zeroinitializer"
        if self.fill:
            value = fn.splat(f"i{8 * each}", str(self.fill), width // each)
        with fn.loop(0, scheme.slab_bytes, width) as loop:
            there = fn.gep("%to", loop.index)
            fn.store(f"<{width // each} x i{8 * each}>", value, there, 1)

    # -- loops -----------------------------------------------------------------------------------

    def _along(self, ranges: list[_Range], at: tuple[Affine, ...], to: str, read: _Read) -> None:
        """Write a loop for each axis; the last one takes vectors."""
        this, rest = ranges[0], ranges[1:]
        elements, nbytes = self.elements, self.scheme.how.row_unit_bytes
        fn = elements.function
        if not rest:
            self._line(this, at, to, read)
            return
        with elements.scopes.loop(this.low, this.high) as loop:
            x = elements.indices.variable(loop.index, this.size)
            steps = fn.mul(fn.sub(loop.index, this.start), this.axis.step * nbytes)
            self._along(rest, (*at, x), fn.gep(to, steps), read)

    def _line(self, this: _Range, at: tuple[Affine, ...], to: str, read: _Read) -> None:
        """Write the copy of a line: whole vectors, then the rest under a mask.

        Few features of units that have several are copied one by one: a mask costs more.
        """
        if this.axis.kind == FEATURE and self.scheme.problem.unit > 1 and this.size <= _FEW:
            self._few(this, at, to, read)
            return
        fn = self.elements.function

        def store(x: Affine, first: Integer, mask: Mask | None) -> None:
            self._store(read((*at, x), mask), to, fn.sub(first, this.start), mask)

        self._vectors(this, store)

    def _vectors(self, this: _Range, store: Callable[[Affine, Integer, Mask | None], None]) -> None:
        """Have the vectors of a line stored, each by its index and the first place in it."""
        elements, lanes = self.elements, self.elements.lanes
        fn = elements.function
        count = fn.sub(this.high, this.low)
        whole = fn.sub(this.high, fn.op(f"and i64 {fn.max(count, 0)}, {lanes - 1}"))
        with elements.scopes.loop(this.low, whole, lanes) as loop:
            x = elements.indices.variable(loop.index, this.size, is_lane=True)
            store(x, loop.index, None)
        with elements.scopes.when(fn.compare("slt", whole, this.high)):
            numbers = fn.splat("i64", str(fn.sub(this.high, whole)), lanes)
            inside = fn.op(f"icmp ult <{lanes} x i64> {memory.lane_numbers(lanes)}, {numbers}")
            mask = Mask(inside, lanes, elements.scopes.level)
            x = elements.indices.variable(whole, this.size, is_lane=True)
            store(x, whole, mask)

    def _few(self, this: _Range, at: tuple[Affine, ...], to: str, read: _Read) -> None:
        """Write the copy of all features of a place one by one."""
        fn = self.elements.function
        for number in range(this.size):
            value = self._converted(read((*at, Affine((), number, number, number)), None))
            there = fn.gep(to, number * self.scheme.how.row_element_bytes)
            memory.store(fn, self.elements.target, value, there)

    def _converted(self, value: Value) -> Value:
        """Elements in the type in which they are multiplied."""
        type_ = self.scheme.how.element_of(value.type)
        if value.type is type_:
            return value
        fn, target = self.elements.function, self.elements.target
        return elementwise.emit_op(fn, target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value])

    def _store(self, value: Value, to: str, at: Integer, mask: Mask | None) -> None:
        elements, how = self.elements, self.scheme.how
        fn = elements.function
        value = self._converted(value)
        if not value.lanes:
            value = elements.vectors.splat(value)
        if mask is not None:
            value = or_zero(elements, value, mask)
        there = fn.gep(to, fn.mul(at, how.row_element_bytes))
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
        d, size = numbers.input_feature, problem.channels
        if problem.is_batch_grouped:
            d, size = numbers.input_batch, problem.batch
        found[d] = found[d] + self._group(at) * size
        return tuple(found)

    def _group(self, at: dict[int, Affine]) -> Affine:
        if self.scheme.is_lanewise:
            return self.elements.indices.split(at[LANE], self.scheme.problem.outputs)[0]
        return self.elements.indices.variable("%group", self.scheme.problem.groups)

    # -- lines that lie along another axis -------------------------------------------------------

    def _turned_axis(self) -> int | None:
        """The number of the axis along which memory has neighbours, if it is not the last one."""
        problem, numbers = self.scheme.problem, self.scheme.problem.numbers
        if problem.unit > 1:
            return None
        dimension = minor_dimension(self.data)
        if dimension not in numbers.input_spatial:
            return None
        kind = numbers.input_spatial.index(dimension)
        if kind == self.axes[-1].kind:
            return None
        size = self._size(kind)
        if side_of(self.data.shape.element_type, self.elements.lanes, size) < _LEAST_SIDE:
            return None
        return next(i for i, x in enumerate(self.axes) if x.kind == kind)

    def _turned(self, turned: int, rest: list[_Range], at: dict[int, Affine], to: str) -> None:
        """Write a loop for each axis; squares of the turned and the last one are transposed."""
        elements, nbytes = self.elements, self.scheme.how.row_unit_bytes
        fn, along = elements.function, self.ranges[turned]
        if not rest:
            self._vectors(self.ranges[-1], partial(self._turned_line, along, at, to))
            return
        this, *rest = rest
        if this is along:
            self._turned(turned, rest, at, to)
            return
        with elements.scopes.loop(this.low, this.high) as loop:
            x = elements.indices.variable(loop.index, this.size)
            steps = fn.mul(fn.sub(loop.index, this.start), this.axis.step * nbytes)
            self._turned(turned, rest, {**at, this.axis.kind: x}, fn.gep(to, steps))

    def _turned_line(
        self,
        along: _Range,
        at: dict[int, Affine],
        to: str,
        x: Affine,
        first: Integer,
        mask: Mask | None,
    ) -> None:
        """Write the copy of all places along the turned axis of some features."""
        elements, nbytes = self.elements, self.scheme.how.row_unit_bytes
        fn, last = elements.function, self.ranges[-1]
        rows = LINE // self.data.shape.element_type.nbytes
        with elements.scopes.loop(along.low, along.high, rows) as tiles:
            start = elements.indices.variable(tiles.index, along.size)
            count = fn.min(rows, fn.sub(along.high, tiles.index))
            with elements.scopes.loop(0, count) as steps:
                row = elements.indices.variable(steps.index, rows)
                ((variable, _),) = row.terms
                place = (start + row).within(0, along.size - 1)
                here = {**at, along.axis.kind: place, last.axis.kind: x}
                index = self._index(here)
                lines = fn.sub(last.high, first)
                self.memory.tile = TransposedTile(
                    variable, rows, start, along.size, self.slots, lines, mask, is_aligned=False
                )
                value = elements.at(self.data, index, self.bound.frame, mask)
                self.memory.tile = None
                number = fn.sub(fn.add(tiles.index, steps.index), along.start)
                there = fn.gep(to, fn.mul(number, along.axis.step * nbytes))
                self._store(value, there, fn.sub(first, last.start), mask)

    # -- two axes as one -------------------------------------------------------------------------

    def _merges(self) -> bool:
        """Whether the last two axes are one in memory and in the copy, and short lines are bad."""
        problem = self.scheme.problem
        if self.data not in self.bound.frame.arrays or len(self.axes) < 2:
            return False
        before, last = self.axes[-2:]
        if last.kind != FEATURE or before.kind < 0 or problem.groups > 1:
            return False
        features = problem.channels
        is_whole = last.extent * problem.unit == features and before.step == last.extent
        return is_whole and features % self.elements.lanes != 0

    def _merged(self) -> None:
        elements, problem = self.elements, self.scheme.problem
        fn, features = elements.function, problem.channels
        before = self.ranges[-2]
        start, low, high = (fn.mul(x, features) for x in (before.start, before.low, before.high))
        axis = InputAxis(before.axis.kind, before.axis.extent * features, 1)
        line = _Range(axis, start, low, high, before.size * features)
        sizes = [problem.input.dimensions[d] for d in memory_order(problem)[:-2]]
        shape = array_shape(problem.input.element_type, (*sizes, line.size))
        array = Array(self.bound.frame.arrays[self.data].pointer, shape)
        self._along(
            [*self.ranges[:-2], line],
            (),
            "%to",
            lambda at, mask: elements.read(array, at, mask).values[0],
        )
