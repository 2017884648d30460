"""Trees as they are walked: children side by side, and one number for what a step needs of a node.

A node whose test holds is followed by the second of its children, which lies behind the first. The
test of a leaf holds for no value, and its first child is itself. The deepest trees come first.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.frontend.onnx.forest import Forest
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_MOST_NODES: Final = 1 << 24
"""As many nodes may trees have in which each node has one parent."""

_FEW_STEPS: Final = 512
"""Trees of fewer steps together are all walked to the greatest depth."""


@dataclass(frozen=True, eq=False, slots=True)
class PackedForest:
    """The nodes of trees by their places, which for roots are those of the trees.

    Of a word the lowest `mode_bits` are the mode, then there is whether a value that is no number
    passes, then `feature_bits` of the feature, then the place of the first child. `nodes` are the
    numbers of nodes in the forest, `depths` the steps to the deepest leaf of each tree.
    """

    words: Array
    thresholds: Array
    nodes: Array
    depths: Array
    modes: tuple[int, ...]
    mode_bits: int
    feature_bits: int


@dataclass(frozen=True, eq=False, slots=True)
class Levels:
    """Nodes level by level, so that each has a place of its own below each of its parents.

    `nodes` are the numbers in the forest, `children` the places of the first of two children, the
    second of which follows where the test holds; leaves have their own place. A level begins at
    each of `starts`; the first one has the roots of trees, of which `depths` are the steps to the
    deepest leaf, the greatest first.
    """

    nodes: Array
    children: Array
    is_leaf: Array
    starts: tuple[int, ...]
    depths: Array

    def each(self) -> list[Array]:
        """Return the places of each level."""
        ends = (*self.starts[1:], len(self.nodes))
        return [np.arange(a, b) for a, b in zip(self.starts, ends, strict=True)]


def levels_of(forest: Forest) -> Levels:
    """Return nodes level by level; raises UnsupportedOpError for far too many nodes."""
    own = np.arange(len(forest.modes))
    is_leaf = (forest.on_true == own) & (forest.on_false == own)
    depths = _depths(forest, is_leaf)
    order = np.argsort(-depths, kind="stable")
    levels, children = _levels(forest, is_leaf, forest.roots[order])
    nodes = np.concatenate(levels)
    starts = np.cumsum([0, *[len(x) for x in levels[:-1]]]).tolist()
    return Levels(nodes, np.concatenate(children), is_leaf[nodes], tuple(starts), depths[order])


def packed(forest: Forest, levels: Levels, dtype: Any) -> PackedForest:
    """Return trees with thresholds of a type; no test may be that something is unequal."""
    nodes, following, leaf = levels.nodes, levels.children, levels.is_leaf
    modes = sorted(set(forest.modes[nodes[~leaf]].tolist())) or [0]
    numbers = np.where(leaf, 0, np.searchsorted(modes, forest.modes[nodes]))
    mode_bits = (len(modes) - 1).bit_length()
    feature_bits = int(forest.features.max(initial=0)).bit_length()
    words = following << (feature_bits + 1 + mode_bits)
    words |= forest.features[nodes].astype(np.int64) << (1 + mode_bits)
    words |= (forest.nan_is_true[nodes] & ~leaf).astype(np.int64) << mode_bits
    words |= numbers
    is_short = int(words.max(initial=0)) < 1 << 31
    return PackedForest(
        words.astype(np.int32) if is_short else words,
        np.where(leaf, np.nan, forest.thresholds[nodes]).astype(dtype),
        nodes,
        levels.depths,
        tuple(modes),
        mode_bits,
        feature_bits,
    )


def _depths(forest: Forest, is_leaf: Array) -> Array:
    """The steps to the deepest leaf of each tree."""
    found = np.zeros(len(forest.roots), np.int64)
    level, trees, depth = forest.roots, np.arange(len(forest.roots)), 0
    while len(level):
        inner = ~is_leaf[level]
        level, trees, depth = level[inner], trees[inner], depth + 1
        found[trees] = depth
        level = np.concatenate([forest.on_false[level], forest.on_true[level]])
        trees = np.tile(trees, 2)
        if len(level) > len(is_leaf):  # Nodes that several others lead to; trees have none.
            level, trees = np.unique(np.stack([level, trees]), axis=1)
    return found


def _levels(forest: Forest, is_leaf: Array, roots: Array) -> tuple[list[Array], list[Array]]:
    """Nodes level by level, and the places of their first children; leaves have their own."""
    levels, children = [], []
    level, start = roots, 0
    while len(level):
        inner = ~is_leaf[level]
        after = start + len(level)
        if after > _MOST_NODES:
            raise UnsupportedOpError(
                f"trees of more than {_MOST_NODES:,} nodes have no tensor form"
            )
        first = np.arange(start, after)
        first[inner] = after + 2 * np.arange(int(inner.sum()))
        levels.append(level)
        children.append(first)
        sides = [x[level[inner]] for x in (forest.on_false, forest.on_true)]
        level, start = np.stack(sides, 1).reshape(-1), after
    return levels, children


def stages(depths: Array) -> list[tuple[int, int]]:
    """Return how many trees are walked for how many steps, one after the other.

    Those that have come to their leaves are left out each time that they are half of the rest.
    """
    deepest = int(depths.max(initial=0))
    if len(depths) * deepest < _FEW_STEPS:
        return [(len(depths), deepest)]
    found = []
    many, begin = len(depths), 0
    for step in range(1, deepest + 1):
        left = int((depths > step).sum())
        if left <= many // 2 or step == deepest:
            found.append((many, step - begin))
            many, begin = left, step
    return found
