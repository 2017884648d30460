"""Convolutions of quantized images as those of their numbers: what weights add is computed once.

A zero point z of an image counts by the sums of filters: conv(p - z, q) is conv(p, q) - z sum(q),
where z is around p. The sums are of weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.frontend.graphs.graph import GraphNode
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import Array
from lowtide.onnx.prepared_weights import NewNames
from lowtide.onnx.quantized_products import (
    BYTES,
    DEQUANTIZING,
    FLOAT,
    MOST_PRODUCT,
    MOST_SUM,
    has_zeros,
    one_number,
    without_unread,
)
from lowtide.records import dataclass

_LEAST_RANK: Final = 3
_OTHER: Final = (None, 0)

_INT32: Final = 6
"""The number of the type in ONNX."""


@dataclass(eq=False, slots=True)
class _Rewriting:
    """A model while its nodes are rewritten: what is known of it, and the weights to come."""

    known: Mapping[str, Array]
    made_by: Mapping[str, GraphNode]
    names: NewNames
    more: dict[str, Array]

    def keep(self, wanted: str, value: Array) -> str:
        """Return the name of a weight to come."""
        name = self.names.new(wanted)
        self.more[name] = value
        return name

    def step(self, before: GraphNode, op: str, *inputs: str, **attributes: Any) -> GraphNode:
        """Return a node in the place of another one, with a name of its own."""
        name = self.names.new(f"{before.name} {op}")
        return GraphNode(name, op, inputs, (name,), attributes, source=before.source)


def with_convolutions_of_numbers(model: OnnxModel) -> OnnxModel:
    """Return a model in which zero points of images meet sums of filters that are weights.

    The filters are weights without a zero point, and the image has one zero point, which is not 0.
    Results are those of the pass `integer-products`, to the last bit. What may be fed stays.
    """
    fed = {x.name for x in model.overridable}
    known = {x: y for x, y in model.initializers.items() if x not in fed}
    made_by = {x.outputs[0]: x for x in model.graph.nodes if x.op in DEQUANTIZING and x.outputs}
    at = _Rewriting(known, made_by, NewNames(model), {})
    nodes: list[GraphNode] = []
    for node in model.graph.nodes:
        write, inputs = _WAYS.get(node.op, _OTHER)
        is_whole = len(node.inputs) >= inputs
        nodes += (write(at, node) if write and is_whole else None) or [node]
    if not at.more:
        return model
    nodes = without_unread(nodes, model.graph.outputs)
    read = {*fed, *model.graph.outputs, *[x for node in nodes for x in reads_of(node)]}
    kept = {x: y for x, y in {**model.initializers, **at.more}.items() if x in read}
    return replace(model, graph=replace(model.graph, nodes=tuple(nodes)), initializers=kept)


_Write: TypeAlias = Callable[[_Rewriting, GraphNode], "list[GraphNode] | None"]
"""Writes the nodes in whose place a node stood, None where it stays."""


def _dequantized(at: _Rewriting, node: GraphNode) -> list[GraphNode] | None:
    """The nodes in whose place a convolution of what is dequantized stood."""
    if not {*node.inputs[:2]} <= at.made_by.keys():
        return None
    image, filters = (at.made_by[x] for x in node.inputs[:2])
    if len(filters.inputs) < 2:
        return None
    zero, scale = one_number(image, 2, at.known), one_number(image, 1, at.known)
    if zero is None or scale is None or has_zeros(filters, at.known):
        return None
    weights, scales = (at.known.get(filters.inputs[i]) for i in (0, 1))
    if weights is None or scales is None or not _fits(node, weights, zero):
        return None
    by_features = scales.shape == weights.shape[:1] and filters.attributes.get("axis", 1) == 0
    is_f32 = scale.dtype == scales.dtype == np.float32
    if not is_f32 or not (by_features or scales.size == 1):
        return None
    if filters.attributes.get("block_size", 0):
        return None
    over = [-1] + [1] * (weights.ndim - 2)
    factors = np.asarray(scale * scales.reshape(over if by_features else ()))
    numbers = _numbers(at, node, (image.inputs[0], image.inputs[2], filters.inputs[0]), zero)
    cast = at.step(node, "Cast", numbers[-1].outputs[0], to=FLOAT)
    scaled = at.step(node, "Mul", cast.outputs[0], at.keep(f"{node.name} scales", factors))
    made = [*numbers, cast, scaled]
    if len(node.inputs) > 2 and node.inputs[2]:
        sizes = at.keep(f"{node.name} sizes", np.array(over, np.int64))
        bias = at.step(node, "Reshape", node.inputs[2], sizes)
        made += [bias, at.step(node, "Add", scaled.outputs[0], bias.outputs[0])]
    return _ended(made, node)


def _of_integers(at: _Rewriting, node: GraphNode) -> list[GraphNode] | None:
    """The nodes in whose place a convolution of numbers stood."""
    image, filters, name, own = [*node.inputs, "", ""][:4]
    zero, weights = one_number(node, 2, at.known), at.known.get(filters)
    if not name or weights is None or not _fits(node, weights, zero):
        return None
    if own and np.any(at.known.get(own, np.True_)):
        return None
    return _ended(_numbers(at, node, (image, name, filters), zero), node)


def _requantized(at: _Rewriting, node: GraphNode) -> list[GraphNode] | None:
    """The nodes in whose place a convolution stood whose sums are quantized again."""
    zero, weights = one_number(node, 2, at.known), at.known.get(node.inputs[3])
    if zero is None or weights is None or not _fits(node, weights, zero):
        return None
    if np.any(at.known.get(node.inputs[5], np.True_)):
        return None
    taken = _sums(weights) * np.int32(zero)
    if len(node.inputs) > 8 and node.inputs[8]:
        bias = at.known.get(node.inputs[8])
        if bias is None or bias.shape != taken.shape:
            return None
        taken = taken - bias
    made, around = _padded(at, node, node.inputs[0], node.inputs[2])
    nothing = at.keep(f"{node.name} zero", np.zeros_like(zero))
    inputs = (around, node.inputs[1], nothing, *node.inputs[3:8])
    inputs = (*inputs, at.keep(f"{node.name} bias", -taken))
    return [*made, replace(node, inputs=inputs, attributes=_within(node))]


def _fits(node: GraphNode, weights: Array, zero: Array | None) -> bool:
    """Whether sums of products are exact, and the zero point counts; pads are said by number.

    A zero point that is None is not known.
    """
    if zero is not None and (zero.dtype not in BYTES or not zero):
        return False
    if weights.dtype not in BYTES or weights.ndim < _LEAST_RANK or not weights.size:
        return False
    size = weights.size // len(weights)
    pads = node.attributes.get("pads")
    is_said = node.attributes.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET")
    if not is_said or (pads is not None and len(pads) != 2 * (weights.ndim - 2)):
        return False
    return size * MOST_PRODUCT < MOST_SUM


def _sums(weights: Array) -> Array:
    """The sums of the filters of each output feature, as 32-bit numbers."""
    return np.asarray(weights.reshape(len(weights), -1).sum(1, dtype=np.int32))


def _numbers(
    at: _Rewriting, node: GraphNode, given: tuple[str, str, str], zero: Array | None
) -> list[GraphNode]:
    """The nodes of a convolution of an image less its zero point with filters: the last gives it.

    `given` are the image's numbers, its zero point and the filters.
    """
    image, name, filters = given
    made, around = _padded(at, node, image, name)
    product = replace(at.step(node, "ConvInteger", around, filters), attributes=_within(node))
    weights = at.known[filters]
    sums = _sums(weights).reshape([-1] + [1] * (weights.ndim - 2))
    if zero is not None:
        taken = at.keep(f"{node.name} sums", sums * np.int32(zero))
    else:
        wide = at.step(node, "Cast", name, to=_INT32)
        part = at.step(node, "Mul", wide.outputs[0], at.keep(f"{node.name} sums", sums))
        made, taken = [*made, wide, part], part.outputs[0]
    return [*made, product, at.step(node, "Sub", product.outputs[0], taken)]


def _padded(at: _Rewriting, node: GraphNode, image: str, zero: str) -> tuple[list[GraphNode], str]:
    """The node that puts a zero point around an image, if there is anything, and its result."""
    pads = [int(x) for x in node.attributes.get("pads", ())]
    if not any(pads):
        return [], image
    half = len(pads) // 2
    sides = np.array([0, 0, *pads[:half], 0, 0, *pads[half:]], np.int64)
    step = at.step(node, "Pad", image, at.keep(f"{node.name} pads", sides), zero)
    return [step], step.outputs[0]


def _within(node: GraphNode) -> dict[str, Any]:
    """The attributes of a convolution whose image has around it what it meets."""
    return {x: y for x, y in node.attributes.items() if x not in ("pads", "auto_pad")}


def _ended(made: list[GraphNode], node: GraphNode) -> list[GraphNode]:
    """Nodes of which the last one has the name and the result of another."""
    return [*made[:-1], replace(made[-1], name=node.name, outputs=node.outputs)]


_WAYS: Final[dict[str, tuple[_Write | None, int]]] = {
    "Conv": (_dequantized, 2),
    "ConvInteger": (_of_integers, 3),
    "QLinearConv": (_requantized, 8),
}
"""Operators, what writes them again, and the least number of inputs."""
