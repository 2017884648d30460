"""Kernels of convolutions whose window is one place, in panels: cut once, not packed in each run.

Such a convolution is a product of the features at each place with a matrix, whatever the number of
places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.panels import COLUMNS, CONV_OF_PANELS, has_panels, panels_of
from lowtide.ir.literal import Array
from lowtide.onnx.prepared_weights import NewNames, each_once, weights_read_at

_KERNELS: Final = {"Conv": (1,)}

_LEAST_BYTES: Final = 1 << 18
"""Bytes of a kernel that it is worth it for: of less, packing costs less than lower tiles do."""


def with_pointwise_kernels_in_panels(model: OnnxModel) -> OnnxModel:
    """Return a model that reads kernels of one place in panels of output features.

    Sums may be added up in another order. What may be fed stays as it is, and so do small kernels,
    those of which panels would be too large a part more, and those of groups or of padded images.
    """
    known = model.initializers
    apart = {x for node in model.graph.nodes for x in node.inputs[1:2] if not _is_product(node)}
    kernels = {
        x: _matrix(known[x])
        for x in weights_read_at(model, _KERNELS)
        if x not in apart and known[x].ndim > 2 and prod(known[x].shape[2:]) == 1
    }
    kernels = {x: y for x, y in kernels.items() if has_panels(y) and y.nbytes >= _LEAST_BYTES}
    if not kernels:
        return model
    names = NewNames(model)
    stored = {x: names.new(f"{x} in panels") for x in kernels}
    cut = each_once({x: known[x] for x in kernels}, lambda x: panels_of(kernels[x]))
    initializers = {x: y for x, y in known.items() if x not in kernels}
    initializers.update({stored[x]: y for x, y in cut.items()})
    nodes = [_reading(node, kernels, stored) for node in model.graph.nodes]
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)), initializers=initializers)


def _matrix(kernel: Array) -> Array:
    """Input features by output features."""
    return kernel.reshape(kernel.shape[:2]).T


def _is_product(node: GraphNode) -> bool:
    """Whether a node does nothing but multiply the features at places of its image."""
    if node.op != "Conv" or node.attributes.get("group", 1) != 1:
        return False
    return not any(node.attributes.get("pads", ()))


def _reading(node: GraphNode, kernels: Mapping[str, Array], stored: Mapping[str, str]) -> GraphNode:
    """The node with its kernel in panels, if that is one of those that are stored so."""
    if node.op != "Conv" or node.inputs[1] not in stored:
        return node
    first, second, *rest = node.inputs
    attributes = {**node.attributes, COLUMNS: kernels[second].shape[1]}
    return replace(
        node, op=CONV_OF_PANELS, inputs=(first, stored[second], *rest), attributes=attributes
    )
