"""The kernel of attention: blocks of scores, their weights, sums of values.

A unit is a block of rows. First the scores of all keys are multiplied out in scratch, panel by
panel of packed keys. Then each row is run along as `rows.py` says. Then values are packed in turn
and added up. See Rabe and Staats (2021), Self-attention does not need O(n^2) memory.
"""

from __future__ import annotations

from typing import Final, final

from lowtide.codegen import indexing
from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.attention.blocks import PACKED_STEPS, AttentionProduct, Blocks, is_real, up
from lowtide.codegen.cpu.attention.blocks import blocks_of as cut_into_blocks
from lowtide.codegen.cpu.attention.finding import attention_of
from lowtide.codegen.cpu.attention.form import Attention, Scores, digits
from lowtide.codegen.cpu.attention.rows import WeightRows
from lowtide.codegen.cpu.attention.tiles import tile_function, tile_heights
from lowtide.codegen.cpu.contraction.behind import index_of
from lowtide.codegen.cpu.contraction.packing import pack_panel, pack_rows, pack_transposed, packer
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, thread_scratch
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.cost.machine import X86_SERVER
from lowtide.ir import Instruction, array_shape
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

_WEIGHT_CYCLES: Final = 20
"""Cycles that a vector of weights takes, about."""


_CLEAR: Final = external("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1 immarg")


def plan_attention(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how a fusion of attention runs, None for any other instruction."""
    form = attention_of(instruction, target)
    if form is None:
        return None
    dots = [form.dot, *[x.dot for x in form.scores]]
    if not is_real(*[y.shape.element_type for x in dots for y in (x, *x.operands)]):
        return None
    blocks = cut_into_blocks(form, target)
    return KernelPlan(lambda: _Kernel(blocks, target).code(), 0, blocks.nbytes)


@final
class _Kernel:
    def __init__(self, blocks: Blocks, target: Target) -> None:
        self.blocks = blocks
        self.form: Attention = blocks.form
        self.target = target
        self.function = Function("attention", ARGUMENTS)
        self.elements = vector_elements(self.function, target, blocks.last.lanes)
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, str] = {}
        self.row = indexing.ZERO

    def code(self) -> KernelCode:
        """Return the code."""
        fn, elements, blocks, form = self.function, self.elements, self.blocks, self.form
        self.bound = bind(fn, form.instruction)
        self.weights = WeightRows(blocks, elements, self.bound.frame)
        self.scratch = thread_scratch(fn, blocks.nbytes)
        elements.provide(form.dot, self._sum)
        with elements.scopes.loop("%begin", "%end") as unit:
            sizes = form.sizes(form.fixed)
            lead = decomposed(elements, fn.div(unit.index, blocks.block_count), sizes)
            self.fixed = dict(zip(form.fixed, lead, strict=True))
            start = fn.mul(fn.rem(unit.index, blocks.block_count), blocks.rows)
            count = fn.min(fn.sub(blocks.row_count, start), blocks.rows)
            self._unit(start, count)
        self.globals.update(elements.globals)
        phase = Phase(fn.name, blocks.units, self._seconds())
        text = "\n".join(self.globals.values())
        return KernelCode((*self.functions.values(), fn), (phase,) if blocks.units else (), text)

    def _seconds(self) -> float:
        """About how long a block takes."""
        blocks, form = self.blocks, self.form
        lanes = blocks.last.lanes
        cycles = form.geometry.k * form.geometry.n / 2
        for x in form.scores:
            cycles += x.length * (x.geometry.k / 2 + _WEIGHT_CYCLES)
        return cycles / lanes * blocks.rows / X86_SERVER.clock_hertz

    def _unit(self, start: Integer, count: Integer) -> None:
        for number in range(len(self.form.scores)):
            self._multiply_keys(number, start, count)
        fn, elements, blocks = self.function, self.elements, self.blocks
        with elements.scopes.loop(0, count) as loop:
            rows = self._rows(fn.add(start, loop.index))
            scores = [
                self._address(offset, fn.mul(loop.index, step))
                for offset, step in zip(blocks.scores, blocks.steps, strict=True)
            ]
            weights = self._address(blocks.weights, fn.mul(loop.index, blocks.weights_step))
            self.weights.write(rows, scores, weights)
        self._multiply_values()
        if self._lies_along_rows():
            self._finish_columns(start, count)
            return
        with elements.scopes.loop(0, count) as loop:
            rows = self._rows(fn.add(start, loop.index))
            self._finish(rows, self._address(blocks.sums, fn.mul(loop.index, blocks.sums_step)))

    def _rows(self, number: Integer) -> dict[int, Affine]:
        """The index of a row along the dimensions of the weights."""
        form = self.form
        found = decomposed(self.elements, number, form.sizes(form.block))
        return {**self.fixed, **dict(zip(form.block, found, strict=True))}

    def _address(self, offset: int, element: Integer) -> str:
        fn = self.function
        return fn.gep(
            self.scratch, fn.add(offset, fn.mul(element, self.blocks.last.how.unit_bytes))
        )

    # -- products ------------------------------------------------------------------------------

    def _packing(
        self, name: str, product: AttentionProduct, columns: int, batch: int, count: int, k: int
    ) -> Function:
        """Return the function that packs a panel of columns."""
        name = f"{name}_{columns}"
        if name not in self.functions:
            side = product.columns
            how, lanes = product.how, product.lanes
            pack = packer(name, self.target, how, lanes, side, batch, count, k)
            width = up(columns, lanes)
            if side.lies_along_k:
                self.functions[name] = pack_transposed(pack, width, width)
            else:
                self.functions[name] = pack_panel(pack, columns, width)
            self.globals.update(pack.elements.globals)
        return self.functions[name]

    def _tile(
        self, name: str, product: AttentionProduct, shape: tuple[int, int], steps: tuple[int, int]
    ) -> Function:
        name = f"{name}_{shape[0]}x{shape[1]}"
        if name not in self.functions:
            adds = product is self.blocks.last
            self.functions[name] = tile_function(
                name, self.target, product, shape, steps[0], steps[1], adds=adds
            )
        return self.functions[name]

    def _multiply_keys(self, number: int, start: Integer, count: Integer) -> None:
        """Multiply out the scores of a block, panel by panel of keys."""
        elements, blocks = self.elements, self.blocks
        scores, product = self.form.scores[number], blocks.firsts[number]
        shape = scores.geometry
        batch = self._pack_queries(number, start, count)
        width = product.panel
        whole = shape.n - shape.n % width
        with elements.scopes.loop(0, whole, width) as loop:
            self._panel(number, batch, loop.index, width)
        if whole < shape.n:
            self._panel(number, batch, whole, shape.n - whole)

    def _panel(self, number: int, batch: Integer, first: Integer, columns: int) -> None:
        blocks = self.blocks
        scores, product = self.form.scores[number], blocks.firsts[number]
        shape = scores.geometry
        pack = self._packing(f"pack_keys{number}", product, columns, shape.batch, shape.n, shape.k)
        packed = self._address(blocks.packed, 0)
        fn = self.function
        fn.call(pack, ["%buffers", packed, batch, first, columns, 0, shape.k])
        width = up(columns, product.lanes)
        steps = (product.row_step, blocks.steps[number])
        for row, height in tile_heights(blocks.rows):
            tile = self._tile(f"scores{number}", product, (height, width), steps)
            rows = self._address(blocks.query, row * product.row_step)
            to = self._address(blocks.scores[number], fn.add(first, row * blocks.steps[number]))
            fn.call(tile, [rows, packed, to, shape.k])

    def _pack_queries(self, number: int, start: Integer, count: Integer) -> Integer:
        """Pack the rows of a block; return the number of its matrix of keys."""
        fn, elements, blocks = self.function, self.elements, self.blocks
        scores, product = self.form.scores[number], blocks.firsts[number]
        shape = scores.geometry
        name = f"pack_rows{number}"
        if name not in self.functions:
            how, lanes = product.how, product.lanes
            pack = packer(
                name, self.target, how, lanes, product.rows, shape.batch, shape.m, shape.k
            )
            self.functions[name] = pack_rows(pack, product.row_step)
            self.globals.update(pack.elements.globals)
        with elements.scopes.loop(0, count) as loop:
            batch, row = self._matrix_and_row(scores, self._rows(fn.add(start, loop.index)))
            to = self._address(blocks.query, fn.mul(loop.index, product.row_step))
            given = [elements.indices.scalar(batch), elements.indices.scalar(row), 1, 0, shape.k]
            fn.call(self.functions[name], ["%buffers", to, *given])
        batch, _ = self._matrix_and_row(scores, self._rows(start))
        return elements.indices.scalar(batch)

    def _matrix_and_row(self, scores: Scores, rows: dict[int, Affine]) -> tuple[Affine, Affine]:
        """The number of a row's matrix in a first dot, and that of the row in it."""
        at = self._scores_index(scores, rows)
        shape = scores.geometry
        batch = len(shape.rows.batch)
        sizes = scores.dot.shape.dimensions
        own = [d for d in range(batch, len(at)) if d not in scores.keys]
        return (
            linear(at[:batch], sizes[:batch]),
            linear(tuple([at[d] for d in own]), tuple([sizes[d] for d in own])),
        )

    def _scores_index(self, scores: Scores, rows: dict[int, Affine]) -> Index:
        """Where the first score of a row lies in a first dot, as the weights ask for it."""
        substituted = {x: rows[d] for d, x in self.form.asked_rows.items()}
        found = []
        for x in self.form.asked[scores.dot]:
            total = indexing.constant(x.constant)
            for variable, factor in x.terms:
                if variable in substituted:
                    total = total + substituted[variable] * factor
            found.append(total)
        return tuple(found)

    def _multiply_values(self) -> None:
        """Add up values by weights, some of the row at a time."""
        fn, elements, blocks = self.function, self.elements, self.blocks
        product, shape = blocks.last, self.form.geometry
        size = product.how.unit_bytes
        zero = self._address(blocks.sums, 0)
        nbytes = blocks.rows * blocks.sums_step * size
        fn.call(_CLEAR, [zero, 0, nbytes, "false"])
        batch_index = [self.fixed[d] for d in self.form.roles.batch]
        batch = elements.indices.scalar(
            linear(tuple(batch_index), self.form.sizes(self.form.roles.batch))
        )
        with elements.scopes.loop(0, shape.k, PACKED_STEPS) as loop:
            steps = fn.min(fn.sub(shape.k, loop.index), PACKED_STEPS)
            for first in range(0, shape.n, product.panel):
                self._values(batch, loop.index, steps, first)

    def _values(self, batch: Integer, at: Integer, steps: Integer, first: int) -> None:
        """Add up some columns of some values."""
        fn, blocks = self.function, self.blocks
        product, shape = blocks.last, self.form.geometry
        columns = min(product.panel, shape.n - first)
        pack = self._packing("pack_values", product, columns, shape.batch, shape.n, shape.k)
        packed = self._address(blocks.packed, 0)
        vector = fn.div(at, product.lanes)
        fn.call(pack, ["%buffers", packed, batch, first, columns, vector, steps])
        width = up(columns, product.lanes)
        for row, height in tile_heights(blocks.rows):
            tile = self._tile(
                "sums", product, (height, width), (blocks.weights_step, blocks.sums_step)
            )
            rows = self._address(blocks.weights, fn.add(at, row * blocks.weights_step))
            to = self._address(blocks.sums, row * blocks.sums_step + first)
            fn.call(tile, [rows, packed, to, steps])

    # -- the result ----------------------------------------------------------------------------

    def _finish(self, rows: dict[int, Affine], sums: str) -> None:
        """Store a row of the result."""
        elements, form = self.elements, self.form
        shape = array_shape(self.blocks.last.how.total, (self.blocks.sums_step,))
        self.sums = Array(sums, shape)
        strip = Strip(elements, [form.geometry.n], elements.lanes, has_first=False)

        def body(step: StripStep, totals: list[Value]) -> list[Value]:
            self._store(rows, step.linear, step.mask)
            return []

        strip.write([[]], body)

    def _store(self, rows: dict[int, Affine], column: Affine, mask: Mask | None) -> None:
        """Store elements of the result."""
        elements, form = self.elements, self.form
        index = index_of(elements, form.dot, self._dot_index(rows, column), form.root)
        value = elements.at(form.root, index, self.bound.frame, mask)
        elements.store(self.bound.results[0], index, value, mask)

    def _lies_along_rows(self) -> bool:
        """Whether neighbours in memory are the same column of neighbouring rows."""
        form, elements = self.form, self.elements
        wide = [d for d, size in zip(form.block, form.sizes(form.block), strict=True) if size > 1]
        if len(wide) != 1:
            return False
        dimensions = (*form.fixed, *form.block)
        sizes = form.sizes(dimensions)
        rows = {
            d: elements.indices.variable("0", n) for d, n in zip(dimensions, sizes, strict=True)
        }
        column = elements.indices.variable("0", max(form.geometry.n, 2))
        index = index_of(
            self.elements, self.form.dot, self._dot_index(rows, column), self.form.root
        )
        steps = dict(offset(self.bound.results[0].shape, index).terms)
        return steps.get(rows[wide[0]].terms[0][0]) == 1

    def _finish_columns(self, start: Integer, count: Integer) -> None:
        """Store the result by column, vectors of rows at once."""
        fn, elements, blocks, form = self.function, self.elements, self.blocks, self.form
        lanes = elements.lanes
        total = blocks.last.how.total
        shape = array_shape(total, (up(blocks.rows, lanes) * blocks.sums_step,))
        self.sums = Array(self._address(blocks.sums, 0), shape)
        with elements.scopes.loop(0, count, lanes) as loop:
            numbers = ", ".join([f"i64 {i}" for i in range(lanes)])
            left = fn.splat("i64", str(fn.sub(count, loop.index)), lanes)
            name = fn.op(f"icmp sgt <{lanes} x i64> {left}, <{numbers}>")
            mask = Mask(name, lanes, elements.scopes.level)
            row = elements.indices.variable(loop.index, blocks.rows, is_lane=True)
            first = elements.indices.variable(start, blocks.row_count)
            number = (first + row).within(0, blocks.row_count - 1)
            sizes = form.sizes(form.block)
            rows = [indexing.ZERO if size == 1 else number for size in sizes]
            with elements.scopes.loop(0, form.geometry.n) as columns:
                self.row = row
                column = elements.indices.variable(columns.index, form.geometry.n)
                at = {**self.fixed, **dict(zip(form.block, rows, strict=True))}
                self._store(at, column, mask)

    def _dot_index(self, rows: dict[int, Affine], column: Affine) -> Index:
        """The index in the last dot of a column of a row."""
        form, shape = self.form, self.form.geometry
        values = form.dot.operands[1 - form.side].shape.dimensions
        free = digits(self.elements, column, [values[d] for d in shape.columns.free])
        own = [rows[d] for d in form.roles.free]
        batch = [rows[d] for d in form.roles.batch]
        return tuple([*batch, *own, *free] if form.side == 0 else [*batch, *free, *own])

    def _sum(self, at: Index, mask: Mask | None) -> Element:
        """An element of the last dot, of the row that is being finished."""
        form = self.form
        shape = form.geometry
        rank, count = form.dot.shape.rank, len(shape.columns.free)
        first = rank - count if form.side == 0 else len(shape.rows.batch)
        own = range(first, first + count)
        sizes = tuple([form.dot.shape.dimensions[d] for d in own])
        place = self.row * self.blocks.sums_step + linear(tuple([at[d] for d in own]), sizes)
        found = self.elements.read(self.sums, (place,), mask)
        return converted(self.elements, found, form.dot.shape.element_type)
