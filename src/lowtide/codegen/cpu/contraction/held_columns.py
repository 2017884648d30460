"""The function of a strip of more rows: columns of some steps in registers, while rows pass by.

A vector of columns is read once from where it lies, and multiplied with an element of each row.
What comes and goes for each row are sums, which stay in a first cache.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from lowtide.codegen.cpu.contraction.micro import broadcast
from lowtide.codegen.cpu.contraction.prefetching import Part
from lowtide.codegen.cpu.contraction.strip_scheme import held_columns
from lowtide.codegen.cpu.contraction.strip_writer import StripWriter
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine
from lowtide.llvm.function import Integer

ROWS_AT_ONCE: Final = 2
"""Rows whose sums are added up beside each other: an addition waits for the one before."""

SETS_BYTES: Final = 4 << 10
"""Rows so far apart, or multiples of it, fall into the same lines of a first cache."""

WAYS: Final = 4
"""Rows for which such lines have room beside columns and sums."""


class HeldColumnsWriter(StripWriter):
    """The function of such a strip while it is written."""

    def prepare(self) -> None:
        """Write the address of rows; elements of them lie `along` and `across` bytes apart."""
        held = held_columns(self.target)
        self.group, self.at_once = held.steps, held.vectors
        scheme, side = self.scheme, self.product.rows
        size = scheme.how.unit_bytes
        self.along, self.across = size, scheme.row_step * size
        self.base = "%rows"
        self.gathered = ""
        if scheme.packs_rows:
            return
        assert side.view is not None
        along, across = side.view.single(side.roles.inner), side.view.single(side.roles.free)
        assert along is not None and across is not None
        self.along, self.across = along * size, across * size
        self.base = side.address(self.fn, "%batch")
        in_one_line = scheme.geometry.m * gcd(self.across, SETS_BYTES) // SETS_BYTES
        if along != 1 or in_one_line <= WAYS or not held.gathers:
            return
        self.apart, self.across = self.across, self.group * size
        self.gathered = self.fn.stack("i8", scheme.geometry.m * self.across)

    def parts(self, index: Integer, count: int, whole: int) -> list[Part]:
        """Return all columns as one part, so that the code of an iteration is there once."""
        if self.ahead is None or count < self.group:
            return [(0, whole, lambda at: None)]
        return [(0, whole, self.ahead.asking(index, count, whole))]

    def begin_steps(self, index: Integer, steps: list[Affine]) -> None:
        """Write the address of the elements of the first row at a step.

        Those of rows that would fall into the same lines of a cache are gathered before.
        """
        fn = self.fn
        self.here = fn.gep(self.base, fn.mul(index, self.along))
        if not self.gathered:
            return
        type_, size = f"<{len(steps)} x {self.scheme.how.unit}>", self.scheme.how.unit_bytes
        with fn.loop(0, self.scheme.geometry.m) as rows:
            found = fn.load(type_, fn.gep(self.here, fn.mul(rows.index, self.apart)), size)
            fn.store(type_, found, fn.gep(self.gathered, fn.mul(rows.index, self.across)), size)
        self.here = self.gathered

    def add_run(self, at: Affine, number: Integer, steps: list[Affine]) -> None:
        """Add the products of the columns of an iteration, from column `number` on."""
        self.add_vectors(at, number, steps, [self.scheme.lanes] * self.at_once)

    def add_vectors(
        self, at: Affine, number: Integer, steps: list[Affine], counts: list[int]
    ) -> None:
        """Add the products of some vectors of columns, of each of which some count."""
        fn, lanes, m = self.fn, self.scheme.lanes, self.scheme.geometry.m
        masks = [tail_mask(lanes, x) for x in counts]
        held = [self.columns_at(at + j * lanes, steps, mask) for j, mask in enumerate(masks)]
        first = self.sum_at(number)
        whole = m // ROWS_AT_ONCE * ROWS_AT_ONCE
        with fn.loop(0, whole, ROWS_AT_ONCE) as rows:
            self._rows(rows.index, ROWS_AT_ONCE, first, held, masks)
        if whole < m:
            self._rows(whole, m - whole, first, held, masks)

    def _rows(
        self,
        row: Integer,
        count: int,
        first: str,
        held: list[list[tuple[str, ...]]],
        masks: list[Mask | None],
    ) -> None:
        """Add the products of `count` rows from a row on; `first` is the first sum of row 0."""
        fn, how, lanes = self.fn, self.scheme.how, self.scheme.lanes
        sums_bytes = self.scheme.sums_step * how.unit_bytes
        vector_bytes = lanes * how.unit_bytes
        there = fn.gep(first, fn.mul(row, sums_bytes))
        units = fn.gep(self.here, fn.mul(row, self.across))
        places = [
            [fn.gep(there, i * sums_bytes + j * vector_bytes) for j in range(len(held))]
            for i in range(count)
        ]
        totals = [
            [self.sum(x, mask) for x, mask in zip(line, masks, strict=True)] for line in places
        ]
        for step in range(len(held[0])):
            for i, line in enumerate(totals):
                behind = i * self.across + step * self.along
                factor = broadcast(fn, how, units, behind, lanes, how.unit_bytes)
                line[:] = [
                    self.added(total, factor, column[step])
                    for total, column in zip(line, held, strict=True)
                ]
        for totals_of, places_of in zip(totals, places, strict=True):
            for total, place, mask in zip(totals_of, places_of, masks, strict=True):
                self.keep(total, place, mask)
