"""Real memory for storage ids: the storage pool of TVM's graph run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from lowtide.planning.nnvm.data_types import element_bytes, lanes_of
from lowtide.planning.nnvm.graph import DYNAMIC, EXTERNAL, UNKNOWN_SIZE, NnvmGraph

ALIGNMENT: Final = 64
"""Each block of memory begins at a multiple of so many bytes."""

_NEGATIVE: Final = {EXTERNAL: " (external)", DYNAMIC: " (dynamic)"}


@final
class StoragePool:
    """One block of memory per storage id, and a view into it for each entry of a graph.

    `sizes` are the bytes of the blocks: that of the largest entry, an element taking the bits of
    its type, all lanes together, rounded up to bytes. Ids that no entry has are empty. `blocks`
    holds the memory, `devices` where it lies, -1 for an empty one. `views` are arrays in the shapes
    of the entries, with the lanes of an element as a last dimension if there are several.

    Raises ValueError for an entry without storage or of unknown size, and a storage id whose
    entries lie on several devices.
    """

    __slots__ = ("blocks", "devices", "graph", "sizes", "storage_id", "views")

    def __init__(self, graph: NnvmGraph, storage_id: Sequence[int]) -> None:
        if len(storage_id) != graph.entry_count:
            raise ValueError(f"{len(storage_id)} storage ids for {graph.entry_count} entries")
        self.graph = graph
        self.storage_id = tuple(storage_id)
        self.sizes, self.devices = _blocks(graph, self.storage_id)
        self.blocks = tuple([_memory(size) for size in self.sizes])
        self.views = tuple(
            [
                self._view(number, output)
                for number, node in enumerate(graph.nodes)
                for output in range(len(node.sizes))
            ]
        )

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks."""
        return sum(self.sizes)

    def _view(self, number: int, output: int) -> npt.NDArray[Any]:
        node = self.graph.nodes[number]
        lane, lanes = lanes_of(node.dtypes[output])
        shape = node.shapes[output] if node.shapes else (node.sizes[output],)
        if lanes > 1:
            shape = (*shape, lanes)
        block = self.blocks[self.storage_id[self.graph.first_entry[number] + output]]
        return block[: math.prod(shape) * lane.itemsize].view(lane).reshape(shape)


def _blocks(graph: NnvmGraph, storage_id: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return bytes and device of each storage id."""
    count = max(storage_id, default=-1) + 1
    sizes, devices = [0] * count, [-1] * count
    for number, node in enumerate(graph.nodes):
        for output, (size, dtype) in enumerate(zip(node.sizes, node.dtypes, strict=True)):
            block = storage_id[graph.first_entry[number] + output]
            where = f"output {output} of {graph.place(number)}"
            if block < 0:
                raise ValueError(f"{where} has storage id {block}{_NEGATIVE.get(block, '')}")
            if size == UNKNOWN_SIZE:
                raise ValueError(f"{where} is of unknown size")
            if devices[block] not in (-1, node.device):
                raise ValueError(
                    f"{where} lies on device {node.device}, others with storage id {block} on "
                    f"device {devices[block]}"
                )
            sizes[block] = max(sizes[block], size * element_bytes(dtype))
            devices[block] = node.device
    return tuple(sizes), tuple(devices)


def _memory(nbytes: int) -> npt.NDArray[np.uint8]:
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
