"""Trees as bits: what is left of a tree's leaves after each of its tests, whatever comes before it.

A test that fails rules out the leaves below the side where it holds. What all tests together leave
begins with the leaf that a row ends at, if leaves are numbered with that side first (Lucchese,
Nardini, Orlando, Perego, Tonellotto, Venturini: "QuickScorer: A Fast Algorithm to Rank Documents
with Additive Ensembles of Regression Trees", 2015). So no test waits for another, and rows are
compared side by side. Trees with more leaves than an integer has bits are cut into parts, whose
tests rule out leaves on both sides: of all parts of a tree one has a leaf left.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.frontend.onnx.packed_forest import Levels
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_WIDTHS: Final = {32: np.uint32, 64: np.uint64}
"""The integers of bits, by how many they have."""

_MOST: Final = max(_WIDTHS)

_ALIKE: Final = 0.75
"""Parts with this share of the tests of the largest one are padded to it."""

_FEW_TESTS: Final = 2048
"""Tests that are rather computed in vain than apart from others."""


@dataclass(frozen=True, eq=False, slots=True)
class LeafBits:
    """Parts of trees of about as many tests: arrays [parts, tests], but for `nodes`.

    `nodes` [parts, places] are the numbers in the forest of a part's leaves, the first of which has
    the highest bit; -1 is a place of none. `if_true` and `if_false` are the bits that a test
    leaves; the former is None where these are all. `tests` are the numbers of nodes in the forest,
    -1 where there is none, which leaves all bits.
    """

    tests: Array
    if_true: Array | None
    if_false: Array
    nodes: Array


@dataclass(frozen=True, eq=False, slots=True)
class _Parts:
    """Tests with their parts, and leaves with their parts and places in these.

    Below a test are, for the side where it holds, the places of leaves within the part from
    `begins` to `middles`, for the other one from there to `ends`.
    """

    tests: Array
    of_test: Array
    begins: Array
    middles: Array
    ends: Array
    leaves: Array
    of_leaf: Array
    places: Array
    count: int
    is_whole: Array


def tests_of(levels: Levels) -> int:
    """Return about how many tests the parts of trees have."""
    _, below, _ = _numbers(levels)
    leaves = below[: len(levels.depths)]
    return int(leaves.sum() + ((leaves - 1) // _MOST * levels.depths).sum())


def leaf_bits(levels: Levels) -> list[LeafBits]:
    """Return the parts of trees, in groups of about as many tests."""
    parts = _parts(levels)
    counts = np.bincount(parts.of_test, minlength=parts.count)
    order = np.argsort(-counts, kind="stable")
    return [_group(levels, parts, order[a:b]) for a, b in _spans(counts[order])]


def by_target(bits: LeafBits, has: Array) -> LeafBits | None:
    """Return parts in runs of as many, one for each target that `has` [nodes, targets] a weight.

    None where a part has weights for several targets, or too many would have to be added in vain.
    """
    parts, targets = len(bits.nodes), has.shape[1]
    if has.sum(1).max() > 1:
        return None
    weighs = (bits.nodes >= 0) & np.asarray(has.any(1))[bits.nodes]
    of_node = has.argmax(1)[bits.nodes]
    last = np.where(weighs, of_node, -1).max(1)
    first = np.where(weighs, of_node, targets).min(1)
    counts = np.bincount(last[last >= 0], minlength=targets)
    most = int(counts.max())
    if not most or (first < last).any() or targets * most * _ALIKE > parts:
        return None
    rows = [np.flatnonzero(last == target) for target in range(targets)]
    chosen = np.concatenate([np.append(x, [parts] * (most - len(x))) for x in rows]).astype(int)
    every = np.invert(bits.if_false.dtype.type(0))
    return LeafBits(
        _rows(bits.tests, chosen, -1),
        None if bits.if_true is None else _rows(bits.if_true, chosen, every),
        _rows(bits.if_false, chosen, every),
        _rows(bits.nodes, chosen, -1),
    )


def _rows(table: Array, chosen: Array, none: Any) -> Array:
    """Rows of a table, the one behind the last of which has the same everywhere."""
    extra = np.full((1, table.shape[1]), none, table.dtype)
    found: Array = np.concatenate([table, extra])[chosen]
    return found


def _parts(levels: Levels) -> _Parts:
    """Cut trees into parts of as many leaves as there are bits at most."""
    before, below, tree = _numbers(levels)
    trees = len(levels.depths)
    size = below[:trees]
    pieces = -(-size // _MOST)
    each = -(-size // pieces)
    first = np.concatenate([[0], np.cumsum(pieces)])
    leaf = np.flatnonzero(levels.is_leaf)
    part = before[leaf] // each[tree[leaf]]
    inner = np.flatnonzero(~levels.is_leaf)
    share = each[tree[inner]]
    lowest = before[inner] // share
    highest = (before[inner] + below[inner] - 1) // share
    many = highest - lowest + 1
    test = np.repeat(inner, many)
    number = (
        np.arange(len(test)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(lowest, many)
    )
    share = each[tree[test]]
    begin = before[test]
    middle = begin + below[levels.children[test] + 1]
    shift = number * share
    end = begin + below[test]
    return _Parts(
        test,
        first[tree[test]] + number,
        np.clip(begin - shift, 0, share),
        np.clip(middle - shift, 0, share),
        np.clip(end - shift, 0, share),
        leaf,
        first[tree[leaf]] + part,
        before[leaf] - part * each[tree[leaf]],
        int(first[-1]),
        np.repeat(pieces == 1, pieces),
    )


def _numbers(levels: Levels) -> tuple[Array, Array, Array]:
    """For each place: the leaves of its tree before it, those below it, and its tree.

    Below the side where a test holds, which is the second of two children, are the first leaves.
    """
    count = len(levels.nodes)
    below, before = np.ones(count, np.int64), np.zeros(count, np.int64)
    tree = np.arange(count)
    inner = [x[~levels.is_leaf[x]] for x in levels.each()]
    for at in reversed(inner):
        first = levels.children[at]
        below[at] = below[first] + below[first + 1]
    for at in inner:
        first = levels.children[at]
        before[first + 1] = before[at]
        before[first] = before[at] + below[first + 1]
        tree[first] = tree[first + 1] = tree[at]
    return before, below, tree


def _spans(counts: Array) -> list[tuple[int, int]]:
    """Where groups of parts begin and end, given their numbers of tests, the greatest first."""
    found, begin = [], 0
    while begin < len(counts):
        end = int((counts >= _ALIKE * counts[begin]).sum())
        while end < len(counts) and int((counts[begin] - counts[end:]).sum()) < _FEW_TESTS:
            end = len(counts)
        found.append((begin, end))
        begin = end
    return found


def _group(levels: Levels, parts: _Parts, chosen: Array) -> LeafBits:
    row = np.full(parts.count, -1)
    row[chosen] = np.arange(len(chosen))
    leaf = np.flatnonzero(row[parts.of_leaf] >= 0)
    most = int(parts.places[leaf].max()) + 1
    width = min([x for x in _WIDTHS if x >= most])
    is_whole = bool(parts.is_whole[chosen].all())
    nodes = np.full((len(chosen), most if is_whole else width + 1), -1)
    nodes[row[parts.of_leaf[leaf]], parts.places[leaf]] = levels.nodes[parts.leaves[leaf]]
    test = np.flatnonzero(row[parts.of_test] >= 0)
    test = test[np.argsort(row[parts.of_test[test]], kind="stable")]
    of_row = row[parts.of_test[test]]
    many = np.bincount(of_row, minlength=len(chosen))
    at = of_row, np.arange(len(test)) - np.repeat(np.cumsum(many) - many, many)
    sizes = (len(chosen), max(1, int(many.max(initial=0))))
    tests = np.full(sizes, -1)
    tests[at] = levels.nodes[parts.tests[test]]
    begin, middle, end = (x[test] for x in (parts.begins, parts.middles, parts.ends))
    if_true = None if is_whole else _without(width, middle, end, at, sizes)
    return LeafBits(tests, if_true, _without(width, begin, middle, at, sizes), nodes)


def _without(width: int, begin: Array, end: Array, at: Any, sizes: tuple[int, int]) -> Array:
    """All bits but those of some places."""
    dtype = _WIDTHS[width]
    every = (1 << width) - 1
    first = np.array([every ^ (every >> x) for x in range(width + 1)], dtype)
    found = np.full(sizes, every, dtype)
    found[at] = ~(first[end] & ~first[begin])
    return found
