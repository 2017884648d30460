"""Sizes and arrays of inputs on the command line: --dim, --shape and --input."""

import json

import numpy as np
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


@pytest.fixture
def sum_of_two(tmp_path):
    """A model whose first input has no legal name, and a file with an array for each."""
    node = helper.make_node("Add", ["x:0", "y"], ["z"])
    inputs = [tensor(x, FLOAT, [None, 4]) for x in ("x:0", "y")]
    path = tmp_path / "sum.onnx"
    path.write_bytes(model([node], inputs, [tensor("z", FLOAT, None)]).SerializeToString())
    for name, scale in (("x", 1), ("y", 10)):
        np.save(tmp_path / f"{name}.npy", scale * np.arange(8, dtype=np.float32).reshape(2, 4))
    return path


def test_arrays_are_given_by_the_names_of_inputs(lowtide, sum_of_two):
    folder = sum_of_two.parent
    files = [f"x:0={folder / 'x.npy'}", f"y={folder / 'y.npy'}"]
    out = folder / "out.npz"
    given = ["--input", files[1], "--input", files[0], "--outputs", str(out)]
    assert lowtide("run", str(sum_of_two), *given) == 0
    wanted = 11 * np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(np.load(out)["out_0"], wanted)
    np.savez(folder / "in.npz", x_0=wanted, y=wanted)
    given = ["--shape", "x:0=2,4", "--shape", "y=2,4", "--inputs", str(folder / "in.npz")]
    assert lowtide("run", str(sum_of_two), *given, "--outputs", str(out)) == 0
    np.testing.assert_array_equal(np.load(out)["out_0"], 2 * wanted)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((2, 4)), "y.npy: holds float64[2,4]; expected f32[2,4] (float32), which is"),
        (np.zeros((2, 5), np.float32), "'y' is of shape [?, 4], which [2, 5] does not fit"),
        (None, "y.npy: no such file"),
        (b"\x93NUMPY\x01\x00", "y.npy: is no array of numbers"),
        (b"PK", "y.npy: is not an .npy file"),
    ],
)
def test_arrays_that_do_not_fit_an_input(lowtide, sum_of_two, y, message):
    file = sum_of_two.with_name("y.npy")
    file.unlink()
    if isinstance(y, bytes):
        file.write_bytes(y)
    elif y is not None:
        np.save(file, y)
    x = f"x:0={sum_of_two.with_name('x.npy')}"
    assert lowtide("run", str(sum_of_two), "--input", x, "--input", f"y={file}") == 1
    assert message in lowtide.err
    assert lowtide.err.count("\n") == 1


def test_inputs_that_are_wrong_or_missing(lowtide, sum_of_two):
    x, y = (str(sum_of_two.with_name(f"{n}.npy")) for n in "xy")
    shapes = ["--shape", "x:0=2,4", "--shape", "y=2,4"]
    for given, message in (
        (["--input", f"x:0={x}"], "--input gives no array for y: f32[2,4]"),
        (["--input", f"z={x}"], "no input is called 'z'"),
        (["--input", x], "expected NAME=FILE.npy, such as x=x.npy"),
        (["--input", f"y={y}", "--input", f"y={y}"], "'y' is given twice"),
        (["--input", f"y={y}", "--inputs", x], "--input and --inputs both give arguments"),
    ):
        assert lowtide("run", str(sum_of_two), *shapes, *given) == 1
        assert message in lowtide.err
    text = sum_of_two.with_suffix(".hlo")
    text.write_text("HloModule m\n\nENTRY e {\n  ROOT value = f32[2]{0} parameter(0)\n}\n")
    assert lowtide("run", str(text), "--input", f"valu={x}") == 1
    assert "no input 'valu'; did you mean 'value'?; inputs are: value" in lowtide.err
