"""Models and programs that were kept: later sessions need no nodes and no package onnx."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.onnx.models import FLOAT, INT64, WEIGHTS, helper, model, onnx, perceptron, tensor
from tests.onnx.test_conditions import by_argument
from tests.support import HANG_SECONDS

from lowtide.files.object_cache import ALIGNMENT, ObjectCache
from lowtide.ir import InputError
from lowtide.onnx import InferenceSession
from lowtide.onnx.kept_arrays import can_be_kept, read, written

QUICK = {"effort": "fast", "threads": 1, "compiler": "here"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))


def session(source, **options):
    return InferenceSession(source, **{**QUICK, **options})


def is_loaded(given: InferenceSession) -> bool:
    return "_loaded" in vars(given)


def feeds(batch: int = 3) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).normal(size=(batch, 96)).astype(np.float32)}


def test_a_second_session_reads_no_nodes_and_gives_the_same(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    first, second = session(path), session(path)
    expected = first.run(None, feeds())[0]
    np.testing.assert_allclose(expected, np.maximum(feeds()["x"] @ WEIGHTS, 0), atol=1e-4)
    np.testing.assert_array_equal(second.run(None, feeds())[0], expected)
    assert is_loaded(first) and not is_loaded(second)
    assert second.get_inputs() == first.get_inputs()
    assert second.get_outputs() == first.get_outputs()
    assert second.get_modelmeta() == first.get_modelmeta()
    assert second.memory["weight_bytes"] == first.memory["weight_bytes"] == WEIGHTS.nbytes
    programs = [x.memory["programs"][0] for x in (first, second)]
    assert programs[0]["parameters"] == programs[1]["parameters"] == ["x", "w"]


@pytest.mark.parametrize("other", [{"threads": 2}, {"effort": "default"}, {"target": "avx2"}])
def test_other_options_have_programs_of_their_own(tmp_path, other):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    session(path).run(None, feeds())
    given = session(path, **other)
    given.run(None, feeds())
    assert is_loaded(given)


def test_a_shape_that_is_not_known_has_the_nodes_read(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    session(path).run(None, feeds(3))
    given = session(path)
    given.run(None, feeds(3))
    assert not is_loaded(given)
    found = given.run(None, feeds(5))[0]
    assert is_loaded(given) and len(given.memory["programs"]) == 2
    np.testing.assert_allclose(found, np.maximum(feeds(5)["x"] @ WEIGHTS, 0), atol=1e-4)
    assert given._loaded.model.initializers["w"] is given._shown.weights["w"]
    given.release_memory()
    assert not given.memory["programs"]
    np.testing.assert_array_equal(given.run(None, feeds(5))[0], found)


def test_a_model_that_changes_is_another_one(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    session(path).run(None, feeds())
    known = session(path)
    changed = perceptron()
    changed.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(2 * WEIGHTS, "w"))
    onnx.save(changed, path)
    found = session(path).run(None, feeds())[0]
    np.testing.assert_allclose(found, np.maximum(feeds()["x"] @ WEIGHTS * 2, 0), atol=1e-4)
    with pytest.raises(InputError, match="has changed since the session was made from it"):
        known.run(None, feeds(4))


def with_data_beside(folder, scale=1.0):
    path = folder / "beside.onnx"
    (folder / "beside.data").unlink(missing_ok=True)  # Data would be added to what is there.
    given = perceptron()
    given.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(scale * WEIGHTS, "w"))
    onnx.save(given, path, save_as_external_data=True, location="beside.data", size_threshold=0)
    return path


def test_data_in_another_file_counts_too(tmp_path):
    path = with_data_beside(tmp_path)
    expected = session(path).run(None, feeds())[0]
    known = session(path)
    np.testing.assert_array_equal(known.run(None, feeds())[0], expected)
    assert not is_loaded(known)
    text = path.read_bytes()
    with_data_beside(tmp_path, 2.0)
    assert path.read_bytes() == text
    changed = session(path)
    np.testing.assert_allclose(changed.run(None, feeds())[0], 2 * expected, rtol=1e-5)
    assert is_loaded(changed)


def test_values_that_conditions_need_decide_about_the_program():
    source = by_argument().SerializeToString()
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)
    wanted = {3: np.maximum(x, 0), 5: x.reshape(2, 12)}
    first = session(source)
    for number, expected in wanted.items():
        np.testing.assert_array_equal(
            first.run(None, {"x": x, "number": np.int64(number)})[0], expected
        )
    second = session(source)
    for number, expected in wanted.items():
        np.testing.assert_array_equal(
            second.run(None, {"x": x, "number": np.int64(number)})[0], expected
        )
    assert not is_loaded(second)
    assert second.run(None, {"x": x, "number": np.int64(7)})[0].shape == (2, 12)
    assert is_loaded(second)


def outputs_of_all_kinds():
    """A model whose outputs are an input, a weight, a constant, and what a program computes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Add", ["x", "w"], ["sum"]),
    ]
    sizes = [96, 32]
    names = ("x", "w", "sizes", "sum")
    outputs = [tensor(x, INT64 if x == "sizes" else FLOAT, None) for x in names]
    inputs = [tensor("x", FLOAT, sizes), tensor("w", FLOAT, sizes)]
    return model(nodes, inputs, outputs, {"w": WEIGHTS})


@pytest.mark.parametrize("fed", [("x",), ("x", "w"), ("w", "x")])
def test_outputs_that_no_program_makes_and_weights_that_are_fed(fed):
    source = outputs_of_all_kinds().SerializeToString()
    given = {x: np.full((96, 32), 2.0 + len(x) * (x == "w"), np.float32) for x in fed}
    expected = session(source).run(None, given)
    known = session(source)
    found = known.run(None, given)
    assert not is_loaded(known)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(found[1], given.get("w", WEIGHTS))
    np.testing.assert_array_equal(found[2], [96, 32])


@pytest.mark.parametrize("options", [{"cache": False}, {"engine": "reference"}, {"check": "first"}])
def test_what_is_not_to_be_kept_or_checked_reads_the_nodes(tmp_path, options):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    for _ in range(2):
        given = session(path, **options)
        given.run(None, feeds())
        assert is_loaded(given) and given._known is None


_FRESH = """
import json, sys
import numpy as np
from lowtide.onnx import InferenceSession

session = InferenceSession(sys.argv[1], effort="fast", threads=1)
y = session.run(None, {"x": np.ones((2, 96), np.float32)})[0]
heavy = ("onnx", "google.protobuf", "llvmlite", "lowtide.compiler", "lowtide.evaluator")
heavy += ("lowtide.frontend.graphs.compiler", "lowtide.verifier", "lowtide.builder")
print(json.dumps([float(y.sum()), [x for x in heavy if x in sys.modules]]))
"""


def test_a_fresh_process_loads_no_onnx_for_a_known_model(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, str(path)],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert found[0][0] == found[1][0]
    read = found[0][1]
    assert "lowtide.frontend.graphs.compiler" in read and found[1][1] == []
    assert "onnx" not in read and "llvmlite" not in read


def test_a_damaged_record_counts_as_none(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(perceptron(), path)
    expected = session(path).run(None, feeds())[0]
    for file in (tmp_path / "cache").rglob("models/*/*"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    given = session(path)
    np.testing.assert_array_equal(given.run(None, feeds())[0], expected)
    assert is_loaded(given)


def test_arrays_come_back_as_they_were(tmp_path):
    import ml_dtypes

    arrays = {
        "a": np.arange(5, dtype=np.int8),
        "none": np.zeros((0, 3), np.float64),
        "scalar": np.array(2.5),
        "b": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3),
        "four": np.arange(-8, 8).astype(ml_dtypes.int4),
    }
    store = ObjectCache(tmp_path / "arrays")
    store.put("key", written({"say": [1, None]}, arrays))
    arrays["again"] = arrays["a"]
    store.put("key", written({"say": [1, None]}, arrays))
    header, found = read(store.mapped("key"))
    assert found["again"] is found["a"] and found["scalar"] is not found["a"]
    assert header == {"say": [1, None]} and list(found) == list(arrays)
    for name, x in arrays.items():
        assert found[name].dtype == x.dtype and found[name].shape == x.shape
        np.testing.assert_array_equal(found[name], x)
        assert found[name].ctypes.data % ALIGNMENT == 0 or not x.size
    assert can_be_kept(arrays) and not can_be_kept({"text": np.array(["a"], object)})
    assert store.mapped("other") is None
