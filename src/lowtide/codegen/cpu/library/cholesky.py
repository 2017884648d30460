"""Cholesky decomposition of a batch of matrices, row by row of the upper factor.

Source: E. Anderson et al. (1999), "LAPACK Users' Guide", for what is read and what fails.
"""

from __future__ import annotations

from math import prod

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, thread_scratch
from lowtide.codegen.library.field import (
    Matrix,
    PlanarGrid,
    carried,
    conjugate,
    minus_product,
    restored,
    scaled,
    spread,
)
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction
from lowtide.ir.attributes import Cholesky
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_AT_ONCE = 4
"""Vectors of a row that are computed together."""


@dataclass(frozen=True, slots=True)
class _Form:
    batch: tuple[int, ...]
    size: int
    lower: bool
    grid: PlanarGrid
    lanes: int


def plan_cholesky(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a cholesky whose operand is an array in memory."""
    shape = instruction.shape
    *batch, size = shape.dimensions[:-1]
    if not shape.element_count:
        return KernelPlan(lambda: KernelCode((), ()))
    width = PlanarGrid(shape.element_type, 1, 1).width
    lanes = target.vector_bytes // width
    step = lanes * (_AT_ONCE if size > lanes else 1)
    grid = PlanarGrid(shape.element_type, size, -(-size // step) * step)
    lower = instruction.attributes_as(Cholesky).lower
    form = _Form(tuple(batch), size, lower, grid, lanes)
    return KernelPlan(lambda: _code(instruction, form, target), 0, grid.nbytes)


def _code(instruction: Instruction, form: _Form, target: Target) -> KernelCode:
    work = BatchFunction(instruction, scalar_elements(Function("cholesky", ARGUMENTS), target))
    matrix = Matrix(
        work.function, target, form.grid, thread_scratch(work.function, form.grid.nbytes)
    )
    with work.elements.scopes.loop("%begin", "%end") as loop:
        batch = decomposed(work.elements, loop.index, form.batch)
        _read(work, form, matrix, batch)
        with work.elements.scopes.loop(0, form.size) as row:
            _row(work, form, matrix, row.index)
        _write(work, form, matrix, batch)
    flops = form.size**3 / 3 * form.grid.parts**2
    each = seconds(0, flops / form.lanes + 10 * form.size**2)
    return KernelCode((work.function,), (Phase("cholesky", prod(form.batch), each),))


def _read(work: BatchFunction, form: _Form, matrix: Matrix, batch: list[Affine]) -> None:
    """Take the triangle that is given as the upper one of the scratch; the rest is zero."""
    grid = form.grid
    with work.elements.scopes.loop(0, form.size) as row:
        with work.elements.scopes.loop(0, grid.stride, form.lanes) as column:
            matrix.store(row.index, column.index, spread(matrix.zero(), form.lanes))
        with work.elements.scopes.loop(row.index, form.size) as column:
            at = (column.index, row.index) if form.lower else (row.index, column.index)
            element = work.read(batch, work.operands[0], *at)
            if form.lower:
                element = conjugate(element)
            matrix.store(row.index, column.index, element)


def _row(work: BatchFunction, form: _Form, matrix: Matrix, row: Integer) -> None:
    """Compute a row of the factor from those above it."""
    fn, lanes = work.function, form.lanes
    count = min(_AT_ONCE, form.grid.stride // lanes)
    step = lanes * count
    start = fn.mul(fn.div(row, step), step)
    with work.elements.scopes.loop(start, form.grid.stride, step) as block:
        places = [fn.add(block.index, lanes * i) for i in range(count)]
        totals = [matrix.load(row, x, lanes) for x in places]
        with work.elements.scopes.loop(0, row, 1, carried(totals)) as above:
            factor = spread(conjugate(matrix.load(above.index, row)), lanes)
            found = [
                minus_product(total, factor, matrix.load(above.index, x, lanes))
                for total, x in zip(restored(totals, above.values), places, strict=True)
            ]
            above.next = [name for _, name in carried(found)]
        for total, x in zip(restored(totals, above.results), places, strict=True):
            matrix.store(row, x, total)
    pivot = matrix.load(row, row)[0]
    root = pivot.sqrt().where(~(pivot > 0.0), float("nan"))
    inverse = spread((root,), lanes)[0]
    with work.elements.scopes.loop(start, form.grid.stride, lanes) as block:
        value = matrix.load(row, block.index, lanes)
        matrix.store(row, block.index, tuple([x / inverse for x in value]))
    matrix.store(row, row, scaled(matrix.constant(1.0), root))


def _write(work: BatchFunction, form: _Form, matrix: Matrix, batch: list[Affine]) -> None:
    """Store the factor in its triangle, zeros in the other; NaN everywhere if there is none."""
    last = matrix.load(form.size - 1, form.size - 1)[0]
    failed = _is_lost(work, form, matrix, last)
    with (
        work.elements.scopes.loop(0, form.size) as row,
        work.elements.scopes.loop(0, form.size) as column,
    ):
        at = (row.index, column.index)
        from_ = (column.index, row.index) if form.lower else at
        value = matrix.load(*from_)
        if form.lower:
            value = conjugate(value)
        inside = work.function.compare("sle", *from_)
        kept = Number(last.fn, last.target, "i1", 0, inside)
        value = tuple([kept.select(x, 0.0) for x in value])
        value = tuple([failed.select(x.constant(float("nan")), x) for x in value])
        work.write(batch, work.results[0], value, *at)


def _is_lost(work: BatchFunction, form: _Form, matrix: Matrix, like: Number) -> Number:
    """Whether any pivot is NaN or infinite."""
    with work.elements.scopes.loop(0, form.size, 1, [("i1", "false")]) as loop:
        pivot = matrix.load(loop.index, loop.index)[0]
        wrong = ~(pivot.abs() < float("inf"))
        before = wrong.named("i1", loop.values[0])
        loop.next = [(before | wrong).name]
    return like.named("i1", loop.results[0])
