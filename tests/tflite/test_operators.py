"""TFLite's operators one by one beside LiteRT's kernels: integers bit for bit."""

import numpy as np
import pytest
from tests.frontend.tflite.making import model_bytes
from tests.tflite import operators
from tests.tflite.kernels import OPTIMIZED, REFERENCE, calls, litert_results

from lowtide.ir import LowtideError
from lowtide.tflite import Interpreter

NOT_IN_LITERT = {"broadcast to"}
"""What the package's interpreter has no kernel for; a test below reckons it with NumPy."""


def content_of(model):
    return model_bytes(*(model if isinstance(model, list) else [model]))


def values_for(interpreter, generator):
    found = []
    for entry in interpreter.get_input_details():
        kind, shape = np.dtype(entry["dtype"]), entry["shape"]
        if kind == np.float32:
            found.append(generator.uniform(-1, 1, shape).astype(kind))
        elif kind.kind == "b":
            found.append(generator.integers(0, 2, shape).astype(bool))
        elif kind == np.int32:
            found.append(generator.integers(1, 3, shape).astype(kind))
        else:
            ends = np.iinfo(kind).min, np.iinfo(kind).max
            found.append(generator.integers(*ends, shape, endpoint=True).astype(kind))
    return found


def both(content, *kinds, count=2):
    ours = Interpreter(model_content=content)
    ours.allocate_tensors()
    generator = np.random.default_rng(5)
    steps = [values_for(ours, generator) for _ in range(count)]
    pairs = zip(calls(ours, steps), litert_results(content, kinds, steps), strict=True)
    return [(x, y) for mine, other in pairs for x, y in zip(mine, other, strict=True)]


@pytest.mark.parametrize("name", [x for x in operators.FLOATS if x not in NOT_IN_LITERT])
def test_floats(name):
    for ours, theirs in both(content_of(operators.FLOATS[name]), OPTIMIZED):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype.kind in "fc":
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", operators.RECURRENT)
def test_layers_with_state(name):
    for ours, theirs in both(content_of(operators.RECURRENT[name]), REFERENCE, OPTIMIZED, count=4):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", operators.HYBRID)
def test_floats_with_weights_of_8_bits(name):
    for ours, theirs in both(content_of(operators.HYBRID[name]), REFERENCE):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", operators.INTEGERS)
def test_integers_are_those_of_the_reference_kernels(name):
    kinds = (OPTIMIZED,) if name == "sum" else (REFERENCE, OPTIMIZED)
    for ours, theirs in both(content_of(operators.INTEGERS[name]), *kinds):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def ours_of(model, *values):
    interpreter = Interpreter(model_content=content_of(model))
    interpreter.allocate_tensors()
    return calls(interpreter, [values])[0][0]


X, Y = operators.drawn(3, 4), operators.drawn(3, 4, seed=8)
IMAGE = operators.drawn(*operators.IMAGE)
STABLEHLO = {
    "tanh": ((IMAGE,), np.tanh(IMAGE)),
    "negate": ((IMAGE,), -IMAGE),
    "add": ((IMAGE, 2 * IMAGE), 3 * IMAGE),
    "transpose": ((operators.drawn(2, 3, 4),), np.transpose(operators.drawn(2, 3, 4), (2, 0, 1))),
    "compare": ((X, Y), X > Y),
    "slice": ((operators.drawn(5, 6),), operators.drawn(5, 6)[1:5:2, 0:6:2]),
    "dot": (
        (operators.drawn(2, 3, 4), operators.drawn(2, 4, 5)),
        operators.drawn(2, 3, 4) @ operators.drawn(2, 4, 5),
    ),
    "reduce": ((operators.drawn(3, 5),), np.maximum(operators.drawn(3, 5).max(0), 0.25)),
}


@pytest.mark.parametrize("name", STABLEHLO)
def test_stablehlo_by_numpy(name):
    values, wanted = STABLEHLO[name]
    found = ours_of(operators.STABLEHLO[name], *values)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_padding_and_windows_of_stablehlo():
    x = operators.drawn(3, 4)
    wanted = np.full((6, 9), 0.5, np.float32)
    wanted[1:6:2, 0:7:2] = x
    np.testing.assert_array_equal(ours_of(operators.STABLEHLO["pad"], x), wanted)
    y = operators.drawn(4, 6)
    around = np.pad(y, ((0, 0), (1, 1)))
    sums = np.lib.stride_tricks.sliding_window_view(around, (2, 3)).sum((2, 3))[::2]
    found = ours_of(operators.STABLEHLO["reduce window"], y)
    np.testing.assert_allclose(found, sums, rtol=1e-5, atol=1e-6)


def test_sizes_stretch():
    x = operators.drawn(3, 1)
    found = ours_of(operators.FLOATS["broadcast to"], x)
    np.testing.assert_array_equal(found, np.broadcast_to(x, (2, 3, 4)))


REFUSED = {
    "activation NONE; known is RELU": operators.quantized_svdf(activation=0),
    "steps of 1/128": operators.unary("L2_NORMALIZATION", operators.S8, ("int8", 0.01, 0)),
    "quantized to INT16": operators.paired(
        "FLOOR_DIV", operators.S16, operators.S16, operators.S16
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_quantized_kernels_do_not_take_is_refused(said):
    interpreter = Interpreter(model_content=content_of(REFUSED[said]))
    with pytest.raises(LowtideError, match=said):
        interpreter.allocate_tensors()
