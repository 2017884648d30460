"""The function of a strip: the elements of few rows in registers, while columns pass by."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.contraction.operands import LanePosition
from lowtide.codegen.cpu.contraction.prefetching import LINE, Part, strip_ahead
from lowtide.codegen.cpu.contraction.product import ContractionProduct
from lowtide.codegen.cpu.contraction.strip_scheme import StripScheme
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer

GROUP: Final = 8
"""Steps of k at once, where there are 32 registers; half as many otherwise."""

STRIP: Final = parameters(
    buffers="ptr", sums="ptr", rows="ptr", batch="i64", column="i64", first="i64", last="i64"
)
"""The parameters of a strip, which covers the elements of k from `%first` to `%last`.

`%rows` are packed rows, where they are packed.
"""


class StripWriter:
    """The function of a strip while it is written."""

    def __init__(self, product: ContractionProduct[StripScheme], fn: Function, width: int) -> None:
        scheme = product.scheme
        self.product = product
        self.scheme = scheme
        self.fn = fn
        self.target = product.target
        self.width = width
        self.elements = vector_elements(fn, product.target, scheme.lanes)
        self.columns = product.columns.reader(self.elements, scheme.how)
        self.batch = self.elements.indices.variable("%batch", scheme.geometry.batch)
        self.start = self.elements.indices.variable("%column", scheme.geometry.n)
        self.lane = self.elements.indices.variable(0, scheme.lanes, is_lane=True)
        self.group = self.at_once = 1
        self.prepare()
        run = self.at_once * scheme.lanes * product.columns.type.nbytes
        self.ahead = strip_ahead(self.elements, product.columns, "%column", run)

    def prepare(self) -> None:
        """Set how many steps and vectors there are at once; write what elements of rows need."""
        self.group = GROUP if self.target.registers > 16 else GROUP // 2
        self.at_once = max(1, LINE // self.product.columns.type.nbytes // self.scheme.lanes)
        self.rows = self.product.rows.reader(self.elements, self.scheme.how)

    def write(self) -> None:
        """Write the sums of nothing, then the loop over groups of steps, then the last steps."""
        fn, elements = self.fn, self.elements
        self._clear()
        count = fn.sub("%last", "%first")
        whole = fn.add("%first", fn.mul(fn.div(count, self.group), self.group))
        with elements.scopes.loop("%first", whole, self.group) as loop:
            self._steps(loop.index, self.group)
        if self.scheme.shares.parts > 1:
            with elements.scopes.loop(whole, "%last") as loop:
                self._steps(loop.index, 1)
            return
        rest = self.scheme.geometry.k % self.group
        if rest:
            self._steps(self.scheme.geometry.k - rest, rest)

    def _clear(self) -> None:
        fn, scheme, lanes = self.fn, self.scheme, self.scheme.lanes
        names = scheme.how.zero(lanes)
        zero = Value(names, scheme.how.total, lanes)
        with fn.loop(0, scheme.geometry.m) as rows:
            start = fn.mul(rows.index, scheme.sums_step)
            with fn.loop(0, self.width // lanes * lanes, lanes) as loop:
                memory.store(fn, self.target, zero, self.sum_at(fn.add(start, loop.index)))
            rest = self.width % lanes
            mask = tail_mask(lanes, rest)
            if rest and mask is not None:
                there = self.sum_at(fn.add(start, self.width - rest))
                memory.store(fn, self.target, zero, there, mask.name)

    def sum_at(self, number: Integer) -> str:
        """Write the address of a sum."""
        return self.fn.gep("%sums", self.fn.mul(number, self.scheme.how.unit_bytes))

    def _steps(self, index: Integer, count: int) -> None:
        """Add the products of `count` steps of k from a step on."""
        elements, lanes = self.elements, self.scheme.lanes
        first = elements.indices.variable(index, self.scheme.geometry.k)
        steps = [(first + i).within(0, self.scheme.geometry.k - 1) for i in range(count)]
        self.begin_steps(index, steps)
        run = self.at_once * lanes
        whole = self.width // run * run
        for begin, end, ask in self.parts(index, count, whole):
            with elements.scopes.loop(begin, end, run) as across:
                ask(across.index)
                at = elements.indices.variable(across.index, self.width)
                self.add_run(at, across.index, steps)
        for column in range(whole, self.width, lanes):
            at = elements.indices.variable(column, self.width)
            self.add_vectors(at, column, steps, [min(lanes, self.width - column)])

    def parts(self, index: Integer, count: int, whole: int) -> list[Part]:
        """Return the columns by where what they ask for lies: in these rows, or the next ones."""
        if self.ahead is None or count < self.group:
            return [(0, whole, lambda at: None)]
        return self.ahead.parts(index, count, whole)

    def begin_steps(self, index: Integer, steps: list[Affine]) -> None:
        """Write the loads of the elements of all rows at some steps, from step `index` on."""
        rows = range(self.scheme.geometry.m)
        self.factors = [[self._factor(i, k) for k in steps] for i in rows]

    def _factor(self, row: int, k: Affine) -> tuple[str, ...]:
        """An element of a row in all lanes."""
        value = self.rows.at(
            self.batch, LanePosition(Affine((), row, row, row)), LanePosition(k), None
        )
        return self.elements.vectors.splat(value).names

    def add_run(self, at: Affine, number: Integer, steps: list[Affine]) -> None:
        """Add the products of the columns of an iteration, from column `number` on."""
        lanes = self.scheme.lanes
        for part in range(self.at_once):
            there = self.fn.add(number, part * lanes)
            self.add_vectors(at + part * lanes, there, steps, [lanes])

    def add_vectors(
        self, at: Affine, number: Integer, steps: list[Affine], counts: list[int]
    ) -> None:
        """Add the products of a vector of columns, of which some count."""
        lanes = self.scheme.lanes
        mask = tail_mask(lanes, counts[0])
        values = self.columns_at(at, steps, mask)
        for row, line in enumerate(self.factors):
            place = self.sum_at(self.fn.add(number, row * self.scheme.sums_step))
            total = self.sum(place, mask)
            for factor, value in zip(line, values, strict=True):
                total = self.added(total, factor, value)
            self.keep(total, place, mask)

    # -- parts -----------------------------------------------------------------------------------

    def columns_at(
        self, at: Affine, steps: list[Affine], mask: Mask | None
    ) -> list[tuple[str, ...]]:
        """Write the loads of a vector of columns at each of some steps."""
        free = LanePosition(self.start + at, self.lane, is_aligned=True)
        read = [self.columns.at(self.batch, free, LanePosition(k), mask) for k in steps]
        return [(x if x.lanes else self.elements.vectors.splat(x)).names for x in read]

    def sum(self, place: str, mask: Mask | None) -> tuple[str, ...]:
        """Write the load of a vector of sums."""
        name, scheme = None if mask is None else mask.name, self.scheme
        return memory.load(self.fn, self.target, scheme.how.total, place, scheme.lanes, name).names

    def added(
        self, total: tuple[str, ...], factor: tuple[str, ...], value: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Write a sum with one product more."""
        scheme = self.scheme
        return scheme.how.multiply_add(self.fn, self.target, scheme.lanes, total, factor, value)

    def keep(self, total: tuple[str, ...], place: str, mask: Mask | None) -> None:
        """Write the store of a vector of sums."""
        name, scheme = None if mask is None else mask.name, self.scheme
        value = Value(total, scheme.how.total, scheme.lanes)
        memory.store(self.fn, self.target, value, place, name)
