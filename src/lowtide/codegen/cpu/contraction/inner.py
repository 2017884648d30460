"""Products of few rows with columns that lie along k: vectors run along k, and are added up last.

Each column is read once, as it lies, by tiles of few rows and columns whose sums are vectors. So a
matrix that is multiplied with a vector comes from memory at the speed of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.codegen.cpu.contraction.arithmetic import MultiplyMethod
from lowtide.codegen.cpu.contraction.finishing import Sums
from lowtide.codegen.cpu.contraction.inner_scheme import InnerScheme
from lowtide.codegen.cpu.contraction.micro import TileOperands, Vectors, accumulate, zeros
from lowtide.codegen.cpu.contraction.operands import LanePosition, OperandReader
from lowtide.codegen.cpu.contraction.packing import as_bits, or_zero, pack_rows
from lowtide.codegen.cpu.contraction.prefetching import LINE, columns_ahead
from lowtide.codegen.cpu.contraction.product import ContractionProduct
from lowtide.codegen.cpu.contraction.transposing import totals
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer

AHEAD_BYTES: Final = 1 << 20
"""Bytes of columns for which memory is asked for ahead: they come from beyond a second cache."""

WIDENED_AHEAD_BYTES: Final = 1 << 19
"""The same of columns that are widened: processors that do so have second caches of no more."""

_Part: TypeAlias = tuple[Integer, Integer, Callable[[Integer], None] | None]
"""The first vector along k, the end, and what is called with each."""

TILE = parameters(
    buffers="ptr",
    rows="ptr",
    sums="ptr",
    batch="i64",
    row="i64",
    column="i64",
    first="i64",
    last="i64",
)
"""The parameters of a tile, which covers the vectors of units of k from `%first` to `%last`."""


class Inner(ContractionProduct[InnerScheme]):
    """A product along k, to be written."""

    def code(self) -> KernelCode:
        """Return the code."""
        return self.code_of(self._products())

    # -- pieces ----------------------------------------------------------------------------------

    def _products(self) -> Function:
        scheme = self.scheme
        fn = Function("products", ARGUMENTS)
        thread = self.thread(fn)
        spans = scheme.geometry.m * (scheme.span + scheme.lanes) * scheme.how.unit_bytes
        sums = fn.stack("i8", spans)
        with fn.loop("%begin", "%end", 1, [("i64", "-1")]) as loop:
            block = fn.rem(loop.index, scheme.blocks.parts)
            rest = fn.div(loop.index, scheme.blocks.parts)
            share = fn.rem(rest, scheme.shares.parts)
            batch = fn.div(rest, scheme.shares.parts) if scheme.geometry.batch > 1 else 0
            if scheme.packs_rows:
                loop.next = [str(batch)]
                with fn.when(fn.compare("ne", batch, loop.values[0])):
                    self._pack(fn, thread, batch)
            self._columns(fn, thread, sums, batch, share, block)
        return fn

    def _pack(self, fn: Function, thread: str, batch: Integer) -> None:
        scheme, shape = self.scheme, self.scheme.geometry

        def write(name: str) -> Function:
            pack = self.packer(name, self.rows, shape.m)
            return self.noted(pack_rows(pack, scheme.row_step), pack.elements)

        pack, steps = self.needed("pack_rows", write), -(-shape.k // scheme.how.group)
        fn.call(pack, ["%buffers", thread, batch, 0, shape.m, 0, steps])

    def _columns(
        self, fn: Function, thread: str, sums: str, batch: Integer, share: Integer, block: Integer
    ) -> None:
        """The spans of a piece: full ones, then the last one if it is narrower."""
        scheme = self.scheme
        first, last = scheme.blocks.starts(fn, block)
        ragged = scheme.geometry.n % scheme.span
        full = scheme.blocks.size - bool(ragged)
        with fn.loop(first, fn.min(last, full)) as loop:
            self._span(fn, thread, sums, (batch, share), loop.index, scheme.span)
        if not ragged:
            return
        if isinstance(last, int):
            self._span(fn, thread, sums, (batch, share), full, ragged)
            return
        with fn.when(fn.compare("eq", last, scheme.blocks.size)):
            self._span(fn, thread, sums, (batch, share), full, ragged)

    def _span(
        self,
        fn: Function,
        thread: str,
        sums: str,
        part: tuple[Integer, Integer],
        number: Integer,
        columns: int,
    ) -> None:
        """The tiles of a span of `columns` columns, of a batch and a share, and what follows.

        The sums of one row lie as those of its span do: they are stored there, in whole vectors.
        """
        scheme, shape = self.scheme, self.scheme.geometry
        batch, share = part
        start = fn.mul(number, scheme.span)
        to, step = sums, scheme.sums_step
        if scheme.shares.parts > 1:
            matrix = fn.mul(fn.add(fn.mul(share, shape.batch), batch), shape.m * shape.n)
            to = fn.gep("%scratch", fn.mul(fn.add(matrix, start), scheme.how.unit_bytes))
        self._tiles(fn, (thread, to), (batch, share, start), columns)
        if scheme.shares.parts > 1:
            return
        is_aligned = columns == shape.n or scheme.span % scheme.lanes == 0
        finish = self.finishing(f"finish_{columns}", columns, Sums(step), is_aligned=is_aligned)
        fn.call(finish, ["%buffers", to, batch, 0, shape.m, start])

    def _tiles(
        self,
        fn: Function,
        places: tuple[str, str],
        part: tuple[Integer, Integer, Integer],
        columns: int,
    ) -> None:
        """The tiles of a span: all rows meet one tile of columns, then the next."""
        scheme = self.scheme
        (thread, to), (batch, share, start) = places, part
        first, last = scheme.shares.starts(fn, share)

        def tile(at: Integer, width: int, row: Integer, rows: int) -> None:
            number = fn.add(fn.mul(row, scheme.sums_step), at)
            there = fn.gep(to, fn.mul(number, scheme.how.unit_bytes))
            numbers = [batch, row, fn.add(start, at), first, last]
            fn.call(self._tile(rows, width), ["%buffers", thread, there, *numbers])

        def all_rows(at: Integer, width: int) -> None:
            tiles = scheme.tiles
            edge = tiles.longer * tiles.longest
            with fn.loop(0, edge, tiles.longest) as loop:
                if edge:
                    tile(at, width, loop.index, tiles.longest)
            with fn.loop(edge, tiles.size, tiles.short) as loop:
                tile(at, width, loop.index, tiles.short)

        rest = columns % scheme.width
        with fn.loop(0, columns - rest, scheme.width) as loop:
            all_rows(loop.index, scheme.width)
        if rest:
            all_rows(columns - rest, rest)

    # -- a tile ----------------------------------------------------------------------------------

    def _tile(self, rows: int, width: int) -> Function:
        name = f"tile_of_{rows}x{width}"
        return self.needed(name, lambda name: self._tile_function(name, rows, width))

    def _tile_function(self, name: str, rows: int, width: int) -> Function:
        scheme, how = self.scheme, self.scheme.how
        shape = scheme.geometry
        fn = Function(name, TILE, linkage="internal")
        elements = vector_elements(fn, self.target, scheme.lanes * how.group)
        fetch = _Fetch(self, elements)
        full = shape.k // (how.group * scheme.lanes)
        sums = zeros(how, rows, width, scheme.lanes)
        for first, last, ask in self._parts(elements, width, full):
            sums = self._accumulated(elements, fetch, sums, (first, last), ask)
        if full < scheme.shares.size:
            sums = self._with_rest(fn, fetch, sums, full, width)
        self._store_totals(fn, sums)
        return self.noted(fn, elements)

    def _parts(self, elements: Elements, width: int, full: int) -> list[_Part]:
        """The vectors along k, by what they ask for: what comes later, or the next columns."""
        fn, lanes, scheme = elements.function, elements.lanes, self.scheme
        if scheme.shares.parts > 1:
            return [
                ("%first", fn.min("%last", full) if full < scheme.shares.size else "%last", None)
            ]
        side = self.columns
        ahead = columns_ahead(elements, side)
        is_widened = scheme.how.method is MultiplyMethod.S16_PAIRS
        least = WIDENED_AHEAD_BYTES if is_widened else AHEAD_BYTES
        if ahead is None or scheme.geometry.n * full * lanes * ahead.size < least:
            return [(0, full, None)]
        parts = ahead.parts("%column", width, full * lanes)

        def counted(ask: Callable[[Integer], None]) -> Callable[[Integer], None]:
            return lambda vector: ask(fn.mul(vector, lanes))

        return [(first // lanes, last // lanes, counted(ask)) for first, last, ask in parts]

    def _accumulated(
        self,
        elements: Elements,
        fetch: _Fetch,
        start: list[list[Vectors]],
        extent: tuple[Integer, Integer],
        ask: Callable[[Integer], None] | None,
    ) -> list[list[Vectors]]:
        """Add the products of the vectors along k of an extent."""
        first, last = extent
        fn, scheme = elements.function, self.scheme
        line = max(1, LINE // (elements.lanes * self.columns.type.nbytes))
        known: dict[Integer, Integer] = {}

        def vector(step: Integer) -> Integer:
            if step not in known:
                known[step] = fn.add(first, step)
            return known[step]

        def asked(step: Integer, count: int) -> None:
            if ask is not None and count == line:
                ask(vector(step))

        operands = TileOperands(
            lambda step, row: fetch.row(vector(step), row, None),
            lambda step, column: fetch.column(vector(step), column, None),
            line,
            asked,
        )
        loop, count = elements.scopes.loop, fn.sub(last, first)
        return accumulate(fn, self.target, scheme.how, scheme.lanes, loop, count, start, operands)

    def _with_rest(
        self, fn: Function, fetch: _Fetch, sums: list[list[Vectors]], full: int, width: int
    ) -> list[list[Vectors]]:
        """Add the products of the last elements of k, which are no whole vector."""
        scheme, how = self.scheme, self.scheme.how
        lanes = scheme.lanes
        mask = tail_mask(lanes * how.group, scheme.geometry.k - full * lanes * how.group)

        def added() -> list[str]:
            columns = [fetch.column(full, c, mask) for c in range(width)]
            found: list[str] = []
            for r, line in enumerate(sums):
                row = fetch.row(full, r, mask)
                for c, total in enumerate(line):
                    found += how.multiply_add(fn, self.target, lanes, total, row, columns[c])
            return found

        names = [x for line in sums for total in line for x in total]
        if scheme.shares.parts == 1:
            after = added()
        else:
            is_last = fn.compare("eq", "%last", scheme.shares.size)
            types = [f"<{lanes} x {how.sum_type}>"] * len(names)
            after = fn.choose(is_last, types, added, lambda: names)
        rest = iter(after)
        return [[(next(rest),) for _ in line] for line in sums]

    def _store_totals(self, fn: Function, sums: list[list[Vectors]]) -> None:
        """Add up each vector, and store the totals row by row."""
        scheme, how = self.scheme, self.scheme.how
        lanes = scheme.lanes
        type_ = f"<{lanes} x {how.sum_type}>"
        if scheme.is_alone:
            (row,) = sums
            fn.store(type_, self._totals(fn, [x for (x,) in row]), "%sums", how.unit_bytes)
            return
        width = len(sums[0])
        at_once = max(1, lanes // width)
        for first in range(0, len(sums), at_once):
            part = sums[first : first + at_once]
            total = self._totals(fn, [x for line in part for (x,) in line])
            for i in range(len(part)):
                own = fn.shuffle(type_, total, total, range(i * width, (i + 1) * width))
                there = fn.gep("%sums", (first + i) * scheme.sums_step * how.unit_bytes)
                fn.store(f"<{width} x {how.sum_type}>", own, there, how.unit_bytes)

    def _totals(self, fn: Function, vectors: list[str]) -> str:
        """A vector of the totals of at most as many vectors as it has lanes."""
        scheme, how = self.scheme, self.scheme.how
        add = "add" if how.total.is_integer else "fadd"
        filled = vectors + ["zeroinitializer"] * (scheme.lanes - len(vectors))
        return totals(fn, f"<{scheme.lanes} x {how.sum_type}>", how.unit_bytes, add, filled)


class _Fetch:
    """Reads vectors of units along k in a tile."""

    def __init__(self, inner: Inner, elements: Elements) -> None:
        scheme = inner.scheme
        self.inner = inner
        self.elements = elements
        self.rows = inner.rows.reader(elements, scheme.how)
        self.columns = inner.columns.reader(elements, scheme.how)
        self.batch = elements.indices.variable("%batch", scheme.geometry.batch)
        first = "%row" if scheme.tiles.parts > 1 else 0
        self.first_row = elements.indices.variable(first, scheme.geometry.m)
        self.start = elements.indices.variable("%column", scheme.geometry.n)
        self.lane = elements.indices.variable(0, elements.lanes, is_lane=True)
        self.steps: dict[Integer, Affine] = {}

    def _k(self, step: Integer) -> LanePosition:
        if step not in self.steps:
            self.steps[step] = self.elements.indices.variable(step, self.inner.scheme.shares.size)
        return LanePosition(self.steps[step] * self.elements.lanes, self.lane, is_aligned=True)

    def row(self, step: Integer, row: int, mask: Mask | None) -> Vectors:
        """Write the units of a row."""
        scheme = self.inner.scheme
        if not scheme.packs_rows:
            number = LanePosition(self.first_row + row)
            return self._units(self.rows, number, step, mask)
        fn, size = self.elements.function, scheme.how.unit_bytes
        there = fn.add("%row", row) if scheme.tiles.parts > 1 else row
        at = fn.add(fn.mul(step, scheme.lanes), fn.mul(there, scheme.row_step))
        type_ = f"<{scheme.lanes} x {scheme.how.unit}>"
        return (fn.load(type_, fn.gep("%rows", fn.mul(at, size)), size),)

    def column(self, step: Integer, column: int, mask: Mask | None) -> Vectors:
        """Write the units of a column of the tile."""
        return self._units(self.columns, LanePosition(self.start + column), step, mask)

    def _units(
        self, reader: OperandReader, free: LanePosition, step: Integer, mask: Mask | None
    ) -> Vectors:
        elements, how = self.elements, self.inner.scheme.how
        value = reader.at(self.batch, free, self._k(step), mask)
        if not value.lanes:
            value = elements.vectors.splat(value)
        if mask is not None:
            value = or_zero(elements, value, mask)
        if how.group == 1:
            return value.names
        fn, lanes = elements.function, elements.lanes
        bits = as_bits(fn, elements.target, value)
        return (fn.op(f"bitcast <{lanes} x i16> {bits} to <{lanes // 2} x i32>"),)
