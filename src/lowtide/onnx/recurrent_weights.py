"""Weights of recurrent layers as their products read them best: by direction, and in panels.

Those of one direction of two would be copied out of an array of both in each run. Weights that
multiply all steps at once lie in panels, as those of other products do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.panels import has_panels, panels_of
from lowtide.frontend.onnx.recurrent import BY_DIRECTION, LSTM_BY_COLUMNS
from lowtide.ir.literal import Array
from lowtide.onnx.prepared_weights import NewNames, weights_read_at

_WEIGHTS: Final = dict.fromkeys(BY_DIRECTION, (1, 2))


def with_recurrent_weights_prepared(model: OnnxModel) -> OnnxModel:
    """Return a model whose recurrent layers read weights of each direction by themselves.

    Those of what comes in are in panels where they are f32. What may be fed stays as it is, and
    what something else reads.
    """
    known = model.initializers
    weights = {x: known[x] for x in weights_read_at(model, _WEIGHTS) if known[x].ndim == 3}
    chosen = {id(x) for x in model.graph.nodes if _is_better(x, weights)}
    stay = {y for x in model.graph.nodes if id(x) not in chosen for y in x.inputs[1:3]}
    stored = _Stored(NewNames(model), {x: y for x, y in weights.items() if x not in stay})
    nodes = [stored.reading(x) if id(x) in chosen else x for x in model.graph.nodes]
    if not stored.made:
        return model
    initializers = {x: y for x, y in known.items() if x not in stored.weights}
    initializers.update(stored.made)
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)), initializers=initializers)


def _is_better(node: GraphNode, weights: Mapping[str, Array]) -> bool:
    """Whether a layer would read weights that lie in another way."""
    if node.op not in BY_DIRECTION or not all(x in weights for x in node.inputs[1:3]):
        return False
    incoming = weights[node.inputs[1]]
    return len(incoming) > 1 or _is_in_panels(node, incoming[0])


def _is_in_panels(node: GraphNode, incoming: Array) -> bool:
    return node.op != LSTM_BY_COLUMNS and has_panels(incoming.T)


class _Stored:
    """The weights that are stored anew, each once."""

    def __init__(self, names: NewNames, weights: Mapping[str, Array]) -> None:
        self.names = names
        self.weights = weights
        self.made: dict[str, Array] = {}
        self._found: dict[tuple[str, int, int], str] = {}

    def reading(self, node: GraphNode) -> GraphNode:
        """Return a layer that reads what is stored: of the second direction behind all else."""
        if not all(x in self.weights for x in node.inputs[1:3]):
            return node
        incoming, recurrent = node.inputs[1:3]
        directions = len(self.weights[incoming])
        pairs = [
            (self._incoming(node, incoming, d), self._part("recurrent", recurrent, d))
            for d in range(directions)
        ]
        form = BY_DIRECTION[node.op]
        rest = [*node.inputs[3:], *[""] * (form.inputs - len(node.inputs))]
        inputs = (node.inputs[0], *pairs[0], *rest, *[x for pair in pairs[1:] for x in pair])
        return replace(node, op=form.op, inputs=inputs)

    def _incoming(self, node: GraphNode, name: str, direction: int) -> str:
        if not _is_in_panels(node, self.weights[name][direction]):
            return self._part("incoming", name, direction)
        return self._kept("panels", name, direction, panels_of(self.weights[name][direction].T))

    def _part(self, kind: str, name: str, direction: int) -> str:
        part = np.ascontiguousarray(self.weights[name][direction])
        return self._kept(kind, name, direction, part)

    def _kept(self, kind: str, name: str, direction: int, value: Array) -> str:
        key = (kind, id(self.weights[name]), direction)
        if key not in self._found:
            self._found[key] = self.names.new(f"{name} {kind} {direction}")
            self.made[self._found[key]] = value
        return self._found[key]
