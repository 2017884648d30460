"""Weights that training has let go to nothing: numbers so small that products with them are slow.

Filters that decay through training end as numbers around 2^-130. They and their products are
subnormal, and processors take some hundred cycles for each instruction that meets one. XLA's
programs take subnormal numbers for zero wherever they compute; here only weights become zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.frontend.graphs.graph import OpGraph, free_values
from lowtide.ir.literal import Array

if TYPE_CHECKING:
    from lowtide.frontend.onnx.model import OnnxModel

_FACTORS: Final[Mapping[str, Collection[int]]] = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "GRU": (1, 2),
    "Gemm": (0, 1),
    "LSTM": (1, 2),
    "MatMul": (0, 1),
    "RNN": (1, 2),
    "com.microsoft.FusedConv": (1,),
    "com.microsoft.FusedGemm": (0, 1),
    "com.microsoft.FusedMatMul": (0, 1),
}
"""The inputs of operators that are factors of sums of products."""

_NONE: Final[Collection[int]] = ()

_ABOVE_LEAST: Final = 2.0**26
"""Numbers below so many times the least normal one are tiny: the others make normal products with
what is above a billionth."""

_BELOW_GREATEST: Final = 2.0**64
"""How many times as large the greatest weight of an array is at least as those that become 0."""

_CHUNK: Final = 1 << 16
"""How many numbers are looked at together, so that none of the arrays in between is large."""


def without_tiny_weights(model: OnnxModel) -> OnnxModel:
    """Return a model with zeros for tiny weights: in f32 below 2^-100, 2^-64 of the greatest.

    So a sum of n products changes by less than n 2^-100 times the greatest other factor. Arrays
    that are small all over stay as they are, and so does what may be fed or is no factor alone.
    """
    found = {x: _cleaned(model.initializers[x]) for x in sorted(_factors(model))}
    changed = {x: y for x, y in found.items() if y is not None}
    if not changed:
        return model
    places = {x: y for x, y in model.places.items() if x not in changed}
    return replace(model, initializers={**model.initializers, **changed}, places=places)


def _factors(model: OnnxModel) -> set[str]:
    """The initializers that are read as factors, and as nothing else."""
    found = set[str]()
    other = {*model.graph.outputs, *[x.name for x in model.overridable]}
    for node in model.graph.nodes:
        at = _FACTORS.get(node.op, _NONE)
        for i, name in enumerate(node.inputs):
            (found if i in at else other).add(name)
        for inner in node.attributes.values():
            if isinstance(inner, OpGraph):
                other.update(free_values(inner))
    return (found - other).intersection(model.initializers)


def _cleaned(weight: Array) -> Array | None:
    """The array with zeros for its tiny numbers, None where none become zero."""
    if weight.dtype not in (np.float32, np.float64):
        return None
    limit = float(np.finfo(weight.dtype).tiny) * _ABOVE_LEAST
    has_tiny, greatest = False, 0.0
    flat = weight.reshape(-1)
    for begin in range(0, flat.size, _CHUNK):
        sizes = np.abs(flat[begin : begin + _CHUNK])
        has_tiny = has_tiny or bool(((sizes < limit) & (sizes > 0)).any())
        greatest = max(greatest, float(np.fmax.reduce(sizes)))
    if not has_tiny or greatest < limit * _BELOW_GREATEST:
        return None
    return np.where(np.abs(weight) < limit, weight.dtype.type(0), weight)
