"""Modules of frozen graphs: GraphDefs in which all weights are constants."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.tensorflow.graph_def import NodeDef, compile_graph_def
from lowtide.frontend.tensorflow.graph_reader import read_graph
from lowtide.frontend.tensorflow.messages import parse, told_with
from lowtide.ir import Module
from lowtide.ir.errors import InputError, UnsupportedOpError

_NO_RESULTS: Final = frozenset({"Assert", "Const", "NoOp", "Placeholder"})
"""Ops whose values are no results of a graph where nothing reads them."""

_VARIABLES: Final = frozenset({"VarHandleOp", "Variable", "VariableV2"})


def read_module(data: bytes, file: str) -> Module:
    """Return the module of a GraphDef; its results are the values that no other node reads.

    Placeholders are its parameters, in the order of the nodes. Raises InputError for what is
    malformed, and UnsupportedOpError for an op without a kernel; both name the node.
    """
    with told_with(file):
        graph = read_graph(parse("GraphDef", data, file))
        _refuse_variables(graph.nodes)
        fetches = _unread(graph.nodes)
        if not fetches:
            raise InputError("the graph has no result: each value is read by another node")
        return compile_graph_def(graph.nodes, fetches, functions=graph.functions).module


def _refuse_variables(nodes: tuple[NodeDef, ...]) -> None:
    for node in nodes:
        if node.op in _VARIABLES:
            raise UnsupportedOpError(
                f"node {node.name!r} ({node.op}) is a variable: freeze the graph, so that its "
                "weights are constants"
            )


def _unread(nodes: tuple[NodeDef, ...]) -> list[str]:
    """The first values of the nodes that no other node reads."""
    read = {x.lstrip("^").partition(":")[0] for node in nodes for x in node.inputs}
    return [x.name for x in nodes if x.name not in read and x.op not in _NO_RESULTS]
