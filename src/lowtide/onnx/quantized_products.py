"""Products of quantized factors as products of their numbers: what weights add is computed once.

With DequantizeLinear before both factors, x w is ((p - z) s) (q t) for numbers p and q. That is
(p q - z sum(q)) (s t): the sums of columns of q and the products of scales are of weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import Array
from lowtide.onnx.prepared_weights import NewNames, moved_back
from lowtide.records import dataclass

_DEQUANTIZING: Final = frozenset({"DequantizeLinear", "com.microsoft.DequantizeLinear"})
_BYTES: Final = (np.dtype(np.int8), np.dtype(np.uint8))
_MOST_SUM: Final = 1 << 31
_MOST_PRODUCT: Final = 255 * 255

_FLOAT: Final = 1
"""The number of the type in ONNX."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of the value `numbers` less `zero`, times `scale`, with weights and their scales.

    They are by rows of columns, or with `is_turned` by columns.
    """

    numbers: str
    zero: int
    scale: Array
    matrix: str
    weights: Array
    scales: Array
    is_turned: bool


def with_products_of_numbers(model: OnnxModel) -> OnnxModel:
    """Return a model that multiplies numbers where it multiplied what these are dequantized to.

    The second factor is a matrix of weights without a zero point, the first one has one zero point
    and one scale, and all sums fit 32 bits. So results are those of the pass `integer-products`,
    to the last bit. What may be fed stays as it is.
    """
    fed = {x.name for x in model.overridable}
    known = {x: y for x, y in model.initializers.items() if x not in fed}
    made_by = {x.outputs[0]: x for x in model.graph.nodes if x.op in _DEQUANTIZING and x.outputs}
    names, more = NewNames(model), dict[str, Array]()
    nodes: list[GraphNode] = []
    for node in model.graph.nodes:
        found = _product(node, made_by, known)
        nodes += [node] if found is None else _of_numbers(node, found, names, more)
    if not more:
        return model
    nodes = _read_ones(nodes, model.graph.outputs)
    read = {*fed, *model.graph.outputs, *[x for node in nodes for x in reads_of(node)]}
    kept = {x: y for x, y in model.initializers.items() if x in read}
    return replace(
        model, graph=replace(model.graph, nodes=tuple(nodes)), initializers={**kept, **more}
    )


def _product(
    node: GraphNode, made_by: Mapping[str, GraphNode], known: Mapping[str, Array]
) -> _Product | None:
    """What a node multiplies, None where it stays as it is."""
    if node.op not in ("Gemm", "MatMul") or not {*node.inputs[:2]} <= made_by.keys():
        return None
    said = node.attributes
    if said.get("alpha", 1.0) != 1.0 or said.get("beta", 1.0) != 1.0 or said.get("transA", 0):
        return None
    left, right = (made_by[x] for x in node.inputs[:2])
    if any(x.attributes.get("output_dtype", 0) not in (0, _FLOAT) for x in (left, right)):
        return None
    zero, scale = _one(left, 2, known), _one(left, 1, known)
    weights, scales = (known.get(right.inputs[i]) for i in (0, 1))
    if (
        zero is None
        or scale is None
        or weights is None
        or scales is None
        or _has_zeros(right, known)
    ):
        return None
    is_turned = bool(said.get("transB", 0))
    if weights.ndim == 2 and is_turned:
        weights = weights.T
    fits = weights.ndim == 2 and weights.dtype in _BYTES and zero.dtype in _BYTES
    if not fits or weights.shape[0] * _MOST_PRODUCT >= _MOST_SUM:
        return None
    axis = right.attributes.get("axis", 1) % 2
    is_by_column = scales.shape == weights.shape[1:] and axis == int(not is_turned)
    is_f32 = scale.dtype == scales.dtype == np.float32
    if (
        not is_f32
        or right.attributes.get("block_size", 0)
        or not (scales.size == 1 or is_by_column)
    ):
        return None
    if scales.size == 1:
        scales = scales.reshape(())
    return _Product(left.inputs[0], int(zero), scale, right.inputs[0], weights, scales, is_turned)


def _one(node: GraphNode, place: int, known: Mapping[str, Array]) -> Array | None:
    """The one number of an input that is known."""
    found = known.get(node.inputs[place]) if place < len(node.inputs) else None
    return found.reshape(()) if found is not None and found.size == 1 else None


def _has_zeros(node: GraphNode, known: Mapping[str, Array]) -> bool:
    """Whether the zero points of a node are others than 0, or unknown."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return False
    found = known.get(node.inputs[2])
    return found is None or bool(np.any(found))


def _of_numbers(
    node: GraphNode, product: _Product, names: NewNames, more: dict[str, Array]
) -> list[GraphNode]:
    """The nodes in whose place a node stood, in order; what they read of weights is `more`."""
    values = {"scales": product.scale * product.scales}
    if product.zero:
        values["sums"] = product.weights.sum(0, dtype=np.int32) * np.int32(product.zero)
    given = {}
    for name, value in values.items():
        given[name] = names.new(f"{node.name} {name}")
        more[given[name]] = np.asarray(value)
    turned: list[GraphNode] = []
    matrix = product.matrix
    if product.is_turned:
        matrix = names.new(f"{node.name} numbers")
        turned = [moved_back(names, product.matrix, matrix, [1, 0])]
    steps = [
        ("MatMulInteger", (product.numbers, matrix), {}),
        *[("Sub", (given[x],), {}) for x in given if x == "sums"],
        ("Cast", (), {"to": _FLOAT}),
        ("Mul", (given["scales"],), {}),
    ]
    if len(node.inputs) > 2 and node.inputs[2]:
        steps.append(("Add", (node.inputs[2],), {}))
    made: list[GraphNode] = []
    for i, (op, inputs, attributes) in enumerate(steps):
        before = made[-1].outputs if made else ()
        out = node.outputs[0] if i == len(steps) - 1 else names.new(f"{node.name} {op}")
        name = node.name if i == len(steps) - 1 else names.new(f"{node.name} {op}")
        inputs = (*before, *inputs)
        made.append(GraphNode(name, op, inputs, (out,), attributes, source=node.source))
    return [*turned, *made]


def _read_ones(nodes: list[GraphNode], outputs: tuple[str, ...]) -> list[GraphNode]:
    """The nodes but those that dequantize what nothing reads any more."""
    read = {*outputs, *[x for node in nodes for x in reads_of(node)]}
    return [x for x in nodes if x.op not in _DEQUANTIZING or not read.isdisjoint(x.outputs)]
