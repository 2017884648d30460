"""Ends of the sums of a product: conversion, the operations behind it, the results."""

from __future__ import annotations

from typing import Final

from lowtide.codegen import elementwise
from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.behind import SAME, forms_behind, index_of
from lowtide.codegen.cpu.contraction.geometry import Geometry, runs
from lowtide.codegen.cpu.contraction.operands import LanePosition, digits
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

PARAMETERS = parameters(
    buffers="ptr", sums="ptr", batch="i64", row="i64", count="i64", column="i64"
)
"""The parameters of a finishing function: `%sums` has those of `%count` rows from `%row` on."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is stored of a product: each of `results` is `dot`, or computed of it elementwise.

    `kernel` is the instruction that runs: the dot, or the fusion that it is in.
    """

    dot: Instruction
    kernel: Instruction
    results: tuple[Instruction, ...]

    def is_plain(self, how: Arithmetic) -> bool:
        """Whether the sums are the result as they are; `lies_as` says whether they lie so, too."""
        type_ = self.dot.shape.element_type
        same = type_ in (how.total, _UNSIGNED.get(how.total))
        return len(self.results) == 1 and self.results[0] is self.dot and same

    def lies_as(self, shape: Geometry) -> bool:
        """Whether the product lies in memory as the matrices of a geometry, one after the other."""
        batch, rows, columns = len(shape.rows.batch), shape.rows.free, shape.columns.free
        dimensions = list(range(self.dot.shape.rank))
        if shape.is_swapped:
            first = batch + len(columns)
            dimensions = [*dimensions[:batch], *dimensions[first:], *dimensions[batch:first]]
        assert len(dimensions) == batch + len(rows) + len(columns)
        sizes = tuple([self.dot.shape.dimensions[d] for d in dimensions])
        steps = strides(self.dot.shape)
        found = runs(sizes, tuple([steps[d] for d in dimensions]))
        return not found or (len(found) == 1 and found[0].step == 1)

    def is_possible(self) -> bool:
        """Whether all that stands between the product and the results keeps elements apart."""
        forms = forms_behind(self.dot)
        count = self.dot.shape.element_count
        if any(x not in forms and x.shape.element_count != count for x in self.results):
            return False
        return all(forms.get(x, SAME) is not None for x in self.results)


_UNSIGNED: Final = {ElementType.S32: ElementType.U32, ElementType.S64: ElementType.U64}
"""What sums of integers are as well, modulo their width."""

_LEAST_LANES: Final = 4
"""Lanes of 32 bits in the narrowest registers."""


@dataclass(frozen=True, slots=True)
class Sums:
    """How sums lie: `step` sums between rows; `parts` of them, `part_step` apart, to be added."""

    step: int
    parts: int = 1
    part_step: int = 0


def finish_function(
    name: str,
    target: Target,
    how: Arithmetic,
    lanes: int,
    shape: Geometry,
    finish: Epilogue,
    columns: int,
    sums: Sums,
    constants: dict[str, str],
    *,
    is_aligned: bool = True,
) -> Function:
    """Write what finishes `columns` columns from `%column` on.

    With `is_aligned` that is a multiple of a vector's lanes. Constant arrays that it needs are
    added to `constants`.
    """
    fn = Function(name, PARAMETERS, linkage="internal")
    elements = vector_elements(fn, target, finishing_lanes(how, columns, lanes, finish, target))
    writer = _writer(elements, how, shape, finish, sums, is_aligned)
    if how.total.is_integer:
        _columns_first(writer, columns)
    else:
        _rows_first(writer, columns)
    constants.update(elements.globals)
    return fn


def finishing_lanes(
    how: Arithmetic, columns: int, lanes: int, finish: Epilogue, target: Target
) -> int:
    """Return the lanes of vectors for what is behind sums in some columns.

    What is behind sums of integers is long and ends in bytes, whose masked stores are slow: vectors
    of which more than half would be empty are halved. Forty columns in vectors of eight were slower
    than in two of sixteen and half a one. Words of several registers are packed to bytes of one.
    """
    if not how.total.is_integer:
        return lanes
    while lanes > _LEAST_LANES and 2 * columns <= lanes:
        lanes //= 2
    is_whole = target.vector_bytes == _PACKED and lanes * how.unit_bytes == _PACKED
    if not is_whole or any(x.shape.element_type.bits != _BYTE for x in finish.results):
        return lanes
    return next(n * lanes for n in (4, 2, 1) if columns % (n * lanes) == 0 or n == 1)


_PACKED: Final = 32
"""Bytes of vectors of which several are packed together; longer ones have bytes stored alone."""

_BYTE: Final = 8
"""Bits of the results of quantization."""


def _rows_first(writer: _Writer, columns: int) -> None:
    """Write row after row, in the order in which sums and results lie."""
    elements, lanes = writer.elements, writer.elements.lanes
    fn, whole = elements.function, columns // lanes * lanes
    with elements.scopes.loop("%row", fn.add("%row", "%count")) as rows:
        with elements.scopes.loop(0, whole, lanes) as across:
            writer.write_at(rows.index, writer.columns(across.index, lanes, columns))
        if whole < columns:
            writer.write_at(rows.index, writer.columns(whole, columns - whole, columns))


def _columns_first(writer: _Writer, columns: int) -> None:
    """Write all rows of some columns, then of the next: what these have is read once.

    Sums of quantized numbers have several factors and shifts for each column.
    """
    elements, lanes = writer.elements, writer.elements.lanes
    end, whole = elements.function.add("%row", "%count"), columns // lanes * lanes
    with elements.scopes.loop(0, whole, lanes) as across:
        some = writer.columns(across.index, lanes, columns)
        with elements.scopes.loop("%row", end) as rows:
            writer.write_at(rows.index, some)
    if whole < columns:
        some = writer.columns(whole, columns - whole, columns)
        with elements.scopes.loop("%row", end) as rows:
            writer.write_at(rows.index, some)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Some columns, at most a vector: the first of the matrix, and of the sums of a row.

    `lane` counts them, where there are several.
    """

    column: Affine
    lane: Affine | None
    place: Integer
    count: int


def _writer(
    elements: Elements,
    how: Arithmetic,
    shape: Geometry,
    finish: Epilogue,
    sums: Sums,
    is_aligned: bool,
) -> _Writer:
    bound = bind(elements.function, finish.kernel)
    writer = _Writer(elements, how, shape, finish, sums, bound, is_aligned)
    elements.provide(finish.dot, writer.product)
    return writer


@dataclass(eq=False, slots=True)
class _Writer:
    elements: Elements
    how: Arithmetic
    shape: Geometry
    finish: Epilogue
    sums: Sums
    bound: Bound
    is_aligned: bool
    current: Value | None = None

    def product(self, index: Index, mask: Mask | None) -> Element:
        """The product at the place that is being written."""
        assert self.current is not None
        return Element((self.current,), self.elements.scopes.level)

    def columns(self, first: Integer, count: int, most: int) -> _Columns:
        """Return `count` columns from `first` on, below `most`, counted from `%column`."""
        variable = self.elements.indices.variable
        start = variable("%column", self.shape.n)
        more = variable(first, most) if isinstance(first, str) else first
        lane = variable(0, self.elements.lanes, is_lane=True) if count > 1 else None
        return _Columns(start + more, lane, first, count)

    def write_at(self, row: Integer, columns: _Columns) -> None:
        """Store some columns of all results of a row.

        A single one is no vector: LLVM 22 writes too much where it narrows and stores one lane.
        """
        elements, shape = self.elements, self.shape
        lanes = elements.lanes if columns.count > 1 else 0
        mask = tail_mask(lanes, columns.count) if lanes else None
        fn, sums, nbytes = elements.function, self.sums, self.how.unit_bytes
        at = fn.add(fn.mul(fn.sub(row, "%row"), sums.step), columns.place)
        there, step = fn.gep("%sums", fn.mul(at, nbytes)), sums.part_step * nbytes
        self.current = total_of(
            elements, self.finish, self.how, there, lanes, mask, sums.parts, step
        )
        variable = elements.indices.variable
        batch, down = variable("%batch", shape.batch), variable(row, shape.m)
        index = self._index(batch, down, columns.column, columns.lane)
        store_results(elements, self.finish, self.bound, index, mask)

    def _index(self, batch: Affine, row: Affine, column: Affine, lane: Affine | None) -> Index:
        """The index of the product: batch, then the free dimensions of both operands."""
        elements, shape, dot = self.elements, self.shape, self.finish.dot
        across, down = LanePosition(column, lane, self.is_aligned), LanePosition(row)
        numbers = [len(shape.rows.batch), len(shape.rows.free), len(shape.columns.free)]
        if shape.is_swapped:
            numbers[1:] = numbers[:0:-1]
        sizes = dot.shape.dimensions
        cuts = [0, numbers[0], numbers[0] + numbers[1], len(sizes)]
        order = [LanePosition(batch), down, across]
        if shape.is_swapped:
            order[1:] = order[:0:-1]
        found: list[Affine] = []
        for position, first, last in zip(order, cuts, cuts[1:], strict=False):
            found += digits(elements, position, sizes[first:last])
        return tuple(found)


# -- sums and results ------------------------------------------------------------------------------


def total_of(
    elements: Elements,
    finish: Epilogue,
    how: Arithmetic,
    there: str,
    lanes: int,
    mask: Mask | None,
    parts: int,
    step: int,
) -> Value:
    """Load sums, or add up in order `parts` of them, `step` bytes apart; return the product."""
    fn, target = elements.function, elements.target
    name = None if mask is None else mask.name
    total = memory.load(fn, target, how.total, there, lanes, name)
    if parts > 1:
        type_ = total.llvm_type
        add = "add" if how.total.is_integer else "fadd"
        with fn.loop(1, parts, 1, [(type_, x) for x in total.names]) as loop:
            place = fn.gep(there, fn.mul(loop.index, step))
            more = memory.load(fn, target, how.total, place, lanes, name)
            pairs = zip(loop.values, more.names, strict=True)
            loop.next = [fn.op(f"{add} {type_} {a}, {b}") for a, b in pairs]
        total = Value(tuple(loop.results), how.total, lanes)
    type_of_dot = finish.dot.shape.element_type
    if total.type is type_of_dot:
        return total
    return elementwise.emit_op(fn, target, Opcode.CONVERT, NO_ATTRIBUTES, type_of_dot, [total])


def store_results(
    elements: Elements, finish: Epilogue, bound: Bound, index: Index, mask: Mask | None
) -> None:
    """Compute and store of all results what is made of the product at an index."""
    places = [index_of(elements, finish.dot, index, x) for x in finish.results]
    values = [
        elements.at(x, place, bound.frame, mask)
        for x, place in zip(finish.results, places, strict=True)
    ]
    for array, place, value in zip(bound.results, places, values, strict=True):
        elements.store(array, place, value, mask)
    elements.scopes.forget()
