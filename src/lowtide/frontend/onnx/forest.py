"""Trees of ai.onnx.ml as tables with a row for each node; leaves lead to themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, final

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext, integer, integers, text
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.records import dataclass

MODES: Final = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""The comparisons of features with thresholds, by their numbers in the newest version."""

_LEAF: Final = len(MODES)
_MEMBER: Final = 6


@dataclass(frozen=True, eq=False, slots=True)
class Forest:
    """Trees: for each node its feature, threshold, mode and the nodes that follow.

    `weights` [nodes, targets] are those of leaves, and `has` says which there are; `roots` are the
    first nodes of trees, `depth` how many steps lead from there to leaves at most. Modes are
    numbers; a leaf has the first one.
    """

    features: Array
    thresholds: Array
    modes: Array
    on_true: Array
    on_false: Array
    nan_is_true: Array
    roots: Array
    weights: Array
    has: Array
    depth: int


def _array(context: OpKernelContext, name: str, dtype: Any, default: Any = ()) -> Array:
    """An attribute that is a list, or the tensor of the same name that has more digits."""
    precise = context.attribute(f"{name}_as_tensor", np.asarray, None)
    if precise is not None:
        return precise.reshape(-1)
    return np.array(context.attribute(name, list, list(default)), dtype)


def forest_of_nodes(context: OpKernelContext, kind: str, targets: int) -> Forest:
    """Return the trees of TreeEnsembleClassifier and Regressor; `kind` is "class" or "target".

    Raises GraphError for nodes that there are not, and for cycles.
    """
    trees, nodes = [_array(context, f"nodes_{x}ids", np.int64) for x in ("tree", "node")]
    modes, own = _modes(context), np.arange(len(trees), dtype=np.int32)
    is_leaf = modes == _LEAF
    if not len(trees) == len(nodes) == len(modes):
        raise context.error(f"{len(trees)} tree ids, {len(nodes)} node ids, {len(modes)} modes")
    place = _Places(context, trees, nodes)
    follow = []
    for side in ("true", "false"):
        named = _array(context, f"nodes_{side}nodeids", np.int64)
        found = own.copy()
        found[~is_leaf] = place.of(trees[~is_leaf], named[~is_leaf])
        follow.append(found)
    weights, has = _weights(context, kind, place, (len(trees), targets))
    return _checked(
        context,
        Forest(
            np.where(is_leaf, 0, _array(context, "nodes_featureids", np.int64)).astype(np.int32),
            _array(context, "nodes_values", np.float32),
            np.where(is_leaf, 0, modes).astype(np.int32),
            follow[0],
            follow[1],
            _array(context, "nodes_missing_value_tracks_true", np.int64, [0] * len(trees)) != 0,
            _roots(trees, np.concatenate([x[~is_leaf] for x in follow])),
            weights,
            has,
            0,
        ),
    )


def _modes(context: OpKernelContext) -> Array:
    """The numbers of the modes of nodes; raises UnsupportedOpError for unknown ones."""
    words = context.attribute("nodes_modes", list)
    numbers, unknown = {}, set()
    for word in set(words):
        name = text(word).removeprefix("BRANCH_")
        if name != "LEAF" and name not in MODES:
            unknown.add(name)
        numbers[word] = MODES.index(name) if name in MODES else _LEAF
    if unknown:
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): nodes_modes "
            f"{', '.join(sorted(unknown))} have no tensor form"
        )
    return np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))


def _roots(trees: Array, reached: Array) -> Array:
    """The first node of each tree that no other leads to; trees come as their nodes do."""
    is_inner = np.zeros(len(trees), bool)
    is_inner[reached] = True
    _, first, number = np.unique(trees, return_index=True, return_inverse=True)
    found = first.copy()
    outer = np.flatnonzero(~is_inner)[::-1]
    found[number.reshape(-1)[outer]] = outer
    return found[np.argsort(first)].astype(np.int32)


@final
class _Places:
    """Where nodes stand in the tables, by their trees and numbers."""

    def __init__(self, context: OpKernelContext, trees: Array, nodes: Array) -> None:
        self._context = context
        self._trees, numbers = np.unique(trees, return_inverse=True)
        self._width = int(nodes.max(initial=0)) + 1
        if nodes.size and int(nodes.min()) < 0:
            raise context.error(f"a node has number {int(nodes.min())}")
        keys = numbers.reshape(-1) * self._width + nodes
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        twice = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if twice.size:
            at = self._order[twice[0]]
            raise context.error(f"tree {trees[at]} has node {nodes[at]} twice")

    def of(self, trees: Array, nodes: Array) -> Array:
        """Return the places of nodes; raises GraphError for one that there is not."""
        number = np.searchsorted(self._trees, trees)
        known = self._trees[np.minimum(number, len(self._trees) - 1)] == trees
        known &= (nodes >= 0) & (nodes < self._width)
        keys = number * self._width + nodes
        found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known &= self._keys[found] == keys
        if not known.all():
            at = int(np.argmin(known))
            raise self._context.error(f"tree {trees[at]} has no node {nodes[at]}")
        return self._order[found].astype(np.int32)


def _weights(
    context: OpKernelContext, kind: str, place: _Places, sizes: tuple[int, int]
) -> tuple[Array, Array]:
    """The weights of leaves, summed up by target; of one target only the first counts.

    Exporters write the only weight of a leaf once for each class of the model that they come from.
    """
    trees, nodes, targets = [
        _array(context, f"{kind}_{x}ids", np.int64) for x in ("tree", "node", "")
    ]
    values = _array(context, f"{kind}_weights", np.float32)
    if not len(trees) == len(nodes) == len(targets) == len(values):
        raise context.error(f"{len(values)} weights of {len(trees)}, {len(nodes)}, {len(targets)}")
    if targets.size and not 0 <= targets.min() <= targets.max() < sizes[1]:
        wrong = targets[(targets < 0) | (targets >= sizes[1])][0]
        raise context.error(f"{kind}_ids has {wrong}, but there are {sizes[1]}")
    weights, has = np.zeros(sizes, values.dtype), np.zeros(sizes, bool)
    rows = place.of(trees, nodes)
    if sizes[1] == 1:
        weights[rows[::-1], 0] = values[::-1]
    else:
        np.add.at(weights, (rows, targets), values)
    has[rows, targets] = True
    return weights, has


def forest_of_leaves(context: OpKernelContext) -> Forest:
    """Return the trees of TreeEnsemble, whose leaves are apart from nodes.

    Raises UnsupportedOpError for tests of membership.
    """
    modes = np.asarray(context.attribute("nodes_modes", np.asarray), np.int32).reshape(-1)
    if (modes == _MEMBER).any():
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): tests of membership have no tensor "
            "form"
        )
    count = len(modes)
    leaf_weights = context.attribute("leaf_weights", np.asarray).reshape(-1)
    leaves = len(leaf_weights)
    targets = context.attribute("n_targets", integer, 1)
    kinds = np.array(context.attribute("leaf_targetids", integers), np.int64)
    own = np.arange(count, count + leaves, dtype=np.int32)
    follow = []
    for side in ("true", "false"):
        named = _array(context, f"nodes_{side}nodeids", np.int64)
        is_leaf = _array(context, f"nodes_{side}leafs", np.int64) != 0
        follow.append(np.concatenate([np.where(is_leaf, named + count, named), own]))
    weights = np.zeros((count + leaves, targets), leaf_weights.dtype)
    has = np.zeros(weights.shape, bool)
    weights[own, kinds], has[own, kinds] = leaf_weights, True
    missing = _array(context, "nodes_missing_value_tracks_true", np.int64, [0] * count)
    splits = context.attribute("nodes_splits", np.asarray).reshape(-1)
    rest = np.zeros(leaves, np.int32)
    return _checked(
        context,
        Forest(
            _joined(_array(context, "nodes_featureids", np.int64), rest),
            np.concatenate([splits, rest.astype(splits.dtype)]),
            _joined(modes, rest),
            follow[0].astype(np.int32),
            follow[1].astype(np.int32),
            _joined(missing, rest) != 0,
            np.array(context.attribute("tree_roots", integers), np.int32),
            weights,
            has,
            0,
        ),
    )


def _joined(values: Array, rest: Array) -> Array:
    return np.concatenate([values, rest]).astype(np.int32)


def _checked(context: OpKernelContext, given: Forest) -> Forest:
    """Return trees with their depth; raises GraphError for what leads nowhere, and for cycles."""
    count = len(given.modes)
    for table in (given.on_true, given.on_false, given.roots):
        if table.size and not 0 <= table.min() <= table.max() < count:
            raise context.error(f"a node follows that is none of the {count}")
    if not len(given.roots):
        raise context.error("there are no trees")
    own = np.arange(count)
    is_leaf = (given.on_true == own) & (given.on_false == own)
    level: Array = np.unique(given.roots)
    depth = 0
    while not is_leaf[level].all():
        depth += 1
        if depth > count:
            raise context.error("a tree has a cycle")
        inner = level[~is_leaf[level]]
        level = np.concatenate([given.on_true[inner], given.on_false[inner]])
        if len(level) > count:  # Nodes that several others lead to; trees have none.
            level = np.unique(level)
    return replace(given, depth=depth)
