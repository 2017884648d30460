"""Tiles by which warpgroups make a product, and parts of its depth: those that take least time.

Times are estimates, which choose among right kernels only: by figures of an H100.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.gpu.copies import BYTES
from lowtide.codegen.gpu.product import GpuProduct, TileSizes
from lowtide.codegen.gpu.rings import NUMBER_BYTES
from lowtide.codegen.gpu.threads import WARP
from lowtide.codegen.gpu.tiles import pieces_of
from lowtide.records import dataclass

GROUPS: Final = 2
"""Warpgroups of a block."""

_THREADS: Final = GROUPS * 4 * WARP

SIZES: Final = (
    (TileSizes(128, 256, 64, _THREADS, 1, 1), 1.0),
    (TileSizes(256, 128, 64, _THREADS, 1, 1), 1.0),
    (TileSizes(128, 128, 64, _THREADS, 2, 1), 1.3),
    (TileSizes(128, 64, 64, _THREADS, 2, 1), 2.0),
)
"""Tiles, and how much longer they take for as much of a product: they load more for it."""

MULTIPROCESSORS: Final = 132
LEAST_TILES: Final = 4
LEAST_DEPTH: Final = 64
"""Whole tiles of a product, and numbers that are summed up, at least."""

_LEAST_STEPS: Final = 4
"""Steps of a part of the depth, at least."""

_STEP_SECONDS: Final = 0.6e-6 / (128 * 256)
"""Of a step of the depth of a tile, for each number of the product."""

_TURN_SECONDS: Final = 3e-6
_SECOND_SECONDS: Final = 3e-6
"""Of the beginning and the end of a tile; of a second kernel, which adds up parts."""

_BYTES_A_SECOND: Final = 3e12


@dataclass(frozen=True, slots=True)
class WarpgroupShape:
    """Tiles, and the number of parts of the depth, of which a block takes one."""

    sizes: TileSizes
    parts: int


def shape_for(product: GpuProduct) -> WarpgroupShape | None:
    """Return the tiles and parts that take least time, None where a product is small for all."""
    if prod(product.layout.depth) < LEAST_DEPTH:
        return None
    found = [
        (_seconds(product, sizes, parts, longer), number, parts)
        for number, (sizes, longer) in enumerate(SIZES)
        if product.tiles(sizes, whole=True) >= LEAST_TILES
        for parts in _parts(product, sizes)
    ]
    if not found:
        return None
    _, number, parts = min(found)
    sizes = SIZES[number][0]
    pieces = [pieces_of(product, x, sizes, NUMBER_BYTES) for x in (0, 1)]
    is_copied = all(x.run * NUMBER_BYTES == BYTES for x in pieces)
    if not is_copied or turns(product, sizes, parts) == 1:
        sizes = replace(sizes, blocks=sizes.fewer)
    return WarpgroupShape(sizes, parts)


def turns(product: GpuProduct, sizes: TileSizes, parts: int) -> int:
    """Return how many tiles a multiprocessor makes, at most."""
    return -(-product.tiles(sizes, whole=False) * parts // MULTIPROCESSORS)


def _steps(product: GpuProduct, sizes: TileSizes) -> int:
    return -(-prod(product.layout.depth) // sizes.depth)


def _parts(product: GpuProduct, sizes: TileSizes) -> Iterator[int]:
    """Numbers of equal parts for which there are multiprocessors."""
    yield 1
    steps, tiles = _steps(product, sizes), product.tiles(sizes, whole=False)
    for parts in range(2, min(MULTIPROCESSORS // tiles, steps // _LEAST_STEPS) + 1):
        if steps % parts == 0:
            yield parts


def _seconds(product: GpuProduct, sizes: TileSizes, parts: int, longer: float) -> float:
    """About how long a product takes."""
    steps = _steps(product, sizes) // parts
    tile = steps * sizes.rows * sizes.columns * longer * _STEP_SECONDS
    whole = turns(product, sizes, parts) * (_TURN_SECONDS + tile)
    if parts == 1:
        return whole
    return whole + _SECOND_SECONDS + 2 * product.scratch_bytes(parts) / _BYTES_A_SECOND
