"""A product that is blocked for caches: the functions that its pieces call, each written once."""

from __future__ import annotations

from lowtide.codegen.cpu.contraction.matrix_tile import matrix_tile_function
from lowtide.codegen.cpu.contraction.packing import (
    pack_panel,
    pack_rows,
    pack_rows_across,
    pack_transposed,
)
from lowtide.codegen.cpu.contraction.prefetching import PanelAhead, panel_ahead
from lowtide.codegen.cpu.contraction.product import Product
from lowtide.codegen.cpu.contraction.scheme import NEAR_LONGEST, Columns, Rows, Scheme
from lowtide.codegen.cpu.contraction.vector_tile import tile_function
from lowtide.llvm.function import Function


class Gemm(Product[Scheme]):
    """A product that is blocked for caches, to be written."""

    @property
    def ahead(self) -> PanelAhead | None:
        """How tiles ask for the next panel, None where they do not: only of columns that lie so.

        A packed panel comes from the second cache, which has no time for more.
        """
        scheme = self.scheme
        is_near = scheme.columns is Columns.DIRECT and scheme.block_steps <= NEAR_LONGEST
        if not is_near or scheme.panels == 1:
            return None
        return panel_ahead(self.columns, scheme.tile.columns, scheme.row_blocks.short)

    # -- the functions that the phases call ------------------------------------------------------

    def pack_rows(self) -> str:
        """Return the function that packs the rows of a block."""
        scheme = self.scheme
        shape = scheme.geometry

        def write(name: str) -> Function:
            pack = self.packer(name, self.rows, shape.m)
            if self.rows.lies_along_k:
                fn = pack_rows(pack, scheme.row_step)
            else:
                fn = pack_rows_across(pack, scheme.row_step)
            return self.noted(fn, pack.elements)

        return self.needed("pack_rows", write)

    def pack_columns(self, columns: int) -> str:
        """Return the function that packs a panel."""
        scheme = self.scheme
        shape = scheme.geometry

        def write(name: str) -> Function:
            pack = self.packer(name, self.columns, shape.n)
            how = pack_panel if scheme.columns is Columns.ALONG_COLUMNS else pack_transposed
            return self.noted(how(pack, columns, scheme.tile.columns), pack.elements)

        return self.needed(f"pack_{columns}_columns", write)

    def tile(self, rows: int, columns: int) -> str:
        """Return the function of a tile."""
        write = matrix_tile_function if self.scheme.how.is_tiled else tile_function
        name = f"tile_{rows}x{columns}"
        return self.needed(name, lambda name: write(self, name, rows, columns))

    # -- sums ------------------------------------------------------------------------------------

    @property
    def sums_step(self) -> int:
        """Sums between the rows of a tile where it is added up."""
        scheme = self.scheme
        if scheme.keeps_sums:
            return scheme.sums_step
        if scheme.has_finish and not scheme.is_shared:
            return scheme.tile.columns
        return scheme.geometry.n

    def row_steps(self) -> tuple[int, int, int]:
        """Bytes between steps and between rows, and the alignment of units."""
        scheme, side = self.scheme, self.rows
        how = scheme.how
        if scheme.rows is Rows.ALONG_K:
            return how.unit_bytes, scheme.row_step * how.unit_bytes, how.unit_bytes // how.planes
        assert side.view is not None
        along, across = side.view.single(side.roles.inner), side.view.single(side.roles.free)
        assert along is not None and across is not None
        size = side.type.nbytes
        return along * size * how.group, across * size, size // how.planes
