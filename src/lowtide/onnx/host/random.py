"""Random numbers, drawn by NumPy's generator: equal seeds give equal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.ir.literal import DTYPES
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


def _generator(call: NodeCall) -> np.random.RandomState:
    """The generator of a node; without a seed it starts anywhere."""
    seed = call.attribute("seed", None)
    return np.random.RandomState(None if seed is None else int(seed))


def _dtype(call: NodeCall, usual: Any) -> Any:
    given = call.attribute("dtype", None)
    return usual if given is None else DTYPES[element_type_of(given)]


def _numbers(call: NodeCall, sizes: Sequence[int], dtype: Any) -> Sequence[Value]:
    generator = _generator(call)
    if "Normal" in call.node.op:
        mean, deviation = call.attribute("mean", 0.0), call.attribute("scale", 1.0)
        found = generator.normal(mean, deviation, sizes)
    else:
        found = generator.uniform(call.attribute("low", 0.0), call.attribute("high", 1.0), sizes)
    return [np.asarray(found).astype(dtype)]


@host("RandomUniform", "RandomNormal")
def numbers(call: NodeCall) -> Sequence[Value]:
    """Give random numbers in the sizes of an attribute."""
    return _numbers(call, call.attribute("shape"), _dtype(call, np.float32))


@host("RandomUniformLike", "RandomNormalLike")
def numbers_like(call: NodeCall) -> Sequence[Value]:
    """Give random numbers in the sizes of the input."""
    x = call.input(0)
    return _numbers(call, x.shape, _dtype(call, x.dtype))


@host("Multinomial")
def multinomial(call: NodeCall) -> Sequence[Value]:
    """Give numbers of classes, drawn by the logarithms of their weights."""
    x = np.asarray(call.input(0), np.float64)
    count = call.attribute("sample_size", 1)
    ends = np.cumsum(np.exp(x - x.max(1, keepdims=True)), 1)
    drawn = _generator(call).uniform(0.0, 1.0, (len(x), count)) * ends[:, -1:]
    found = np.array(
        [np.searchsorted(row, at, "right") for row, at in zip(ends, drawn, strict=True)]
    )
    return [np.minimum(found, x.shape[1] - 1).astype(_dtype(call, np.int32))]


@host("Dropout")
def dropout(call: NodeCall) -> Sequence[Value]:
    """Give the input with some elements 0 and the others greater, and which were kept."""
    x = np.asarray(call.input(0))
    ratio = 0.5 if call.input(1) is None else float(call.input(1))
    kept = _generator(call).uniform(0.0, 1.0, x.shape) >= ratio
    scale = 0.0 if ratio >= 1 else 1 / (1 - ratio)
    return [(kept * x * scale).astype(x.dtype), kept]
