"""Nodes of ai.onnx.ml: labels, maps, text, and trees that are walked row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.ir.literal import Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value

_Table: TypeAlias = tuple[Mapping[Any, Any], Any, Any]
"""Values by their keys, the value of other keys, and the type of values."""

_KINDS: Final = (("strings", object), ("int64s", np.int64), ("floats", np.float32))


@host("ai.onnx.ml.LabelEncoder")
def label_encoder(call: NodeCall) -> Sequence[Value]:
    """Give the value for each key, or the default.

    The first version has a list of texts, whose places are the numbers for them, or the keys.
    """
    if call.node.attributes.get("classes_strings") is not None:
        return _looked_up(call, _classes)
    return _looked_up(call, _labels)


def _looked_up(call: NodeCall, make: Callable[[NodeCall, bool], _Table]) -> Sequence[Value]:
    """The value of each element in a table that is made once for a node and a kind of input."""
    x = call.input(0)
    is_text = x.dtype == object
    kind = "of texts" if is_text else "of numbers"
    if kind not in call.kept:
        call.kept[kind] = make(call, is_text)
    known, default, dtype = call.kept[kind]
    given = x.reshape(-1).tolist()
    keys = map(_key, given) if x.dtype.kind == "f" else given
    found = np.empty(x.size, dtype)
    found[:] = [known.get(key, default) for key in keys]
    return [found.reshape(x.shape)]


def _labels(call: NodeCall, is_text: bool) -> _Table:
    keys, _ = _table(call, "keys")
    values, dtype = _table(call, "values")
    known = dict(zip([_key(x) for x in keys], values, strict=True))
    return known, _default(call, dtype), dtype


def _classes(call: NodeCall, is_text: bool) -> _Table:
    classes = call.attribute("classes_strings")
    return _renamed(call, is_text, classes, range(len(classes)))


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


def _table(call: NodeCall, name: str) -> tuple[list[Any], Any]:
    for kind, dtype in _KINDS:
        given = call.attribute(f"{name}_{kind}", None)
        if given is not None:
            return np.asarray(given, dtype).tolist(), dtype
    given = call.attribute(f"{name}_tensor")
    return given.reshape(-1).tolist(), given.dtype


def _default(call: NodeCall, dtype: Any) -> Any:
    given = call.attribute("default_tensor", None)
    if given is not None:
        return np.asarray(given).reshape(-1)[0]
    names = {
        np.dtype(object): ("default_string", "_Unused"),
        np.dtype(np.int64): ("default_int64", -1),
    }
    name, usual = names.get(np.dtype(dtype), ("default_float", -0.0))
    return call.attribute(name, usual)


@host("ai.onnx.ml.ZipMap")
def zip_map(call: NodeCall) -> Sequence[Value]:
    """Give for each row the scores by the labels of classes, as a map."""
    if "labels" not in call.kept:
        labels = call.attribute("classlabels_strings", None)
        call.kept["labels"] = labels or call.attribute("classlabels_int64s")
    labels = call.kept["labels"]
    scores = np.atleast_2d(call.input(0))
    if scores.shape[1] != len(labels):
        raise call.error(f"there are {len(labels)} labels for {scores.shape[1]} scores")
    return [[dict(zip(labels, row)) for row in scores.tolist()]]  # noqa: B905 - as many, above


@host("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(call: NodeCall) -> Sequence[Value]:
    """Give 1 for the category that each element is, 0 for others, along a new last dimension."""
    if "places" not in call.kept:
        categories = call.attribute("cats_strings", None) or call.attribute("cats_int64s")
        places = {value: i for i, value in enumerate(categories)}
        call.kept["places"] = places, len(categories), call.attribute("zeros", 1)
    known, count, may_lack = call.kept["places"]
    x = call.input(0)
    found = np.zeros((x.size, count), np.float32)
    for row, value in enumerate(x.reshape(-1).tolist()):
        place = known.get(value)
        if place is not None:
            found[row, place] = 1
        elif not may_lack:
            raise call.error(f"{value!r} is none of the {count} categories")
    return [found.reshape(*x.shape, count)]


@host("ai.onnx.ml.CategoryMapper")
def category_mapper(call: NodeCall) -> Sequence[Value]:
    """Give the number of each text, or the text of each number, or the default."""
    return _looked_up(call, _categories)


def _categories(call: NodeCall, is_text: bool) -> _Table:
    texts, numbers = call.attribute("cats_strings"), call.attribute("cats_int64s")
    return _renamed(call, is_text, texts, numbers)


def _renamed(call: NodeCall, is_text: bool, texts: Sequence[Any], numbers: Sequence[int]) -> _Table:
    """The numbers of texts, or the texts of numbers."""
    if is_text:
        known = dict(zip(texts, numbers, strict=True))
        return known, call.attribute("default_int64", -1), np.int64
    names = dict(zip(numbers, texts, strict=True))
    return names, call.attribute("default_string", "_Unused"), object


@host("ai.onnx.ml.ArrayFeatureExtractor", text_only=True)
def array_feature_extractor(call: NodeCall) -> Sequence[Value]:
    """Give the elements of the last dimension at given places, of texts."""
    x, places = call.input(0), np.asarray(call.input(1)).reshape(-1)
    found = np.take(x, places, -1)
    return [found[None] if x.ndim == 1 else found]


@host("ai.onnx.ml.DictVectorizer")
def dict_vectorizer(call: NodeCall) -> Sequence[Value]:
    """Give the values of a map in the order of a vocabulary, 0 for keys that it lacks."""
    words = call.attribute("string_vocabulary", None) or call.attribute("int64_vocabulary")
    given: dict[Any, Any] = call.input(0)
    return [np.array([[given.get(word, 0) for word in words]])]


@host("ai.onnx.ml.CastMap")
def cast_map(call: NodeCall) -> Sequence[Value]:
    """Give the values of a map by their keys in order, with `SPARSE` zeros between them."""
    given: dict[int, Any] = call.input(0)
    target = call.attribute("cast_to", "TO_FLOAT")
    dtype = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[target]
    keys = sorted(given)
    places = [*range(len(keys))]
    width = len(keys)
    if call.attribute("map_form", "DENSE") == "SPARSE":
        places, width = keys, call.attribute("max_map")
    found = np.full((1, width), "0.f" if dtype is object else 0, dtype)
    for key, place in zip(keys, places, strict=True):
        value = given[key]
        if dtype is object:
            value = value if isinstance(value, str) else f"{value:f}"
        found[0, place] = value if dtype is object else float(value)
    return [found]


@host("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(call: NodeCall) -> Sequence[Value]:
    """Give for each row the sums, or extremes, of the leaves that it comes to."""
    x = call.input(0)
    targets = call.attribute("n_targets", 1)
    roots = call.attribute("tree_roots")
    result = np.zeros((len(x), targets), x.dtype)
    members = _members(call)
    leaf_targets, weights = (
        call.attribute("leaf_targetids"),
        call.attribute("leaf_weights").tolist(),
    )
    kind = call.attribute("aggregate_function", 1)
    for row, sums in zip(x, result, strict=True):
        leaves = [_leaf(call, members, int(root), row) for root in roots]
        for target in range(targets):
            given = [weights[i] for i in leaves if leaf_targets[i] == target]
            if given:
                sums[target] = _AGGREGATES[kind](given)
    return [_after(call, result)]


_AGGREGATES: Final[dict[int, Callable[[list[float]], Any]]] = {
    0: np.mean,
    1: np.sum,
    2: np.min,
    3: np.max,
}


def _members(call: NodeCall) -> dict[int, set[float]]:
    """The members of each node that tests for membership, which NaN ends."""
    modes = call.attribute("nodes_modes")
    given = call.attribute("membership_values", None)
    left = [] if given is None else given.tolist()[::-1]
    found: dict[int, set[float]] = {}
    for node, mode in enumerate(modes.tolist()):
        if mode == 6:
            found[node] = set()
            while left and (value := left.pop()) == value:
                found[node].add(value)
    return found


def _leaf(call: NodeCall, members: dict[int, set[float]], node: int, row: Array) -> int:
    modes, splits = call.attribute("nodes_modes"), call.attribute("nodes_splits")
    features = call.attribute("nodes_featureids")
    missing = call.attribute("nodes_missing_value_tracks_true", [0] * len(features))
    for _ in range(len(features) + 1):
        value, split = row[features[node]], splits[node]
        tests = (
            value <= split,
            value < split,
            value >= split,
            value > split,
            value == split,
            value != split,
        )
        mode = int(modes[node])
        holds = float(value) in members[node] if mode == 6 else bool(tests[mode])
        side = "true" if holds or (np.isnan(value) and missing[node]) else "false"
        following = call.attribute(f"nodes_{side}nodeids")[node]
        if call.attribute(f"nodes_{side}leafs")[node]:
            return int(following)
        node = int(following)
    raise call.error("the tree has a cycle")


def _after(call: NodeCall, result: Array) -> Array:
    kind = call.attribute("post_transform", 0)
    if kind == 0:
        return result
    if kind == 1:
        return np.asarray(1 / (1 + np.exp(-result)), result.dtype)
    if kind == 2:
        powers = np.exp(result - result.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True), result.dtype)
    raise call.error("post_transform is 0 (none), 1 (logistic) or 2 (softmax)")
