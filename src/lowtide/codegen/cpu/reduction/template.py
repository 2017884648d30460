"""Reductions as kernels: which of the ways there are, and in how many parts."""

from __future__ import annotations

from functools import partial
from typing import Final

from lowtide.codegen.cpu.cost import seconds, vector_cycles
from lowtide.codegen.cpu.element_streaming import either, is_large, stored_bytes
from lowtide.codegen.cpu.reduction.columns import ColumnsKernel, column_block, lines_at_once
from lowtide.codegen.cpu.reduction.finish import PartialsFinish
from lowtide.codegen.cpu.reduction.form import ReductionForm, form_of
from lowtide.codegen.cpu.reduction.grid import ReductionGrid, grid_of, total_count
from lowtide.codegen.cpu.reduction.grouped import GroupedRows, is_grouped
from lowtide.codegen.cpu.reduction.partials import Partials, part_count
from lowtide.codegen.cpu.reduction.rows import RowsKernel
from lowtide.codegen.cpu.reduction.staggered import StaggeredRows, is_staggered
from lowtide.codegen.cpu.reduction.totals import total_types
from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.elementwise.memory import STREAMED
from lowtide.codegen.kernel import KernelCode, KernelPlan
from lowtide.codegen.value import register_bytes
from lowtide.ir import Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_SHORT: Final = 8
"""Points of a row up to which rows across vectors need no totals in scratch."""


def plan_reduction(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how reductions run, and what is computed of them; None for any other kernel."""
    form = form_of(instruction, target)
    if form is None:
        return None
    grid = grid_of(form, target)
    if grid is None:
        return None
    way = _Way(grid, target)
    kernel = way.kernel()
    mine = kernel.scratch.nbytes
    if _is_streamed(grid, target):
        mine = max(mine, way.streaming().scratch.nbytes)
    shared = 0 if way.partials is None else way.partials.nbytes
    return KernelPlan(partial(_code, grid, target), shared, mine)


def _code(grid: ReductionGrid, target: Target) -> KernelCode:
    way = _Way(grid, target)
    kernel = way.kernel()
    functions = [kernel.write()]
    text = list(kernel.elements.globals.values())
    if _is_streamed(grid, target):
        streaming = way.streaming()
        functions = _either(grid, functions[0], streaming)
        text += [*streaming.elements.globals.values(), STREAMED]
    each = _point_seconds(grid.form, grid.lanes // grid.abreast)
    phases = [Phase(functions[-1].name, kernel.units, each * kernel.unit_points)]
    if way.partials is not None:
        finish = PartialsFinish(grid, target, way.partials)
        functions.append(finish.write())
        text += finish.elements.globals.values()
        rows = grid.row_count // max(finish.units, 1)
        phases.append(Phase("finish", finish.units, each * rows * way.partials.count))
    return KernelCode(tuple(functions), tuple(phases), "\n".join(dict.fromkeys(text)))


def _is_streamed(grid: ReductionGrid, target: Target) -> bool:
    """Whether results with an element for each point are stored past the caches."""
    results = leaves(grid.form.instruction.shape)
    stored = [stored_bytes(results[x.array]) for x in grid.form.results if x.is_full]
    return not grid.is_across and grid.lanes > 1 and is_large(target, sum(stored))


def _either(grid: ReductionGrid, cached: Function, streaming: RowsKernel) -> list[Function]:
    """The function that runs one of two, behind both."""
    name = cached.name
    cached.name = f"{name}_cached"
    arrays = [x.array for x in grid.form.results if x.is_full]
    both = (cached, streaming.write())
    return [*both, either(grid.form.instruction, arrays, name, *both)]


@dataclass(slots=True)
class _Way:
    """How a grid is run through."""

    grid: ReductionGrid
    target: Target
    partials: Partials | None = None

    def kernel(self) -> RowsKernel | ColumnsKernel:
        """Return the kernel of the first phase, and set `partials` if there is a second one."""
        grid = self.grid
        is_one_run = grid.form.last_pass == 0
        if is_one_run and grid.is_across and grid.row_length > _SHORT:
            lines = lines_at_once(grid)
            units = -(-grid.row_sizes[-1] // column_block(grid)) * (
                grid.row_count // grid.row_sizes[-1]
            )
            turn = lines if len(grid.inner_sizes) == 1 else 1
            self.partials = self._split(units, turn)
            return ColumnsKernel(grid, self.target, self.partials)
        if is_one_run and not grid.is_across:
            turn = total_count(grid) * grid.lanes if len(grid.inner_sizes) == 1 else 1
            self.partials = self._split(grid.row_count, turn)
        if self.partials is None and is_grouped(grid):
            return GroupedRows(grid, self.target)
        return RowsKernel(grid, self.target, self.partials)

    def streaming(self) -> RowsKernel:
        """Return the kernel along rows that stores past the caches."""
        name = "rows_streamed"
        if is_staggered(self.grid):
            return StaggeredRows(self.grid, self.target, name)
        return RowsKernel(self.grid, self.target, self.partials, name=name, is_streaming=True)

    def _split(self, units: int, turn: int) -> Partials | None:
        points = self.grid.row_count * self.grid.row_length
        count = part_count(self.grid.inner_sizes[0], turn, units, points)
        if count == 1:
            return None
        found = Partials(self.grid, total_types(self.grid.form), count, turn)
        return found if found.count > 1 else None


def _point_seconds(form: ReductionForm, lanes: int) -> float:
    """About how long a point takes."""
    instruction = form.instruction
    nbytes = sum([register_bytes(x.source.shape.element_type) for x in form.results if x.is_full])
    for x in instruction.operands:
        if x.shape.is_array and x.shape.dimensions == form.space:
            nbytes += register_bytes(x.shape.element_type)
    cycles = vector_cycles(members(instruction)) / max(lanes, 1)
    return seconds(nbytes, cycles)
