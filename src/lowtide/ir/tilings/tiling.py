"""A tiling: the axes of the grid that split each dimension, and those that hold terms of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.ir.opcode import Opcode
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Tiling:
    """How an array lies on the devices of a grid.

    `axes` has the axes that split each dimension, major first. Along the axes in `partial`, in
    growing order, devices hold terms, whose `reduction` (add, multiply, minimum, maximum, and, or)
    is the value. Along all others they hold the same.
    """

    axes: tuple[tuple[int, ...], ...]
    partial: tuple[int, ...] = ()
    reduction: Opcode = Opcode.ADD

    @property
    def used(self) -> frozenset[int]:
        """The axes along which devices hold different data."""
        return frozenset([axis for axes in self.axes for axis in axes]).union(self.partial)

    @property
    def is_replicated(self) -> bool:
        """Whether each device has the whole value."""
        return not self.partial and not any(self.axes)

    def tiles(self, grid: DeviceGrid) -> tuple[int, ...]:
        """Return into how many pieces each dimension is cut."""
        return tuple([grid.extent(axes) for axes in self.axes])

    def local(self, grid: DeviceGrid, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of one tile; where a dimension does not divide, that of the longest."""
        pairs = zip(sizes, self.tiles(grid), strict=True)
        return tuple([-(-size // count) for size, count in pairs])

    def divides(self, grid: DeviceGrid, sizes: Sequence[int]) -> bool:
        """Whether all tiles of an array are of one size."""
        pairs = zip(sizes, self.tiles(grid), strict=True)
        return all(size % count == 0 for size, count in pairs)

    def start(self, grid: DeviceGrid, sizes: Sequence[int], device: int) -> tuple[int, ...]:
        """Return where the tile of a device starts; at most the size of the dimension."""
        local = self.local(grid, sizes)
        places = [grid.position(device, axes) for axes in self.axes]
        triples = zip(places, local, sizes, strict=True)
        return tuple([min(place * length, size) for place, length, size in triples])

    def whole(self) -> Tiling:
        """Return the tiling with all terms reduced."""
        return replace(self, partial=(), reduction=Opcode.ADD) if self.partial else self


def replicated(rank: int) -> Tiling:
    """Return the tiling of an array of which each device has all."""
    return Tiling(((),) * rank)


def dividing(grid: DeviceGrid, tiling: Tiling, sizes: Sequence[int]) -> Tiling:
    """Return the tiling without the axes that do not divide their dimension, minor ones first."""
    kept = []
    for axes, size in zip(tiling.axes, sizes, strict=True):
        count = len(axes)
        while size % grid.extent(axes[:count]):
            count -= 1
        kept.append(axes[:count])
    return replace(tiling, axes=tuple(kept))
