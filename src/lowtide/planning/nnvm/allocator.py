"""Blocks of storage, and which of the free ones a request gets: the matching of NNVM."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from typing import final


@final
class BlockAllocator:
    """Blocks by number, of `block_bytes`, each on a device.

    A request of n bytes gets the smallest free block of n to n * `match_range` bytes, of equal ones
    that which is free for longest; else the largest of n / `match_range`, rounded down, to n bytes,
    of equal ones that which became free last, and the block grows to n; else a new one. With
    `match_range` 0 it always gets a new one. With `colours`, one per node, a block is given only to
    nodes of the colour of the node that released it.
    """

    def __init__(self, match_range: int, colours: Sequence[int] | None = None) -> None:
        self.match_range = match_range
        self.block_bytes: list[int] = []
        self._colours = colours
        self._device: list[int] = []
        self._free: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        """Per device and colour, (bytes, number of the release, block), sorted."""
        self._releases = 0

    @property
    def total_bytes(self) -> int:
        """The bytes of all blocks."""
        return sum(self.block_bytes)

    def request(self, device: int, nbytes: int, node: int) -> int:
        """Return the number of a block of at least `nbytes` for an output of `node`."""
        if self.match_range == 0:
            return self.allocate(device, nbytes)
        free = self._free[device, self._colour(node)]
        larger = bisect_left(free, (nbytes,))
        if larger < len(free) and free[larger][0] <= nbytes * self.match_range:
            return free.pop(larger)[2]
        if larger > 0 and free[larger - 1][0] >= nbytes // self.match_range:
            block = free.pop(larger - 1)[2]
            self.block_bytes[block] = nbytes
            return block
        return self.allocate(device, nbytes)

    def allocate(self, device: int, nbytes: int) -> int:
        """Return the number of a new block."""
        self.block_bytes.append(nbytes)
        self._device.append(device)
        return len(self.block_bytes) - 1

    def release(self, block: int, node: int) -> None:
        """Free a block, of which `node` was the last to read or write."""
        self._releases += 1
        key = self._device[block], self._colour(node)
        insort(self._free[key], (self.block_bytes[block], self._releases, block))

    def _colour(self, node: int) -> int:
        return 0 if self._colours is None else self._colours[node]
