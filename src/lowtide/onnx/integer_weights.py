"""Weights of 8 bits as products of integers read them best: prepared once, not in each run.

A matrix is kept with its columns one after the other: products of few rows read each column as it
lies, those of many rows pack it as fast as before. The sums of columns, by which a zero point of
the other factor counts, are kept too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.recurrent import LSTM_BY_COLUMNS
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import Array, in_lines
from lowtide.onnx.prepared_weights import NewNames, each_once, moved_back, weights_read_at

_LSTM: Final = "com.microsoft.DynamicQuantizeLSTM"

_FACTORS: Final = {
    "MatMulInteger": (1,),
    "QLinearMatMul": (3,),
    "com.microsoft.DynamicQuantizeMatMul": (1,),
    "com.microsoft.MatMulIntegerToFloat": (1,),
    _LSTM: (1, 2),
}
"""Products of integers, and which inputs of each are second factors: matrices, or a matrix for each
direction."""

_BACK: Final = {2: [1, 0], 3: [0, 2, 1]}
"""How the dimensions of matrices are exchanged, by the number of dimensions."""

_LSTM_INPUTS: Final = 12

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
    names = NewNames(model)
    initializers = {x: y for x, y in model.initializers.items() if x not in matrices}
    stored = {x: names.new(f"{x} transposed") for x in matrices}
    moved = each_once(matrices, lambda x: in_lines(matrices[x].swapaxes(-1, -2)))
    initializers.update({y: moved[x] for x, y in stored.items()})
    scalars = _scalars(model)
    nodes: list[GraphNode] = []
    for node in model.graph.nodes:
        sums = _sums(node, matrices, model.initializers, scalars)
        kept = [names.new(f"{x} sums") for x in node.inputs[1 : 1 + len(sums)]]
        initializers.update(zip(kept, sums, strict=True))
        if not sums:
            nodes.append(node)
        elif node.op == _LSTM:
            nodes.append(_by_columns(node, stored, kept))
        else:
            nodes += _split(node, kept[0], names)
    read = {x for node in nodes for x in reads_of(node)}
    back = [
        moved_back(names, y, x, _BACK[matrices[x].ndim]) for x, y in stored.items() if x in read
    ]
    graph = replace(model.graph, nodes=(*back, *nodes))
    return replace(model, graph=graph, initializers=initializers)


def _matrices(model: OnnxModel) -> dict[str, Array]:
    """The matrices of 8 bits that nothing reads but products, as their second factor."""
    known = model.initializers
    return {
        x: known[x]
        for x, ops in weights_read_at(model, _FACTORS).items()
        if known[x].ndim == (3 if _LSTM in ops else 2) and known[x].dtype in (np.int8, np.uint8)
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
) -> list[Array]:
    """The sums of columns of a node's matrices less their zero points, where they count."""
    pairs: list[tuple[str, str]] = []
    if node.op == "MatMulInteger":
        own = [*node.inputs[2:], "", ""][:2]
        pairs = [(node.inputs[1], own[1])] if own[0] in scalars else []
    elif node.op == _LSTM and len(node.inputs) == _LSTM_INPUTS:
        pairs = [(node.inputs[1], node.inputs[9]), (node.inputs[2], node.inputs[11])]
    if not all(x in matrices and (not zero or zero in known) for x, zero in pairs):
        return []
    zeros = [known[zero] if zero else np.zeros(matrices[x].shape[:-2]) for x, zero in pairs]
    sums = [_sums_of(matrices[x], zero) for (x, _), zero in zip(pairs, zeros, strict=True)]
    found = [x for x in sums if x is not None]
    return found if len(found) == len(pairs) else []


def _sums_of(matrices: Array, zero: Array) -> Array | None:
    """Sums of columns less zero points: of all of a matrix, or one for each of its columns."""
    *outer, rows, columns = matrices.shape
    if zero.size == math.prod(outer):
        zero = zero.reshape(*outer, 1)
    elif zero.shape != (*outer, columns):
        return None
    sums = matrices.sum(-2, dtype=np.int64) - rows * zero.astype(np.int64)
    return np.asarray(sums, np.int32)


def _by_columns(node: GraphNode, stored: Mapping[str, str], sums: Sequence[str]) -> GraphNode:
    """A recurrent layer that reads weights as they are stored."""
    x, *weights = node.inputs[:3]
    inputs = (x, *[stored[y] for y in weights], *node.inputs[3:], *sums)
    return replace(node, op=LSTM_BY_COLUMNS, inputs=inputs)


def _split(node: GraphNode, sums: str, names: NewNames) -> list[GraphNode]:
    """A product without the first zero point, of which its part is taken from that."""
    x, matrix, zero, *rest = node.inputs
    product, wide, part = [names.new(f"{node.name} {y}") for y in ("product", "zero", "part")]
    return [
        replace(node, inputs=(x, matrix, "", *rest), outputs=(product,)),
        GraphNode(names.new(wide), "Cast", (zero,), (wide,), {"to": _INT32}, source=node.source),
        GraphNode(names.new(part), "Mul", (wide, sums), (part,), source=node.source),
        replace(node, name=names.new(node.name), op="Sub", inputs=(product, part), version=0),
    ]
