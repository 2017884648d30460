"""Borders of manual regions, inside of which a program is written for one device already."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import unsupported
from lowtide.ir.tilings.shardy import BORDER_KEYS, MANUAL_ENTRANCE, MANUAL_EXIT
from lowtide.ir.tilings.shardy_reader import read_manual_axes, read_shardings
from lowtide.spmd.annotations import ModuleShardings, TilingWish

_INTO: Final = (MANUAL_ENTRANCE, "SPMDFullToShardShape")
_OUT_OF: Final = (MANUAL_EXIT, "SPMDShardToFullShape")


def is_entrance(x: Instruction) -> bool:
    """Whether a custom call takes whole arrays and returns their tiles."""
    return isinstance(x.attributes, CustomCall) and x.attributes.target in _INTO


def is_exit(x: Instruction) -> bool:
    """Whether a custom call takes tiles and returns the whole arrays."""
    return isinstance(x.attributes, CustomCall) and x.attributes.target in _OUT_OF


def border_wishes(x: Instruction, shardings: ModuleShardings) -> list[TilingWish]:
    """Return how the whole arrays at a border are cut; raises UnsupportedOpError if unlike it.

    Axes that are not manual do not cut there: all devices along them have the same tile.
    """
    target = x.attributes_as(CustomCall).target
    key = BORDER_KEYS.get(target)
    whole, tiles = (x.operands, (x,)) if is_entrance(x) else ((x,), x.operands)
    shapes = [leaf for y in whole for _, leaf in y.shape.leaves()]
    local = [leaf for y in tiles for _, leaf in y.shape.leaves()]
    if key:
        attributes = dict(x.annotations.frontend_attributes)
        given = read_shardings(attributes.get(key, ""))
        names = read_manual_axes(attributes.get("xla.sdy.manual_axes", ""))
        found = [
            shardings.reader.shardy(sharding, shape.rank, x, names)
            for sharding, shape in zip(given, shapes, strict=True)
        ]
    else:
        wishes = shardings.wishes.get(whole[0], [])
        found = [wish for wish in wishes if wish is not None]
    grid = shardings.grid
    fits = [
        wish.tiling.local(grid, shape.dimensions) == tile.dimensions
        for wish, shape, tile in zip(found, shapes, local, strict=False)
    ]
    if len(found) != len(shapes) or not all(fits):
        raise unsupported(
            x,
            "its sharding does not cut the whole array into tiles of the shape inside; state one "
            "that does, by the manual axes alone",
        )
    return found
