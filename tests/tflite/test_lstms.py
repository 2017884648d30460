"""Quantized and hybrid recurrent layers beside LiteRT's kernels: integers bit for bit."""

import numpy as np
import pytest
from tests.frontend.tflite.making import model_bytes
from tests.tflite import lstms
from tests.tflite.kernels import REFERENCE
from tests.tflite.test_operators import both

from lowtide.frontend.graphs.graph import GraphError
from lowtide.tflite import Interpreter


@pytest.mark.parametrize("name", lstms.QUANTIZED)
def test_quantized_cells_are_those_of_the_reference_kernels(name):
    pairs = both(model_bytes(lstms.QUANTIZED[name]), REFERENCE, count=3)
    assert len(pairs) == 3
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype == np.int8
        np.testing.assert_array_equal(ours, theirs)
    assert np.ptp(pairs[-1][1].astype(int)) > 10


@pytest.mark.parametrize("name", lstms.BASIC)
def test_the_basic_kernel_of_bytes(name):
    pairs = both(model_bytes(lstms.BASIC[name]), REFERENCE, count=3)
    assert len(pairs) == 12
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_the_basic_kernel_of_floats():
    pairs = both(model_bytes(lstms.basic("float32")), REFERENCE, count=3)
    assert len(pairs) == 12
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", lstms.HYBRID)
def test_floats_with_weights_of_8_bits(name):
    for ours, theirs in both(model_bytes(lstms.HYBRID[name]), REFERENCE, count=3):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", lstms.FLOATS)
def test_auxiliary_inputs_and_diagonal_weights(name):
    for ours, theirs in both(model_bytes(lstms.FLOATS[name]), REFERENCE, count=3):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def first_output(graph):
    """What a quantized LSTM gives for its first input, as reals."""
    interpreter = Interpreter(model_content=model_bytes(graph))
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    values = np.random.default_rng(3).integers(-128, 128, given["shape"]).astype(np.int8)
    interpreter.set_tensor(given["index"], values)
    interpreter.invoke()
    scale, zero = made["quantization"]
    return (interpreter.get_tensor(made["index"]).astype(float) - zero) * scale


@pytest.mark.parametrize("bits", [-1, 8])
def test_cells_of_which_litert_takes_no_tangent(bits):
    # Cells are clipped to a range that all scales have: then they are the same reals in each.
    clips = (0.4, 0.0)
    known = first_output(lstms.quantized(bits=1, clips=clips, seed=4))
    found = first_output(lstms.quantized(bits=bits, clips=clips, seed=4))
    np.testing.assert_allclose(found, known, atol=0.03)
    assert np.ptp(known) > 0.3


def changed(graph, place, kind):
    """A graph with another type, scale and zero point for an input of its operator."""
    number = graph.operators[0][1][place]
    shape, _, data, _ = graph.tensors[number]
    dtype, scale, zero = kind
    data = None if data is None else data.astype(dtype)
    graph.tensors[number] = (shape, dtype, data, (np.atleast_1d(scale), np.atleast_1d(zero), 0))
    return graph


def without_scales(graph):
    graph.between.clear()
    return graph


REFUSED = {
    "types INT16, INT8, INT8, INT16, INT8": changed(lstms.quantized(), 0, ("int16", 1e-4, 0)),
    "is no power of two": changed(lstms.quantized(), 19, ("int16", 0.0003, 0)),
    "0 intermediate tensors; known are 5": without_scales(lstms.quantized()),
    "peepholes of 6 cells and 9 outputs": lstms.quantized(peepholes=True, projected=9),
    "types UINT8, UINT8, UINT8, INT32, UINT8": changed(lstms.basic(), 4, ("uint8", 0.1, 3)),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_has_no_kernel_is_refused_by_name(said):
    interpreter = Interpreter(model_content=model_bytes(REFUSED[said]))
    with pytest.raises(GraphError, match=said):
        interpreter.allocate_tensors()
