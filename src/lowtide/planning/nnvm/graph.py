"""The graph that NNVM plans: nodes in order of execution, and entries, which need storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate
from typing import Final

from lowtide.planning.nnvm.data_types import DataType
from lowtide.planning.nnvm.ops import NnvmOp, OpTable
from lowtide.planning.registry import nearest
from lowtide.records import dataclass

OWN_PLACE: Final = -1
"""In place of the input whose place an output takes: none."""

NEVER_READ: Final = -2
"""In place of the input whose place an output takes: none, and nobody reads the output."""


@dataclass(frozen=True, slots=True)
class NnvmPlan:
    """Per entry the block that it lies in, and the input whose place it took.

    `storage_id` is the number of a block, or `NO_STORAGE`, `EXTERNAL` or `DYNAMIC`;
    `inplace_index` the position of an input, `OWN_PLACE` or `NEVER_READ`. `block_bytes` are the
    sizes of the blocks as planned, `bytes` their sum. Of the outputs of operations `not_allocated`
    have no storage. `match_range` is the one that was taken, None where nothing was planned.
    """

    storage_id: tuple[int, ...]
    inplace_index: tuple[int, ...]
    bytes: int
    not_allocated: int
    block_bytes: tuple[int, ...]
    match_range: int | None


NO_STORAGE: Final = -1
"""In place of a storage id: none, of a variable or of an entry of unknown size."""

EXTERNAL: Final = -2
"""In place of a storage id: memory of someone else, never given out nor released."""

DYNAMIC: Final = -3
"""In place of a storage id: memory that is allocated while the graph runs."""

UNKNOWN_SIZE: Final = -1
"""In place of a number of elements: the shape is not known before the graph runs."""

Entry = tuple[int, int]
"""Output number `entry[1]` of node number `entry[0]`."""


@dataclass(frozen=True, slots=True)
class NnvmNode:
    """A variable, whose `op` is None, or an operation.

    Per output, `sizes` is the number of elements or `UNKNOWN_SIZE`, and `dtypes` the type of one.
    `shapes` are the dimensions, or empty where all are flat. `own` is what the operation may do in
    this place, if that is not what the table of operations says.
    """

    name: str
    op: str | None
    inputs: tuple[Entry, ...]
    sizes: tuple[int, ...]
    dtypes: tuple[DataType, ...]
    shapes: tuple[tuple[int, ...], ...] = ()
    device: int = 0
    own: NnvmOp | None = None

    @property
    def is_variable(self) -> bool:
        """Whether the node is given, not computed."""
        return self.op is None


@dataclass(frozen=True, slots=True)
class NnvmGraph:
    """Nodes in order of execution, each behind those that it reads.

    Entries are numbered node by node: `first_entry[k]` is the first one of node `k`, and the last
    element their number. Per entry, `storage` may say `EXTERNAL` or `DYNAMIC` before planning, and
    `ref_count` how often it is read, in place of what the graph says. Only the nodes from
    `node_range[0]` up to `node_range[1]`, which is not included, are planned.

    Raises ValueError, which names node and field, where one of these does not fit the others.
    """

    nodes: tuple[NnvmNode, ...]
    outputs: tuple[Entry, ...] = ()
    storage: tuple[int, ...] | None = None
    ref_count: tuple[int, ...] | None = None
    node_range: tuple[int, int] | None = None
    first_entry: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        counts = [len(node.sizes) for node in self.nodes]
        object.__setattr__(self, "first_entry", (0, *accumulate(counts)))
        for number in range(len(self.nodes)):
            self._check_node(number)
        for position, entry in enumerate(self.outputs):
            self._check_entry(entry, len(self.nodes), f"outputs[{position}]")
        self._check_presets()

    @property
    def entry_count(self) -> int:
        """The number of entries of all nodes."""
        return self.first_entry[-1]

    def entry_id(self, entry: Entry) -> int:
        """Return the number of an entry."""
        return self.first_entry[entry[0]] + entry[1]

    def entries(self, number: int) -> range:
        """Return the numbers of the entries of node `number`."""
        return range(self.first_entry[number], self.first_entry[number + 1])

    def place(self, number: int) -> str:
        """Return how messages call node `number`."""
        return f"node {number} ({self.nodes[number].name})"

    def _check_node(self, number: int) -> None:
        node = self.nodes[number]
        count = len(node.sizes)
        if node.is_variable and (count != 1 or node.inputs):
            raise ValueError(
                f"{self.place(number)}: a variable has no inputs and one size, found "
                f"{len(node.inputs)} in field 'inputs' and {count} in field 'sizes'"
            )
        if len(node.dtypes) != count:
            raise ValueError(
                f"{self.place(number)}: field 'dtype' has {len(node.dtypes)} types, 'sizes' {count}"
            )
        if node.shapes and len(node.shapes) != count:
            raise ValueError(
                f"{self.place(number)}: field 'shapes' has {len(node.shapes)} shapes, 'sizes' "
                f"{count}"
            )
        for size in node.sizes:
            if size < UNKNOWN_SIZE:
                raise ValueError(f"{self.place(number)}: field 'sizes' has {size}")
        for position, entry in enumerate(node.inputs):
            self._check_entry(entry, number, f"{self.place(number)}: inputs[{position}]")

    def _check_entry(self, entry: Entry, before: int, where: str) -> None:
        number, output = entry
        if not 0 <= number < len(self.nodes):
            raise ValueError(f"{where} is of node {number}; there are {len(self.nodes)} nodes")
        if number >= before:
            raise ValueError(f"{where} is of {self.place(number)}, which is not before it")
        count = len(self.nodes[number].sizes)
        if not 0 <= output < count:
            raise ValueError(f"{where} is output {output} of {self.place(number)}, of {count}")

    def _check_presets(self) -> None:
        for name, values in (("storage", self.storage), ("ref_count", self.ref_count)):
            if values is not None and len(values) != self.entry_count:
                raise ValueError(
                    f"field {name!r} has {len(values)} values; there are {self.entry_count} entries"
                )
        for number, storage in enumerate(self.storage or ()):
            if storage not in (NO_STORAGE, EXTERNAL, DYNAMIC):
                raise ValueError(
                    f"field 'storage' has {storage} for entry {number}; expected {NO_STORAGE} (to "
                    f"be planned), {EXTERNAL} (external) or {DYNAMIC} (dynamic)"
                )
        for number, count in enumerate(self.ref_count or ()):
            if count < 0:
                raise ValueError(f"field 'ref_count' has {count} for entry {number}")
        begin, end = self.node_range or (0, len(self.nodes))
        if not 0 <= begin <= end <= len(self.nodes):
            raise ValueError(
                f"field 'node_range' is {begin} to {end}; there are {len(self.nodes)} nodes"
            )


def ops_of_nodes(graph: NnvmGraph, table: OpTable) -> list[NnvmOp]:
    """Return what the operation of each node may do; nothing, for a variable.

    Raises ValueError for an operation that neither the node nor the table describes, and one that
    speaks of inputs or outputs that the node does not have.
    """
    found = []
    for number, node in enumerate(graph.nodes):
        op = node.own
        if op is None and node.op is not None:
            if node.op not in table:
                raise ValueError(
                    f"{graph.place(number)}: field 'op': {nearest(node.op, list(table), 'op')}"
                )
            op = table[node.op]
        op = op or _VARIABLE
        _check_positions(graph, number, op)
        found.append(op)
    return found


_VARIABLE: Final = NnvmOp()


def _check_positions(graph: NnvmGraph, number: int, op: NnvmOp) -> None:
    node = graph.nodes[number]
    inputs, outputs = len(node.inputs), len(node.sizes)
    for source, result in op.inplace_pairs:
        if source >= inputs or result >= outputs:
            raise ValueError(
                f"{graph.place(number)}: {node.op} writes output {result} over input {source}; the "
                f"node has {outputs} in field 'sizes' and {inputs} in field 'inputs'"
            )
    for source in op.ignore_inputs:
        if source >= inputs:
            raise ValueError(
                f"{graph.place(number)}: {node.op} ignores input {source}; the node has {inputs} "
                "in field 'inputs'"
            )


def reference_counts(graph: NnvmGraph, ops: Sequence[NnvmOp]) -> list[int]:
    """Return how often each entry is read: as an input that is not ignored, and as an output."""
    if graph.ref_count is not None:
        return list(graph.ref_count)
    counts = [0] * graph.entry_count
    for node, op in zip(graph.nodes, ops, strict=True):
        for position, entry in enumerate(node.inputs):
            if position not in op.ignore_inputs:
                counts[graph.entry_id(entry)] += 1
    for entry in graph.outputs:
        counts[graph.entry_id(entry)] += 1
    return counts
