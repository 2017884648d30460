"""Weights of 8 bits as products of integers read them best: prepared once, not in each run.

A matrix is kept with its columns one after the other: products of few rows read each column as it
lies, those of many rows pack it as fast as before. The sums of columns, by which a zero point of
the other factor counts, are kept too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_FACTORS: Final = {
    "MatMulInteger": 1,
    "QLinearMatMul": 3,
    "com.microsoft.DynamicQuantizeMatMul": 1,
    "com.microsoft.MatMulIntegerToFloat": 1,
}
"""Products of integers, and which input of each is the second factor."""

_INT32: Final = 6
"""The number of the type in ONNX."""


def with_integer_weights_prepared(model: OnnxModel) -> OnnxModel:
    """Return a model that reads matrices of 8 bits transposed, and sums of their columns.

    Nodes that transpose them back stand at the start: the compiler makes them part of products.
    Results are equal to the last bit. What may be fed stays as it is.
    """
    matrices = _matrices(model)
    if not matrices:
        return model
    names = _Names({*model.initializers, *model.graph.inputs, *_made(model)})
    initializers = {x: y for x, y in model.initializers.items() if x not in matrices}
    nodes: list[GraphNode] = []
    for name, value in matrices.items():
        stored = names.new(f"{name} transposed")
        initializers[stored] = np.ascontiguousarray(value.T)
        back = names.new(f"transpose {name}")
        nodes.append(GraphNode(back, "Transpose", (stored,), (name,), {"perm": [1, 0]}))
    scalars = _scalars(model)
    for node in model.graph.nodes:
        sums = _sums(node, matrices, model.initializers, scalars)
        if sums is None:
            nodes.append(node)
            continue
        kept = names.new(f"{node.inputs[1]} sums")
        initializers[kept] = sums
        nodes += _split(node, kept, names)
    graph = replace(model.graph, nodes=tuple(nodes))
    return replace(model, graph=graph, initializers=initializers)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of values and nodes that are taken."""

    taken: set[str]

    def new(self, wanted: str) -> str:
        """Return a name that is not taken, and take it."""
        name, number = wanted, 1
        while name in self.taken:
            name, number = f"{wanted} {number}", number + 1
        self.taken.add(name)
        return name


def _made(model: OnnxModel) -> Iterator[str]:
    for node in model.graph.nodes:
        yield node.name
        yield from node.outputs


def _matrices(model: OnnxModel) -> dict[str, Array]:
    """The matrices of 8 bits that nothing reads but products, as their second factor."""
    fed = {x.name for x in model.overridable}
    wanted, other = dict[str, None](), {*fed, *model.graph.outputs}
    for node in model.graph.nodes:
        place = _FACTORS.get(node.op, len(node.inputs))
        wanted.update(dict.fromkeys(node.inputs[place : place + 1]))
        other.update(node.inputs[:place] + node.inputs[place + 1 :])
        other.update(set(reads_of(node)).difference(node.inputs))
    known = model.initializers
    return {
        x: known[x]
        for x in wanted
        if x in known
        and x not in other
        and known[x].ndim == 2
        and known[x].dtype in (np.int8, np.uint8)
    }


def _scalars(model: OnnxModel) -> Collection[str]:
    """The values that are known to be one number: zero points of what is quantized as a whole.

    These come from the least and the greatest of all elements.
    """
    found = {x for x, y in model.initializers.items() if y.ndim == 0}
    for node in model.graph.nodes:
        given = [x for x in node.inputs if x]
        if _is_of_all(node) or (node.op in _OF_EACH and found.issuperset(given)):
            found.update(node.outputs)
        elif node.op == "DynamicQuantizeLinear":
            found.update(node.outputs[1:])
    return found


def _is_of_all(node: GraphNode) -> bool:
    """Whether a node takes one number from all elements of its only input."""
    if node.op not in _OF_ALL or len(node.inputs) != 1:
        return False
    return node.attributes.get("keepdims", 1) == 0 and not node.attributes.get("axes")


_OF_ALL: Final = frozenset({"ReduceMax", "ReduceMin"})
_OF_EACH: Final = frozenset(
    {"Add", "Cast", "Clip", "Div", "Floor", "Identity", "Max", "Min", "Mul", "Neg", "Round", "Sub"}
)


def _sums(
    node: GraphNode,
    matrices: Mapping[str, Array],
    known: Mapping[str, Array],
    scalars: Collection[str],
) -> Array | None:
    """The sums of the columns of a product's matrix less its zero points, where they count."""
    if node.op != "MatMulInteger" or node.inputs[1] not in matrices:
        return None
    zeros = [*node.inputs[2:], "", ""][:2]
    if zeros[0] not in scalars or (zeros[1] and zeros[1] not in known):
        return None
    matrix = matrices[node.inputs[1]].astype(np.int64)
    zero = known[zeros[1]].astype(np.int64) if zeros[1] else np.int64(0)
    if zero.size not in (1, matrix.shape[1]) or zero.ndim > 1:
        return None
    return np.asarray((matrix - zero).sum(0), np.int32)


def _split(node: GraphNode, sums: str, names: _Names) -> list[GraphNode]:
    """A product without the first zero point, of which its part is taken from that."""
    x, matrix, zero, *rest = node.inputs
    product, wide, part = [names.new(f"{node.name} {y}") for y in ("product", "zero", "part")]
    return [
        replace(node, inputs=(x, matrix, "", *rest), outputs=(product,)),
        GraphNode(names.new(wide), "Cast", (zero,), (wide,), {"to": _INT32}, source=node.source),
        GraphNode(names.new(part), "Mul", (wide, sums), (part,), source=node.source),
        replace(node, name=names.new(node.name), op="Sub", inputs=(product, part), version=0),
    ]
