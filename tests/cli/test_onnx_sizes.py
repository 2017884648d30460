"""Sizes of ONNX models on the command line: --dim and --shape."""

import json

import pytest
from tests.onnx.models import FLOAT, WEIGHTS, helper, model, perceptron, tensor


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "layer.onnx"
    path.write_bytes(perceptron().SerializeToString())
    return path


@pytest.fixture
def nameless(tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"])
    proto = model([node], [tensor("x", FLOAT, [None, 4, None])], [tensor("y", FLOAT, None)])
    path = tmp_path / "nameless.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_whole_shape_gives_sizes_without_names(lowtide, nameless):
    assert lowtide("explain", str(nameless), "--shape", "x=2,4,8", "--json") == 0
    assert json.loads(lowtide.out)["argument_bytes"] == 2 * 4 * 8 * 4
    assert lowtide("run", str(nameless), "--shape", "x=2,4,8") == 0
    assert lowtide("plan", str(nameless), "--shape", "x=[1,4,1]") == 0


def test_what_is_missing_is_named(lowtide, nameless):
    assert lowtide("explain", str(nameless)) == 1
    assert "give --shape x=?,4,?" in lowtide.err
    assert lowtide("explain", str(nameless), "--shape", "x=2,5,8") == 1
    assert "x' is of shape [?, 4, ?], which [2, 5, 8] does not fit" in lowtide.err
    assert lowtide("explain", str(nameless), "--shape", "x=2,b,8") == 1
    assert "expected INPUT=SIZE,..., such as x=1,3,48,192" in lowtide.err


def test_diff_uses_the_sizes_for_models(lowtide, layer):
    for size in (2, 8):
        sizes = ["--dim", f"batch={size}"]
        assert lowtide("diff", str(layer), str(layer), *sizes, "--json") == 0
        side = json.loads(lowtide.out)["before"]
        assert side["total_bytes"] == WEIGHTS.nbytes + size * (96 + 32) * 4
    assert lowtide("diff", str(layer), str(layer)) == 1
    assert "--dim batch=SIZE" in lowtide.err
    text = layer.with_suffix(".hlo")
    text.write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[2]{0} parameter(0)\n}\n")
    assert lowtide("diff", str(text), str(text), "--dim", "batch=2") == 1
    assert "neither file is one" in lowtide.err
