"""Arrays cut into the tiles of devices, and put together from them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.ir.errors import InputError
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.device_tiles import DeviceTiles, device_tiles
from lowtide.ir.tilings.grid import DeviceGrid


def cut(array: Any, sharding: Sharding, grid: DeviceGrid) -> list[Any]:
    """Return the tile of each device; raises InputError where tiles are not of one size.

    Where devices are to hold terms of a sum, the first one holds the array, the others zeros.
    """
    whole = np.asarray(array)
    tiles = _tiles(sharding, grid, whole.shape)
    found = []
    for *place, term in tiles.places:
        tile = whole[_part(tiles, place, whole.shape)]
        found.append(np.zeros_like(tile) if term else tile)
    return found


def joined(tiles: Sequence[Any], sharding: Sharding, grid: DeviceGrid, sizes: Sequence[int]) -> Any:
    """Return the array of which each device has a tile; where several have one, the first's.

    Where devices hold terms of a sum, it is the sum.
    """
    held = _tiles(sharding, grid, sizes)
    total: Any = None
    for number in range(held.terms):
        found = np.empty(tuple(sizes), np.asarray(tiles[0]).dtype)
        for tile, (*place, term) in reversed(list(zip(tiles, held.places, strict=True))):
            if term == number:
                found[_part(held, place, sizes)] = tile
        total = found if total is None else total + found
    return total


def _part(tiles: DeviceTiles, place: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    parts = []
    for at, size, count in zip(place, sizes, tiles.counts, strict=True):
        length = size // count
        parts.append(slice(at * length, (at + 1) * length))
    return tuple(parts)


def _tiles(sharding: Sharding, grid: DeviceGrid, sizes: Sequence[int]) -> DeviceTiles:
    tiles = device_tiles(sharding, grid.count, len(sizes))
    if tiles is None or any(n % k for n, k in zip(sizes, tiles.counts, strict=True)):
        raise InputError(f"{sharding} does not cut an array of {list(sizes)} in equal tiles")
    return tiles
