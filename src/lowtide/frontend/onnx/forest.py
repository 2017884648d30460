"""Trees of ai.onnx.ml as tables with a row for each node; leaves lead to themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

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
    ids = np.stack([_array(context, f"nodes_{x}ids", np.int64) for x in ("tree", "node")])
    place = {(int(t), int(n)): i for i, (t, n) in enumerate(ids.T)}
    count = len(place)
    words = [text(x).removeprefix("BRANCH_") for x in context.attribute("nodes_modes", list)]
    unknown = sorted(set(words).difference(MODES, ("LEAF",)))
    if unknown:
        raise UnsupportedOpError(
            f"node {context.node.name!r} ({context.node.op}): nodes_modes {', '.join(unknown)} "
            "have no tensor form"
        )
    modes = np.array([_LEAF if x == "LEAF" else MODES.index(x) for x in words], np.int32)
    own = np.arange(count, dtype=np.int32)
    follow = []
    for side in ("true", "false"):
        named = _array(context, f"nodes_{side}nodeids", np.int64)
        found = [
            i if modes[i] == _LEAF else _at(context, place, int(ids[0, i]), int(named[i]))
            for i in range(count)
        ]
        follow.append(np.array(found, np.int32))
    weights, has = _weights(context, kind, place, (count, targets))
    first: dict[int, int] = {}
    for i, tree in enumerate(ids[0].tolist()):
        first.setdefault(tree, i)
    reached = np.concatenate([x[modes != _LEAF] for x in follow])
    inner = set(reached.tolist())
    roots = [
        next((i for i in np.flatnonzero(ids[0] == t).tolist() if i not in inner), j)
        for t, j in first.items()
    ]
    is_leaf = modes == _LEAF
    return _checked(
        context,
        Forest(
            np.where(is_leaf, 0, _array(context, "nodes_featureids", np.int64)).astype(np.int32),
            _array(context, "nodes_values", np.float32),
            np.where(is_leaf, 0, modes).astype(np.int32),
            np.where(is_leaf, own, follow[0]).astype(np.int32),
            np.where(is_leaf, own, follow[1]).astype(np.int32),
            _array(context, "nodes_missing_value_tracks_true", np.int64, [0] * count) != 0,
            np.array(roots, np.int32),
            weights,
            has,
            0,
        ),
    )


def _at(context: OpKernelContext, place: dict[tuple[int, int], int], tree: int, node: int) -> int:
    if (tree, node) not in place:
        raise context.error(f"tree {tree} has no node {node}")
    return place[tree, node]


def _weights(
    context: OpKernelContext,
    kind: str,
    place: dict[tuple[int, int], int],
    sizes: tuple[int, int],
) -> tuple[Array, Array]:
    trees, nodes, targets = [
        _array(context, f"{kind}_{x}ids", np.int64) for x in ("tree", "node", "")
    ]
    values = _array(context, f"{kind}_weights", np.float32)
    weights, has = np.zeros(sizes, values.dtype), np.zeros(sizes, bool)
    for tree, node, target, value in zip(trees, nodes, targets, values, strict=True):
        if not 0 <= target < sizes[1]:
            raise context.error(f"{kind}_ids has {target}, but there are {sizes[1]}")
        row = _at(context, place, int(tree), int(node))
        weights[row, target] += value
        has[row, target] = True
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
        level = np.unique(np.concatenate([given.on_true[level], given.on_false[level]]))
    return replace(given, depth=depth)
