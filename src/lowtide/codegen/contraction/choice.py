"""Which way to compute a product: by its shape, and by how its operands lie in memory."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.contraction.arithmetic import Arithmetic, without_pairs
from lowtide.codegen.contraction.finishing import Finish
from lowtide.codegen.contraction.geometry import Geometry
from lowtide.codegen.contraction.inner import MOST_ROWS
from lowtide.codegen.contraction.matrix_tile import MOST, SIDE
from lowtide.codegen.contraction.operands import Side, element_bytes
from lowtide.codegen.contraction.scheme import Columns, Rows, Scheme, scheme_of
from lowtide.codegen.contraction.tiles import Tile, best_tile
from lowtide.llvm.target import Target

DIRECT_ROWS: Final = 40
"""Rows for which columns are read as they lie: packing would take as long as multiplying."""

NEAR_BYTES: Final = 1024
"""Rows of a matrix so close together are read like a packed panel."""

SET_BYTES: Final = 4096
"""Rows so far apart, or multiples of it, fall into the same lines of a first cache."""

FAR_BYTES: Final = 3072
"""Steps of k so far apart fall into few lines of a second cache, each of them in another page."""

FEW_STEPS: Final = 128
"""Steps of k that do so without harm."""

TILE_ROWS: Final = 14
"""Rows of a tile otherwise: each is a stream of its own."""

FEW_ROWS: Final = 8
"""Rows of a tile that then still find room in it."""


def is_better_swapped(shape: Geometry, rows: Side) -> bool:
    """Whether the columns should be taken for rows: there are so few that they fill no vector.

    A step along k of a row then costs a load and a product, and of a vector along k as many
    products as there are columns; but the sums of a vector have to be added up.
    """
    if shape.n >= shape.m or not rows.lies_along_k:
        return shape.n == 1 < shape.m
    if shape.n > MOST_ROWS:
        return False
    return shape.n == 1 or shape.k * (16 - shape.n) > 160 * shape.n


def is_large(shape: Geometry, how: Arithmetic) -> bool:
    """Whether a product fills registers of squares so that they are worth packing for."""
    return min(shape.m, shape.n) >= SIDE and shape.k >= SIDE * how.group


def blocked_scheme(
    shape: Geometry, how: Arithmetic, rows: Side, columns: Side, finish: Finish, target: Target
) -> Scheme:
    """Return the scheme of a product that is blocked for caches."""
    way = _columns_way(shape, how, rows, columns, target)
    if way is Columns.DIRECT:
        how = without_pairs(how)
    tile = _tile(shape, how, rows, target)
    return scheme_of(shape, how, tile, _rows_way(how, rows, shape), way, not finish.is_plain(how))


def _columns_way(
    shape: Geometry, how: Arithmetic, rows: Side, columns: Side, target: Target
) -> Columns:
    """Columns that lie side by side are not packed for few rows, or where they are near anyway."""
    if columns.lies_along_k:
        return Columns.ALONG_K
    if shape.m <= _tile(shape, without_pairs(how), rows, target).rows:
        return Columns.DIRECT
    if how.group > 1 or not columns.is_plain(how) or columns.view is None:
        return Columns.ALONG_COLUMNS
    step = columns.view.single(columns.roles.inner)
    if step is None:
        return Columns.ALONG_COLUMNS
    apart = step * element_bytes(columns.type)
    is_near = apart <= NEAR_BYTES
    return Columns.DIRECT if is_near or shape.m <= DIRECT_ROWS else Columns.ALONG_COLUMNS


def _tile(shape: Geometry, how: Arithmetic, rows: Side, target: Target) -> Tile:
    if how.is_tiled:
        return Tile(min(MOST, shape.m), -(-min(MOST, shape.n) // SIDE), SIDE)
    most = TILE_ROWS
    if rows.is_plain(how) and rows.view is not None:
        step = rows.view.single(rows.roles.free) or 1
        if step * element_bytes(rows.type) % SET_BYTES == 0:
            most = FEW_ROWS
    lanes = _lanes(shape, how, target)
    return best_tile(shape.m, shape.n, lanes, target.registers, how.planes, most)


def _lanes(shape: Geometry, how: Arithmetic, target: Target) -> int:
    """The lanes of a vector, fewer where the columns do not fill it."""
    lanes = how.lanes(target)
    least = 16 * how.planes // how.unit_bytes
    while how.group == 1 and lanes > max(2, least) and lanes >= 2 * shape.n:
        lanes //= 2
    return lanes


def _rows_way(how: Arithmetic, rows: Side, shape: Geometry) -> Rows:
    if _is_fit_in_place(how, rows, shape):
        return Rows.IN_PLACE
    return Rows.ALONG_K if rows.lies_along_k or how.is_tiled else Rows.ALONG_ROWS


def _is_fit_in_place(how: Arithmetic, rows: Side, shape: Geometry) -> bool:
    """Whether units of rows can be read one by one where they lie, and are not too far apart."""
    if not rows.is_plain(how) or rows.view is None:
        return False
    along, across = (rows.view.single(x) for x in (rows.roles.inner, rows.roles.free))
    if along is None or across is None:
        return False
    if how.group > 1:
        whole = how.group * (SIDE if how.is_tiled else 1)
        return along == 1 and shape.k % whole == 0
    apart = along * element_bytes(rows.type)
    return apart < FAR_BYTES or shape.k <= FEW_STEPS or shape.m <= DIRECT_ROWS
