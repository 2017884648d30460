"""A product that is blocked for caches: where its sums and rows lie."""

from __future__ import annotations

from lowtide.codegen.cpu.contraction.prefetching import PanelAhead, panel_ahead
from lowtide.codegen.cpu.contraction.product import ContractionProduct
from lowtide.codegen.cpu.contraction.scheme import (
    NEAR_LONGEST,
    ColumnUnits,
    ContractionScheme,
    RowUnits,
)


class Gemm(ContractionProduct[ContractionScheme]):
    """A product that is blocked for caches, to be written."""

    @property
    def ahead(self) -> PanelAhead | None:
        """How tiles ask for the next panel, None where they do not: only of columns that lie so.

        A packed panel comes from the second cache, which has no time for more.
        """
        scheme = self.scheme
        is_near = scheme.columns is ColumnUnits.DIRECT and scheme.block_steps <= NEAR_LONGEST
        if not is_near or scheme.panels == 1:
            return None
        return panel_ahead(self.columns, scheme.tile.columns, scheme.row_blocks.short)

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

    def row_steps(self, rows: int) -> tuple[int, int, int]:
        """Bytes between steps, between rows of a tile of some rows, and how units are aligned."""
        scheme, side = self.scheme, self.rows
        how = scheme.how
        if scheme.rows is RowUnits.IN_TILES:
            return rows * how.unit_bytes, how.unit_bytes, how.unit_bytes
        if scheme.rows is not RowUnits.IN_PLACE:
            return how.unit_bytes, scheme.row_step * how.unit_bytes, how.unit_bytes // how.planes
        assert side.view is not None
        along, across = side.view.single(side.roles.inner), side.view.single(side.roles.free)
        assert along is not None and across is not None
        size = side.type.nbytes
        return along * size * how.group, across * size, size // how.planes
