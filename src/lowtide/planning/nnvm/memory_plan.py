"""Storage ids for the entries of a graph: the pass PlanMemory of NNVM.

Walking the nodes in order, an output takes the place of an input that dies there, where the
operation allows it, or gets a block that fits; blocks whose entries are all read are free again
(Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3; dmlc/nnvm).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, final

from lowtide.planning.nnvm.allocator import BlockAllocator
from lowtide.planning.nnvm.colouring import colour_nodes
from lowtide.planning.nnvm.data_types import DataType, element_bytes
from lowtide.planning.nnvm.graph import (
    NEVER_READ,
    NO_STORAGE,
    OWN_PLACE,
    UNKNOWN_SIZE,
    NnvmGraph,
    NnvmPlan,
    ops_of_nodes,
    reference_counts,
)
from lowtide.planning.nnvm.graph_reader import read_graph
from lowtide.planning.nnvm.ops import NnvmOp, op_table
from lowtide.planning.nnvm.relay import relay_plan
from lowtide.records import dataclass

PLANNED_ELEMENT_BYTES: Final = 4
"""NNVM counts every element as a 32-bit one; `StoragePool` has the real sizes."""


class Variant(StrEnum):
    """Whose rules a plan follows."""

    NNVM = "nnvm"
    """dmlc/nnvm: in place where the types are equal."""
    TVM = "tvm"
    """NNVM in TVM v0.6: in place where elements are equally wide, identities where types agree."""
    RELAY = "relay"
    """Relay in TVM v0.6: sizes by type, nothing in place, variables get storage too."""


def plan(
    graph: NnvmGraph | Mapping[str, Any],
    *,
    ops: Mapping[str, NnvmOp | Mapping[str, Any]] | None = None,
    match_range: int = 16,
    auto_search_match_range: bool = False,
    num_temp: int = 1,
    variant: Variant | str = Variant.NNVM,
) -> NnvmPlan:
    """Return storage for the entries of a graph, or of a JSON object as `read_graph` takes it.

    `ops` says what operations may do, the rows of a table or JSON objects; without it `OPS` does.
    A free block is taken if its size and the one that is asked for differ at most by the factor
    `match_range`; if that is 0, none is. With `auto_search_match_range` the
    factors 1, 2, 4 .. up to `match_range` are tried, and the first that gives the fewest bytes is
    taken; for a `match_range` of 0 that is none, and nothing is planned. With `num_temp` above 1,
    blocks do not pass between up to so many groups of nodes which may run at the same time.

    Raises ValueError, which names node and field, for a malformed graph, an unknown operation, and
    options out of range.
    """
    graph = graph if isinstance(graph, NnvmGraph) else read_graph(graph)
    for name, value in (("match_range", match_range), ("num_temp", num_temp)):
        if value < 0:
            raise ValueError(f"{name} is {value}; expected a number from 0 on")
    rules = _variant(variant)
    if rules is Variant.RELAY:
        return relay_plan(graph, match_range)
    table = ops_of_nodes(graph, op_table(ops))
    facts = _Facts.of(graph, table, rules)
    colours = colour_nodes(graph, num_temp) if num_temp > 1 else None
    best: NnvmPlan | None = None
    for factor in _match_ranges(match_range, auto_search_match_range):
        found = _Walk(facts, BlockAllocator(factor, colours)).run()
        if best is None or found.bytes < best.bytes:
            best = found
    return best or _nothing(facts)


def _variant(name: Variant | str) -> Variant:
    names = [variant.value for variant in Variant]
    if name not in names:
        raise ValueError(f"unknown variant {name!r}; there are: {', '.join(names)}")
    return Variant(name)


def _match_ranges(most: int, search: bool) -> Iterator[int]:
    factor = 1 if search else most
    while factor <= most:
        yield factor
        factor = factor * 2 if factor else most + 1


def _nothing(facts: _Facts) -> NnvmPlan:
    """The result where no match range is tried."""
    count = facts.graph.entry_count
    storage = facts.graph.storage or (NO_STORAGE,) * count
    open_entries = [
        e for k in facts.planned for e in facts.graph.entries(k) if storage[e] == NO_STORAGE
    ]
    return NnvmPlan(storage, (OWN_PLACE,) * count, 0, len(open_entries), (), None)


@dataclass(frozen=True, eq=False, slots=True)
class _Facts:
    """Facts that every walk over the graph asks for, by node and by entry."""

    graph: NnvmGraph
    ops: Sequence[NnvmOp]
    variant: Variant
    planned: Sequence[int]
    """The operations, in order."""
    inputs: Sequence[Sequence[int]]
    """Per node the entries that it reads, ignored ones included."""
    size: Sequence[int]
    dtype: Sequence[DataType]
    references: Sequence[int]

    @classmethod
    def of(cls, graph: NnvmGraph, ops: Sequence[NnvmOp], variant: Variant) -> _Facts:
        nodes = graph.nodes
        begin, end = graph.node_range or (0, len(nodes))
        return cls(
            graph,
            ops,
            variant,
            [k for k in range(begin, end) if not nodes[k].is_variable],
            [[graph.entry_id(entry) for entry in node.inputs] for node in nodes],
            [size for node in nodes for size in node.sizes],
            [dtype for node in nodes for dtype in node.dtypes],
            reference_counts(graph, ops),
        )


@final
class _Walk:
    """One walk over the nodes: storage by entry, and how often each block is still to be read."""

    def __init__(self, facts: _Facts, allocator: BlockAllocator) -> None:
        count = facts.graph.entry_count
        self.facts = facts
        self.allocator = allocator
        self.storage = list(facts.graph.storage or (NO_STORAGE,) * count)
        self.inplace = [OWN_PLACE] * count
        self.reads: list[int] = [0] * count
        """By block."""

    def run(self) -> NnvmPlan:
        missing = 0
        for number in self.facts.planned:
            self._share(number)
            self._allocate(number)
            self._free_inputs(number)
            missing += self._free_unread(number)
        allocator = self.allocator
        return NnvmPlan(
            tuple(self.storage),
            tuple(self.inplace),
            allocator.total_bytes,
            missing,
            tuple(allocator.block_bytes),
            allocator.match_range,
        )

    def _share(self, number: int) -> None:
        """Let outputs take the place of inputs."""
        op = self.facts.ops[number]
        inputs = self.facts.inputs[number]
        first = self.facts.graph.first_entry[number]
        reads_nothing = len(op.ignore_inputs) == len(inputs)
        taken: set[int] = set()
        for pair, (position, output) in enumerate(op.inplace_pairs):
            source, result = inputs[position], first + output
            block = self.storage[source]
            if position in taken or block < 0 or self.storage[result] != NO_STORAGE:
                continue
            dies = self.reads[block] == 1 and not reads_nothing
            if not (dies or self._is_identity(op, pair, source, result)):
                continue
            if self.facts.references[result] and self._fits(source, result):
                taken.add(position)
                self.storage[result] = block
                self.inplace[result] = position
                self.reads[block] += self.facts.references[result]

    def _is_identity(self, op: NnvmOp, pair: int, source: int, result: int) -> bool:
        dtype = self.facts.dtype
        same = self.facts.variant is Variant.NNVM or dtype[source] == dtype[result]
        return op.is_identity(pair) and same

    def _fits(self, source: int, result: int) -> bool:
        """Whether both entries have as many elements, of types that may share a place.

        An unknown shape counts as one element, as in the original.
        """
        size, dtype = self.facts.size, self.facts.dtype
        if abs(size[source]) != abs(size[result]):
            return False
        if dtype[source] == dtype[result]:
            return True
        wide = self.facts.variant is Variant.TVM
        return wide and element_bytes(dtype[source]) == element_bytes(dtype[result])

    def _allocate(self, number: int) -> None:
        """Give blocks to the other outputs, the largest first, of equal ones the last first."""
        graph, size = self.facts.graph, self.facts.size
        outputs = [e for e in graph.entries(number) if self.storage[e] == NO_STORAGE]
        outputs.sort(key=lambda entry: (max(size[entry], 0), entry), reverse=True)
        device = graph.nodes[number].device
        for entry in outputs:
            if size[entry] == UNKNOWN_SIZE:
                continue
            nbytes = size[entry] * PLANNED_ELEMENT_BYTES
            block = self.allocator.request(device, nbytes, number)
            self.storage[entry] = block
            self.reads[block] = self.facts.references[entry]

    def _free_inputs(self, number: int) -> None:
        ignored = self.facts.ops[number].ignore_inputs
        for position, entry in enumerate(self.facts.inputs[number]):
            block = self.storage[entry]
            if block < 0 or position in ignored:
                continue
            self.reads[block] -= 1
            if self.reads[block] == 0:
                self.allocator.release(block, number)

    def _free_unread(self, number: int) -> int:
        """Free the outputs that nobody reads; return how many outputs have no storage."""
        missing = 0
        for entry in self.facts.graph.entries(number):
            block = self.storage[entry]
            if block >= 0 and self.reads[block] == 0:
                self.allocator.release(block, number)
                self.inplace[entry] = NEVER_READ
            missing += block == NO_STORAGE
        return missing
