"""Ops of ai.onnx.ml beside ONNX's reference, and beside ONNX Runtime where it is installed."""

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, check, kind_of, one_node, ours, reference, runtime
from tests.onnx.models import helper, numpy_helper, tensor

import lowtide.onnx
from lowtide.evaluator import evaluate
from lowtide.ir.errors import LowtideError
from lowtide.onnx import InferenceSession, read_module

FLOAT, INT64, STRING = 1, 7, 8
ROWS = np.array([[1, 2], [-1, 0.5], [0.2, 0.3], [0, 0], [3, -4]], np.float32)
WITH_NAN = np.array([[1, np.nan], [np.nan, 0.5], [0.2, 0.3]], np.float32)


def trees(kind, ids, weights, **more):
    """Two trees of three nodes, which test features 0 and 1, with a weight at each leaf."""
    return {
        "nodes_treeids": [0] * 3 + [1] * 3,
        "nodes_nodeids": [0, 1, 2] * 2,
        "nodes_featureids": [0, 0, 0, 1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0, 0, 0.25, 0, 0],
        "nodes_truenodeids": [1, 0, 0] * 2,
        "nodes_falsenodeids": [2, 0, 0] * 2,
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0],
        f"{kind}_treeids": [0, 0, 1, 1],
        f"{kind}_nodeids": [1, 2, 1, 2],
        f"{kind}_ids": ids,
        f"{kind}_weights": weights,
        **more,
    }


THREE = {"classlabels_int64s": [5, 7, 9]}
VECTORS = [0.5, 1.0, -1.0, 0.25, 2.0, -2.0, 0.1, 0.2, -0.3, 0.4]
SVC = {
    "classlabels_ints": [0, 1, 2],
    "vectors_per_class": [2, 2, 1],
    "support_vectors": VECTORS,
    "coefficients": [0.3, -0.2, 0.5, 0.1, -0.4, 0.2, 0.6, -0.3, 0.25, 0.15],
    "rho": [0.05, -0.1, 0.2],
}
RBF = {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0]}
PROBABLE = {**SVC, **RBF, "prob_a": [-1.5, -0.5, 2.0], "prob_b": [0.1, 0.3, -0.2]}

CASES = {
    "scaler": ("Scaler", [ROWS], [FLOAT], {"offset": [0.5, 1.0], "scale": [2.0, -1.0]}),
    "scaler of one": ("Scaler", [ROWS], [FLOAT], {"offset": [0.5], "scale": [2.0]}),
    "normalizer max": ("Normalizer", [np.abs(ROWS) + 1], [FLOAT], {"norm": "MAX"}),
    "normalizer l1": ("Normalizer", [ROWS + 1], [FLOAT], {"norm": "L1"}),
    "normalizer l2": ("Normalizer", [ROWS + 1], [FLOAT], {"norm": "L2"}),
    "binarizer": ("Binarizer", [ROWS], [FLOAT], {"threshold": 0.25}),
    "imputer": (
        "Imputer",
        [WITH_NAN],
        [FLOAT],
        {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": float("nan")},
    ),
    "imputer of whole numbers": (
        "Imputer",
        [np.array([[1, -1], [2, 3]])],
        [INT64],
        {"imputed_value_int64s": [9], "replaced_value_int64": -1},
    ),
    "features": ("ArrayFeatureExtractor", [ROWS, np.array([1, 0, 1])], [FLOAT], {}),
    "one hot": ("OneHotEncoder", [np.array([[3, 1], [9, 2]])], [FLOAT], {"cats_int64s": [1, 2, 3]}),
    "one hot of text": (
        "OneHotEncoder",
        [np.array(["a", "c", "b"], object)],
        [FLOAT],
        {"cats_strings": ["a", "b"]},
    ),
    "labels": (
        "LabelEncoder",
        [np.array([3, 1, 8])],
        [INT64],
        {"keys_int64s": [1, 3], "values_int64s": [20, 10], "default_int64": -5},
    ),
    "labels to text": (
        "LabelEncoder",
        [np.array([3, 1, 8])],
        [STRING],
        {"keys_int64s": [1, 3], "values_strings": ["one", "three"], "default_string": "?"},
    ),
    "linear regressor": (
        "LinearRegressor",
        [ROWS],
        [FLOAT],
        {"coefficients": [0.5, 1.0, -1.0, 2.0], "intercepts": [0.1, 0.2], "targets": 2},
    ),
    "linear classifier": (
        "LinearClassifier",
        [ROWS],
        [INT64, FLOAT],
        {
            "coefficients": [0.3, 0.2, 0.1, -0.5, 0.2, 0.2],
            "intercepts": [0.1, 0.05, 0.01],
            "classlabels_ints": [5, 7, 9],
            "post_transform": "SOFTMAX",
        },
    ),
    "tree regressor": (
        "TreeEnsembleRegressor",
        [ROWS],
        [FLOAT],
        trees("target", [0] * 4, [1.0, 2.0, 3.0, -4.0], n_targets=1, base_values=[0.5]),
    ),
    "tree regressor of two": (
        "TreeEnsembleRegressor",
        [ROWS],
        [FLOAT],
        trees("target", [0, 1, 1, 0], [1.0, 2.0, 3.0, -4.0], n_targets=2),
    ),
    "tree regressor average": (
        "TreeEnsembleRegressor",
        [ROWS],
        [FLOAT],
        trees("target", [0] * 4, [1.0, 2.0, 3.0, -4.0], n_targets=1, aggregate_function="AVERAGE"),
    ),
    "tree regressor least": (
        "TreeEnsembleRegressor",
        [ROWS],
        [FLOAT],
        trees("target", [0] * 4, [1.0, 2.0, 3.0, -4.0], n_targets=1, aggregate_function="MIN"),
    ),
    "tree classifier": (
        "TreeEnsembleClassifier",
        [ROWS],
        [INT64, FLOAT],
        trees("class", [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], **THREE),
    ),
    "tree classifier softmax": (
        "TreeEnsembleClassifier",
        [ROWS],
        [INT64, FLOAT],
        trees("class", [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], post_transform="SOFTMAX", **THREE),
    ),
    "tree classifier text": (
        "TreeEnsembleClassifier",
        [ROWS],
        [STRING, FLOAT],
        trees("class", [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], classlabels_strings=["a", "b", "c"]),
    ),
    "two classes, shares": (
        "TreeEnsembleClassifier",
        [ROWS],
        [INT64, FLOAT],
        trees("class", [0] * 4, [0.1, 0.4, 0.3, 0.35], classlabels_int64s=[5, 7]),
    ),
    "two classes, distances": (
        "TreeEnsembleClassifier",
        [ROWS],
        [INT64, FLOAT],
        trees("class", [0] * 4, [-0.1, 0.4, -0.3, 0.2], classlabels_int64s=[5, 7]),
    ),
    "two classes, logistic": (
        "TreeEnsembleClassifier",
        [ROWS],
        [INT64, FLOAT],
        trees(
            "class",
            [0] * 4,
            [-0.1, 0.4, -0.3, 0.2],
            classlabels_int64s=[5, 7],
            post_transform="LOGISTIC",
        ),
    ),
    "svm regressor": (
        "SVMRegressor",
        [ROWS],
        [FLOAT],
        {
            "n_supports": 5,
            "support_vectors": VECTORS,
            "coefficients": [0.3, -0.2, 0.5, 0.1, -0.4],
            "rho": [0.05],
            **RBF,
        },
    ),
    "svm of one class": (
        "SVMRegressor",
        [ROWS],
        [FLOAT],
        {
            "n_supports": 5,
            "support_vectors": VECTORS,
            "coefficients": [0.3, -0.2, 0.5, 0.1, -0.4],
            "rho": [-0.05],
            "one_class": 1,
            **RBF,
        },
    ),
    "svm classifier": ("SVMClassifier", [ROWS], [INT64, FLOAT], {**SVC, **RBF}),
    "svm classifier linear": (
        "SVMClassifier",
        [ROWS],
        [INT64, FLOAT],
        {**SVC, "kernel_type": "LINEAR", "kernel_params": [1.0, 0.0, 0.0]},
    ),
    "svm classifier poly": (
        "SVMClassifier",
        [ROWS],
        [INT64, FLOAT],
        {**SVC, "kernel_type": "POLY", "kernel_params": [0.5, 1.0, 2.0]},
    ),
    "svm classifier sigmoid": (
        "SVMClassifier",
        [ROWS],
        [INT64, FLOAT],
        {**SVC, "kernel_type": "SIGMOID", "kernel_params": [0.5, 0.1, 3.0]},
    ),
    "svm classifier, probabilities": ("SVMClassifier", [ROWS], [INT64, FLOAT], PROBABLE),
    "svm classifier, probabilities far off": (
        "SVMClassifier",
        [40 * ROWS],
        [INT64, FLOAT],
        {**PROBABLE, "prob_a": [-30.0, -2.0, 60.0]},
    ),
}

ONLY_RUNTIME = {
    "one hot of text",
    "tree regressor least",
    "two classes, distances",
    "svm classifier, probabilities",
    "svm classifier, probabilities far off",
}
"""Cases that the reference refuses, or computes otherwise than the definition says."""


@pytest.mark.parametrize("name", [x for x in CASES if x not in ONLY_RUNTIME])
def test_an_op_gives_what_the_reference_does(name):
    op, inputs, outputs, attributes = CASES[name]
    model, feeds = one_node(op, inputs, outputs, "ai.onnx.ml", **attributes)
    check(ours(model, feeds), reference(model, feeds))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_what_onnx_runtime_does(name):
    op, inputs, outputs, attributes = CASES[name]
    model, feeds = one_node(op, inputs, outputs, "ai.onnx.ml", **attributes)
    check(ours(model, feeds), runtime(model, feeds))


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_features_of_a_vector_are_a_row(kind):
    values, places = np.array([5, 7, 9], kind), np.array([[2], [0], [2], [1]])
    given = "ArrayFeatureExtractor", [values, places], [kind_of(values)], "ai.onnx.ml"
    found = ours(*one_node(*given))
    check(found, reference(*one_node(*given)))
    np.testing.assert_array_equal(found[0], [[9, 5, 9, 7]])


def test_text_is_one_hot_on_the_host():
    op, inputs, outputs, attributes = CASES["one hot of text"]
    model, feeds = one_node(op, inputs, outputs, "ai.onnx.ml", **attributes)
    np.testing.assert_array_equal(ours(model, feeds)[0], [[1, 0], [0, 0], [0, 1]])


def test_the_first_version_of_labels_has_a_list_of_texts():
    names = {"classes_strings": ["", "a", "b"]}
    texts = np.array([["b", "x"], ["", "a"]], object)
    model, feeds = one_node(
        "LabelEncoder", [texts], [INT64], "ai.onnx.ml", default_int64=-7, **names
    )
    np.testing.assert_array_equal(ours(model, feeds)[0], [[2, -7], [0, 1]])
    numbers = np.array([2, 0, 3, -1])
    model, feeds = one_node(
        "LabelEncoder", [numbers], [STRING], "ai.onnx.ml", default_string="?", **names
    )
    assert ours(model, feeds)[0].tolist() == ["b", "", "?", "?"]


def test_not_a_number_is_a_key_like_others():
    x = np.array([0.5, np.nan, 3.0], np.float32)
    attributes = {
        "keys_floats": [0.5, float("nan")],
        "values_floats": [1.0, 2.0],
        "default_float": -1.0,
    }
    model, feeds = one_node("LabelEncoder", [x], [FLOAT], "ai.onnx.ml", **attributes)
    assert ours(model, feeds)[0].tolist() == [1.0, 2.0, -1.0]


def test_of_two_classes_a_distance_above_zero_is_the_second():
    op, inputs, outputs, attributes = CASES["two classes, distances"]
    model, feeds = one_node(op, inputs, outputs, "ai.onnx.ml", **attributes)
    labels, scores = ours(model, feeds)
    first = np.where(ROWS[:, 0] <= 0.5, -0.1, 0.4)
    distance = first + np.where(ROWS[:, 1] > 0.25, -0.3, 0.2)
    np.testing.assert_array_equal(labels, np.where(distance > 0, 7, 5))
    np.testing.assert_allclose(scores, np.stack([-distance, distance], 1), atol=1e-6)


def test_the_least_leaf_counts():
    op, inputs, outputs, attributes = CASES["tree regressor least"]
    model, feeds = one_node(op, inputs, outputs, "ai.onnx.ml", **attributes)
    first = np.where(ROWS[:, 0] <= 0.5, 1.0, 2.0)
    second = np.where(ROWS[:, 1] > 0.25, 3.0, -4.0)
    np.testing.assert_array_equal(ours(model, feeds)[0][:, 0], np.minimum(first, second))


def test_a_missing_value_goes_where_the_node_says():
    rows = np.array([[np.nan, 0.0]], np.float32)
    attributes = trees("target", [0] * 4, [1.0, 2.0, 30.0, 40.0])
    model, feeds = one_node("TreeEnsembleRegressor", [rows], [FLOAT], "ai.onnx.ml", **attributes)
    assert ours(model, feeds)[0].tolist() == [[41.0]]


def test_a_cycle_of_nodes_is_an_error():
    attributes = trees("target", [0] * 4, [1.0, 2.0, 3.0, 4.0])
    attributes["nodes_modes"] = ["BRANCH_LEQ"] * 2 + attributes["nodes_modes"][2:]
    model, feeds = one_node("TreeEnsembleRegressor", [ROWS], [FLOAT], "ai.onnx.ml", **attributes)
    with pytest.raises(LowtideError, match="cycle"):
        ours(model, feeds)


def test_a_feature_that_is_not_there_is_an_error():
    attributes = trees("target", [0] * 4, [1.0, 2.0, 3.0, 4.0])
    narrow = ROWS[:, :1].copy()
    model, feeds = one_node("TreeEnsembleRegressor", [narrow], [FLOAT], "ai.onnx.ml", **attributes)
    with pytest.raises(LowtideError, match="feature 1 of 1"):
        ours(model, feeds)


def classifier_with_map():
    """A classifier of text labels, whose scores come as maps, behind a Reshape of its labels."""
    attributes = trees(
        "class", [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], classlabels_strings=["a", "b", "c"]
    )
    nodes = [
        helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", **attributes
        ),
        helper.make_node("Reshape", ["l", "sizes"], ["labels"]),
        helper.make_node(
            "ZipMap", ["s"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"]
        ),
    ]
    outputs = [
        helper.make_tensor_value_info("labels", STRING, None),
        helper.make_empty_tensor_value_info("maps"),
    ]
    sizes = helper.make_tensor("sizes", INT64, [2], [-1, 1])
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", FLOAT, ["n", 2])], outputs, [sizes]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def test_a_module_has_scores_in_columns_where_a_session_names_them():
    attributes = trees("class", [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], classlabels_int64s=[4, 7, 9])
    nodes = [
        helper.make_node(
            "TreeEnsembleClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", **attributes
        ),
        helper.make_node(
            "ZipMap", ["s"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[4, 7, 9]
        ),
    ]
    outputs = [
        helper.make_empty_tensor_value_info("maps"),
        helper.make_tensor_value_info("l", INT64, ["n"]),
    ]
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", FLOAT, ["n", 2])], outputs
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    maps, labels = ours(model, {"x": ROWS})
    module = read_module(model, shapes={"x": ROWS.shape})
    columns, numbers = evaluate(module, [ROWS])
    np.testing.assert_array_equal(numbers, labels)
    np.testing.assert_allclose(columns, [[x[4], x[7], x[9]] for x in maps], rtol=1e-6)


def test_labels_and_scores_come_as_text_and_maps():
    labels, maps = ours(classifier_with_map(), {"x": ROWS})
    assert labels.shape == (5, 1)
    best = [max(row, key=row.get) for row in maps]
    assert labels[:, 0].tolist() == best
    assert all(list(row) == ["a", "b", "c"] for row in maps)


def test_scores_of_a_classifier_are_a_module():
    model = classifier_with_map()
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("s", FLOAT, None))
    module = lowtide.onnx.read_module(model, {"n": 4})
    assert module.entry.parameters[0].shape.dimensions == (4, 2)
    assert InferenceSession(model, threads=1).run(None, {"x": ROWS})[0].shape == (5, 3)


def _comb(trees: int, depth: int, shared: bool = False):
    """Trees whose inner nodes have a leaf on one side; each tree is one step deeper than the last.

    With `shared` both sides of the last inner node lead to one leaf.
    """
    nodes: dict[str, list] = {
        x: [] for x in ("feature", "split", "true", "true_leaf", "false", "false_leaf")
    }
    roots, weights = [], []
    for tree in range(trees):
        roots.append(len(nodes["feature"]))
        for level in range(depth + tree):
            is_last = level == depth + tree - 1
            here = len(nodes["feature"])
            leaf = len(weights)
            weights.append(float(leaf % 7) - 3.0)
            if is_last and not shared:
                weights.append(0.5 * leaf)
            nodes["feature"].append((tree + level) % 3)
            nodes["split"].append(np.sin(here) / 2)
            nodes["true"].append(leaf)
            nodes["true_leaf"].append(1)
            nodes["false"].append((leaf + (not shared)) if is_last else here + 1)
            nodes["false_leaf"].append(int(is_last))
    return nodes, roots, weights


def _walked(nodes, roots, weights, x):
    """What the trees come to for a row, one node after the other."""
    total = 0.0
    for root in roots:
        at, is_leaf = root, False
        while not is_leaf:
            side = "true" if x[nodes["feature"][at]] <= nodes["split"][at] else "false"
            at, is_leaf = nodes[side][at], bool(nodes[f"{side}_leaf"][at])
        total += weights[at]
    return total


@pytest.mark.parametrize(
    ("trees", "depth", "shared"), [(1, 1, False), (40, 3, False), (30, 2, True)]
)
def test_trees_of_many_depths_are_walked_as_deep_as_each_is(trees, depth, shared):
    nodes, roots, weights = _comb(trees, depth, shared)
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_featureids=nodes["feature"],
        nodes_splits=numpy_helper.from_array(np.array(nodes["split"])),
        nodes_modes=numpy_helper.from_array(np.zeros(len(nodes["feature"]), np.uint8)),
        nodes_truenodeids=nodes["true"],
        nodes_trueleafs=nodes["true_leaf"],
        nodes_falsenodeids=nodes["false"],
        nodes_falseleafs=nodes["false_leaf"],
        leaf_targetids=[0] * len(weights),
        leaf_weights=numpy_helper.from_array(np.array(weights)),
        tree_roots=roots,
    )
    graph = helper.make_graph([node], "graph", [tensor("x", 11, [9, 3])], [tensor("y", 11, [9, 1])])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = np.random.default_rng(trees).normal(size=(9, 3))
    x[0, 0], x[1] = np.nan, [np.inf, -np.inf, np.inf]
    found = InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, {"x": x})[0]
    expected = [[_walked(nodes, roots, weights, row)] for row in x]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
