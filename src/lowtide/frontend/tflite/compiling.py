"""From a TFLite model to a module: its operators as nodes of a graph, which kernels build."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import numpy as np

from lowtide.frontend.graphs.compiler import GraphProgram, compile_graph
from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.frontend.tflite.model import LiteGraph, LiteModel, LiteTensor
from lowtide.frontend.tflite.node import DOMAIN, ELEMENT_TYPES
from lowtide.ir import InputError, Shape, array_shape
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array

_KERNELS: Final = ("elementwise", "movement", "networks", "softmax")


def compile_tflite(model: LiteModel) -> GraphProgram:
    """Return the module of a model's first subgraph; its parameters are the inputs, in order.

    Raises UnsupportedOpError for an operator or a type that there is no kernel for, GraphError for
    what is wrong with one; both name the operator.
    """
    for name in _KERNELS:
        import_module(f"lowtide.frontend.tflite.{name}")
    graph = model.main
    arguments: dict[str, Shape | Array] = {}
    for number in graph.inputs:
        arguments[_name(number)] = _shape(graph.tensors[number])
    for tensor in graph.tensors:
        if tensor.data is not None and _name(tensor.number) not in arguments:
            arguments[_name(tensor.number)] = _constant(tensor)
    for number in graph.outputs:
        if number < 0:
            raise InputError("an output is left out", file=model.file, position="model.subgraphs")
    return compile_graph(DOMAIN, _graph(graph), arguments)


def _graph(graph: LiteGraph) -> OpGraph:
    nodes = [
        GraphNode(
            f"operator {x.number}",
            x.name,
            tuple(map(_name, x.inputs)),
            tuple(map(_name, x.outputs)),
            {"operator": x, "graph": graph},
        )
        for x in graph.operators
    ]
    inputs, outputs = tuple(map(_name, graph.inputs)), tuple(map(_name, graph.outputs))
    return OpGraph(graph.name or "main", inputs, tuple(nodes), outputs)


def _name(number: int) -> str:
    return "" if number < 0 else f"tensor {number}"


def _shape(tensor: LiteTensor) -> Shape:
    kind = ELEMENT_TYPES.get(tensor.type)
    if kind is None:
        raise UnsupportedOpError(
            f"tensor {tensor.number} ({tensor.name}) is {tensor.type}, which no array is"
        )
    return array_shape(kind, tensor.shape)


def _constant(tensor: LiteTensor) -> Array:
    shape = _shape(tensor)
    assert tensor.data is not None
    dtype = DTYPES[shape.element_type]
    if len(tensor.data) != shape.element_count * dtype.itemsize:
        raise UnsupportedOpError(f"tensor {tensor.number} ({tensor.name}) is sparse")
    return np.frombuffer(tensor.data.tobytes(), dtype).reshape(tensor.shape)
