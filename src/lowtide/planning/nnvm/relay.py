"""Storage ids by the rules of Relay's GraphPlanMemory in TVM v0.6.

Sizes are those of the types, variables get blocks of their own that are never free, no output takes
the place of an input, and outputs that nobody reads are free before the inputs are.
"""

from __future__ import annotations

from lowtide.planning.nnvm.allocator import BlockAllocator
from lowtide.planning.nnvm.data_types import element_bytes
from lowtide.planning.nnvm.graph import (
    NEVER_READ,
    OWN_PLACE,
    UNKNOWN_SIZE,
    NnvmGraph,
    NnvmPlan,
    reference_counts,
)
from lowtide.planning.nnvm.ops import NnvmOp


def relay_plan(graph: NnvmGraph, match_range: int = 16) -> NnvmPlan:
    """Return storage for all entries of a graph, variables first.

    Raises ValueError for an entry of unknown size, and for presets, which Relay does not have.
    """
    if graph.storage is not None or graph.ref_count is not None or graph.node_range is not None:
        raise ValueError("the variant 'relay' has no 'storage', 'ref_count' and 'node_range'")
    nbytes = _sizes(graph)
    allocator = BlockAllocator(match_range)
    storage = [-1] * graph.entry_count
    inplace = [OWN_PLACE] * graph.entry_count
    references = reference_counts(graph, [NnvmOp()] * len(graph.nodes))
    reads = [0] * graph.entry_count
    for number, node in enumerate(graph.nodes):
        if node.is_variable:
            entry = graph.first_entry[number]
            storage[entry] = allocator.allocate(node.device, nbytes[entry])
            reads[storage[entry]] = references[entry] + 1
    for number, node in enumerate(graph.nodes):
        if node.is_variable:
            continue
        for entry in graph.entries(number):
            block = allocator.request(node.device, nbytes[entry], number)
            storage[entry] = block
            reads[block] = references[entry]
        for entry in graph.entries(number):
            if reads[storage[entry]] == 0:
                allocator.release(storage[entry], number)
                inplace[entry] = NEVER_READ
        for source in node.inputs:
            block = storage[graph.entry_id(source)]
            reads[block] -= 1
            if reads[block] == 0:
                allocator.release(block, number)
    blocks = tuple(allocator.block_bytes)
    return NnvmPlan(tuple(storage), tuple(inplace), sum(blocks), 0, blocks, match_range)


def _sizes(graph: NnvmGraph) -> list[int]:
    found = []
    for number, node in enumerate(graph.nodes):
        for size, dtype in zip(node.sizes, node.dtypes, strict=True):
            if size == UNKNOWN_SIZE:
                raise ValueError(
                    f"{graph.place(number)}: field 'sizes': the variant 'relay' plans known sizes"
                )
            found.append(size * element_bytes(dtype))
    return found
