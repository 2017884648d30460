"""Labels of classifiers that are text, put into nodes of their own.

Then all but these nodes has a tensor form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from lowtide.frontend.graphs.graph import GraphNode

_NUMBERS: Final = {
    "ai.onnx.ml.LinearClassifier": "classlabels_ints",
    "ai.onnx.ml.SVMClassifier": "classlabels_ints",
    "ai.onnx.ml.TreeEnsembleClassifier": "classlabels_int64s",
}
"""The attribute with labels that are numbers, of each classifier."""

_TEXTS: Final = "classlabels_strings"


def with_labels_apart(nodes: Iterable[GraphNode]) -> list[GraphNode]:
    """Return nodes in which classifiers number classes, and others give the texts for these."""
    found: list[GraphNode] = []
    for node in nodes:
        texts = node.attributes.get(_TEXTS) if node.op in _NUMBERS else None
        if not texts or not node.outputs:
            found.append(node)
            continue
        found += _apart(node, texts)
    return found


def _apart(node: GraphNode, texts: list[Any]) -> list[GraphNode]:
    numbers = [*range(len(texts))]
    place = f"{node.outputs[0]}:number"
    attributes = {x: y for x, y in node.attributes.items() if x != _TEXTS}
    attributes[_NUMBERS[node.op]] = numbers
    if not node.outputs[0]:
        return [replace(node, attributes=attributes)]
    table = {
        "keys_int64s": numbers,
        "values_strings": [x if isinstance(x, bytes) else str(x).encode() for x in texts],
    }
    name = f"{node.name}:labels"
    encoder = "ai.onnx.ml.LabelEncoder"
    return [
        replace(node, outputs=(place, *node.outputs[1:]), attributes=attributes),
        GraphNode(name, encoder, (place,), (node.outputs[0],), table, version=node.version),
    ]
