"""Binary trees in arrays: the first small leaf, and sums over ranges with the place of the least.

The root is node 1, the children of node `i` are `2 * i` and `2 * i + 1`, and `leaves`, a power of
two, is the number of the first leaf.
"""

from __future__ import annotations

import numpy as np

from lowtide.planning.problem import Int64Array
from lowtide.records import dataclass
from lowtide.search.kernels import Array, Record, kernel

HUGE = 2**62
"""What a leaf holds that stands for nothing."""

MOST = 2**63 - 1


@dataclass(frozen=True, eq=False, slots=True)
class PlaceTree(Record):
    """A tree in which every node holds the least value below it."""

    leaves: int
    least: Array


@dataclass(frozen=True, eq=False, slots=True)
class RangeTree(Record):
    """A tree of values that are added to by ranges.

    `added` is what all leaves below a node have more than what stands below it; `least`, the least
    value below a node, has it in.
    """

    leaves: int
    least: Array
    added: Array


def tree_of(values: Int64Array) -> PlaceTree:
    """Return a tree with the values as leaves."""
    nodes = _nodes(values)
    return PlaceTree(len(nodes) // 2, nodes)


def range_tree_of(values: Int64Array) -> RangeTree:
    """Return a tree with the values as leaves, to which ranges can be added."""
    nodes = _nodes(values)
    return RangeTree(len(nodes) // 2, nodes, np.zeros_like(nodes))


def _nodes(values: Int64Array) -> Int64Array:
    leaves = 1
    while leaves < len(values):
        leaves *= 2
    tree = np.full(2 * leaves, HUGE, np.int64)
    tree[leaves : leaves + len(values)] = values
    while leaves > 1:
        pairs = tree[leaves : 2 * leaves].reshape(-1, 2)
        leaves //= 2
        tree[leaves : 2 * leaves] = pairs.min(axis=1)
    return tree


@kernel
def clear_leaf(tree: PlaceTree, place: int) -> int:
    """Take a leaf out of a tree; return the last node that changed."""
    least = tree.least
    node = tree.leaves + place
    least[node] = HUGE
    while node > 1:
        above = node >> 1
        lower = min(least[2 * above], least[2 * above + 1])
        if least[above] == lower:
            return node
        least[above] = lower
        node = above
    return node


@kernel
def next_at_most(tree: PlaceTree, place: int, end: int, limit: int) -> int:
    """Return the first leaf from `place` on, before `end`, that is at most `limit`; or -1."""
    least = tree.least
    leaves = tree.leaves
    if place >= end:
        return -1
    node = leaves + place
    while least[node] > limit:
        while node & 1 == 1:
            node >>= 1
        if node == 0:
            return -1
        node += 1
    while node < leaves:
        node *= 2
        if least[node] > limit:
            node += 1
    return node - leaves if node - leaves < end else -1


@kernel
def first_at_least(values: Array, begin: int, end: int, limit: int) -> int:
    """Return the first place from `begin` to `end` of sorted values that is at least `limit`."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def add_to_range(tree: RangeTree, begin: int, end: int, value: int) -> int:
    """Add `value` to the leaves from `begin` to `end`, not included; return the root's least."""
    leaves = tree.leaves
    least = tree.least
    added = tree.added
    left = leaves + begin
    right = leaves + end
    while left < right:
        if left & 1 == 1:
            least[left] += value
            added[left] += value
            left += 1
        if right & 1 == 1:
            right -= 1
            least[right] += value
            added[right] += value
        left >>= 1
        right >>= 1
    left = (leaves + begin) >> 1
    right = (leaves + end - 1) >> 1
    while left >= 1:
        least[left] = min(least[2 * left], least[2 * left + 1]) + added[left]
        least[right] = min(least[2 * right], least[2 * right + 1]) + added[right]
        left >>= 1
        right >>= 1
    return int(least[1])


@kernel
def place_of_least(tree: RangeTree, begin: int, end: int) -> int:
    """Return the place from `begin` to `end`, not included, of the least leaf."""
    leaves = tree.leaves
    least = tree.least
    added = tree.added
    left = leaves + begin
    right = leaves + end
    below_left = MOST
    below_right = below_left
    left_node = 0
    right_node = 0
    while left < right:
        if left & 1 == 1:
            if least[left] < below_left:
                below_left = least[left]
                left_node = left
            left += 1
        if right & 1 == 1:
            right -= 1
            if least[right] < below_right:
                below_right = least[right]
                right_node = right
        left >>= 1
        right >>= 1
        if left_node > 0:
            below_left += added[left - 1]
        if right_node > 0:
            below_right += added[right]
    left -= 1
    while left != right and left > 1:
        left >>= 1
        right >>= 1
        if left_node > 0:
            below_left += added[left]
        if right_node > 0:
            below_right += added[right]
    node = left_node if below_left <= below_right else right_node
    while node < leaves:
        node *= 2
        if least[node] > least[node + 1]:
            node += 1
    return node - leaves
