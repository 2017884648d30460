"""The order of a model's operators that needs the fewest live bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from lowtide.frontend.graph_json import GraphFile, read_graph_json
from lowtide.frontend.tflite.model import LiteGraph
from lowtide.micro.lifetimes import in_lines, is_in_arena, is_stateful, overwritable
from lowtide.records import dataclass
from lowtide.scheduling.search import search_order
from lowtide.search.effort import Effort


@dataclass(frozen=True, slots=True)
class OperatorOrder:
    """An order of operators, its live bytes, and a bound on those of any order."""

    operators: tuple[int, ...]
    live_bytes: int
    bound_bytes: int


def best_order(graph: LiteGraph, effort: Effort = Effort.DEFAULT) -> OperatorOrder:
    """Return an order of least live bytes, as far as the search goes.

    Operators that touch state keep their order.
    """
    if not graph.operators:
        return OperatorOrder((), 0, 0)
    found = search_order(graph_of_operators(graph).graph, effort)
    return OperatorOrder(tuple(found.order.tolist()), found.peak_bytes, found.bound_bytes)


def graph_of_operators(graph: LiteGraph) -> GraphFile:
    """Return the operators as nodes of a memory graph, the tensors of the arena as its buffers."""
    return read_graph_json(json.dumps(_document(graph)), graph.name)


def _document(graph: LiteGraph) -> dict[str, Any]:
    nodes = [
        {"name": f"{x.number}", "opcode": x.name, "seconds": 0, "scratch_bytes": 0, "control": []}
        for x in graph.operators
    ]
    stateful = [x.number for x in graph.operators if is_stateful(graph, x)]
    for before, after in pairwise(stateful):
        nodes[after]["control"] = [before]
    producers = {y: x.number for x in graph.operators for y in x.outputs if y >= 0}
    readers: dict[int, list[int]] = {}
    for operator in graph.operators:
        for tensor in dict.fromkeys((*operator.inputs, *operator.intermediates)):
            readers.setdefault(tensor, []).append(operator.number)
    held = [x.number for x in graph.tensors if is_in_arena(graph, x.number)]
    held = [x for x in held if x in producers or x in readers or x in graph.inputs]
    place = {tensor: number for number, tensor in enumerate(held)}
    taken = {
        x.outputs[0]: [place[y] for y in overwritable(graph, x) if y in place]
        for x in graph.operators
        if overwritable(graph, x)
    }
    buffers = [
        {
            "bytes": in_lines(graph.tensors[x].nbytes),
            "producer": producers.get(x, -1),
            "consumers": readers.get(x, []),
            "live_out": x in graph.outputs,
            "may_reuse": taken.get(x, []),
        }
        for x in held
    ]
    texts = {"name": graph.name or "model", "source": "", "notes": ""}
    return {**texts, "nodes": nodes, "buffers": buffers}
