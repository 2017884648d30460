"""Sequences and optional values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


def _place(value: Value) -> int:
    return int(np.asarray(value).reshape(()))


@host("SequenceConstruct")
def construct(call: NodeCall) -> Sequence[Value]:
    """Give the sequence of all inputs."""
    return [list(call.inputs)]


@host("SequenceEmpty")
def empty(call: NodeCall) -> Sequence[Value]:
    """Give an empty sequence."""
    return [[]]


@host("SequenceInsert")
def insert(call: NodeCall) -> Sequence[Value]:
    """Give a sequence with one value more, at the end by default."""
    values = list(call.input(0))
    at = len(values) if call.input(2) is None else _place(call.input(2))
    if not -len(values) <= at <= len(values):
        raise call.error(f"position {at} is out of range for {len(values)} values")
    values.insert(at, call.input(1))
    return [values]


@host("SequenceErase")
def erase(call: NodeCall) -> Sequence[Value]:
    """Give a sequence without one value, the last one by default."""
    values = list(call.input(0))
    del values[-1 if call.input(1) is None else _place(call.input(1))]
    return [values]


@host("SequenceAt")
def at(call: NodeCall) -> Sequence[Value]:
    """Give one value of a sequence."""
    return [call.input(0)[_place(call.input(1))]]


@host("SequenceLength")
def length(call: NodeCall) -> Sequence[Value]:
    """Give how many values a sequence has."""
    return [np.array(len(call.input(0)), np.int64)]


@host("SplitToSequence")
def split(call: NodeCall) -> Sequence[Value]:
    """Give the parts of an array along a dimension as a sequence."""
    x, sizes = call.input(0), call.input(1)
    axis = call.attribute("axis", 0)
    n = x.shape[axis]
    if sizes is None:
        parts = np.split(x, n, axis)
        if not call.attribute("keepdims", 1):
            parts = [np.squeeze(part, axis) for part in parts]
        return [parts]
    ends = np.arange(int(sizes), n, int(sizes)) if sizes.ndim == 0 else np.cumsum(sizes)[:-1]
    return [np.split(x, ends, axis)]


@host("ConcatFromSequence")
def concat(call: NodeCall) -> Sequence[Value]:
    """Give the values of a sequence one after another, or stacked along a new dimension."""
    axis = call.attribute("axis")
    join = np.stack if call.attribute("new_axis", 0) else np.concatenate
    return [join(call.input(0), axis)]


@host("Optional")
def optional(call: NodeCall) -> Sequence[Value]:
    """Give the input, or nothing."""
    return [call.input(0)]


@host("OptionalGetElement")
def get_element(call: NodeCall) -> Sequence[Value]:
    """Give the value of an optional one that is there."""
    if call.input(0) is None:
        raise call.error("the optional value is not there")
    return [call.input(0)]


@host("OptionalHasElement")
def has_element(call: NodeCall) -> Sequence[Value]:
    """Give whether an optional value is there."""
    return [np.array(call.input(0) is not None)]


@host("Identity")
def identity(call: NodeCall) -> Sequence[Value]:
    """Give the input."""
    return [call.input(0)]
