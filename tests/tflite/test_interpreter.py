"""TFLite models in native code: values by NumPy, by LiteRT's reference kernels, and errors."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes
from tests.tflite.kernels import OPTIMIZED, REFERENCE, litert_results

from lowtide.cli.main import main
from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.tflite.compiling import compile_tflite
from lowtide.frontend.tflite.model import read_tflite
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.tflite import Interpreter

ROW = (1, 24)
IMAGE = (1, 9, 8, 6)


def drawn(*sizes, seed=2, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, sizes).astype(np.float32)


def whole(*sizes, seed=3, low=-128, high=128, dtype="int8"):
    return np.random.default_rng(seed).integers(low, high, sizes).astype(dtype)


def elementwise(name, count=1, options=None, shape=ROW):
    graph = Graph()
    given = [graph.given(shape) for _ in range(count)]
    graph.outputs = [graph.op(name, given, shape, options)]
    return graph


def window(name, out, options, weights=None):
    graph = Graph()
    given = [graph.given(IMAGE)]
    if weights is not None:
        given += [graph.constant(drawn(*weights)), graph.constant(drawn(out[-1], seed=9))]
    graph.outputs = [graph.op(name, given, out, options)]
    return graph


def layers():
    """Pooling, a reshape, a layer and softmax: what a small network ends with."""
    graph = Graph()
    x = graph.given(IMAGE)
    pooled = graph.op("AVERAGE_POOL_2D", [x], (1, 4, 4, 6), {0: 1, 1: 2, 2: 2, 3: 2, 4: 2})
    sizes = graph.constant([1, 96], "int32")
    flat = graph.op("RESHAPE", [pooled, sizes], (1, 96))
    weights, bias = graph.constant(drawn(5, 96)), graph.constant(drawn(5, seed=4))
    dense = graph.op("FULLY_CONNECTED", [flat, weights, bias], (1, 5), {0: 1})
    graph.outputs = [graph.op("SOFTMAX", [dense], (1, 5), {0: 1.0})]
    return graph


def moved(name, out, given, options=None, shape=(2, 3, 4)):
    graph = Graph()
    x = graph.given(shape)
    others = [graph.constant(np.array(y), "int32") for y in given]
    graph.outputs = [graph.op(name, [x, *others], out, options)]
    return graph


UNARY = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU"),
    *("RELU6", "ROUND", "SIN", "SQUARE", "TANH"),
)
FLOATS = {
    **{x: elementwise(x) for x in UNARY},
    **{x: elementwise(x, 2, {0: 3}) for x in ("ADD", "MUL", "SUB", "DIV")},
    **{x: elementwise(x, 2) for x in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")},
    "conv same": window("CONV_2D", (1, 5, 4, 7), {0: 0, 1: 2, 2: 2, 3: 1}, (7, 3, 3, 6)),
    "conv dilated": window("CONV_2D", (1, 5, 4, 7), {0: 1, 1: 1, 2: 1, 4: 2, 5: 2}, (7, 3, 3, 6)),
    "depthwise": window(
        "DEPTHWISE_CONV_2D", (1, 9, 8, 12), {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}, (1, 3, 3, 12)
    ),
    "conv uneven": window("CONV_2D", (1, 9, 3, 7), {0: 0, 1: 3, 2: 1, 4: 1, 5: 2}, (7, 3, 2, 6)),
    "depthwise uneven": window(
        "DEPTHWISE_CONV_2D", (1, 3, 8, 12), {0: 0, 1: 1, 2: 3, 3: 2, 5: 2, 6: 1}, (1, 2, 3, 12)
    ),
    "max pool": window("MAX_POOL_2D", (1, 5, 4, 6), {0: 0, 1: 2, 2: 2, 3: 3, 4: 3}),
    "max pool uneven": window("MAX_POOL_2D", (1, 9, 3, 6), {0: 0, 1: 3, 2: 1, 3: 3, 4: 2}),
    "average pool uneven": window("AVERAGE_POOL_2D", (1, 4, 7, 6), {0: 1, 1: 1, 2: 2, 3: 2, 4: 3}),
    "average pool": window("AVERAGE_POOL_2D", (1, 5, 4, 6), {0: 0, 1: 2, 2: 2, 3: 3, 4: 3}),
    "layers": layers(),
    "transpose": moved("TRANSPOSE", (4, 2, 3), [[2, 0, 1]]),
    "mean": moved("MEAN", (2, 1, 4), [[1]], {0: 1}),
    "pad": moved("PAD", (3, 3, 7), [[[1, 0], [0, 0], [2, 1]]]),
    "gather": moved("GATHER", (2, 5, 4), [[2, 0, 1, 1, 2]], {0: 1}),
    "strided slice": moved(
        "STRIDED_SLICE", (2, 2), [[0, 1, 0], [2, 2, 4], [1, 1, 2]], {0: 0, 1: 0, 4: 2}
    ),
}

SCALES = {"int8": (0.05, 3), "int16": (0.0004, 0)}


def quantized_pair(name, dtype, activation=0):
    graph = Graph()
    scale, zero = SCALES[dtype]
    x = graph.given(ROW, dtype, scale, zero)
    y = graph.given(ROW, dtype, scale * 1.7, -zero)
    made = graph.op(name, [x, y], ROW, {0: activation}, dtype, scale * 2.1, zero * 2)
    graph.outputs = [made]
    return graph


def quantized_window(name, out, options, weights, axis, dtype="int8"):
    graph = Graph()
    scale, zero = SCALES[dtype]
    x = graph.given(IMAGE, dtype, scale, zero)
    channels = out[-1]
    scales = np.linspace(0.002, 0.02, channels).astype(np.float32)
    filters = graph.constant(
        whole(*weights, low=-127), "int8", scales, np.zeros(channels, int), axis
    )
    kind = "int32" if dtype == "int8" else "int64"
    bias = graph.constant(
        whole(channels, low=-500, high=500, dtype=kind),
        kind,
        scales * np.float32(scale),
        np.zeros(channels, int),
    )
    bigger = 0.08 if dtype == "int8" else 0.001
    made = graph.op(name, [x, filters, bias], out, options, dtype, bigger, zero - 7 * (zero != 0))
    graph.outputs = [made]
    return graph


def quantized_layer(dtype="int8"):
    graph = Graph()
    scale, zero = SCALES[dtype]
    x = graph.given(ROW, dtype, scale, zero)
    weights = graph.constant(whole(10, 24, low=-127), "int8", 0.013, 0)
    kind = "int32" if dtype == "int8" else "int64"
    bias = graph.constant(
        whole(10, low=-900, high=900, dtype=kind), kind, np.float32(scale) * 0.013, 0
    )
    made = graph.op(
        "FULLY_CONNECTED", [x, weights, bias], (1, 10), {0: 1}, dtype, scale * 2.3, zero * 3
    )
    graph.outputs = [made]
    return graph


def quantized_single(name, options=None, scale=0.04, zero=-5, out=ROW, shape=ROW, dtype="int8"):
    graph = Graph()
    pools = "POOL" in name
    given = scale if pools else 0.05 if dtype == "int8" else 0.0004
    x = graph.given(shape, dtype, given, zero if pools else 3 * (dtype == "int8"))
    graph.outputs = [graph.op(name, [x], out, options, dtype, scale, zero)]
    return graph


def padded():
    graph = Graph()
    x = graph.given((2, 3, 4), "int8", 0.05, 3)
    widths = graph.constant([[1, 0], [0, 0], [2, 1]], "int32")
    graph.outputs = [graph.op("PAD", [x, widths], (3, 3, 7), None, "int8", 0.05, 3)]
    return graph


def requantized(dtype="int8"):
    graph = Graph()
    x = graph.given(ROW)
    zeros = (9, -20) if dtype == "int8" else (0, 0)
    scales = (0.0071, 0.0113) if dtype == "int8" else (0.00004, 0.000031)
    q = graph.op("QUANTIZE", [x], ROW, None, dtype, scales[0], zeros[0])
    r = graph.op("QUANTIZE", [q], ROW, None, dtype, scales[1], zeros[1])
    graph.outputs = [q, r, graph.op("DEQUANTIZE", [r], ROW)]
    return graph


DEPTHWISE = {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}
CONVOLUTION = {0: 0, 1: 2, 2: 2, 3: 1}
POOL = {0: 0, 1: 2, 2: 2, 3: 3, 4: 3}
PATCHES = {0: 1, 1: 2, 2: 2, 3: 2, 4: 2}
INTEGERS = {
    **{f"{x} int8": quantized_pair(x, "int8", 3) for x in ("ADD", "SUB", "MUL")},
    **{f"{x} int16": quantized_pair(x, "int16") for x in ("ADD", "SUB", "MUL")},
    "conv int8": quantized_window("CONV_2D", (1, 5, 4, 7), CONVOLUTION, (7, 3, 3, 6), 0),
    "conv int16": quantized_window("CONV_2D", (1, 5, 4, 7), CONVOLUTION, (7, 3, 3, 6), 0, "int16"),
    "depthwise int8": quantized_window(
        "DEPTHWISE_CONV_2D", (1, 9, 8, 12), DEPTHWISE, (1, 3, 3, 12), 3
    ),
    "depthwise int16": quantized_window(
        "DEPTHWISE_CONV_2D", (1, 9, 8, 12), DEPTHWISE, (1, 3, 3, 12), 3, "int16"
    ),
    "layer int8": quantized_layer(),
    "layer int16": quantized_layer("int16"),
    "relu int8": quantized_single("RELU"),
    "relu6 int8": quantized_single("RELU6"),
    "logistic int8": quantized_single("LOGISTIC", None, 1 / 256, -128),
    "tanh int8": quantized_single("TANH", None, 1 / 128, 0),
    "max pool int8": quantized_single("MAX_POOL_2D", POOL, 0.05, 3, (1, 5, 4, 6), IMAGE),
    "average pool int8": quantized_single("AVERAGE_POOL_2D", POOL, 0.05, 3, (1, 5, 4, 6), IMAGE),
    "average pool of patches int8": quantized_single(
        "AVERAGE_POOL_2D", PATCHES, 0.05, 3, (1, 4, 4, 6), IMAGE
    ),
    "requantized": requantized(),
    "requantized int16": requantized("int16"),
    "relu int16": quantized_single("RELU", None, 0.0009, 0, dtype="int16"),
    "max pool int16": quantized_single(
        "MAX_POOL_2D", POOL, 0.05, 0, (1, 5, 4, 6), IMAGE, dtype="int16"
    ),
    "average pool int16": quantized_single(
        "AVERAGE_POOL_2D", POOL, 0.05, 0, (1, 5, 4, 6), IMAGE, dtype="int16"
    ),
    "average pool of patches int16": quantized_single(
        "AVERAGE_POOL_2D", PATCHES, 0.05, 0, (1, 4, 4, 6), IMAGE, dtype="int16"
    ),
    "softmax int8": quantized_single("SOFTMAX", {0: 1.0}, 1 / 256, -128),
    "softmax of many": quantized_single("SOFTMAX", {0: 0.4}, 1 / 256, -128, (7, 300), (7, 300)),
    "pad int8": padded(),
}


def inputs_for(model, seed=0):
    generator = np.random.default_rng(seed)
    found = []
    for number in model.main.inputs:
        tensor = model.main.tensors[number]
        if tensor.type == "FLOAT32":
            found.append(generator.uniform(-1, 1, tensor.shape).astype(np.float32))
        else:
            ends = {"INT8": (-128, 128), "INT16": (-32768, 32768)}[tensor.type]
            found.append(generator.integers(*ends, tensor.shape).astype(tensor.type.lower()))
    return found


def run(interpreter, values):
    interpreter.allocate_tensors()
    for entry, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(x["index"]) for x in interpreter.get_output_details()]


@pytest.mark.parametrize("name", FLOATS)
def test_floats_beside_litert(name):
    content = model_bytes(FLOATS[name])
    values = inputs_for(read_tflite(content))
    # Some floats have no reference kernel.
    (wanted,) = litert_results(content, [OPTIMIZED], [values])
    for ours, theirs in zip(run(Interpreter(model_content=content), values), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [0, 1])
def test_means_of_bytes_take_no_image_of_wide_numbers(padding):
    """What counts the numbers of a window is known, and what widens them is part of the sum."""
    options = {**PATCHES, 0: padding}
    image, out = (1, 64, 64, 8), (1, 32, 32, 8)
    graph = quantized_single("AVERAGE_POOL_2D", options, 0.05, 3, out, image)
    interpreter = Interpreter(model_content=model_bytes(graph))
    interpreter.allocate_tensors()
    assert interpreter.memory["ladder"]["arena_bytes"] < np.prod(image)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_those_of_the_reference_kernels(name):
    content = model_bytes(INTEGERS[name])
    model = read_tflite(content)
    for seed in range(4):
        values = inputs_for(model, seed)
        (wanted,) = litert_results(content, [REFERENCE], [values])
        found = run(Interpreter(model_content=content), values)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def test_details_and_values():
    interpreter = Interpreter(model_content=model_bytes(INTEGERS["layer int8"]))
    (given,) = interpreter.get_input_details()
    assert given["dtype"] is np.int8
    assert given["shape"].tolist() == [1, 24]
    assert given["quantization"] == (pytest.approx(0.05), 3)
    with pytest.raises(InputError, match="call allocate_tensors"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    with pytest.raises(InputError, match="is not set"):
        interpreter.invoke()
    with pytest.raises(InputError, match=r"int8\[1, 24\], not float32\[1, 24\]"):
        interpreter.set_tensor(given["index"], np.zeros((1, 24), np.float32))
    with pytest.raises(InputError, match="is no input"):
        interpreter.set_tensor(1, np.zeros((10, 24), np.int8))
    assert interpreter.get_tensor(1).shape == (10, 24)
    with pytest.raises(InputError, match="has no value"):
        interpreter.get_tensor(3)
    interpreter.set_tensor(given["index"], np.full((1, 24), 3, np.int8))
    interpreter.invoke()
    bias, made = interpreter.get_tensor(2), interpreter.get_tensor(3)
    real = bias * 0.05 * 0.013 / (0.05 * 2.3)
    np.testing.assert_allclose(made[0], 9 + np.maximum(real, 0), atol=0.51)


def test_a_layer_by_hand():
    content = model_bytes(layers())
    x = drawn(*IMAGE, seed=5)
    (found,) = run(Interpreter(model_content=content), [x])
    pooled = x[:, :8].reshape(1, 4, 2, 4, 2, 6).mean((2, 4)).reshape(1, 96)
    dense = np.maximum(pooled @ drawn(5, 96).T + drawn(5, seed=4), 0)
    parts = np.exp(dense - dense.max())
    np.testing.assert_allclose(found, parts / parts.sum(), rtol=1e-5, atol=1e-6)


def test_all_that_there_is_no_kernel_for_is_named():
    graph = Graph()
    x = graph.given(ROW)
    for name in ("CUSTOM:Swirl", "SKIP_GRAM", "CUSTOM:Swirl"):
        x = graph.op(name, [x], ROW)
    graph.outputs = [x]
    with pytest.raises(UnsupportedOpError) as found:
        compile_tflite(read_tflite(model_bytes(graph)))
    assert "CUSTOM:Swirl (operator 0 and 1 more)" in str(found.value)
    assert "SKIP_GRAM (operator 1)" in str(found.value)
    graph = quantized_single("SIN")
    with pytest.raises(GraphError, match=r"SIN.*quantized to INT8"):
        compile_tflite(read_tflite(model_bytes(graph)))
    graph = window("CONV_2D", (1, 5, 4, 7), {0: 5, 1: 1, 2: 1}, (7, 3, 3, 6))
    with pytest.raises(GraphError, match="padding 5"):
        compile_tflite(read_tflite(model_bytes(graph)))
    with pytest.raises(InputError, match="one of model_path and model_content"):
        Interpreter()


def test_commands_take_a_model_as_a_module(tmp_path, capsys):
    path = tmp_path / "m.tflite"
    path.write_bytes(model_bytes(layers()))
    assert main(["compile", str(path), "--aot", str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / "model.o").exists()
    capsys.readouterr()
    assert main(["run", str(path), "--reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]
    path.write_bytes(model_bytes(layers())[:300])
    assert main(["run", str(path)]) == 1
    assert str(path) in capsys.readouterr().err


def archive(path, names, data):
    with zipfile.ZipFile(path, "w") as found:
        for name in names:
            found.writestr(name, data)
        found.writestr("labels.txt", "a\nb")
    return str(path)


def test_an_archive_with_one_model_is_that_model(tmp_path, capsys):
    data = model_bytes(layers())
    path = archive(tmp_path / "image.task", ["inner.tflite"], data)
    found = []
    for given in ({"model_path": path}, {"model_content": data}):
        interpreter = Interpreter(**given)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], drawn(*IMAGE))
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    np.testing.assert_array_equal(*found)
    assert main(["run", path, "--reference"]) == 0
    assert "f32[1,5]" in capsys.readouterr().out


def test_an_archive_of_several_models_names_them(tmp_path, capsys):
    path = archive(tmp_path / "hand.task", ["a.tflite", "b.tflite"], model_bytes(layers()))
    assert main(["run", path]) == 1
    assert "has several models: unpack one of a.tflite, b.tflite" in capsys.readouterr().err


def test_a_damaged_archive_is_one_error(tmp_path, capsys):
    path = archive(tmp_path / "hand.task", ["a.tflite"], model_bytes(layers()))
    data = bytearray(Path(path).read_bytes())
    data[200] ^= 255
    Path(path).write_bytes(data)
    assert main(["run", path]) == 1
    assert "the archive is damaged at a.tflite" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_one_error(tmp_path):
    with pytest.raises(InputError, match=r"none\.tflite: cannot be read: no such file"):
        Interpreter(str(tmp_path / "none.tflite"))
