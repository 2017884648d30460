"""TFLite's operators on types that few models have, beside LiteRT's kernels: bit for bit."""

import numpy as np
import pytest
from tests.frontend.tflite.making import Graph, model_bytes
from tests.tflite.kernels import OPTIMIZED, REFERENCE, calls, litert_results
from tests.tflite.operators import IMAGE, drawn, single, unary, whole
from tests.tflite.test_operators import both, content_of

from lowtide.ir import LowtideError
from lowtide.tflite import Interpreter

S16 = ("int16", 0.0003, 0)


def pair(name, kind, options=None, shape=(3, 8)):
    return single(name, [(shape, *kind)] * 2, shape, options, dtype=kind[0])


def in_other_scale(given, made):
    return single("QUANTIZE", [((3, 40), *given)], (3, 40), dtype=made[0], scale=made[1], zero=0)


WHOLE = {
    **{
        f"{name} of {kind}, active {code}": pair(name, (kind,), {0: code})
        for name in ("ADD", "SUB", "MUL")
        for kind in ("int32", "int64")
        for code in (1, 2, 3)
    },
    "sum of 16 bits, active": pair("ADD", ("int16",), {0: 3}),
    "unsigned product, active": pair("MUL", ("uint32",), {0: 3}),
    "bits of quantized numbers": pair("BITWISE_XOR", ("int8", 0.05, 3)),
    "pad of truths": single(
        "PAD", [((2, 3), "bool")], (3, 4), None, [[[1, 0], [0, 1]]], dtype="bool"
    ),
    "scatter of truths": single(
        *("SCATTER_ND", [((2, 4), "bool")], (5, 4), None),
        order=[1, 0, 2],
        constants=[[[1], [3]], [5, 4]],
        dtype="bool",
    ),
    "mean of bytes without a scale": single(
        "AVERAGE_POOL_2D",
        [(IMAGE, "int8")],
        (2, 3, 3, 4),
        {0: 0, 1: 2, 2: 2, 3: 3, 4: 3},
        dtype="int8",
    ),
    "bytes between bytes": single(
        *("RESIZE_BILINEAR", [(IMAGE, "uint8")], (2, 9, 11, 4), {2: 1, 3: 0}, [[9, 11]]),
        dtype="uint8",
    ),
    "logarithm of 16 bits": unary("LOG", S16, ("int16", 0.0007, 0), shape=(3, 400)),
    "negative": unary("NEG", ("int8", 0.05, 0), ("int8", 0.05, 0)),
    "negative of 16 bits": unary("NEG", S16, S16),
    "root": unary("SQRT", ("int8", 0.03, -128), ("int8", 0.05, -100)),
    "16 bits as 32": in_other_scale(S16, ("int32", 0.00005)),
    "32 bits as 8": in_other_scale(("int32", 0.05, 7), ("int8", 0.01)),
    "32 bits as 16": in_other_scale(("int32", 0.05, 0), ("int16", 0.0003)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_are_those_of_the_reference_kernels(name):
    for ours, theirs in both(content_of(WHOLE[name]), REFERENCE):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


POSITIVE = {"root": ("SQRT", ("int16", 0.0001, 0)), "inverse root": ("RSQRT", ("int16", 0.002, 0))}


@pytest.mark.parametrize("name", POSITIVE)
def test_roots_of_16_bits(name):
    op, made = POSITIVE[name]
    content = content_of(unary(op, S16, made, shape=(32768,)))
    steps = [[np.arange(32768).astype(np.int16)]]
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    (ours,), (theirs,) = (
        calls(interpreter, steps)[0],
        litert_results(content, [REFERENCE], steps)[0],
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("sizes", [((3, 8), (3, 8)), ((3, 8), (8,))])
def test_quotients_of_16_bits(sizes):
    graph = Graph()
    x = graph.given(sizes[0], *S16)
    y = graph.constant(whole(*sizes[1], low=50, high=30000, dtype="int16"), "int16", 0.0002, 0)
    graph.outputs = [graph.op("DIV", [x, y], (3, 8), {}, "int16", 0.0004, 0)]
    for ours, theirs in both(model_bytes(graph), REFERENCE):
        np.testing.assert_array_equal(ours, theirs)


# -- floats with weights of 8 bits ---------------------------------------------------------------


def matrices(with_zero, swapped, batch=(2,)):
    graph = Graph()
    x = graph.given((*batch, 3, 4))
    sizes = (*batch, 5, 4) if swapped else (*batch, 4, 5)
    y = graph.constant(whole(*sizes, low=-127), "int8", 0.01, 0)
    graph.outputs = [
        graph.op("BATCH_MATMUL", [x, y], (*batch, 3, 5), {1: int(swapped), 2: int(with_zero)})
    ]
    return graph


def spread():
    graph = Graph()
    sizes = graph.constant([2, 6, 8, 5], "int32")
    scales = np.linspace(0.01, 0.02, 5)
    y = graph.constant(whole(5, 3, 3, 2, low=-127), "int8", scales, np.zeros(5, int), 0)
    x = graph.given((2, 3, 4, 2))
    graph.outputs = [graph.op("TRANSPOSE_CONV", [sizes, y, x], (2, 6, 8, 5), {0: 0, 1: 2, 2: 2})]
    return graph


def unsigned_layer():
    """Weights of type UINT8 hold signed numbers here, as the first converters wrote them."""
    graph = Graph()
    x = graph.given((3, 16))
    y = graph.constant(whole(6, 16, low=-127).view(np.uint8), "uint8", 0.01, 0)
    graph.outputs = [graph.op("FULLY_CONNECTED", [x, y, graph.constant(drawn(6))], (3, 6), {0: 0})]
    return graph


HYBRID = {
    "matrices": matrices(False, False),
    "matrices with zero points": matrices(True, False),
    "swapped matrices": matrices(True, True),
    "two matrices": matrices(False, True, ()),
    "transposed convolution": spread(),
    "unsigned layer": unsigned_layer(),
}


@pytest.mark.parametrize("name", HYBRID)
def test_floats_with_weights_of_8_bits(name):
    kinds = (OPTIMIZED,) if "matrices" in name else (REFERENCE,)
    for ours, theirs in both(content_of(HYBRID[name]), *kinds):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


REFUSED = {
    "activation TANH of s32 without a scale": pair("ADD", ("int32",), {0: 4}),
    "operands of several scales": unary("NEG", ("int8", 0.05, 0), ("int8", 0.04, 0)),
    "its zero point is 3": unary("NEG", ("int8", 0.05, 3), ("int8", 0.05, 3)),
    "the mean of no numbers": single(
        "MEAN", [((3, 0), "int32")], (3,), {0: 0}, [[1]], dtype="int32"
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_not_known_is_refused(said):
    interpreter = Interpreter(model_content=content_of(REFUSED[said]))
    with pytest.raises(LowtideError, match=said):
        interpreter.allocate_tensors()


def test_channels_beside_one_whose_factor_is_large_keep_their_sums():
    """Sums beyond 16 bits with a small factor, beside a channel whose sums are cut off."""
    graph = Graph()
    x = graph.given((1, 1, 5, 1), "int16", 1.0, 0)
    weights = np.array([127, 1], np.int8).reshape(2, 1, 1, 1)
    scales = np.array([0.001, 2.0**15], np.float32)
    filters = graph.constant(weights, "int8", scales, np.zeros(2, int), 0)
    options = {0: 0, 1: 1, 2: 1}
    graph.outputs = [graph.op("CONV_2D", [x, filters], (1, 1, 5, 2), options, "int16", 1.0, 0)]
    given = np.array([-32768, -300, 0, 300, 32767], np.int16)
    ours = Interpreter(model_content=content_of(graph))
    ours.allocate_tensors()
    ((found,),) = calls(ours, [[given.reshape(1, 1, 5, 1)]])
    exact = given.astype(float) * 127 * 0.001
    np.testing.assert_allclose(found[0, 0, :, 0], exact, atol=1.0)


def test_sums_of_16_bits_whose_factors_are_large():
    """Factors of 2^14, 2^15, 2^16 and 2^31, and a small one: exact, and no further than 16 bits."""
    factors = np.array([0.75, 2.0**14, 2.0**15, 2.0**16, 2.0**31])
    graph = Graph()
    x = graph.given((1, 1, 7, 1), "int16", 1.0, 0)
    filters = graph.constant(
        np.ones((5, 1, 1, 1), np.int8), "int8", factors.astype(np.float32), np.zeros(5, int), 0
    )
    graph.outputs = [
        graph.op("CONV_2D", [x, filters], (1, 1, 7, 5), {0: 0, 1: 1, 2: 1}, "int16", 1.0, 0)
    ]
    given = np.array([-32768, -300, -1, 0, 1, 300, 32767], np.int16)
    ours = Interpreter(model_content=content_of(graph))
    ours.allocate_tensors()
    ((found,),) = calls(ours, [[given.reshape(1, 1, 7, 1)]])
    exact = np.floor(given[:, None] * factors + 0.5)
    np.testing.assert_array_equal(found[0, 0], np.clip(exact, -32768, 32767))
