"""LU decomposition of a batch of small matrices with pivots, row by row; large ones are LAPACK's.

Source: E. Anderson et al. (1999), "LAPACK Users' Guide", for how pivots are chosen and what fails.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, thread_scratch
from lowtide.codegen.library.field import Matrix, Parts, PlanarGrid, divided, minus_product, spread
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import ElementType, Instruction
from lowtide.ir.attributes import CustomCall
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.custom_call import lapack_target
from lowtide.records import dataclass

_MOST: Final = 32
"""Matrices of so many rows or columns are LAPACK's, or loops'."""


@dataclass(frozen=True, slots=True)
class _Form:
    batch: tuple[int, ...]
    rows: int
    columns: int
    grid: PlanarGrid
    lanes: int
    on_stack: bool

    @property
    def count(self) -> int:
        """The pivots of a matrix."""
        return min(self.rows, self.columns)


def plan_lu(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a call that decomposes small matrices, None for another call."""
    operands = [x.shape for x in instruction.operands]
    if len(operands) != 1 or operands[0].rank < 2:
        return None
    shape = operands[0]
    name = instruction.attributes_as(CustomCall).target
    *batch, rows, columns = shape.dimensions
    count = min(rows, columns)
    if max(rows, columns) >= _MOST or name != lapack_target("getrf", shape.element_type):
        return None
    kinds = [(shape.element_type, shape.dimensions)]
    kinds += [(ElementType.S32, (*batch, count)), (ElementType.S32, tuple(batch))]
    if [(x.element_type, x.dimensions) for x in leaves(instruction.shape)] != kinds:
        return None
    if not shape.element_count:
        return KernelPlan(lambda: KernelCode((), ()))
    lanes = target.vector_bytes // PlanarGrid(shape.element_type, 1, 1).width
    grid = PlanarGrid(shape.element_type, rows, -(-columns // lanes) * lanes)
    form = _Form(tuple(batch), rows, columns, grid, lanes, grid.nbytes <= target.stack_bytes)
    scratch = 0 if form.on_stack else grid.nbytes
    return KernelPlan(lambda: _code(instruction, form, target), 0, scratch)


def _code(instruction: Instruction, form: _Form, target: Target) -> KernelCode:
    work = BatchFunction(instruction, scalar_elements(Function("lu", ARGUMENTS), target))
    fn = work.function
    nbytes = form.grid.nbytes
    base = fn.stack("i8", nbytes) if form.on_stack else thread_scratch(fn, nbytes)
    matrix = Matrix(fn, target, form.grid, base)
    _clear(work, form, matrix)
    with work.elements.scopes.loop("%begin", "%end") as loop:
        batch = decomposed(work.elements, loop.index, form.batch)
        with (
            work.elements.scopes.loop(0, form.rows) as row,
            work.elements.scopes.loop(0, form.columns) as column,
        ):
            element = work.read(batch, work.operands[0], row.index, column.index)
            matrix.store(row.index, column.index, element)
        with work.elements.scopes.loop(0, form.count, 1, [("i32", "0")]) as step:
            failed = _eliminate(work, form, matrix, batch, step.index, step.values[0])
            step.next = [failed]
        _write_number(work, batch, 2, step.results[0])
        with (
            work.elements.scopes.loop(0, form.rows) as row,
            work.elements.scopes.loop(0, form.columns) as column,
        ):
            found = matrix.load(row.index, column.index)
            work.write(batch, work.results[0], found, row.index, column.index)
    rows, vectors = form.rows, form.grid.stride / form.lanes
    each = seconds(0, form.count * rows * (10 + 4 * vectors * form.grid.parts**2))
    return KernelCode((fn,), (Phase("lu", prod(form.batch), each),))


def _clear(work: BatchFunction, form: _Form, matrix: Matrix) -> None:
    """Fill the lanes beyond the last column, so that they hold numbers."""
    if form.grid.stride == form.columns:
        return
    with (
        work.elements.scopes.loop(0, form.rows) as row,
        work.elements.scopes.loop(0, form.grid.stride, form.lanes) as column,
    ):
        matrix.store(row.index, column.index, spread(matrix.zero(), form.lanes))


def _eliminate(
    work: BatchFunction, form: _Form, matrix: Matrix, batch: list[Affine], k: Integer, failed: str
) -> str:
    """Bring the pivot of a column up, and subtract its row from those below it.

    Return the number of the first column without a pivot, `failed` if there was one before.
    """
    fn, lanes = work.function, form.lanes
    number = fn.op(f"trunc i64 {fn.add(k, 1)} to i32")
    pivot = _pivot(work, form, matrix, k)
    _write_number(work, batch, 1, fn.op(f"trunc i64 {fn.add(pivot, 1)} to i32"), k)
    with work.elements.scopes.loop(0, form.grid.stride, lanes) as column:
        upper = matrix.load(k, column.index, lanes)
        matrix.store(k, column.index, matrix.load(pivot, column.index, lanes))
        matrix.store(pivot, column.index, upper)
    divisor = matrix.load(k, k)
    is_zero = divisor[0].equals(0.0)
    for part in divisor[1:]:
        is_zero = is_zero & part.equals(0.0)
    first = fn.mul(fn.div(k, lanes), lanes)
    is_factor, is_rest = _masks(work, form, fn.sub(k, first))
    with work.elements.scopes.loop(fn.add(k, 1), form.rows) as row:
        under = matrix.load(row.index, k)
        quotient = divided(under, divisor)
        factor = tuple([is_zero.select(a, b) for a, b in zip(under, quotient, strict=True)])
        wide = spread(factor, lanes)
        before = matrix.load(row.index, first, lanes)
        found = minus_product(before, wide, matrix.load(k, first, lanes))
        kept = [
            is_rest.select(x, is_factor.select(y, z))
            for x, y, z in zip(found, wide, before, strict=True)
        ]
        matrix.store(row.index, first, tuple(kept))
        with work.elements.scopes.loop(fn.add(first, lanes), form.grid.stride, lanes) as column:
            before = matrix.load(row.index, column.index, lanes)
            upper = matrix.load(k, column.index, lanes)
            matrix.store(row.index, column.index, minus_product(before, wide, upper))
    is_first = fn.op(f"and i1 {is_zero.name}, {fn.op(f'icmp eq i32 {failed}, 0')}")
    return fn.op(f"select i1 {is_first}, i32 {number}, i32 {failed}")


def _pivot(work: BatchFunction, form: _Form, matrix: Matrix, k: Integer) -> str:
    """Return the first row from k on whose element in column k is largest."""
    fn = work.function
    size = _size(matrix.load(k, k))
    carry = [(size.type, size.name), ("i64", str(k))]
    with work.elements.scopes.loop(fn.add(k, 1), form.rows, 1, carry) as row:
        largest, place = row.values
        other = _size(matrix.load(row.index, k))
        is_larger = other > size.named(size.element, largest)
        best = is_larger.select(other, size.named(size.element, largest))
        chosen = fn.select(is_larger.name, "i64", row.index, place)
        row.next = [best.name, str(chosen)]
    return row.results[1]


def _size(value: Parts) -> Number:
    """Return |re| + |im|."""
    found = value[0].abs()
    for part in value[1:]:
        found = found + part.abs()
    return found


def _masks(work: BatchFunction, form: _Form, lane: Integer) -> tuple[Number, Number]:
    """Return which lane of a vector is a given one, and which are behind it."""
    fn, lanes = work.function, form.lanes
    constants = ", ".join([f"i32 {x}" for x in range(lanes)])
    numbers = Number(fn, work.target, "i32", lanes, f"<{constants}>")
    single = fn.op(f"trunc i64 {lane} to i32")
    given = numbers.named("i32", fn.splat("i32", single, lanes))
    return numbers.equals(given), numbers > given


def _write_number(
    work: BatchFunction, batch: list[Affine], result: int, name: str, *at: Integer
) -> None:
    value = (Number(work.function, work.target, "i32", 0, name),)
    work.write(batch, work.results[result], value, *at)
