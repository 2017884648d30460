"""The order in which blocks make the tiles of a product, by which they share what caches hold."""

from __future__ import annotations

from lowtide.llvm.function import Function, Integer


def tile_of_block(
    fn: Function, block: Integer, tiles: tuple[int, int], group: int
) -> tuple[Integer, Integer]:
    """Return the row and the column of a block's tile, of so many rows and columns of `tiles`.

    Rows are taken in groups of `group`, the last of which may have fewer; in each, columns in turn.
    """
    down, across = tiles
    band = fn.div(block, group * across)
    within = fn.rem(block, group * across)
    rest = down % group
    places = [(fn.rem(within, x), fn.div(within, x)) for x in (group, rest) if x]
    row, column = places[0]
    if rest and down > group:
        is_whole = fn.compare("slt", band, down // group)
        row = fn.select(is_whole, "i64", row, places[1][0])
        column = fn.select(is_whole, "i64", column, places[1][1])
    elif rest:
        row, column = places[1]
    return fn.add(fn.mul(band, group), row), column
