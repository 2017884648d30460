"""Kernels of convolutions as their products read them best: moved once, not in each run.

Their output features lie one after the other, which are the columns of the products: these pack
rows of them as they lie, or read them there. Those of f32 that are not small lie in panels of them,
which convolutions read from end to end where they lie.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.panels import KERNEL, WIDTH, has_panels, panels_of_kernel
from lowtide.ir.literal import Array, in_lines
from lowtide.onnx.prepared_weights import (
    NewNames,
    each_once,
    moved_back,
    values_read_at,
    weights_read_at,
)

_KERNELS: Final = {"Conv": (1,), "ConvInteger": (1,), "QLinearConv": (3,)}
_DEQUANTIZED: Final = {"DequantizeLinear": (0,)}


def with_kernels_prepared(model: OnnxModel) -> OnnxModel:
    """Return a model that reads kernels with their output features last.

    Nodes that move them back stand at the start: the compiler makes them part of convolutions.
    Sums over panels may be added up in another order. What may be fed stays as it is, and so does a
    kernel of one input or output feature. The numbers of a quantized one are moved likewise.
    """
    known = model.initializers
    kernels = {
        x: known[x]
        for x in (*weights_read_at(model, _KERNELS), *_dequantized(model))
        if known[x].ndim > 2 and min(known[x].shape[:2]) > 1 and _is_moved(known[x])
    }
    if not kernels:
        return model
    names = NewNames(model)
    initializers = {x: y for x, y in known.items() if x not in kernels}
    nodes: list[GraphNode] = []
    in_panels = _in_panels(model, kernels)
    moved = each_once(
        kernels, lambda x: (panels_of_kernel if x in in_panels else _with_features_last)(kernels[x])
    )
    for name, kernel in kernels.items():
        stored = names.new(f"{name} by output features")
        initializers[stored] = moved[name]
        if name in in_panels:
            nodes.append(GraphNode(names.new(f"join {name}"), KERNEL, (stored,), (name,), {}))
            continue
        spatial = range(kernel.ndim - 2)
        nodes.append(moved_back(names, stored, name, [len(spatial) + 1, len(spatial), *spatial]))
    graph = replace(model.graph, nodes=(*nodes, *model.graph.nodes))
    return replace(model, graph=graph, initializers=initializers)


def _is_moved(kernel: Array) -> bool:
    """Whether a kernel is read faster so: one tap of bytes is where it lies by input features."""
    if kernel.dtype in (np.int8, np.uint8):
        return math.prod(kernel.shape[2:]) > 1
    return kernel.dtype.kind == "f"


def _dequantized(model: OnnxModel) -> list[str]:
    """The initializers that are the numbers of kernels, which DequantizeLinear makes of them."""
    numbers, kernels = weights_read_at(model, _DEQUANTIZED), values_read_at(model, _KERNELS)
    others = {
        x.inputs[0]
        for x in model.graph.nodes
        if x.op in _DEQUANTIZED and x.outputs[0] not in kernels
    }
    return [x for x in numbers if x not in others]


def _in_panels(model: OnnxModel, kernels: Mapping[str, Array]) -> set[str]:
    """The kernels that fill panels, and that one convolution reads, which is not in groups.

    One that several read would be joined once and kept for them, instead of being part of each.
    Those of one place that is met everywhere are factors of products, whose other factor would be
    packed, and one panel lies as its kernel does. An array of several names is kept once, in the
    same way for all.
    """
    others = set[str]()
    readers = Counter([x for node in model.graph.nodes for x in kernels.keys() & node.inputs])
    for node in model.graph.nodes:
        is_strided = max(node.attributes.get("strides", [1])) > 1
        is_grouped = node.attributes.get("group", 1) != 1
        for name in kernels.keys() & node.inputs:
            is_window = is_strided or math.prod(kernels[name].shape[2:]) > 1
            if is_grouped or not is_window or readers[name] > 1:
                others.add(name)
    others.update(
        [
            x
            for x, y in kernels.items()
            if y.shape[0] % WIDTH
            or y.shape[0] == WIDTH
            or not has_panels(y.reshape(y.shape[0], -1).T)
        ]
    )
    apart = {id(kernels[x]) for x in others}
    return {x for x, y in kernels.items() if id(y) not in apart}


def _with_features_last(kernel: Array) -> Array:
    order = [*range(2, kernel.ndim), 1, 0]
    return in_lines(kernel.transpose(order))
