"""The phases of a product that is blocked for caches: pieces, blocks of k, panels, tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.contraction.finish_ahead import ask_for_finish
from lowtide.codegen.cpu.contraction.finishing import Sums
from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.gemm_functions import packs_columns, packs_rows, tile_of
from lowtide.codegen.cpu.contraction.matrix_tile import configure, has_one_tile, release
from lowtide.codegen.cpu.contraction.prefetching import LINE
from lowtide.codegen.cpu.contraction.scheme import (
    STACK_BYTES,
    ColumnUnits,
    ContractionScheme,
    RowUnits,
)
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

FINISH_STEPS: Final = 64
"""Steps of a tile in which what its end needs comes from afar."""


@dataclass(eq=False, slots=True)
class _Piece:
    """A piece of work while its code is written: indices and addresses."""

    batch: Integer
    share: Integer
    row_block: Integer
    column_block: Integer
    thread: str
    panel: str
    rows_base: str = ""
    columns_base: str = ""
    sums_base: str = ""
    is_new: str = ""
    """An i1: whether it needs another packed block than the piece before; "" where all do."""


def gemm_code(gemm: Gemm) -> KernelCode:
    """Return the code of a product."""
    return gemm.code_of(_products(gemm))


def _products(gemm: Gemm) -> Function:
    """The phase that multiplies; what was packed for one piece serves the next one if it can."""
    fn = Function("products", ARGUMENTS)
    scheme = gemm.scheme
    thread = gemm.thread(fn)
    panel = fn.gep(thread, scheme.row_bytes)
    if 0 < scheme.panel_bytes <= STACK_BYTES:
        panel = fn.stack("i8", scheme.panel_bytes)
    if scheme.how.is_tiled and has_one_tile(scheme):
        configure(gemm, fn, scheme.tiles.longest, scheme.tile.columns)
    with fn.loop("%begin", "%end", 1, [("i64", "-1")]) as loop:
        piece = _piece(fn, scheme, loop.index, thread, panel)
        if scheme.reuses:
            packed = fn.div(loop.index, scheme.reuses)
            piece.is_new = fn.compare("ne", packed, loop.values[0])
            loop.next = [str(packed)]
        if scheme.rows is RowUnits.IN_PLACE:
            piece.rows_base = gemm.rows.address(fn, piece.batch)
        if gemm.ahead is not None or scheme.columns is ColumnUnits.PANELS:
            piece.columns_base = gemm.columns.address(fn, piece.batch)
        piece.sums_base = _sums_base(fn, gemm, piece)
        _blocks(fn, gemm, piece)
    if scheme.how.is_tiled:
        release(fn)
    return fn


def _piece(
    fn: Function, scheme: ContractionScheme, number: Integer, thread: str, panel: str
) -> _Piece:
    """Take the number of a piece apart; those that need the same block follow each other."""
    counts = [scheme.row_blocks.parts, scheme.column_blocks.parts]
    by_rows = scheme.rows is not RowUnits.IN_PLACE or scheme.rows_stay
    if by_rows:
        counts.reverse()
    found = []
    for parts in (*counts, scheme.shares.parts):
        found.append(fn.rem(number, parts))
        number = fn.div(number, parts)
    row_block, column_block, share = found
    if by_rows:
        row_block, column_block = column_block, row_block
    batch = 0 if scheme.geometry.batch == 1 else number
    return _Piece(batch, share, row_block, column_block, thread, panel)


def _sums_base(fn: Function, gemm: Gemm, piece: _Piece) -> str:
    """The address of the sums of the first row and column: of the piece, or of the matrix."""
    scheme = gemm.scheme
    shape = scheme.geometry
    size = shape.m * shape.n * scheme.how.unit_bytes
    if scheme.is_shared:
        number = fn.add(fn.mul(piece.share, shape.batch), piece.batch)
        return fn.gep("%scratch", fn.mul(number, size))
    if scheme.keeps_sums:
        return fn.gep(piece.thread, scheme.row_bytes + scheme.far_panel_bytes)
    if scheme.has_finish:
        nbytes = scheme.tiles.longest * scheme.tile.columns * scheme.how.unit_bytes
        return fn.stack("i8", nbytes)
    out = bind(fn, gemm.finish.kernel).results[0].pointer
    return fn.gep(out, fn.mul(piece.batch, size))


def _blocks(fn: Function, gemm: Gemm, piece: _Piece) -> None:
    """The blocks of k of a piece, and in each of them the panels."""
    scheme = gemm.scheme
    first_block, last_block = scheme.shares.starts(fn, piece.share)
    tiles = scheme.row_blocks.starts(fn, piece.row_block)
    row = scheme.tiles.start(fn, tiles[0])
    panels = scheme.column_blocks.starts(fn, piece.column_block)
    with fn.loop(first_block, last_block) as loop:
        first, after = scheme.blocks.starts(fn, loop.index)
        lanes = scheme.tile.lanes
        steps = fn.sub(fn.min(fn.mul(after, lanes), scheme.steps), fn.mul(first, lanes))
        block = _Block(fn, gemm, piece, first, steps, loop.index, first_block, tiles, row, panels)
        if scheme.rows is not RowUnits.IN_PLACE:
            block.pack_rows()
        block.write()


@dataclass(eq=False, slots=True)
class _Block:
    """A block of k of a piece while its code is written."""

    fn: Function
    gemm: Gemm
    piece: _Piece
    first: Integer
    steps: Integer
    number: Integer
    first_number: Integer
    tiles: tuple[Integer, Integer]
    row: Integer
    panels: tuple[Integer, Integer]

    def pack_rows(self) -> None:
        """Pack the rows of the piece."""
        fn, gemm = self.fn, self.gemm
        end = gemm.scheme.tiles.start(fn, self.tiles[1])
        given = [self.piece.thread, self.piece.batch, self.row, fn.sub(end, self.row)]
        self._pack(packs_rows(gemm), [*given, self.first, self.steps], self.piece.is_new)

    def _pack(self, pack: Function, given: list[Integer], where: str) -> None:
        """Call what packs, with all that it takes behind the buffers, if `where` says so."""
        given = ["%buffers", *given]
        if not where:
            self.fn.call(pack, given)
            return
        with self.fn.when(where):
            self.fn.call(pack, given)

    def write(self) -> None:
        """Write the loops over panels and tiles.

        Where all panels of the piece are packed first, each tile of rows meets all of them.
        """
        if self.gemm.scheme.keeps_panels:
            self._pack_panels()
            self._each_tile(
                lambda row, rows: self._each_panel(
                    lambda panel, columns: self._tile(row, panel, rows, columns)
                )
            )
            return

        def multiplied(panel: Integer, columns: int) -> None:
            self._pack_panel(panel, columns)
            self._each_tile(lambda row, rows: self._tile(row, panel, rows, columns))

        self._each_panel(multiplied)

    def _pack_panels(self) -> None:
        """Pack all panels of the piece: one after the other, or some steps of each in turn."""
        fn, scheme = self.fn, self.gemm.scheme
        if not scheme.turn:
            self._each_panel(self._pack_panel)
            return
        with fn.loop(0, self.steps, scheme.turn) as loop:
            steps = fn.min(fn.sub(self.steps, loop.index), scheme.turn)
            turn = loop.index, steps
            self._each_panel(lambda panel, columns: self._pack_panel(panel, columns, turn))

    def _each_panel(self, body: Callable[[Integer, int], None]) -> None:
        """Write what is done with each panel: the full ones, then the last one if narrower."""
        fn, scheme = self.fn, self.gemm.scheme
        full = scheme.panels - (scheme.last_columns != scheme.tile.columns)
        if full:
            stop = self.panels[1] if full == scheme.panels else fn.min(self.panels[1], full)
            with fn.loop(self.panels[0], stop) as loop:
                body(loop.index, scheme.tile.columns)
        if full == scheme.panels:
            return
        if full == 0 or isinstance(self.panels[1], int):
            body(full, scheme.last_columns)
            return
        with fn.when(fn.compare("eq", self.panels[1], scheme.panels)):
            body(full, scheme.last_columns)

    def _each_tile(self, body: Callable[[Integer, int], None]) -> None:
        """Write what is done with each tile of rows: the higher ones, then the others."""
        fn, tiles = self.fn, self.gemm.scheme.tiles
        if tiles.longer:
            with fn.loop(self.tiles[0], fn.min(self.tiles[1], tiles.longer)) as loop:
                body(fn.mul(loop.index, tiles.longest), tiles.longest)
        if not tiles.short:
            return
        start = fn.max(self.tiles[0], tiles.longer) if tiles.longer else self.tiles[0]
        with fn.loop(start, self.tiles[1]) as loop:
            body(fn.add(fn.mul(loop.index, tiles.short), tiles.longer), tiles.short)

    def _pack_panel(
        self, panel: Integer, columns: int, turn: tuple[Integer, Integer] | None = None
    ) -> None:
        """Pack a panel, or of a turn the steps from one on, so many: whole vectors of the block."""
        fn, scheme = self.fn, self.gemm.scheme
        if not scheme.packs_columns:
            return
        pack = packs_columns(self.gemm, columns)
        where = self.piece.is_new if scheme.rows is RowUnits.IN_PLACE else ""
        column = fn.mul(panel, scheme.tile.columns)
        to, first, steps = self._packed(panel), self.first, self.steps
        if turn is not None:
            step, steps = turn
            to = fn.gep(to, fn.mul(step, scheme.tile.columns * scheme.how.unit_bytes))
            first = fn.add(first, fn.div(step, scheme.lanes))
        self._pack(pack, [to, self.piece.batch, column, columns, first, steps], where)

    def _packed(self, panel: Integer) -> str:
        """The address of a packed panel."""
        fn, scheme = self.fn, self.gemm.scheme
        if scheme.columns is ColumnUnits.PANELS:
            return self._lying(panel, self.first)
        to = self.piece.panel
        if not scheme.keeps_panels:
            return to
        return fn.gep(to, fn.mul(fn.sub(panel, self.panels[0]), scheme.one_panel_bytes))

    def _lying(self, panel: Integer, first: Integer) -> str:
        """The address of a panel that lies so, from a vector of units of k on."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        size = scheme.how.unit_bytes
        at = fn.mul(fn.mul(panel, scheme.tile.columns), scheme.geometry.k)
        at = fn.add(at, fn.mul(first, scheme.tile.lanes * gemm.columns.panel))
        return fn.gep(self.piece.columns_base, fn.mul(at, size))

    def _tile(self, row: Integer, panel: Integer, rows: int, columns: int) -> None:
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        column = fn.mul(panel, scheme.tile.columns)
        packed = self._packed(panel)
        sums = self._sums(row, column)
        more = fn.compare("sgt", self.number, self.first_number)
        tile = tile_of(gemm, rows, columns)
        ahead = self._ahead(row, panel)
        places = [self._rows(row), packed, sums]
        numbers = [self.piece.batch, self.first, self.steps, column]
        self._ask_for_finish(row, column, rows, columns)
        fn.call(tile, ["%buffers", *places, *numbers, more, *ahead])
        if not scheme.has_finish or scheme.is_shared:
            return
        finish = gemm.finishing(f"finish_{columns}", columns, Sums(gemm.sums_step))
        given = ["%buffers", sums, self.piece.batch, row, rows, column]
        if scheme.blocks.parts == 1:
            fn.call(finish, given)
            return
        with fn.when(fn.compare("eq", self.number, scheme.blocks.parts - 1)):
            fn.call(finish, given)

    def _ask_for_finish(self, row: Integer, column: Integer, rows: int, columns: int) -> None:
        """Ask for what is read and written when a tile is finished, in the last block of k."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        if not scheme.has_finish or scheme.is_shared or scheme.block_steps < FINISH_STEPS:
            return
        given = (fn, gemm.finish, scheme.geometry, self.piece.batch, (row, column), (rows, columns))
        if scheme.blocks.parts == 1:
            ask_for_finish(*given)
            return
        with fn.when(fn.compare("eq", self.number, scheme.blocks.parts - 1)):
            ask_for_finish(*given)

    def _ahead(self, row: Integer, panel: Integer) -> tuple[str, Integer]:
        """The address that a tile asks for ahead of time, and the bytes between steps.

        That is the next panel, behind the last one the first of the next block of k. Tiles that
        come when all of it was asked for ask for what is there.
        """
        fn, scheme, ahead = self.fn, self.gemm.scheme, self.gemm.ahead
        if ahead is None:
            return "null", 0
        panel, k = fn.add(panel, 1), fn.mul(self.first, scheme.tile.lanes)
        if scheme.blocks.parts > 1:
            is_last = fn.compare("sge", panel, self.panels[1])
            panel = fn.select(is_last, "i64", self.panels[0], panel)
            k = fn.add(k, fn.select(is_last, "i64", self.steps, 0))
        place = fn.mul(fn.mul(panel, scheme.tile.columns), ahead.size)
        there = fn.gep(self.piece.columns_base, fn.add(fn.mul(k, ahead.along), place))
        tile = fn.div(fn.sub(row, self.row), scheme.tiles.longest)
        line = fn.mul(tile, ahead.each)
        there = fn.gep(there, fn.mul(line, LINE))
        if isinstance(line, int):
            return there, ahead.along
        is_new = fn.compare("slt", line, ahead.lines)
        near = self._rows(row)
        there = fn.select(is_new, "ptr", there, near)
        return there, fn.select(is_new, "i64", ahead.along, 0)

    def _rows(self, row: Integer) -> str:
        """The address of the first unit of a tile's rows."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        if scheme.rows is RowUnits.IN_PLACE:
            step, across, _ = gemm.row_steps(scheme.tiles.longest)
            first = fn.mul(self.first, scheme.tile.lanes * step)
            return fn.gep(self.piece.rows_base, fn.add(fn.mul(row, across), first))
        row_bytes = scheme.row_step * scheme.how.unit_bytes
        return fn.gep(self.piece.thread, fn.mul(fn.sub(row, self.row), row_bytes))

    def _sums(self, row: Integer, column: Integer) -> str:
        """The address of the first sum of a tile."""
        fn, gemm, scheme = self.fn, self.gemm, self.gemm.scheme
        if scheme.has_finish and not scheme.is_shared:
            if not scheme.keeps_sums:
                return self.piece.sums_base
            first = fn.mul(self.panels[0], scheme.tile.columns)
            row, column = fn.sub(row, self.row), fn.sub(column, first)
        at = fn.add(fn.mul(row, gemm.sums_step), column)
        return fn.gep(self.piece.sums_base, fn.mul(at, scheme.how.unit_bytes))
