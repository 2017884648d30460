"""The functions that the pieces of a blocked product call, each written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.matrix_tile import matrix_tile_function
from lowtide.codegen.cpu.contraction.packing import (
    pack_panel,
    pack_rows,
    pack_rows_across,
    pack_transposed,
)
from lowtide.codegen.cpu.contraction.scheme import ColumnUnits, RowUnits
from lowtide.codegen.cpu.contraction.tile_packing import pack_tiles
from lowtide.codegen.cpu.contraction.vector_tile import tile_function
from lowtide.llvm.function import Function, Integer


def packs_rows(gemm: Gemm) -> Function:
    """Return the function that packs the rows of a block."""
    scheme = gemm.scheme

    def write(name: str) -> Function:
        pack = gemm.packer(name, gemm.rows, scheme.geometry.m)
        if scheme.rows is RowUnits.IN_TILES:
            return gemm.noted(pack_tiles(pack, scheme.row_step, scheme.tiles), pack.elements)
        how = pack_rows_across if scheme.rows is RowUnits.ACROSS else pack_rows
        return gemm.noted(how(pack, scheme.row_step), pack.elements)

    return gemm.needed("pack_rows", write)


def packs_columns(gemm: Gemm, columns: int) -> Function:
    """Return the function that packs a panel."""
    scheme = gemm.scheme

    def write(name: str) -> Function:
        is_along = scheme.columns is ColumnUnits.ALONG_COLUMNS
        how, most = (pack_panel, columns) if is_along else (pack_transposed, 0)
        pack = gemm.packer(name, gemm.columns, scheme.geometry.n, most)
        fn = how(pack, columns, scheme.tile.columns)
        if scheme.rests is not None:
            scheme.rests.sift(fn, "%to", -(-columns // scheme.lanes), partial(_each_row, fn))
        return gemm.noted(fn, pack.elements)

    return gemm.needed(f"pack_{columns}_columns", write)


def _each_row(fn: Function, visit: Callable[[Integer, Sequence[Integer]], None]) -> None:
    """Write a loop over the rows of a panel."""
    with fn.loop(0, "%steps") as loop:
        visit(loop.index, [loop.index])


def tile_of(gemm: Gemm, rows: int, columns: int) -> Function:
    """Return the function of a tile."""
    write = matrix_tile_function if gemm.scheme.how.is_tiled else tile_function
    return gemm.needed(f"tile_{rows}x{columns}", lambda name: write(gemm, name, rows, columns))
