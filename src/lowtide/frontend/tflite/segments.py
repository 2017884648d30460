"""Sums, products and extremes of the slices that belong to each segment."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.builder import Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared import indexing
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.ir.literal import DTYPES

_KINDS: Final = {
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
    "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_SUM": "add",
}


@op("SEGMENT_SUM", domain=DOMAIN, inputs=2)
def segment_sum(context: OpKernelContext) -> None:
    """Give the sums of slices along the first dimension, by rising numbers of segments."""
    node = LiteNode(context)
    segments = context.constant(1).reshape(-1)
    _combined(node, "add", int(segments[-1]) + 1 if len(segments) else 0)


@op(*_KINDS, domain=DOMAIN, inputs=3)
def unsorted_segment(context: OpKernelContext) -> None:
    """Give what slices come to by segment; those of a negative number count for none."""
    _combined(LiteNode(context), _KINDS[context.node.op], context.one_int(2))


def _combined(node: LiteNode, kind: str, count: int) -> None:
    b, context = node.b, node.context
    x, segments = context.input(0), context.input(1)
    rest = x.dimensions[segments.rank :]
    start: Op = b.constant(_start(kind, DTYPES[x.element_type]), x.element_type)
    empty = b.broadcast(start, [count, *rest], [])
    places = b.reshape(segments, [*segments.dimensions, 1])
    node.give(indexing.put_vectors(b, empty, places, x, kind))


def _start(kind: str, dtype: np.dtype[Any]) -> complex:
    """What nothing comes to."""
    if kind in ("add", "mul"):
        return int(kind == "mul")
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    found = limits.min if kind == "max" else limits.max
    return float(found) if dtype.kind == "f" else int(found)
