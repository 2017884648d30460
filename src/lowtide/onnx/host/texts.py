"""Moves of text: ops that compute nothing, on arrays of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.ir.literal import Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value, tensor


def _numbers(call: NodeCall, number: int, attribute: str) -> list[int] | None:
    """Whole numbers that an input has, or, in older versions, an attribute; None for neither."""
    given = call.input(number)
    if given is None:
        given = call.attribute(attribute, None)
    return None if given is None else [int(x) for x in np.asarray(given).reshape(-1)]


def _data(call: NodeCall, number: int = 0) -> Array:
    return tensor(call.input(number), f"input {number}")


@host("Reshape", text_only=True)
def reshape(call: NodeCall) -> Sequence[Value]:
    """Give the elements in other sizes: 0 keeps one, -1 is what is left."""
    x = _data(call)
    sizes = _numbers(call, 1, "shape") or []
    if not call.attribute("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return [x.reshape(sizes)]


@host("Flatten", text_only=True)
def flatten(call: NodeCall) -> Sequence[Value]:
    """Give a matrix: the dimensions before an axis, and the others."""
    x, axis = _data(call), call.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(int(np.prod(x.shape[:axis])), -1)]


@host("Squeeze", text_only=True)
def squeeze(call: NodeCall) -> Sequence[Value]:
    """Give the elements without dimensions of size 1."""
    axes = _numbers(call, 1, "axes")
    return [np.squeeze(_data(call), None if axes is None else tuple(axes))]


@host("Unsqueeze", text_only=True)
def unsqueeze(call: NodeCall) -> Sequence[Value]:
    """Give the elements with more dimensions of size 1."""
    return [np.expand_dims(_data(call), tuple(_numbers(call, 1, "axes") or ()))]


@host("Transpose", text_only=True)
def transpose(call: NodeCall) -> Sequence[Value]:
    """Give the dimensions in another order."""
    return [np.transpose(_data(call), call.attribute("perm", None))]


@host("Concat", text_only=True)
def concat(call: NodeCall) -> Sequence[Value]:
    """Give arrays one after the other along an axis."""
    return [
        np.concatenate([_data(call, i) for i in range(len(call.inputs))], call.attribute("axis"))
    ]


@host("Gather", text_only=True)
def gather(call: NodeCall) -> Sequence[Value]:
    """Give the slices at positions, which may be counted from the end."""
    return [_data(call).take(call.input(1), call.attribute("axis", 0))]


@host("Slice", text_only=True)
def slice_(call: NodeCall) -> Sequence[Value]:
    """Give every so many elements from starts to ends."""
    x = _data(call)
    starts, ends = [_numbers(call, i, n) or [] for i, n in ((1, "starts"), (2, "ends"))]
    axes = _numbers(call, 3, "axes") or [*range(len(starts))]
    steps = _numbers(call, 4, "steps") or [1] * len(starts)
    parts: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        stop = None if step < 0 and end < -size else end
        parts[axis] = slice(start, stop, step)
    return [x[tuple(parts)]]


@host("Expand", text_only=True)
def expand(call: NodeCall) -> Sequence[Value]:
    """Give the elements repeated to larger sizes."""
    x = _data(call)
    sizes = np.broadcast_shapes(x.shape, tuple(_numbers(call, 1, "shape") or ()))
    return [np.array(np.broadcast_to(x, sizes))]


@host("Tile", text_only=True)
def tile(call: NodeCall) -> Sequence[Value]:
    """Give the elements repeated."""
    return [np.tile(_data(call), _numbers(call, 1, "repeats") or ())]


@host("Where", text_only=True)
def where(call: NodeCall) -> Sequence[Value]:
    """Give elements of one input where a condition holds, else of the other."""
    return [np.where(call.input(0), _data(call, 1), _data(call, 2))]


@host("Shape", text_only=True)
def shape(call: NodeCall) -> Sequence[Value]:
    """Give the sizes."""
    sizes = np.array(_data(call).shape, np.int64)
    return [sizes[call.attribute("start", 0) : call.attribute("end", None)]]


@host("Size", text_only=True)
def size(call: NodeCall) -> Sequence[Value]:
    """Give the number of elements."""
    return [np.array(_data(call).size, np.int64)]


@host("Split", text_only=True)
def split(call: NodeCall) -> Sequence[Value]:
    """Give the parts along an axis."""
    x, axis = _data(call), call.attribute("axis", 0)
    sizes = _numbers(call, 1, "split")
    if sizes is None:
        count = len(call.node.outputs)
        part = -(-x.shape[axis] // count)
        return np.split(x, range(part, part * count, part), axis)
    return np.split(x, np.cumsum(sizes)[:-1], axis)
