"""Matrices that products read as second factors, in panels: cut once, not packed in each run.

A panel has some neighbouring columns: those of each step along the contracted dimension lie side by
side, and the steps behind one another. Products of any number of rows read it from end to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.panels import COLUMNS, OF_PANELS, has_panels, panels_of
from lowtide.ir.literal import Array
from lowtide.onnx.prepared_weights import NewNames, each_once, weights_read_at

_FACTORS: Final = dict.fromkeys(OF_PANELS, (1,))


def with_matrices_in_panels(model: OnnxModel) -> OnnxModel:
    """Return a model that reads the second factors of products in panels.

    Sums may be added up in another order. What may be fed stays as it is, and so do matrices of
    which panels would be too large a part more, small ones, and what something else reads.
    """
    known, turned = model.initializers, _turned(model)
    matrices = {
        x: known[x].T if turned[x] else known[x]
        for x in weights_read_at(model, _FACTORS)
        if known[x].ndim == 2 and turned[x] is not None
    }
    matrices = {x: y for x, y in matrices.items() if has_panels(y)}
    if not matrices:
        return model
    names = NewNames(model)
    stored = {x: names.new(f"{x} in panels") for x in matrices}
    initializers = {x: y for x, y in known.items() if x not in matrices}
    for way in (False, True):
        alike = {x: known[x] for x in matrices if turned[x] is way}
        cut = each_once(alike, lambda x: panels_of(matrices[x]))
        initializers.update({stored[x]: y for x, y in cut.items()})
    nodes = [_reading(node, matrices, stored) for node in model.graph.nodes]
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)), initializers=initializers)


def _turned(model: OnnxModel) -> dict[str, bool | None]:
    """Whether each second factor is read with its columns as rows; None where products differ."""
    found: dict[str, bool | None] = {}
    for node in model.graph.nodes:
        if node.op in OF_PANELS and len(node.inputs) > 1:
            name, is_turned = node.inputs[1], bool(node.attributes.get("transB", 0))
            found[name] = is_turned if found.get(name, is_turned) is is_turned else None
    return found


def _reading(
    node: GraphNode, matrices: Mapping[str, Array], stored: Mapping[str, str]
) -> GraphNode:
    """The node with its second factor in panels, if that is one of those that are stored so."""
    if node.op not in OF_PANELS or node.inputs[1] not in stored:
        return node
    first, second, *rest = node.inputs
    attributes = {**node.attributes, COLUMNS: matrices[second].shape[1]}
    inputs = (first, stored[second], *rest)
    return replace(node, op=OF_PANELS[node.op], inputs=inputs, attributes=attributes)
