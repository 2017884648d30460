"""Cholesky decomposition: a block for each matrix, whose threads compute a row of the factor.

The rows of the upper factor follow one another, as in `cpu/library/cholesky.py`.
"""

from __future__ import annotations

from math import prod

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.threads import barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.library.field import (
    Matrix,
    Parts,
    PlanarGrid,
    carried,
    conjugate,
    minus_product,
    restored,
)
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Cholesky
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_MOST_THREADS = 512
"""Threads of a block: one for each column, at most so many."""


def plan_gpu_cholesky(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a cholesky runs."""
    if instruction.opcode is not Opcode.CHOLESKY:
        return None
    shape = instruction.shape
    if not shape.element_count:
        return GpuPlan("cholesky", lambda: GpuCode((), ()))
    size = shape.dimensions[-1]
    grid = PlanarGrid(shape.element_type, size, size)
    nbytes = grid.nbytes * prod(shape.dimensions[:-2])
    return GpuPlan("cholesky", lambda: _code(instruction, target, grid), nbytes)


def _code(instruction: Instruction, target: Target, grid: PlanarGrid) -> GpuCode:
    kernel = _Kernel(instruction, target, grid)
    kernel.write()
    batch = prod(instruction.shape.dimensions[:-2])
    launch = GridLaunch("cholesky", batch, kernel.threads)
    return GpuCode(
        (kernel.work.function,), (launch,), "\n".join(kernel.work.elements.globals.values())
    )


class _Kernel:
    """Writes the kernel: each thread has some columns of a matrix in scratch."""

    def __init__(self, instruction: Instruction, target: Target, grid: PlanarGrid) -> None:
        self.size = grid.rows
        self.lower = instruction.attributes_as(Cholesky).lower
        self.threads = min(-(-self.size // 32) * 32, _MOST_THREADS)
        fn = self.fn = kernel_function("cholesky", instruction, self.threads)
        elements = thread_elements(fn, target, 0)
        self.work = work = BatchFunction(instruction, elements, buffer_names(instruction))
        self.thread = thread_in_block(fn)
        block = block_number(fn)
        base = fn.gep("%scratch", fn.mul(block, grid.nbytes))
        self.matrix = Matrix(fn, target, grid, base)
        sizes = instruction.shape.dimensions[:-2]
        self.batch: list[Affine] = decomposed(work.elements, block, sizes)

    def write(self) -> None:
        """Write the body: what is given is copied, rows are computed, the factor is stored."""
        scopes = self.work.elements.scopes
        self._read()
        with scopes.loop(0, self.size) as row:
            self._row(row.index)
        self._write()

    def _read(self) -> None:
        """Take the triangle that is given as the upper one of the scratch."""
        work, scopes, fn = self.work, self.work.elements.scopes, self.fn
        with (
            scopes.loop(0, self.size) as row,
            scopes.loop(self.thread, self.size, self.threads) as column,
            scopes.when(fn.compare("sle", row.index, column.index)),
        ):
            places = row.index, column.index
            element = work.read(self.batch, work.operands[0], *self._given(*places))
            self.matrix.store(*places, conjugate(element) if self.lower else element)

    def _given(self, row: Integer, column: Integer) -> tuple[Integer, Integer]:
        return (column, row) if self.lower else (row, column)

    def _row(self, row: Integer) -> None:
        """Compute a row of the factor from those above it; each thread has seen them."""
        fn, scopes, matrix = self.fn, self.work.elements.scopes, self.matrix
        with (
            scopes.loop(self.thread, self.size, self.threads) as column,
            scopes.when(fn.compare("sle", row, column.index)),
        ):
            total = matrix.load(row, column.index)
            with scopes.loop(0, row, 1, carried([total])) as above:
                factor = conjugate(matrix.load(above.index, row))
                other = matrix.load(above.index, column.index)
                (now,) = restored([total], above.values)
                found = minus_product(now, factor, other)
                above.next = [name for _, name in carried([found])]
            (total,) = restored([total], above.results)
            matrix.store(row, column.index, total)
        barrier(fn)
        pivot = matrix.load(row, row)[0]
        root = pivot.sqrt().where(~(pivot > 0.0), float("nan"))
        barrier(fn)
        with (
            scopes.loop(self.thread, self.size, self.threads) as column,
            scopes.when(fn.compare("sle", row, column.index)),
        ):
            value = tuple([x / root for x in matrix.load(row, column.index)])
            is_pivot = root.named("i1", fn.compare("eq", row, column.index))
            pivots = [root, *[root.constant(0.0) for _ in value[1:]]]
            value = tuple([is_pivot.select(x, y) for x, y in zip(pivots, value, strict=True)])
            matrix.store(row, column.index, value)
        barrier(fn)

    def _write(self) -> None:
        """Store the factor in its triangle, zeros in the other; NaN everywhere if there is none."""
        fn, work, scopes = self.fn, self.work, self.work.elements.scopes
        failed = self._is_lost()
        with (
            scopes.loop(0, self.size) as row,
            scopes.loop(self.thread, self.size, self.threads) as column,
        ):
            low, high = fn.min(row.index, column.index), fn.max(row.index, column.index)
            inside = fn.compare("sle", *self._given(row.index, column.index))
            value: Parts = self.matrix.load(low, high)
            if self.lower:
                value = conjugate(value)
            kept = value[0].named("i1", inside)
            value = tuple([kept.select(x, 0.0) for x in value])
            value = tuple([failed.select(x.constant(float("nan")), x) for x in value])
            work.write(self.batch, work.results[0], value, row.index, column.index)

    def _is_lost(self) -> Number:
        """Whether any pivot is NaN or infinite."""
        like = self.matrix.load(0, 0)[0]
        with self.work.elements.scopes.loop(0, self.size, 1, [("i1", "false")]) as loop:
            pivot = self.matrix.load(loop.index, loop.index)[0]
            wrong = ~(pivot.abs() < float("inf"))
            before = wrong.named("i1", loop.values[0])
            loop.next = [(before | wrong).name]
        return like.named("i1", loop.results[0])
