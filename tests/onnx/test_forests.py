"""Forests drawn at random: by bits and by a walk, beside their meaning and ONNX Runtime."""

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, runtime
from tests.onnx.forests import MODES, DrawnForest

from lowtide.frontend.onnx import ends
from lowtide.ir import LowtideError
from lowtide.onnx import InferenceSession

LEQ, LT, GTE, GT, EQ, NEQ = range(len(MODES))

FORESTS = {
    "one mode": ((LEQ,), "none", 31),
    "one mode, all missing pass": ((LEQ,), "all", 31),
    "below": ((LEQ, LT), "some", 33),
    "above": ((GTE, GT), "some", 20),
    "categories": ((LEQ, EQ), "none", 40),
    "categories, some missing pass": ((LEQ, EQ), "some", 31),
    "all modes": (tuple(range(6)), "some", 31),
    "two parts": ((LT,), "some", 100),
    "many parts, all modes": (tuple(range(6)), "some", 300),
    "small trees": ((LEQ, NEQ), "some", 3),
}


def drawn(name, targets=1, trees=12):
    modes, missing, leaves = FORESTS[name]
    return DrawnForest(len(name), trees, leaves, 7, modes, missing=missing, targets=targets)


def results(model, x, **options):
    return InferenceSession(model, threads=1, cache=False, **options).run(None, {"x": x})[0]


@pytest.fixture(params=["bits", "walk"])
def way(request, monkeypatch):
    monkeypatch.setattr(ends, "_is_by_bits", lambda *_: request.param == "bits")


@pytest.mark.parametrize("name", FORESTS)
@pytest.mark.parametrize("rows", [1, 2, 37])
@pytest.mark.usefixtures("way")
def test_rows_end_where_the_definition_says(name, rows):
    forest = drawn(name)
    x = forest.rows(rows)
    model = forest.regressor(rows)
    expected = forest.meaning(x)
    np.testing.assert_array_equal(results(model, x), expected)
    np.testing.assert_array_equal(results(model, x, engine="reference"), expected)


@pytest.mark.parametrize("targets", [2, 3, 20])
@pytest.mark.parametrize("trees", [12, 41])
@pytest.mark.usefixtures("way")
def test_each_target_has_its_trees(targets, trees):
    forest = drawn("all modes", targets, trees)
    x = forest.rows(19)
    np.testing.assert_array_equal(results(forest.regressor(19), x), forest.meaning(x))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_have_the_precision_of_rows(dtype):
    forest = DrawnForest(5, 9, 70, 4, (LEQ, GT, EQ), targets=2)
    forest.trees = [x for x in forest.trees if isinstance(x, tuple)]
    x = forest.rows(23, dtype)
    x[::2] = np.nextafter(x[::2], dtype(1))
    np.testing.assert_array_equal(results(forest.ensemble(23, dtype), x), forest.meaning(x))


@pytest.mark.usefixtures("way")
def test_code_without_wide_vectors_gives_the_same():
    forest = drawn("two parts")
    x = forest.rows(37)
    found = results(forest.regressor(37), x, target="avx2")
    np.testing.assert_array_equal(found, forest.meaning(x))


@pytest.mark.parametrize("aggregate", ["AVERAGE", "MIN", "MAX"])
@pytest.mark.usefixtures("way")
def test_aggregates_are_those_of_parts_together(aggregate):
    forest = drawn("many parts, all modes", trees=4)
    x = forest.rows(9)
    found = results(forest.regressor(9, aggregate_function=aggregate), x)[:, 0]
    alone = []
    for tree in forest.trees:
        one = drawn("many parts, all modes", trees=4)
        one.trees = [tree]
        alone.append(one.meaning(x)[:, 0])
    how = {"AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}[aggregate]
    np.testing.assert_array_equal(found, how(alone, axis=0).astype(np.float32))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("name", FORESTS)
def test_onnx_runtime_gives_the_same(name):
    forest = drawn(name)
    x = forest.rows(50)
    model = forest.regressor(50)
    (expected,) = runtime(model, {"x": x})
    np.testing.assert_allclose(results(model, x), expected, rtol=1e-6)


def test_tests_of_all_rows_are_never_an_array():
    """Tests, what they leave and the weights are one pass over rows, without memory for each."""
    forest = DrawnForest(3, 100, 31, 5, (LEQ,), missing="none")
    x = forest.rows(512)
    session = InferenceSession(forest.regressor(512), threads=1, cache=False)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], forest.meaning(x))
    assert session.memory["arena_bytes"] < 100 * 512 * 4 * 2


def test_few_rows_of_large_trees_are_walked_and_many_are_not():
    large = DrawnForest(4, 20, 250, 5, (LEQ,))
    assert "while(" in str(module_of(large, 1))
    assert "while(" not in str(module_of(large, 512))
    assert "while(" not in str(module_of(drawn("one mode"), 1))


def module_of(forest, rows):
    from lowtide.onnx import read_module

    return read_module(forest.regressor(rows))


def with_nodes(change):
    """A model of small trees whose lists of attributes are changed, and rows for it."""
    forest = drawn("small trees")
    model = forest.regressor(9)
    lists = {x.name: x for x in model.graph.node[0].attribute}
    change(lists)
    return model, forest


def test_of_one_target_the_first_weight_of_a_leaf_counts():
    """Exporters of decision paths write it once for each class."""

    def thrice(lists):
        for name in ("treeids", "nodeids", "ids"):
            more = list(lists[f"target_{name}"].ints)
            lists[f"target_{name}"].ints.extend([*more, *more])
        weights = list(lists["target_weights"].floats)
        lists["target_weights"].floats.extend([x + 1 for x in weights] * 2)

    model, forest = with_nodes(thrice)
    x = forest.rows(9)
    found = results(model, x)
    np.testing.assert_array_equal(found, forest.meaning(x))
    if HAS_RUNTIME:
        np.testing.assert_allclose(found, runtime(model, {"x": x})[0], rtol=1e-6)


def test_trees_may_come_in_any_order_with_their_first_nodes_anywhere():
    def reversed_(lists):
        for name, found in lists.items():
            if name.startswith("nodes_"):
                values = found.ints or found.floats or found.strings
                turned = list(values)[::-1]
                del values[:]
                values.extend(turned)

    model, forest = with_nodes(reversed_)
    x = forest.rows(9)
    np.testing.assert_allclose(results(model, x), forest.meaning(x), rtol=1e-5)


def _first(name, value):
    def change(lists):
        found = lists[name].ints or lists[name].strings
        found[0] = value

    return change


MISTAKES = {
    "tree 0 has no node 99": _first("nodes_truenodeids", 99),
    "tree 77 has no node": _first("target_treeids", 77),
    "target_ids has 5, but there are 1": _first("target_ids", 5),
    "nodes_modes NEAR have no tensor form": _first("nodes_modes", b"BRANCH_NEAR"),
    "tree 0 has node 1 twice": _first("nodes_nodeids", 1),
    "tree ids, ": lambda lists: lists["nodes_treeids"].ints.append(3),
    "weights of ": lambda lists: lists["target_weights"].floats.append(3.0),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_nodes_that_make_no_trees_are_told(said):
    model, forest = with_nodes(MISTAKES[said])
    with pytest.raises(LowtideError, match=said):
        results(model, forest.rows(9))
