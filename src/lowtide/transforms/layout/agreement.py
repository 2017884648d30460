"""Nodes that agree on one layout: the heaviest wishes first, as in a maximum spanning tree.

Within a class the order of one node gives that of all. A wish that contradicts heavier ones is not
granted. So of the ways to cut between two given layouts the one with fewest bytes is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from lowtide.ir import Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.transforms.layout.forms import changes_layout, keeps_rank, rule_of
from lowtide.transforms.layout.orders import Order, permuted, row_major_order, same_bytes
from lowtide.transforms.layout.preferences import channels_last
from lowtide.transforms.layout.problem import LayoutNode, LayoutProblem, LayoutUnit
from lowtide.transforms.simplify.shapes import inverse

_CHANNELS_LAST: Final = (2.0, 0.5, 2.0)
"""How much heavier a wish of a convolution is than that of an operation to read what is there.

In gradients, what stands for the kernel is a gradient of activations: these have their say first.
"""


class _Wish(NamedTuple):
    """That dimension d of `a` lies where `image[d]` of `b` does, or without `b` that `a` is so."""

    weight: float
    a: LayoutNode
    image: Order
    b: LayoutNode | None = None


@final
class Agreement:
    """Classes of nodes, with the order of each node relative to that of the first."""

    def __init__(self, problem: LayoutProblem) -> None:
        self._above: dict[LayoutNode, tuple[LayoutNode, Order]] = {}
        self._given: dict[LayoutNode, Order] = {}
        for node in problem.nodes:
            if node.pinned:
                self._given[node] = node.present
        wishes = [wish for unit in problem.units for wish in _wishes(unit)]
        for wish in sorted(wishes, key=lambda wish: -wish.weight):
            if wish.b is None:
                self._give(wish.a, wish.image)
            else:
                self._join(wish.a, wish.image, wish.b)

    def find(self, node: LayoutNode) -> tuple[LayoutNode, Order]:
        """Return the first node of a class, and the image of its dimensions in `node`."""
        path = []
        at = node
        while at in self._above:
            path.append(at)
            at = self._above[at][0]
        image = row_major_order(len(node.sizes))
        for x in reversed(path):
            image = permuted(self._above[x][1], image)
            self._above[x] = (at, image)
        return at, image

    def given(self, first: LayoutNode) -> Order | None:
        """Return the order that the first node of a class has to have, None where it is free."""
        return self._given.get(first)

    def _give(self, node: LayoutNode, order: Order) -> None:
        first, image = self.find(node)
        self._given.setdefault(first, permuted(inverse(image), order))

    def _join(self, a: LayoutNode, image: Order, b: LayoutNode) -> None:
        first, to_a = self.find(a)
        second, to_b = self.find(b)
        if first is second:
            return
        across = permuted(inverse(to_b), permuted(image, to_a))
        one, other = self._given.get(first), self._given.get(second)
        if other is not None:
            seen = permuted(inverse(across), other)
            if one is not None and not same_bytes(one, seen, first.sizes):
                return
            self._given.setdefault(first, seen)
        self._above[second] = (first, across)


def _wishes(unit: LayoutUnit) -> Iterator[_Wish]:
    """Yield what a unit wishes of the orders of its nodes."""
    x = unit.instruction
    if unit.target is not None or x.opcode is Opcode.GET_TUPLE_ELEMENT:
        node, other = unit.operands[0], unit.target or unit.result
        if node is not None and other is not None:
            yield _Wish(node.nbytes * unit.times, node, row_major_order(len(node.sizes)), other)
        return
    if rule_of(x) is None or x.has_control_edges:
        for node in unit.operands:
            if node is not None:
                yield _Wish(node.nbytes * unit.times, node, node.present)
        return
    if x.opcode is Opcode.CONVOLUTION:
        nodes = (*unit.operands, unit.result)
        for node, weight, order in zip(nodes, _CHANNELS_LAST, channels_last(x), strict=True):
            if node is not None:
                yield _Wish(weight * node.nbytes * unit.times, node, order)
        return
    yield from _same_order(unit)


def _same_order(unit: LayoutUnit) -> Iterator[_Wish]:
    x, result = unit.instruction, unit.result
    if result is None:
        return
    rank = len(result.sizes)
    if x.opcode is Opcode.TRANSPOSE:
        image = inverse(x.attributes_as(Dimensions).dimensions)
    elif keeps_rank(x) or changes_layout(x):
        image = row_major_order(rank)
    else:
        return
    for node in unit.operands:
        if node is not None and len(node.sizes) == rank:
            yield _Wish(node.nbytes * unit.times, node, image, result)
