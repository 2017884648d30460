"""Systems with triangular matrices: a block for some columns of unknowns, one unknown at a time.

The threads of a block have parts of the sum of each column; they meet in shared memory.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.threads import SharedArray, barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.library.field import (
    Parts,
    PlanarGrid,
    added,
    carried,
    conjugate,
    divided,
    plus_product,
    restored,
    subtracted,
)
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import TriangularSolve
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_THREADS: Final = 256
"""Threads of a block."""

_BESIDE: Final = 32
"""Columns of a block, at most."""


def plan_gpu_triangular_solve(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a triangular-solve runs."""
    if instruction.opcode is not Opcode.TRIANGULAR_SOLVE:
        return None
    if not instruction.shape.element_count:
        return GpuPlan("triangular solve", lambda: GpuCode((), ()))
    return GpuPlan("triangular solve", lambda: _code(instruction, target))


def _code(instruction: Instruction, target: Target) -> GpuCode:
    kernel = _Kernel(instruction, target)
    kernel.write()
    batch = prod(instruction.shape.dimensions[:-2])
    launch = GridLaunch("solve", batch * kernel.blocks, _THREADS)
    texts = [*kernel.work.elements.globals.values(), *[x.definition for x in kernel.shared]]
    return GpuCode((kernel.work.function,), (launch,), "\n".join(texts))


class _Kernel:
    """Writes the kernel; `beside` columns of n unknowns, of whose sums there are `parts` parts.

    With `is_upper` the last unknown is found first. Element (i, k) of the matrix lies at (k, i)
    where it is `turned`. Unknowns lie along rows of b where the matrix stands on the right side.
    """

    def __init__(self, instruction: Instruction, target: Target) -> None:
        options = self.options = instruction.attributes_as(TriangularSolve)
        *batch, rows, columns = instruction.shape.dimensions
        self.n, self.m = (rows, columns) if options.left_side else (columns, rows)
        self.turned = (options.transpose_a != "NO_TRANSPOSE") == options.left_side
        self.is_upper = options.lower == self.turned
        self.beside = min(1 << (self.m - 1).bit_length(), _BESIDE)
        self.parts = _THREADS // self.beside
        self.blocks = -(-self.m // self.beside)
        fn = self.fn = kernel_function("solve", instruction, _THREADS)
        elements = thread_elements(fn, target, 0)
        self.work = work = BatchFunction(instruction, elements, buffer_names(instruction))
        self.thread = thread_in_block(fn)
        grid = PlanarGrid(instruction.shape.element_type, 1, 1)
        self.element = grid.element
        self.shared = [
            SharedArray(f"parts{i}_{grid.element}", grid.element, _THREADS)
            for i in range(grid.parts)
        ]
        block = block_number(fn)
        self.batch: list[Affine] = decomposed(work.elements, fn.div(block, self.blocks), batch)
        column = fn.add(
            fn.mul(fn.rem(block, self.blocks), self.beside), fn.rem(self.thread, self.beside)
        )
        self.is_column = fn.compare("slt", column, self.m)
        self.column = fn.min(column, self.m - 1)
        self.part = fn.div(self.thread, self.beside)

    def write(self) -> None:
        """Write the body."""
        fn, scopes = self.fn, self.work.elements.scopes
        with scopes.loop(0, self.n) as step:
            row = fn.sub(self.n - 1, step.index) if self.is_upper else step.index
            self._put(self._part_sum(row))
            self._meet()
            is_first = fn.compare("eq", self.part, 0)
            with scopes.when(fn.op(f"and i1 {is_first}, {self.is_column}")):
                self._unknown(row)
            barrier(fn)

    def _part_sum(self, row: Integer) -> Parts:
        """A part of the sum of products with what is known."""
        fn, work = self.fn, self.work
        zero: Parts = tuple([Number(fn, work.target, self.element, 0, "0.0") for _ in self.shared])
        first = fn.add(row, 1) if self.is_upper else 0
        stop = self.n if self.is_upper else row
        start = fn.add(first, self.part)
        with work.elements.scopes.loop(start, stop, self.parts, carried([zero])) as loop:
            known = work.read(self.batch, work.results[0], *self._place(loop.index))
            factor = self._coefficient(row, loop.index)
            (now,) = restored([zero], loop.values)
            found = plus_product(now, factor, known)
            loop.next = [name for _, name in carried([found])]
        (total,) = restored([zero], loop.results)
        return total

    def _meet(self) -> None:
        """Add up the parts of each column, in halves."""
        fn, scopes = self.fn, self.work.elements.scopes
        half = self.parts // 2
        barrier(fn)
        while half:
            with scopes.when(fn.compare("slt", self.part, half)):
                other = self._get(fn.add(self.thread, half * self.beside))
                self._put(added(self._get(self.thread), other))
            barrier(fn)
            half //= 2

    def _unknown(self, row: Integer) -> None:
        work = self.work
        place = self._place(row)
        given = work.read(self.batch, work.operands[1], *place)
        total = subtracted(given, self._get(self.thread))
        if not self.options.unit_diagonal:
            total = divided(total, self._coefficient(row, row))
        work.write(self.batch, work.results[0], total, *place)

    def _place(self, unknown: Integer) -> tuple[Integer, Integer]:
        return (unknown, self.column) if self.options.left_side else (self.column, unknown)

    def _coefficient(self, row: Integer, column: Integer) -> Parts:
        at = (column, row) if self.turned else (row, column)
        found = self.work.read(self.batch, self.work.operands[0], *at)
        return conjugate(found) if self.options.transpose_a == "ADJOINT" else found

    def _put(self, value: Parts) -> None:
        for array, part in zip(self.shared, value, strict=True):
            array.store(self.fn, self.thread, part.name)

    def _get(self, place: Integer) -> Parts:
        names = [x.load(self.fn, place) for x in self.shared]
        return tuple([Number(self.fn, self.work.target, self.element, 0, x) for x in names])
