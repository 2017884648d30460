"""Plans of a graph: storage ids by NNVM's algorithm, and beside them an arena of ours."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import numpy as np

from lowtide.frontend.graph_json import GraphFile, read_graph_document
from lowtide.frontend.nnvm.document import NnvmDocument
from lowtide.ir.errors import InputError
from lowtide.planning import nnvm
from lowtide.planning.assign import assign_offsets
from lowtide.planning.nnvm.data_types import element_bytes
from lowtide.planning.problem import TensorUsageRecord
from lowtide.records import dataclass
from lowtide.scheduling.search import SearchResult, search_order
from lowtide.search.effort import Effort

_LINE: Final = 8
"""Offsets of our arena are multiples of it: of the widest element."""

_MOST_BYTES: Final = 1 << 48
"""The most bytes of an output: so much can be addressed."""

_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("_plus", "_Plus", "_add", "_grad_add", "__add_symbol__"), "elemwise_add"),
    **dict.fromkeys(("_minus", "_Minus", "_sub", "__sub_symbol__"), "elemwise_sub"),
    **dict.fromkeys(("_mul", "_Mul", "__mul_symbol__"), "elemwise_mul"),
    **dict.fromkeys(("_div", "_Div", "__div_symbol__"), "elemwise_div"),
    "_maximum": "elemwise_max",
    "_minimum": "elemwise_min",
    "Activation": "relu",
    "LeakyReLU": "leaky_relu",
    "softrelu": "softplus",
    "BatchNorm": "batch_norm",
    "BlockGrad": "stop_gradient",
    "Cast": "cast",
    "Concat": "concatenate",
    "concat": "concatenate",
    "Convolution": "conv2d",
    "Dropout": "dropout",
    "Flatten": "flatten",
    "FullyConnected": "dense",
    "Pooling": "max_pool2d",
    "Reshape": "reshape",
    "SliceChannel": "split",
    "SoftmaxOutput": "softmax",
    "_copy": "identity",
}
"""What operations of MXNet are called in NNVM, where they have the same traits."""


@dataclass(frozen=True, slots=True)
class NnvmSettings:
    """The options of the algorithm; `in_place` says whether outputs may take places of inputs."""

    variant: str = "nnvm"
    match_range: int = 16
    searches: bool = False
    colours: int = 1
    in_place: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class NnvmComparison:
    """Both plans of a graph.

    `storage` are the ids of all entries, arguments included, and `planned` those of the algorithm
    alone. `arena_bytes` is what our packing of the file's order takes, `live_bytes` what is live in
    it at once; `found` is the best order that the search has, with its bound. `unknown` are
    operations that nothing is known of: they overwrite nothing. Bytes are those of entries that
    operations make.
    """

    document: NnvmDocument
    settings: NnvmSettings
    planned: nnvm.NnvmPlan
    storage: tuple[int, ...]
    block_bytes: tuple[int, ...]
    arena_bytes: int
    live_bytes: int
    found: SearchResult
    unknown: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """The bytes of the algorithm's blocks, by the real sizes of what lies in them."""
        return sum(self.block_bytes)


def variant_of(document: NnvmDocument) -> str:
    """Return whose rules a graph is planned by where none are named: Relay's for compiled ones."""
    return "relay" if document.is_compiled else "nnvm"


def plan_both(
    document: NnvmDocument, settings: NnvmSettings, effort: Effort = Effort.DEFAULT
) -> NnvmComparison:
    """Return both plans of a graph whose shapes are known.

    Raises ValueError, which names node and field, for options out of range, and InputError for an
    output of an unknown type, or too large for an address.
    """
    sizes = _entry_bytes(document)
    fields, unknown = graph_fields(document, in_place=settings.in_place)
    graph = nnvm.read_graph(fields)
    planned = nnvm.plan(
        graph,
        match_range=settings.match_range,
        auto_search_match_range=settings.searches,
        num_temp=settings.colours,
        variant=settings.variant,
    )
    storage = planned.storage_id
    if settings.variant != "relay" and not planned.not_allocated:
        storage = nnvm.decorate(graph, planned).storage_id
    own = _own_entries(document)
    held: dict[int, int] = {}
    for entry in own:
        block = planned.storage_id[entry]
        held[block] = max(held.get(block, 0), sizes[entry])
    shares = {} if not settings.in_place else _shares(graph, own, sizes)
    arena, live = _packed(document, own, sizes, shares)
    file = _graph_file(document, own, sizes, shares)
    found = search_order(file.graph, effort)
    blocks = tuple([held[x] for x in sorted(held)])
    return NnvmComparison(document, settings, planned, storage, blocks, arena, live, found, unknown)


def graph_fields(
    document: NnvmDocument, *, in_place: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a graph as the planner's reader takes it, and its operations without known traits."""
    unknown: dict[str, None] = {}
    nodes: list[dict[str, Any]] = []
    for node in document.nodes:
        entries = range(node.first, node.first + node.count)
        row: dict[str, Any] = {
            "name": node.name,
            "op": None,
            "inputs": [[x.node, x.output] for x in node.inputs],
            "shapes": [list(document.shapes[x] or ()) for x in entries],
            "dtype": [document.types[x] or "float32" for x in entries],
        }
        if node.op is not None:
            row["op"] = _ALIASES.get(node.op, node.op)
            if row["op"] not in nnvm.OPS:
                unknown[node.op] = None
            if row["op"] not in nnvm.OPS or not in_place:
                row |= {"inplace_pairs": [], "pattern": "opaque"}
        nodes.append(row)
    heads = [[x.node, x.output] for x in document.heads]
    return {"nodes": nodes, "outputs": heads}, tuple(unknown)


def _own_entries(document: NnvmDocument) -> list[int]:
    """The entries that operations make, in order."""
    return [
        x
        for node in document.nodes
        if node.op is not None
        for x in range(node.first, node.first + node.count)
    ]


def _entry_bytes(document: NnvmDocument) -> list[int]:
    found = []
    for node in document.nodes:
        for entry in range(node.first, node.first + node.count):
            shape, name = document.shapes[entry] or (), document.types[entry] or "float32"
            try:
                nbytes = prod(shape) * element_bytes(name)
            except ValueError as error:
                raise InputError(f"node {node.name!r}: {error}", file=document.file) from error
            if nbytes > _MOST_BYTES:
                message = f"node {node.name!r}: an output of {nbytes:,} bytes is too large"
                raise InputError(message, file=document.file)
            found.append(nbytes)
    return found


def _lives(document: NnvmDocument) -> dict[int, tuple[int, int]]:
    """The nodes at which each entry begins and is last read; heads live to the end."""
    found = {}
    end = len(document.nodes)
    for number, node in enumerate(document.nodes):
        for entry in range(node.first, node.first + node.count):
            found[entry] = (number, number)
        for source in node.inputs:
            entry = document.entry(source)
            found[entry] = (found[entry][0], number)
    for head in document.heads:
        entry = document.entry(head)
        found[entry] = (found[entry][0], end)
    return found


def _shares(graph: nnvm.Graph, own: list[int], sizes: list[int]) -> dict[int, list[int]]:
    """For each entry the entries whose place it may take: made by operations, and as large."""
    made = set(own)
    found: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.op is None:
            continue
        traits = node.own or nnvm.OPS.get(node.op)
        for source, output in traits.inplace_pairs if traits is not None else ():
            if source >= len(node.inputs) or output >= len(node.sizes):
                continue
            entry, given = graph.first_entry[number] + output, graph.entry_id(node.inputs[source])
            if given in made and sizes[given] == sizes[entry]:
                found.setdefault(entry, []).append(given)
    return found


def _packed(
    document: NnvmDocument, own: list[int], sizes: list[int], shares: Mapping[int, list[int]]
) -> tuple[int, int]:
    """The bytes of our arena in the order of the file, and the most that are live at once."""
    lives = _lives(document)
    group: dict[int, int] = {}
    spans: dict[int, list[int]] = {}
    for entry in own:
        first, last = lives[entry]
        place = [
            x for x in shares.get(entry, ()) if lives[x][1] == first and spans[group[x]][1] == first
        ]
        group[entry] = group[place[0]] if place else entry
        spans.setdefault(group[entry], [first, last])[1] = last
    parts = [(sizes[x], span[0], span[1]) for x, span in spans.items() if sizes[x]]
    if not parts:
        return 0, 0
    records = [TensorUsageRecord(*part) for part in parts]
    arena = assign_offsets(records, "exact", alignment=_LINE).total_size
    change = np.zeros(len(document.nodes) + 2, np.int64)
    for nbytes, first, last in parts:
        change[first] += nbytes
        change[last + 1] -= nbytes
    return arena, int(np.cumsum(change).max())


def _graph_file(
    document: NnvmDocument, own: list[int], sizes: list[int], shares: Mapping[int, list[int]]
) -> GraphFile:
    """The graph of the operations as a memory graph, for the search of an order."""
    steps = [i for i, x in enumerate(document.nodes) if x.op is not None]
    step_of = {node: step for step, node in enumerate(steps)}
    heads = {document.entry(x) for x in document.heads}
    readers: dict[int, list[int]] = {}
    for number in steps:
        for source in document.nodes[number].inputs:
            readers.setdefault(document.entry(source), []).append(step_of[number])
    place = {x: i for i, x in enumerate(own)}
    maker = {
        x: step_of[number]
        for number in steps
        for x in range(
            document.nodes[number].first,
            document.nodes[number].first + document.nodes[number].count,
        )
    }
    nodes: list[dict[str, Any]] = [
        {
            "name": f"{document.nodes[x].name} {x}",
            "opcode": document.nodes[x].op,
            "seconds": 0.0,
            "scratch_bytes": 0,
            "control": [],
        }
        for x in steps
    ]
    buffers: list[dict[str, Any]] = [
        {
            "bytes": sizes[x],
            "producer": maker[x],
            "consumers": sorted(set(readers.get(x, []))),
            "live_out": x in heads,
            "may_reuse": [place[y] for y in shares.get(x, []) if y not in heads],
        }
        for x in own
    ]
    texts = {"name": document.file, "source": "", "notes": ""}
    return read_graph_document({**texts, "nodes": nodes, "buffers": buffers}, document.file)
