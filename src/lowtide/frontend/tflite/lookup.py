"""Quantized functions of one number as tables of all numbers that there are.

Numbers of 8 bits have 256 entries; those of 16 bits 65,536, which take 128 KiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.builder import Op
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.tflite import quantized
from lowtide.frontend.tflite.node import ELEMENT_TYPES, QUANTIZED, LiteNode
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES

Reals: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[[Reals], Reals]

_FAR: Final = 1e6
_STEPS: Final = 512
"""The steps of a table of 16-bit numbers, between whose ends values are interpolated."""


def looked_up(node: LiteNode, table: npt.NDArray[np.integer]) -> Op:
    """Return for each number of the first input its entry; the first entry is for the least."""
    b, x = node.b, node.context.input(0)
    made = DTYPES[ELEMENT_TYPES[node.made.type]]
    place = b.convert(x, ElementType.S32) - QUANTIZED[node.tensor(0).type][0]
    flat = b.reshape(place, [x.shape.element_count])
    return b.reshape(take(b, b.constant(table.astype(made)), flat, 0), x.dimensions)


def numbers_of(kind: str) -> npt.NDArray[np.int64]:
    """Return all numbers of a quantized type, the least first."""
    low, high = QUANTIZED[kind]
    return np.arange(low, high + 1)


def give_function(node: LiteNode, function: Function) -> None:
    """Set the output to a function of the reals that the first input's numbers stand for.

    Of 16-bit numbers it is interpolated, as TFLite has it.
    """
    given, made = node.tensor(0), node.made
    if given.type != made.type:
        raise node.refusal(f"it is quantized from {given.type} to {made.type}")
    scales = quantized.scale_of(node, given), quantized.scale_of(node, made)
    zeros = quantized.zero_of(given), quantized.zero_of(made)
    low, high = QUANTIZED[made.type]
    if given.type == "INT16":
        ends = [scales[1] * np.float32(x) for x in (low, high)]
        table = coarse_table(_between(function, *ends), scales, zeros)
        node.give(looked_up(node, interpolated(table, numbers_of("INT16"))))
        return
    x = ((numbers_of(given.type) - zeros[0]).astype(np.float32) * scales[0]).astype(np.float32)
    with np.errstate(all="ignore"):
        values = function(x).astype(np.float32) * (np.float32(1) / scales[1])
    found = np.nan_to_num(rounded(values), nan=0.0, posinf=_FAR, neginf=-_FAR)
    node.give(looked_up(node, np.clip(found + zeros[1], low, high)))


def _between(function: Function, least: Any, most: Any) -> Function:
    """A function with two reals in place of its infinities."""
    return lambda x: np.nan_to_num(function(x), nan=least, posinf=most, neginf=least)


def rounded(values: Reals) -> Reals:
    """Return the nearest whole numbers; halves go away from zero."""
    return np.copysign(np.floor(np.abs(values.astype(np.float64)) + 0.5), values)


def coarse_table(
    function: Function, scales: tuple[Any, Any], zeros: tuple[int, int]
) -> npt.NDArray[np.int64]:
    """Return 513 values of a function of 16-bit numbers; each takes half the error in the middle.

    `scales` and `zeros` are those of the numbers and of the results; their type is reckoned with.
    """
    real = type(scales[0])
    low, high = QUANTIZED["INT16"]
    least, most = [scales[0] * real(x - zeros[0]) for x in (low, high)]
    ends = [scales[1] * real(x - zeros[1]) for x in (low, high)]
    step = (most - least) / real(_STEPS)
    inverse = real(high - low + 1) / (ends[1] - ends[0])
    at = (least + np.arange(_STEPS + 1).astype(real) * step).astype(real)
    with np.errstate(all="ignore"):
        values = (function(at) * inverse).astype(real)
        middle = rounded((function((at[:-1] + step / real(2)).astype(real)) * inverse).astype(real))
    between = rounded(((values[1:] + rounded(values[:-1]).astype(real)) / real(2)).astype(real))
    found = rounded(values[:-1]) - rounded((between - middle) / 2)
    last = rounded((function(np.array([most], real)) * inverse).astype(real))
    whole: npt.NDArray[np.int64] = np.nan_to_num(np.append(found, last)).astype(np.int64)
    return np.asarray(np.clip(whole, low, high))


def interpolated(
    table: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return values of 16-bit numbers between the entries of a coarse table."""
    place = 256 + (numbers >> 7)
    slope = table[place + 1] - table[place]
    return np.asarray(table[place] + ((slope * (numbers & 127) + 64) >> 7))
