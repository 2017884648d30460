"""Items of lists that are set: slices of a length that a loop counts, as one operator.

    x[:i] ++ item ++ x[i + 1:]    is x with another item i

TensorFlow's converter writes that for the outputs of recurrent layers that are loops. No array
has a size that a loop counts, but x keeps its own: what is left is DYNAMIC_UPDATE_SLICE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.frontend.tflite.constants import array_of
from lowtide.frontend.tflite.model import LiteGraph, LiteOperator, LiteTensor
from lowtide.frontend.tflite.node import ELEMENT_TYPES
from lowtide.ir.literal import Array

_JOINING: Final = frozenset({"CONCATENATION", "PACK"})
_RESHAPING: Final = frozenset({"RESHAPE", "EXPAND_DIMS", "SQUEEZE"})
_PARTS: Final = 3


def with_items_set(graph: LiteGraph) -> tuple[LiteOperator, ...]:
    """Return the operators of a subgraph, of which those that set an item are one each.

    Numbers of operators stay; slices that nothing else reads are left out.
    """
    found = _Items(graph)
    replaced = {x.number: y for x in graph.operators if (y := found.replaced(x)) is not None}
    operators = [replaced.get(x.number, x) for x in graph.operators]
    if not replaced:
        return graph.operators
    read = {y for x in operators for y in x.inputs} | {*graph.outputs}
    kept = [x for x in operators if x.name != "SLICE" or read.intersection(x.outputs)]
    return tuple(kept)


class _Items:
    """Finds what sets an item among the operators of a subgraph."""

    def __init__(self, graph: LiteGraph) -> None:
        self.tensors = graph.tensors
        whole = [x for x in graph.operators if min(x.inputs, default=-1) >= 0]
        self.makers: Mapping[int, LiteOperator] = {y: x for x in whole for y in x.outputs}

    def replaced(self, operator: LiteOperator) -> LiteOperator | None:
        """The operator that sets an item where this one joins the parts; else None."""
        if operator.name != "CONCATENATION" or len(operator.inputs) != _PARTS:
            return None
        options = operator.options
        if options is not None and (options.integer(0) or options.scalar(1, "b", 0)):
            return None  # It joins along another dimension, or has an activation.
        head, item, tail = operator.inputs
        before, after = self.slice_of(head), self.slice_of(tail)
        if before is None or after is None or item < 0:
            return None
        x, start, count = before.inputs
        rest, begin, left = after.inputs
        if x != rest or not self.are_alike(self.tensors[x], self.tensors[item]):
            return None
        if not self.is_all(start, 0) or not self.is_all(left, -1):
            return None
        if not self.is_next(self.first(count, -1), self.first(begin, 0)):
            return None
        return replace(operator, name="DYNAMIC_UPDATE_SLICE", inputs=(x, item, count), options=None)

    def slice_of(self, tensor: int) -> LiteOperator | None:
        """The operator that takes a slice which is a tensor."""
        found = self.makers.get(tensor)
        is_slice = found is not None and found.name == "SLICE" and len(found.inputs) == _PARTS
        return found if is_slice else None

    def are_alike(self, x: LiteTensor, item: LiteTensor) -> bool:
        """Whether an item is one along the first dimension of x, of the same type and scale."""
        sizes = len(x.shape) and item.shape == (1, *x.shape[1:])
        one, other = x.quantization, item.quantization
        same = np.array_equal(one.scales, other.scales)
        same = same and np.array_equal(one.zero_points, other.zero_points)
        return bool(sizes) and same and x.type == item.type

    def is_all(self, tensor: int, value: int) -> bool:
        """Whether a tensor is a constant of one value."""
        known = self.known(tensor)
        return known is not None and bool((known == value).all())

    def known(self, tensor: int) -> Array | None:
        """The value of a constant."""
        found = self.tensors[tensor]
        is_known = found.data is not None and tensor not in self.makers
        return array_of(found) if is_known and found.type in ELEMENT_TYPES else None

    def first(self, tensor: int, rest: int) -> int | None:
        """The tensor of the first element of a vector whose others are one number."""
        maker = self.makers.get(tensor)
        if maker is not None and maker.name in _JOINING:
            if not all(self.is_all(x, rest) for x in maker.inputs[1:]):
                return None
            tensor = maker.inputs[0]
        found = self.plain(tensor)
        return found if np.prod(self.tensors[found].shape, dtype=int) == 1 else None

    def plain(self, tensor: int) -> int:
        """The tensor of other sizes, but with the same elements, behind one."""
        while (maker := self.makers.get(tensor)) is not None and maker.name in _RESHAPING:
            tensor = maker.inputs[0]
        return tensor

    def is_next(self, number: int | None, other: int | None) -> bool:
        """Whether one number is another one and 1."""
        if number is None or other is None:
            return False
        maker = self.makers.get(other)
        if maker is None or maker.name != "ADD":
            return False
        terms = [self.plain(x) for x in maker.inputs]
        return number in terms and any(self.is_all(x, 1) for x in terms)
