"""Choice of the way to compute a product: by its shape, and by how its operands lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, without_pairs
from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.inner_scheme import SWAPPED_ROWS
from lowtide.codegen.cpu.contraction.matrix_tile import MOST, SIDE
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.scheme import (
    NEAR_LONGEST,
    STREAMED_ROWS,
    ColumnUnits,
    ContractionScheme,
    RowUnits,
    scheme_of,
    wanted_units,
    with_fewer_rows,
)
from lowtide.codegen.cpu.contraction.tiles import (
    ComputingCycles,
    EvenParts,
    PanelCost,
    RegisterTile,
    best_tiles,
)
from lowtide.codegen.cpu.fetching import has_halved_vectors
from lowtide.llvm.target import Target

DIRECT_ROWS: Final = 64
"""Rows for which columns are read as they lie, half as many where steps of k lie `SET_BYTES` apart:
packing would take as long as multiplying."""

NEAR_BYTES: Final = 1024
"""Steps of k so close together are read like a packed panel."""

NEAR_ROWS: Final = 224
"""Rows for which packing such a panel takes as long as it saves."""

SET_BYTES: Final = 2048
"""Rows so far apart, or multiples of it, fall into the same lines of a first cache."""

LOW_SET_BYTES: Final = 1024
"""The same of columns that low tiles of few registers read more often."""

PAGES_BYTES: Final = 8192
"""Steps of k so far apart, or multiples of it, fall into one line of a first cache and few of a
second one: what a tile has read is gone when the next tile of rows reads it."""

LOW_PAGES_BYTES: Final = 4096
"""The same where tiles are low, as few registers hold them."""

DIRECT_TILES: Final = 3
"""Tiles of rows for which columns are read as they lie all the same."""

FAR_BYTES: Final = 2048
"""Steps of k so far apart fall into few lines of a second cache, each of them in another page."""

SLOW_FAR_BYTES: Final = 8192 + 1
"""The same where products of the widest vectors take two turns: lines come in time for them."""

LOW_FAR_BYTES: Final = 1536
"""The same where tiles are low, of products of at least `LOW_COLUMNS` columns."""

FEW_STEPS: Final = 128
"""Steps of k that do so without harm."""

LOW_FEW_STEPS: Final = 48
"""The same of these products."""

LOW_COLUMNS: Final = 64
"""Columns for which it then pays to pack rows that lie side by side."""

LOW_ROWS_BYTES: Final = 240 << 10
"""Bytes of all rows from which on it does: fewer stay in a second cache."""

PANEL_ROWS: Final = 4
"""Rows of a tile that registers hold at least of a panel that is read as it lies: the tile is as
wide, and one of fewer rows takes longer to load than to multiply."""

FEW_REGISTERS: Final = 16
"""Vector registers that hold low tiles only, so that rows are read again for few columns."""

TILE_ROWS: Final = 13
"""Rows of a tile otherwise: each is a stream of its own."""

SCRATCH_SHARE: Final = 8
"""Scratch of more than this part of what is read and written shows in plans of small products."""

FAR_BYTES_OF_ROWS: Final = 6 << 20
"""Bytes of rows from which on a last cache, which others use too, does not keep them. Rows that it
keeps come soon enough: to take them in blocks would take up to 1.4 of the time."""

STAYING_BYTES: Final = 192 << 10
"""Bytes of rows that stay in a second cache while panel after panel meets them."""

FEWEST_STAYING: Final = 128
"""Rows of such a block for which it costs little to pack a panel again."""

PAIRED_ROWS: Final = 128
"""Rows up to which packing columns takes so long that pairs of panels are packed in turn."""

FEW_ROWS: Final = 8
"""Rows of a tile that then still find room in it."""


def is_better_swapped(shape: Geometry, rows: OperandSide) -> bool:
    """Whether the columns should be taken for rows: there are so few that they fill no vector.

    A step along k of a row then costs a load and a product, and of a vector along k as many
    products as there are columns; but the sums of a vector have to be added up.
    """
    if shape.n >= shape.m or not rows.lies_along_k:
        return shape.n == 1 < shape.m
    if shape.n > SWAPPED_ROWS:
        return False
    return shape.n == 1 or shape.k * (16 - shape.n) > 160 * shape.n


def is_large(shape: Geometry, how: Arithmetic) -> bool:
    """Whether a product fills registers of squares so that they are worth packing for."""
    return min(shape.m, shape.n) >= SIDE and shape.k >= SIDE * how.group


def blocked_schemes(
    shape: Geometry,
    how: Arithmetic,
    rows: OperandSide,
    columns: OperandSide,
    finish: Epilogue,
    target: Target,
) -> Iterator[ContractionScheme]:
    """Yield schemes of a product that is blocked for caches, the one that seems fastest first.

    The others read columns in another way, hold another tile, or pack rows that could stay.
    """
    best = _columns_way(shape, how, rows, columns, target)
    other = _OTHER_WAY.get(best, best)
    found = [(best, 0, False), (other, 0, False), (best, 1, False), (best, 0, True)]
    computing = ComputingCycles(rows.computing_cycles(target), columns.computing_cycles(target))
    for way, rank, packs_rows in dict.fromkeys(found):
        is_packed = way not in (ColumnUnits.DIRECT, ColumnUnits.PANELS)
        own = how if is_packed else without_pairs(how)
        tiles = _tiles(shape, own, rows, target, is_packed=is_packed)
        if way is ColumnUnits.PANELS:
            tiles = [x for x in tiles if x.columns % columns.panel == 0]
        given = own, rows, columns, shape, target
        rows_way = _packed_way(own, rows) if packs_rows else _rows_way(*given)
        if rank < len(tiles):
            has_finish = not (finish.is_plain(own) and finish.lies_as(shape))
            scheme = scheme_of(shape, own, tiles[rank], rows_way, way, has_finish, computing)
            touched = shape.batch * shape.m * (shape.k + shape.n) * rows.type.nbytes
            if SCRATCH_SHARE * scheme.thread_bytes > touched:
                scheme = with_fewer_rows(scheme, target.stack_bytes)
            yield with_panels_in_turn(with_rows_that_stay(scheme), columns, target)


def with_rows_that_stay(scheme: ContractionScheme) -> ContractionScheme:
    """Return a scheme in which rows that no cache keeps come from far only once.

    That is where they are read in place, by several panels of all steps of k. The pieces of a block
    of rows follow each other, and each packs its panel, which takes no scratch. Panels with rests,
    whose packing is long, are packed once.
    """
    shape = scheme.geometry
    is_read_again = scheme.rows is RowUnits.IN_PLACE and scheme.column_blocks.parts > 1
    if not (is_read_again and scheme.packs_columns) or scheme.blocks.parts > 1:
        return scheme
    if scheme.how.is_tiled:  # Squares are multiplied faster than rows come: see TILED_COLUMNS.
        return scheme
    row_bytes = shape.k * scheme.how.unit_bytes // scheme.how.group
    if shape.m * row_bytes < FAR_BYTES_OF_ROWS or scheme.rests is not None:
        return scheme
    together = max(FEWEST_STAYING, STAYING_BYTES // row_bytes)
    if shape.m <= 2 * together:
        return scheme
    parts = max(scheme.row_blocks.parts, -(-shape.m // together))
    return replace(scheme, row_blocks=EvenParts(scheme.tiles.parts, parts), rows_stay=True)


def with_panels_in_turn(
    scheme: ContractionScheme, columns: OperandSide, target: Target
) -> ContractionScheme:
    """Return a scheme in which two panels are packed a few steps of each in turn.

    That is where few rows meet columns whose steps of k fall into few lines of the caches: those
    lines that both panels have a part of would come from far twice. There stay pieces enough.
    """
    shape, how = scheme.geometry, scheme.how
    is_plain = scheme.rows is RowUnits.IN_PLACE and scheme.columns is ColumnUnits.ALONG_COLUMNS
    is_cut = scheme.blocks.parts > 1 or scheme.column_blocks.longest > 1 or scheme.rows_stay
    if not is_plain or is_cut or target.registers > FEW_REGISTERS or shape.m > PAIRED_ROWS:
        return scheme
    step = columns.view.single(columns.roles.inner) if columns.view else None
    if not step or how.group > 1 or step * columns.type.nbytes % LOW_PAGES_BYTES:
        return scheme
    parts = -(-scheme.panels // 2)
    if shape.batch * parts < wanted_units(shape, how, scheme.lanes):
        return scheme
    blocks = EvenParts(scheme.panels, parts)
    return replace(scheme, column_blocks=blocks, turn=scheme.lanes)


_OTHER_WAY: Final = {
    ColumnUnits.DIRECT: ColumnUnits.ALONG_COLUMNS,
    ColumnUnits.ALONG_COLUMNS: ColumnUnits.DIRECT,
    ColumnUnits.PANELS: ColumnUnits.DIRECT,
}


def lies_in_panels(how: Arithmetic, columns: OperandSide, target: Target) -> bool:
    """Whether columns lie in panels of whole vectors, as wide as tiles, which need no packing."""
    vectors, rest = divmod(columns.panel, how.lanes(target))
    is_alone = how.group == how.planes == 1 and columns.is_plain(how)
    return is_alone and vectors > 0 and not rest and how.fits(PANEL_ROWS, vectors, target)


def _columns_way(
    shape: Geometry, how: Arithmetic, rows: OperandSide, columns: OperandSide, target: Target
) -> ColumnUnits:
    """Columns that lie side by side are not packed for few rows, or where they are near anyway."""
    if columns.lies_along_k:
        return ColumnUnits.ALONG_K
    if lies_in_panels(how, columns, target):
        return ColumnUnits.PANELS
    direct = _tiles(shape, without_pairs(how), rows, target, is_packed=False)[0]
    if how.group == 1 and shape.m <= direct.rows:
        return ColumnUnits.DIRECT
    if how.group > 1 or not columns.is_plain(how) or columns.view is None:
        return ColumnUnits.ALONG_COLUMNS
    step = columns.view.single(columns.roles.inner)
    if step is None:
        return ColumnUnits.ALONG_COLUMNS
    if _is_scattered(columns, how.lanes(target)):
        return ColumnUnits.ALONG_COLUMNS
    most = _most_direct_rows(step * columns.type.nbytes, direct.rows, target)
    return ColumnUnits.DIRECT if shape.m <= most else ColumnUnits.ALONG_COLUMNS


def _most_direct_rows(apart: int, height: int, target: Target) -> int:
    """The most rows for which columns are read as they lie, their steps so many bytes apart.

    `height` is that of a tile.
    """
    if apart <= NEAR_BYTES:
        return NEAR_ROWS
    is_low = target.registers <= FEW_REGISTERS
    most = (
        DIRECT_ROWS // 2 if apart % (LOW_SET_BYTES if is_low else SET_BYTES) == 0 else DIRECT_ROWS
    )
    if apart % (LOW_PAGES_BYTES if is_low else PAGES_BYTES) == 0:
        most = min(most, DIRECT_TILES * height)
    return most


def _is_scattered(columns: OperandSide, lanes: int) -> bool:
    """Whether vectors of neighbouring columns come from several places.

    They are then put together element by element, which is done once for all tiles of rows.
    """
    found = columns.view.runs(columns.roles.free) if columns.view else ()
    return bool(found) and (found[-1].step != 1 or (len(found) > 1 and found[-1].size % lanes != 0))


def _tiles(
    shape: Geometry, how: Arithmetic, rows: OperandSide, target: Target, *, is_packed: bool
) -> list[RegisterTile]:
    """Tiles for columns that are packed, or read as they lie, the best one first."""
    if how.is_tiled:
        return [RegisterTile(min(MOST, shape.m), -(-min(MOST, shape.n) // SIDE), SIDE)]
    most = TILE_ROWS
    if rows.is_plain(how) and rows.view is not None:
        step = rows.view.single(rows.roles.free) or 1
        if step * rows.type.nbytes % SET_BYTES == 0:
            most = FEW_ROWS
    lanes = _lanes(shape, how, target)
    steps = -(-shape.k // how.group)
    if not is_packed:
        steps = 2 * (steps if shape.m <= STREAMED_ROWS else min(steps, NEAR_LONGEST))
    vector_bytes = lanes * how.unit_bytes // how.planes
    panel = PanelCost(steps, vector_bytes, target.near_bytes, is_packed)

    def fits(rows: int, vectors: int) -> bool:
        return how.fits(rows, vectors, target)

    return best_tiles(shape.m, shape.n, lanes, how.planes, most, panel, fits)


def _lanes(shape: Geometry, how: Arithmetic, target: Target) -> int:
    """The lanes of a vector, fewer where the columns do not fill it."""
    lanes = how.lanes(target)
    least = 16 * how.planes // how.unit_bytes
    while how.group == 1 and lanes > max(2, least) and lanes >= 2 * shape.n:
        lanes //= 2
    return lanes


def _rows_way(
    how: Arithmetic, rows: OperandSide, columns: OperandSide, shape: Geometry, target: Target
) -> RowUnits:
    if _is_fit_in_place(how, rows, columns, shape, target):
        return RowUnits.IN_PLACE
    return _packed_way(how, rows)


def _packed_way(how: Arithmetic, rows: OperandSide) -> RowUnits:
    if rows.lies_along_k:
        return RowUnits.ALONG_K
    return RowUnits.IN_TILES if how.group == how.planes == 1 else RowUnits.ACROSS


def _is_fit_in_place(
    how: Arithmetic, rows: OperandSide, columns: OperandSide, shape: Geometry, target: Target
) -> bool:
    """Whether units of rows can be read one by one where they lie, and are not too far apart."""
    if not rows.is_plain(how) or rows.view is None:
        return False
    along, across = (rows.view.single(x) for x in (rows.roles.inner, rows.roles.free))
    if along is None or across is None:
        return False
    if how.group > 1:
        whole = how.group * (SIDE if how.is_tiled else 1)
        return along == 1 and shape.k % whole == 0
    apart = along * rows.type.nbytes
    far, few = _far_steps(shape, rows, columns, target)
    return apart < far or shape.k <= few or shape.m <= DIRECT_ROWS


def _far_steps(
    shape: Geometry, rows: OperandSide, columns: OperandSide, target: Target
) -> tuple[int, int]:
    """Return how many bytes apart steps of k should not be read in place, and how many may.

    Columns that lie along k take long to pack: not again for each block of few rows, which is what
    scratch allows where there are not many columns. Rows that stay in a second cache are read soon
    enough from there.
    """
    is_wide = shape.n >= (SCRATCH_SHARE * shape.k if columns.lies_along_k else LOW_COLUMNS)
    is_large = shape.m * shape.k * rows.type.nbytes >= LOW_ROWS_BYTES
    if target.registers <= FEW_REGISTERS and is_wide and is_large:
        return LOW_FAR_BYTES, LOW_FEW_STEPS
    return SLOW_FAR_BYTES if has_halved_vectors(target) else FAR_BYTES, FEW_STEPS
