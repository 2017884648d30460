"""Weights that nodes only move or widen: done once, not in each run, also in branches and loops."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.frontend.graphs.graph import GraphNode, OpGraph
from lowtide.frontend.onnx.model import OnnxModel
from lowtide.frontend.onnx.stretch import reads_of
from lowtide.ir.literal import DTYPES, Array, in_lines, storable

Move: TypeAlias = Callable[[GraphNode, "Sequence[Array]"], "Array | None"]


def with_weights_prepared(model: OnnxModel) -> OnnxModel:
    """Return a model without nodes that move or widen weights; their results are initializers.

    Initializers that nothing else reads go; those that may be fed stay. What is computed is equal,
    to the last bit.
    """
    open_names = {x.name for x in model.overridable}
    times = Counter([*model.initializers, *_names(model.graph)])
    # Those that may be fed are inputs, too, and so have their names twice.
    known = {name: x for name, x in model.initializers.items() if times[name] == 1}
    stay = {name for name, count in times.items() if count > 1}
    stay |= _factors_of_integers(model, known)
    graph = _prepared(model.graph, known, stay, {}, _ALWAYS)
    if graph is model.graph:
        return model
    read = {*graph.outputs, *[x for node in graph.nodes for x in reads_of(node)], *open_names}
    kept = {x: y for x, y in {**model.initializers, **known}.items() if x in read}
    return replace(model, graph=graph, initializers=kept)


def _names(graph: OpGraph) -> Iterator[str]:
    """The names that a graph gives to values, each as often as it does, with those inside of it.

    Graphs inside may give a name to another value than those around them do.
    """
    yield from graph.inputs
    for node in graph.nodes:
        yield from node.outputs
        for inner in node.attributes.values():
            if isinstance(inner, OpGraph):
                yield from _names(inner)


def _prepared(
    graph: OpGraph,
    known: dict[str, Array],
    stay: Set[str],
    made: dict[Hashable, Array],
    always: Collection[str] = (),
) -> OpGraph:
    """A graph without nodes that move or widen weights, their results added to `known`.

    So it is with graphs inside of its nodes, which read weights from around them. Equal results,
    as those of two branches, are one array; `made` has them by their content. What has a name in
    `stay` is computed in each run. So are results of few bytes, which become constants where they
    are read, unless an operator of `always` makes them.
    """
    rest: list[GraphNode] = []
    small = set[str]()
    for node in graph.nodes:
        result = None if not stay.isdisjoint(node.outputs) else _result(node, known)
        if result is not None:
            known[node.outputs[0]] = made.setdefault(_content(result), result)
            if result.nbytes > _SMALL_BYTES or node.op in always:
                continue
            small.add(node.outputs[0])
        inner = {
            name: _prepared(x, known, stay, made)
            for name, x in node.attributes.items()
            if isinstance(x, OpGraph)
        }
        is_same = all(node.attributes[name] is x for name, x in inner.items())
        rest.append(node if is_same else replace(node, attributes={**node.attributes, **inner}))
    if len(rest) == len(graph.nodes) and all(map(operator.is_, rest, graph.nodes)):
        return graph
    return replace(graph, nodes=tuple(_read(rest, small, graph.outputs)))


def _read(nodes: list[GraphNode], small: set[str], outputs: Sequence[str]) -> list[GraphNode]:
    """The nodes without those that made something `small` of which nothing is read any more."""
    read = set(outputs)
    found = []
    for node in reversed(nodes):
        if not small.issuperset(node.outputs) or not read.isdisjoint(node.outputs):
            read.update(reads_of(node))
            found.append(node)
    return found[::-1]


_SMALL_BYTES: Final = 1 << 12
"""Bytes of results that are no more than constants of modules may have."""

_ALWAYS: Final = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear", "Identity", "Transpose"})


def _content(value: Array) -> Hashable:
    return value.dtype.name, value.shape, sha256(storable(value).data).digest()


def _factors_of_integers(model: OnnxModel, known: Mapping[str, Array]) -> frozenset[str]:
    """The values that stay quantized: weights of products whose other factor is quantized, too.

    Of these the compiler makes products of integers. That is so for all that reads them, or for
    none of it.
    """
    nodes = model.graph.nodes
    dequantized = {x.outputs[0] for x in nodes if x.op in _DEQUANTIZING and x.outputs}
    of_weights = {
        x.outputs[0] for x in nodes if x.op in _DEQUANTIZING and x.inputs and x.inputs[0] in known
    }
    found, other = set[str](), set(model.graph.outputs)
    for node in nodes:
        factors = node.inputs[:2] if node.op in _PRODUCTS else ()
        is_whole = len(factors) > 1 and dequantized.issuperset(factors)
        found.update(of_weights.intersection(factors) if is_whole else ())
        other.update(x for x in reads_of(node) if not is_whole or x not in factors)
    return frozenset(found - other)


_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_DEQUANTIZING: Final = frozenset({"DequantizeLinear", "com.microsoft.DequantizeLinear"})


def _result(node: GraphNode, known: Mapping[str, Array]) -> Array | None:
    """What a node gives, None where it has to stay."""
    move = _MOVES.get(node.op)
    names = [x for x in node.inputs if x]
    if move is None or len(node.outputs) != 1 or len(names) < len(node.inputs):
        return None
    if (not names and node.op != "Constant") or not all(x in known for x in names):
        return None
    if not node.outputs[0] or not all(isinstance(known[x], np.ndarray) for x in names):
        return None
    inputs = [known[x] for x in names]
    try:
        found = move(node, inputs)
    except (TypeError, ValueError, IndexError, KeyError):
        return None  # It is malformed, which the kernel says better.
    if found is None:
        return None
    plain = np.asarray(found)
    return plain if plain.flags.c_contiguous else in_lines(plain)


def _dequantized(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    x, scale = inputs[:2]
    attributes = node.attributes
    if x.dtype.kind not in "iu" or scale.dtype != np.float32:
        return None
    if attributes.get("block_size") or attributes.get("output_dtype") or scale.ndim > 1:
        return None
    axis = int(attributes.get("axis", 1))
    if scale.size > 1 and x.shape[axis] != scale.size:
        return None
    value = x.astype(np.int32)
    if len(inputs) > 2:
        value = value - _along(inputs[2].astype(np.int32), x, axis)
    return np.asarray(value.astype(np.float32) * _along(scale, x, axis), np.float32)


def _quantized(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    x, scale = inputs[:2]
    attributes = node.attributes
    if x.dtype != np.float32 or scale.dtype != np.float32 or scale.ndim > 1:
        return None
    if any(attributes.get(name) for name in ("block_size", "output_dtype", "precision")):
        return None
    axis = int(attributes.get("axis", 1))
    if scale.size > 1 and x.shape[axis] != scale.size:
        return None
    zero = inputs[2] if len(inputs) > 2 else np.zeros((), np.uint8)
    if zero.dtype not in (np.uint8, np.int8):
        return None
    limits = np.iinfo(zero.dtype)
    value = np.rint(x / _along(scale, x, axis)) + _along(zero.astype(np.float32), x, axis)
    return np.asarray(np.clip(value, limits.min, limits.max), zero.dtype)


def _along(value: Array, x: Array, axis: int) -> Array:
    """A number, or numbers along an axis, that broadcast with x."""
    if value.size == 1:
        return value.reshape(())
    sizes = [1] * x.ndim
    sizes[axis] = -1
    return value.reshape(sizes)


def _transposed(node: GraphNode, inputs: Sequence[Array]) -> Array:
    return np.transpose(inputs[0], node.attributes.get("perm"))


def _cast(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    """Only to a wider type of floats, which changes no value."""
    dtype: Any = DTYPES.get(element_type_of(node.attributes["to"]))
    if inputs[0].dtype != np.float16 or dtype not in (np.float32, np.float64):
        return None
    return inputs[0].astype(dtype)


def _slice(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    if len(inputs) < 3:
        return None
    x, (starts, ends) = inputs[0], inputs[1:3]
    axes = inputs[3] if len(inputs) > 3 else np.arange(len(starts))
    steps = inputs[4] if len(inputs) > 4 else np.ones(len(starts), np.int64)
    where = [slice(None)] * x.ndim
    for axis, *ends_of in zip(axes, starts, ends, steps, strict=True):
        where[int(axis)] = slice(*map(int, ends_of))
    return x[tuple(where)]


def _concatenated(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    if len({x.dtype for x in inputs}) > 1:
        return None
    return np.concatenate(inputs, int(node.attributes["axis"]))


def _with_units(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    axes = inputs[1].tolist() if len(inputs) > 1 else node.attributes.get("axes")
    return None if axes is None else np.expand_dims(inputs[0], tuple(axes))


def _constant(node: GraphNode, inputs: Sequence[Array]) -> Array | None:
    value = node.attributes.get("value")
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" else None


_MOVES: Final[dict[str, Move]] = {
    "Constant": _constant,
    "Concat": _concatenated,
    "Slice": _slice,
    "Unsqueeze": _with_units,
    "Cast": _cast,
    "DequantizeLinear": _dequantized,
    "QuantizeLinear": _quantized,
    "Identity": lambda _, inputs: inputs[0],
    "Transpose": _transposed,
}
