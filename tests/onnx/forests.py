"""Forests drawn at random, as nodes of ai.onnx.ml, and their meaning, one row after the other."""

import math

import numpy as np
from tests.onnx.models import helper, numpy_helper, tensor

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""By their numbers in TreeEnsemble."""

TESTS = (
    lambda x, y: x <= y,
    lambda x, y: x < y,
    lambda x, y: x >= y,
    lambda x, y: x > y,
    lambda x, y: x == y,
    lambda x, y: x != y,
)

THRESHOLDS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, math.inf, -math.inf)
VALUES = (*THRESHOLDS, -0.0, math.nan, 0.75)
"""Half of which thresholds are, so that it matters which side equal numbers go to."""


class DrawnForest:
    """Trees of lists: (feature, threshold, mode, whether NaN passes, true side, false side).

    A leaf is a number among `leaves`, which are (target, weight).
    """

    def __init__(self, seed, trees, leaves, features, modes, *, missing="some", targets=1):
        self.random = np.random.default_rng(seed)
        self.features, self.targets = features, targets
        self.modes, self.missing = modes, missing
        self.leaves = []
        self.trees = [self._tree(x % targets, self._size(leaves)) for x in range(trees)]

    def _size(self, leaves):
        return int(self.random.integers(1, leaves + 1)) if self.random.random() < 0.2 else leaves

    def _tree(self, target, leaves):
        if leaves == 1:
            self.leaves.append((target, float(self.random.integers(-50, 50))))
            return len(self.leaves) - 1
        side = int(self.random.integers(1, leaves))
        missing = {"none": False, "all": True, "some": self.random.random() < 0.5}[self.missing]
        return (
            int(self.random.integers(self.features)),
            float(self.random.choice(THRESHOLDS[:7] if self.random.random() < 0.9 else THRESHOLDS)),
            int(self.random.choice(self.modes)),
            missing,
            self._tree(target, side),
            self._tree(target, leaves - side),
        )

    def rows(self, count, dtype=np.float32):
        """Return rows of numbers that thresholds are too, and of some that none is."""
        return self.random.choice(VALUES, (count, self.features)).astype(dtype)

    def meaning(self, x):
        """Return what the leaves of each row come to, [n, targets]."""
        found = np.zeros((len(x), self.targets), x.dtype)
        for row, sums in zip(x, found, strict=True):
            for tree in self.trees:
                at = tree
                while isinstance(at, tuple):
                    feature, threshold, mode, passes, yes, no = at
                    value = row[feature]
                    at = yes if TESTS[mode](value, threshold) or (passes and value != value) else no
                target, weight = self.leaves[at]
                sums[target] += weight
        return found

    # -- as nodes ----------------------------------------------------------------------------------

    def ensemble(self, rows, dtype=np.float32):
        """Return a model of a TreeEnsemble; its trees have at least two leaves each."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        flat = []
        roots = [self._flattened(tree, flat) for tree in self.trees]
        names = ("feature", "split", "mode", "missing", "yes", "no")
        columns = dict(zip(names, zip(*flat, strict=True), strict=True))
        sides = {}
        for side in ("yes", "no"):
            leafs = [int(x[0] == "leaf") for x in columns[side]]
            sides[side] = [x[1] for x in columns[side]], leafs
        node = helper.make_node(
            "TreeEnsemble",
            ["x"],
            ["y"],
            domain="ai.onnx.ml",
            n_targets=self.targets,
            nodes_featureids=columns["feature"],
            nodes_splits=numpy_helper.from_array(np.array(columns["split"], dtype)),
            nodes_modes=numpy_helper.from_array(np.array(columns["mode"], np.uint8)),
            nodes_missing_value_tracks_true=[int(x) for x in columns["missing"]],
            nodes_truenodeids=sides["yes"][0],
            nodes_trueleafs=sides["yes"][1],
            nodes_falsenodeids=sides["no"][0],
            nodes_falseleafs=sides["no"][1],
            leaf_targetids=[x for x, _ in self.leaves],
            leaf_weights=numpy_helper.from_array(np.array([x for _, x in self.leaves], dtype)),
            tree_roots=roots,
        )
        return self._model(node, kind, rows, 5)

    def _flattened(self, tree, flat):
        here = len(flat)
        flat.append(None)
        places = [
            ("node", self._flattened(x, flat)) if isinstance(x, tuple) else ("leaf", x)
            for x in tree[4:]
        ]
        flat[here] = (*tree[:4], *places)
        return here

    def regressor(self, rows, **more):
        """Return a model of a TreeEnsembleRegressor."""
        found = {x: [] for x in _COLUMNS}
        for number, tree in enumerate(self.trees):
            self._listed(number, tree, found)
        named = {f"nodes_{x}" if x[:6] != "target" else x: y for x, y in found.items()}
        node = helper.make_node(
            "TreeEnsembleRegressor",
            ["x"],
            ["y"],
            domain="ai.onnx.ml",
            n_targets=self.targets,
            **named,
            **more,
        )
        return self._model(node, 1, rows, 3)

    def _listed(self, number, tree, found):
        here = found["treeids"].count(number)
        is_leaf = not isinstance(tree, tuple)
        feature, split, mode, missing, *sides = (0, 0.0, 0, False) if is_leaf else tree
        first = len(found["treeids"])
        for name, value in (
            ("treeids", number),
            ("nodeids", here),
            ("featureids", feature),
            ("values", split),
            ("modes", "LEAF" if is_leaf else f"BRANCH_{MODES[mode]}"),
            ("missing_value_tracks_true", int(missing)),
            ("truenodeids", 0),
            ("falsenodeids", 0),
        ):
            found[name].append(value)
        if is_leaf:
            target, weight = self.leaves[tree]
            for name, value in zip(_COLUMNS[8:], (number, here, target, weight), strict=True):
                found[name].append(value)
        for name, side in zip(("truenodeids", "falsenodeids"), sides, strict=False):
            found[name][first] = self._listed(number, side, found)
        return here

    def _model(self, node, kind, rows, version):
        inputs = [tensor("x", kind, [rows, self.features])]
        outputs = [tensor("y", kind, [rows, self.targets])]
        graph = helper.make_graph([node], "graph", inputs, outputs)
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


_COLUMNS = (
    "treeids",
    "nodeids",
    "featureids",
    "values",
    "modes",
    "missing_value_tracks_true",
    "truenodeids",
    "falsenodeids",
    "target_treeids",
    "target_nodeids",
    "target_ids",
    "target_weights",
)
