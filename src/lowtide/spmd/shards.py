"""Arrays cut into the tiles of devices, and put together from them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.ir.errors import InputError
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import tiling_of
from lowtide.ir.tilings.tiling import Tiling


def cut(array: Any, sharding: Sharding, grid: DeviceGrid) -> list[Any]:
    """Return the tile of each device; raises InputError where tiles are not of one size.

    Where devices are to hold terms of a sum, the first one holds the array, the others zeros.
    """
    whole = np.asarray(array)
    tiling = _tiling(sharding, grid, whole.shape)
    tiles = []
    for device in range(grid.count):
        starts = tiling.start(grid, whole.shape, device)
        sizes = tiling.local(grid, whole.shape)
        pairs = zip(starts, sizes, strict=True)
        tile = whole[tuple([slice(start, start + size) for start, size in pairs])]
        is_first = grid.position(device, tiling.partial) == 0
        tiles.append(tile if is_first else np.zeros_like(tile))
    return tiles


def joined(tiles: Sequence[Any], sharding: Sharding, grid: DeviceGrid, sizes: Sequence[int]) -> Any:
    """Return the array of which each device has a tile; where several have one, the first's.

    Where devices hold terms of a sum, it is the sum.
    """
    tiling = _tiling(sharding, grid, sizes)
    total: Any = None
    for term in range(grid.extent(tiling.partial)):
        found = np.empty(tuple(sizes), np.asarray(tiles[0]).dtype)
        for device in reversed(range(grid.count)):
            if grid.position(device, tiling.partial) != term:
                continue
            starts = tiling.start(grid, sizes, device)
            pairs = zip(starts, tiling.local(grid, sizes), strict=True)
            found[tuple([slice(start, start + size) for start, size in pairs])] = tiles[device]
        total = found if total is None else total + found
    return total


def _tiling(sharding: Sharding, grid: DeviceGrid, sizes: Sequence[int]) -> Tiling:
    tiling = tiling_of(sharding, grid, len(sizes))
    if tiling is None or not tiling.divides(grid, sizes):
        raise InputError(f"{sharding} does not cut an array of {list(sizes)} in equal tiles")
    return tiling
