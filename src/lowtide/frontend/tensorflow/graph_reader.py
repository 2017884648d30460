"""Graphs and functions from TensorFlow's messages to lists of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.tensorflow.dtypes import type_of
from lowtide.frontend.tensorflow.graph_def import FunctionDef, NodeDef
from lowtide.frontend.tensorflow.tensors import array_of, sizes_of
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class TensorFlowGraph:
    """The nodes of a graph, and the functions that they may call."""

    nodes: tuple[NodeDef, ...]
    functions: tuple[FunctionDef, ...]


def read_graph(proto: Any) -> TensorFlowGraph:
    """Return the graph in a GraphDef; raises GraphError with the node."""
    functions = [_function(x) for x in proto.library.function]
    return TensorFlowGraph(tuple(_nodes(proto.node)), tuple(functions))


def _nodes(protos: Sequence[Any]) -> list[NodeDef]:
    return [
        NodeDef(
            x.name,
            x.op,
            tuple(x.input),
            {entry.key: _attribute(entry.value, x.name) for entry in x.attr},
        )
        for x in protos
    ]


def _function(proto: Any) -> FunctionDef:
    name = proto.signature.name
    results = {entry.key: entry.value for entry in proto.ret}
    missing = [x.name for x in proto.signature.output_arg if x.name not in results]
    if missing:
        raise GraphError(f"function {name!r} has no value for its result {missing[0]!r}")
    return FunctionDef(
        name,
        [x.name for x in proto.signature.input_arg],
        _nodes(proto.node_def),
        [results[x.name] for x in proto.signature.output_arg],
    )


def _attribute(value: Any, node: str) -> Any:
    """Return what an attribute stands for; None for one without a value."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        return _list(value.list, node)
    return _converted(kind, getattr(value, kind), node)


def _list(values: Any, node: str) -> list[Any]:
    for field, entries in values.ListFields():
        return [_converted(field.name, x, node) for x in entries]
    return []


def _converted(kind: str, value: Any, node: str) -> Any:
    if kind == "type":
        return type_of(value)
    if kind == "shape":
        return sizes_of(value)
    if kind == "tensor":
        return array_of(value, node)
    if kind == "func":
        return value.name
    return value
