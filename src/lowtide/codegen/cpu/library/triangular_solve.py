"""Systems of linear equations with triangular matrices, by substitution, many columns at once."""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, thread_scratch
from lowtide.codegen.library.field import (
    Matrix,
    Parts,
    PlanarGrid,
    carried,
    conjugate,
    divided,
    minus_product,
    restored,
    spread,
)
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction
from lowtide.ir.attributes import TriangularSolve
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_VECTORS: Final = 4
"""Vectors of a row of unknowns that are computed together."""


@dataclass(frozen=True, slots=True)
class _Form:
    """`a x = b` with n unknowns in each of m columns; a piece of work has `grid.stride` of them.

    With `is_upper` the last unknown is found first. Element (i, k) of the matrix lies at (k, i)
    where it is `turned`. Unknowns lie along rows of b where the matrix stands on the right side.
    """

    options: TriangularSolve
    batch: tuple[int, ...]
    n: int
    m: int
    grid: PlanarGrid
    lanes: int

    @property
    def turned(self) -> bool:
        return (self.options.transpose_a != "NO_TRANSPOSE") == self.options.left_side

    @property
    def is_upper(self) -> bool:
        return self.options.lower == self.turned

    @property
    def blocks(self) -> int:
        return -(-self.m // self.grid.stride)


def plan_triangular_solve(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a triangular-solve whose operands are arrays in memory."""
    options = instruction.attributes_as(TriangularSolve)
    shape = instruction.shape
    if not shape.element_count:
        return KernelPlan(lambda: KernelCode((), ()))
    *batch, rows, columns = shape.dimensions
    n, m = (rows, columns) if options.left_side else (columns, rows)
    type_ = shape.element_type
    lanes = target.vector_bytes // PlanarGrid(type_, 1, 1).width
    vectors = min(MOST_VECTORS, -(-m // lanes))
    grid = PlanarGrid(type_, n, vectors * lanes)
    form = _Form(options, tuple(batch), n, m, grid, lanes)
    return KernelPlan(lambda: _code(instruction, form, target), 0, grid.nbytes)


def _code(instruction: Instruction, form: _Form, target: Target) -> KernelCode:
    work = BatchFunction(instruction, scalar_elements(Function("solve", ARGUMENTS), target))
    fn = work.function
    matrix = Matrix(fn, target, form.grid, thread_scratch(work.function, form.grid.nbytes))
    with work.elements.scopes.loop("%begin", "%end") as loop:
        block = fn.rem(loop.index, form.blocks)
        batch = decomposed(work.elements, fn.div(loop.index, form.blocks), form.batch)
        first = fn.mul(block, form.grid.stride)
        last = fn.min(fn.add(first, form.grid.stride), form.m)
        _read(work, form, matrix, batch, first, last)
        with work.elements.scopes.loop(0, form.n) as step:
            row = fn.sub(form.n - 1, step.index) if form.is_upper else step.index
            _unknown(work, form, matrix, batch, row)
        _write(work, form, matrix, batch, first, last)
    products = form.n * form.n / 2 * form.grid.stride / form.lanes * form.grid.parts**2
    units = prod(form.batch) * form.blocks
    each = seconds(0, products + 4 * form.n * form.grid.stride)
    return KernelCode((fn,), (Phase("solve", units, each),))


def _read(
    work: BatchFunction,
    form: _Form,
    matrix: Matrix,
    batch: list[Affine],
    first: Integer,
    last: Integer,
) -> None:
    """Copy columns of b; lanes beyond the last one become zero."""
    with work.elements.scopes.loop(0, form.n) as row:
        with work.elements.scopes.loop(0, form.grid.stride, form.lanes) as lane:
            matrix.store(row.index, lane.index, spread(matrix.zero(), form.lanes))
        with work.elements.scopes.loop(first, last) as column:
            at = _place(form, row.index, column.index)
            element = work.read(batch, work.operands[1], *at)
            matrix.store(row.index, work.function.sub(column.index, first), element)


def _place(form: _Form, unknown: Integer, column: Integer) -> tuple[Integer, Integer]:
    return (unknown, column) if form.options.left_side else (column, unknown)


def _coefficient(
    work: BatchFunction, form: _Form, batch: list[Affine], row: Integer, column: Integer
) -> Parts:
    at = (column, row) if form.turned else (row, column)
    found = work.read(batch, work.operands[0], *at)
    return conjugate(found) if form.options.transpose_a == "ADJOINT" else found


def _unknown(
    work: BatchFunction, form: _Form, matrix: Matrix, batch: list[Affine], row: Integer
) -> None:
    """Compute one unknown of all columns from those that are known."""
    fn, lanes = work.function, form.lanes
    places = range(0, form.grid.stride, lanes)
    totals = [matrix.load(row, x, lanes) for x in places]
    start, stop = (fn.add(row, 1), form.n) if form.is_upper else (0, row)
    with work.elements.scopes.loop(start, stop, 1, carried(totals)) as known:
        factor = spread(_coefficient(work, form, batch, row, known.index), lanes)
        found = [
            minus_product(total, factor, matrix.load(known.index, x, lanes))
            for total, x in zip(restored(totals, known.values), places, strict=True)
        ]
        known.next = [name for _, name in carried(found)]
    totals = restored(totals, known.results)
    if not form.options.unit_diagonal:
        pivot = spread(_coefficient(work, form, batch, row, row), lanes)
        totals = [divided(x, pivot) for x in totals]
    for x, total in zip(places, totals, strict=True):
        matrix.store(row, x, total)


def _write(
    work: BatchFunction,
    form: _Form,
    matrix: Matrix,
    batch: list[Affine],
    first: Integer,
    last: Integer,
) -> None:
    with (
        work.elements.scopes.loop(0, form.n) as row,
        work.elements.scopes.loop(first, last) as column,
    ):
        value = matrix.load(row.index, work.function.sub(column.index, first))
        work.write(batch, work.results[0], value, *_place(form, row.index, column.index))
