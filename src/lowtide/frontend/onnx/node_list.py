"""The front door for ONNX: lists of nodes with initializers, and graphs inside of nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from lowtide.frontend.graphs.compiler import GraphProgram, compile_graph
from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.ir import Shape
from lowtide.ir.literal import Array
from lowtide.records import dataclass

DOMAIN: Final = "onnx"

_INITIALIZER: Final = "Constant"
"""Initializers of graphs inside of nodes stand in them as nodes of this op."""


@dataclass(frozen=True, eq=False, slots=True)
class OnnxNode:
    """One node; an input or output "" is an optional one that is left out.

    Attributes are numbers, text, lists, arrays, ONNX's numbers of types, or graphs.
    """

    op_type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class OnnxGraph:
    """A graph inside of a node, which reads values of the graphs around it by their names."""

    inputs: Sequence[str]
    nodes: Sequence[OnnxNode]
    outputs: Sequence[str]
    initializers: Mapping[str, Array] = field(default_factory=dict)
    name: str = "graph"


def compile_nodes(
    nodes: Sequence[OnnxNode],
    inputs: Mapping[str, Shape | Array],
    outputs: Sequence[str],
    initializers: Mapping[str, Array] | None = None,
    name: str = "graph",
) -> GraphProgram:
    """Return the module that computes the outputs.

    `inputs` given by shape become the parameters, in this order; arrays are constants, and so are
    initializers, unless an input has the same name. Raises GraphError and UnsupportedOpError, which
    name the node.
    """
    import lowtide.frontend.onnx.kernels  # noqa: F401, they import this file.

    graph = OnnxGraph(tuple(inputs), nodes, outputs, {}, name)
    constants = {x: np.asarray(y) for x, y in (initializers or {}).items() if x not in inputs}
    return compile_graph(DOMAIN, _graph(graph), {**inputs, **constants})


def _graph(graph: OnnxGraph) -> OpGraph:
    taken = {node.name for node in graph.nodes}
    constants = [
        GraphNode(f"initializer {name}", _INITIALIZER, (), (name,), {"value": value})
        for name, value in graph.initializers.items()
    ]
    converted: list[GraphNode] = []
    for number, node in enumerate(graph.nodes):
        name = node.name or f"{node.op_type}_{number}"
        while not node.name and name in taken:
            name += "_"
        taken.add(name)
        attributes = {
            key: _graph(x) if isinstance(x, OnnxGraph) else x for key, x in node.attributes.items()
        }
        converted.append(
            GraphNode(name, node.op_type, tuple(node.inputs), tuple(node.outputs), attributes)
        )
    return OpGraph(graph.name, tuple(graph.inputs), (*constants, *converted), tuple(graph.outputs))


_KEY: Final = "stack_trace"
_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d{1,9})')


def innermost_frame(properties: Mapping[str, str]) -> tuple[str, int]:
    """Return file and line, from 1, of the last frame of the stack among a node's properties.

    That is where the node was made; ("", 0) where it is not known.
    """
    for key, value in properties.items():
        is_trace = isinstance(value, str) and str(key).endswith(_KEY)
        frames = _FRAME.findall(value) if is_trace else []
        if frames:
            file, line = frames[-1]
            return file, int(line)
    return "", 0
