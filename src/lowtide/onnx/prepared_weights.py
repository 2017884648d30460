"""Parts of preparations of weights: those that may be moved, new names, nodes that move back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, final

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import Array

_NONE: Final[Collection[int]] = ()


def weights_read_at(
    model: OnnxModel, places: Mapping[str, Collection[int]]
) -> dict[str, frozenset[str]]:
    """Return the initializers that are read only by the inputs at `places` of operators.

    With each are the operators that read it. What may be fed, and what is an output, is left out.
    """
    known = model.initializers
    return {x: y for x, y in values_read_at(model, places).items() if x in known}


def values_read_at(
    model: OnnxModel, places: Mapping[str, Collection[int]]
) -> dict[str, frozenset[str]]:
    """Return the same of all values, which nodes may compute."""
    fed = {x.name for x in model.overridable}
    found, other = dict[str, set[str]](), {*fed, *model.graph.outputs}
    for node in model.graph.nodes:
        at = places.get(node.op, _NONE)
        for i, name in enumerate(node.inputs):
            if i in at:
                found.setdefault(name, set()).add(node.op)
            else:
                other.add(name)
        other.update(set(reads_of(node)).difference(node.inputs))
    return {x: frozenset(y) for x, y in found.items() if x not in other}


def each_once(given: Mapping[str, Array], made: Callable[[str], Array]) -> dict[str, Array]:
    """Return what is `made` of each weight by its name, one array for names of the same array."""
    known: dict[int, Array] = {}
    for name, x in given.items():
        if id(x) not in known:
            known[id(x)] = made(name)
    return {name: known[id(x)] for name, x in given.items()}


@final
class NewNames:
    """Names of values and nodes that a model does not have."""

    def __init__(self, model: OnnxModel) -> None:
        self._taken = {*model.initializers, *model.graph.inputs}
        for node in model.graph.nodes:
            self._taken.update((node.name, *node.outputs))

    def new(self, wanted: str) -> str:
        """Return a name that is not taken, and take it."""
        name, number = wanted, 1
        while name in self._taken:
            name, number = f"{wanted} {number}", number + 1
        self._taken.add(name)
        return name


def moved_back(names: NewNames, stored: str, name: str, order: Sequence[int]) -> GraphNode:
    """Return the node that makes a weight of what is stored, with its dimensions in an order."""
    node = names.new(f"transpose {name}")
    return GraphNode(node, "Transpose", (stored,), (name,), {"perm": [*order]})
