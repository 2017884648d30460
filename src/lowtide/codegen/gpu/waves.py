"""Tiles of a product, and parts of its depth, by how long the busiest multiprocessor takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from lowtide.codegen.gpu.product import GpuProduct, TileSizes
from lowtide.records import dataclass

_MULTIPROCESSORS: Final = 132

_BEGIN: Final = 1500.0
"""Cycles of a block ahead of its first sums, and after its last ones."""

_LAUNCH: Final = 5000.0
"""Cycles of a function that adds up parts, beside those of its memory."""

_BYTES: Final = 1200.0
"""Bytes that all multiprocessors together store or load in a cycle."""

_MOST_PARTS: Final = 64
_LEAST_STEPS: Final = 4
"""Parts of a depth, at most, and steps of each."""


@dataclass(frozen=True, slots=True)
class TileWay:
    """Tiles, and how fast they are added up.

    `products` is how many products of single numbers a multiprocessor makes in a cycle with all the
    blocks that it has room for, `alone` with one block. Measured on an H100.
    """

    sizes: TileSizes
    products: float
    alone: float

    def cycles(self, product: GpuProduct, parts: int) -> float:
        """Return how long the product takes, divided into so many parts."""
        sizes, depth = self.sizes, prod(product.layout.depth)
        blocks = product.tiles(sizes, whole=False) * parts
        steps = -(-depth // sizes.depth) // parts
        work = sizes.rows * sizes.columns * sizes.depth * steps
        turns, rest = divmod(-(-blocks // _MULTIPROCESSORS), sizes.blocks)
        found = turns * (sizes.blocks * work / self.products + _BEGIN)
        if rest:
            found += rest * work / self._rate(rest) + _BEGIN
        if parts > 1:
            found += _LAUNCH + 2 * product.scratch_bytes(parts) / _BYTES
        return found

    def _rate(self, blocks: int) -> float:
        """Products a cycle with so many blocks."""
        more = (blocks - 1) / max(self.sizes.blocks - 1, 1)
        return self.alone + (self.products - self.alone) * more


def best_way(product: GpuProduct, ways: Sequence[TileWay]) -> tuple[TileSizes, int]:
    """Return the tiles and the parts that take least time, the first of equal ones."""
    found = [
        (way.cycles(product, parts), way.sizes, parts)
        for way in ways
        for parts in _parts(product, way.sizes)
    ]
    _, sizes, parts = min(found, key=lambda x: x[0])
    return sizes, parts


def _parts(product: GpuProduct, sizes: TileSizes) -> Iterator[int]:
    """The numbers of equal parts of a depth that can be, each of whole steps."""
    steps = -(-prod(product.layout.depth) // sizes.depth)
    for parts in range(1, min(_MOST_PARTS, steps // _LEAST_STEPS) + 1):
        if steps % parts == 0:
            yield parts
    if steps < _LEAST_STEPS:
        yield 1
