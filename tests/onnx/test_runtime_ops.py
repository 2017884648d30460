"""Other ops of com.microsoft, and those of ONNX's first versions, beside ONNX Runtime."""

from math import erf

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, check, one_node, ours, runtime

FLOAT, U8, S8, INT32, INT64, TEXT, DOUBLE = 1, 2, 3, 6, 7, 8, 11
RANDOM = np.random.default_rng(3)
MICROSOFT = "com.microsoft"


def drawn(*sizes):
    return RANDOM.normal(size=sizes).astype(np.float32)


def bytes_(*sizes, kind=np.uint8):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, sizes).astype(kind)


def whole(values, kind=np.int64):
    return np.array(values, kind)


def number(value, kind=np.float32):
    return np.array(value, kind)


def quantized(scale, zero, kind=np.uint8):
    return [number(scale), number(zero, kind)]


WORDS = np.array(["Hello World", "I love it !", "", "a  b", "foo-bar_baz 12,5", "ab"], object)
WINDOW = {"kernel_shape": [3, 2], "strides": [2, 2]}


def tokenizers():
    patterns = [
        *[{"tokenexp": x} for x in ("[a-zA-Z0-9_]+", ".", r"\w+", "[a-z]")],
        *[{"separators": x} for x in ([" "], [""], [" ", "-"], ["[ ,]+"])],
    ]
    for pattern in patterns:
        for mark in (0, 1):
            least = 1 if pattern in (patterns[1], patterns[5]) else 2
            how = {"mark": mark, "mincharnum": least, "pad_value": "#", **pattern}
            for x in (WORDS, WORDS.reshape(2, 3), WORDS[2:3], WORDS[:0]):
                yield "Tokenizer", [x], [TEXT], how


def images():
    for last in (0, 1):
        image = (1, 6, 7, 4) if last else (1, 4, 6, 7)
        how = {"channels_last": last}
        # Bytes of 7 bits: this operator of ONNX Runtime saturates in 16 bits without VNNI.
        kernel, scales = bytes_(6, 4, 3, 3, kind=np.int8) // 2, np.abs(drawn(6)) * 0.02
        inputs = [bytes_(*image), *quantized(0.02, 120), kernel, scales, np.zeros(6, np.int8)]
        inputs += [*quantized(0.3, 128), whole(RANDOM.integers(-200, 200, 6), np.int32)]
        yield "QLinearConv", inputs, [U8], {**how, "pads": [1] * 4, "strides": [2, 1]}
        for kind, element in ((np.uint8, U8), (np.int8, S8)):
            inputs = [bytes_(*image, kind=kind), *quantized(0.02, 12, kind)]
            inputs += quantized(0.018, 7, kind)
            how = {"channels_last": last, **WINDOW}
            yield "QLinearAveragePool", inputs, [element], {**how, "ceil_mode": 1}
            padded = {**how, "pads": [1] * 4, "count_include_pad": 1}
            yield "QLinearAveragePool", inputs, [element], padded
    for kind, element in ((np.uint8, U8), (np.int8, S8)):
        how = {**WINDOW, "pads": [1] * 4}
        yield "NhwcMaxPool", [bytes_(1, 6, 7, 3, kind=kind)], [element], how
        inputs = [drawn(3, 1) > 0, bytes_(3, 4, kind=kind), *quantized(0.02, 3, kind)]
        inputs += [bytes_(4, kind=kind), *quantized(0.05, 9, kind), *quantized(0.04, 1, kind)]
        yield "QLinearWhere", inputs, [element], {}


def tables():
    for segments in (False, True):
        for mask in (None, whole(RANDOM.integers(0, 2, (2, 4)), np.int32)):
            words = whole(RANDOM.integers(0, 9, (2, 4)), np.int32)
            parts = [bytes_(9, 16), bytes_(6, 16), bytes_(2, 16), bytes_(16), bytes_(16)]
            scales = [number(x) for x in (0.02, 0.03, 0.01, 0.05, 0.04)]
            zeros = [number(x, np.uint8) for x in (120, 130, 99, 128, 127)]
            if not segments:
                parts[2] = scales[2] = zeros[2] = None
            kinds = words % 2 if segments else None
            inputs = [words, kinds, *parts, mask, *scales, *zeros]
            yield "QEmbedLayerNormalization", inputs, [FLOAT, INT32], {}
    for kind in (0, 1):
        k, n, block = 48, 5, 16
        inputs = [drawn(3, k), bytes_(k * n // 2), np.abs(drawn(k * n // block))]
        how = {"K": k, "N": n, "block_size": block, "quant_type": kind}
        yield "MatMulBnb4", inputs, [FLOAT], how
    for bits in (4, 8):
        how = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        inputs = [bytes_(10, 8 * bits), whole(RANDOM.integers(-10, 12, (2, 3)))]
        inputs += [np.abs(drawn(10, 4))]
        yield "GatherBlockQuantized", inputs, [FLOAT], how
        yield "GatherBlockQuantized", [*inputs, bytes_(10, bits // 2)], [FLOAT], how


def arrays():
    for batch in (0, 1):
        for swapped in (0, 1):
            inputs = [drawn(5, 3, 4, 6), drawn(3, 4, *((7, 6) if swapped else (6, 7)))]
            if not batch:
                inputs[0] = drawn(3, 4, 5, 6)
            yield "FusedMatMul", inputs, [FLOAT], {"transBatchA": batch, "transB": swapped}
    yield "TransposeMatMul", [drawn(3, 4), drawn(5, 4)], [FLOAT], {"transB": 1, "alpha": 0.5}
    yield "GatherND", [drawn(3, 4, 5), whole([[0, 1], [2, 2]])], [FLOAT], {}
    yield "Pad", [drawn(3, 4), whole([0, 2, 1, 0]), number(2.5)], [FLOAT], {"mode": "constant"}
    yield "Pad", [drawn(3, 4), whole([0, 2, 1, -1])], [FLOAT], {"mode": "reflect"}
    yield "Range", [number(1.5), number(7.0)], [FLOAT], {}
    yield "Range", [number(1, np.int64), number(17, np.int64), number(3, np.int64)], [INT64], {}
    yield "Trilu", [drawn(3, 4), number(1, np.int64)], [FLOAT], {"upper": 0}
    yield "ExpandDims", [drawn(3, 4), number(-1, np.int32)], [FLOAT], {}
    yield "SampleOp", [drawn(3)], [FLOAT], {}
    for axis in (0, 1, -1):
        yield "UnfoldTensor", [drawn(6, 7, 8)], [FLOAT], {"dim": axis, "size": 3, "step": 2}
    shorts = [whole(RANDOM.integers(-300, 300, s), np.int16) for s in ((3, 4), (4, 5))]
    yield "MatMulInteger16", shorts, [INT32], {}
    for metric in ("euclidean", "sqeuclidean"):
        yield "CDist", [drawn(5, 3), drawn(4, 3)], [FLOAT], {"metric": metric}
    swaps = np.array([[0, 1, 0], [0, 0, 2], [3, 0, 0]], np.float32)
    for x in (drawn(2, 5, 5), drawn(3, 3), swaps):
        yield "Inverse", [x], [FLOAT], {}
    yield "Inverse", [drawn(4, 6, 6).astype(np.float64)], [DOUBLE], {}
    for size in (1, 3, 4, 9):
        tokens = whole([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])
        yield "NGramRepeatBlock", [tokens, drawn(2, 9)], [FLOAT], {"ngram_size": size}
    yield "Unique", [drawn(3)[[1, 0, 1, 2, 1]]], [FLOAT, INT64, INT64], {}
    for mode in ("bilinear", "bicubic", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            how = {"mode": mode, "padding_mode": padding, "align_corners": 1}
            yield "GridSample", [drawn(1, 2, 5, 6), 1.5 * drawn(1, 3, 4, 2)], [FLOAT], how


RETIRED = [
    ("Affine", [drawn(3, 4)], {"alpha": 2.0, "beta": 0.5}),
    ("Scale", [drawn(3, 4)], {"scale": 3.0}),
    ("ScaledTanh", [drawn(3, 4)], {"alpha": 1.5, "beta": 0.3}),
    ("ParametricSoftplus", [30 * drawn(3, 4)], {"alpha": 1.5, "beta": 0.3}),
    ("ImageScaler", [drawn(1, 3, 4, 5)], {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}),
    ("Crop", [drawn(1, 3, 8, 9)], {"border": [1, 2, 3, 1]}),
    ("Crop", [drawn(1, 3, 8, 9)], {"border": [1, 2, 3, 1], "scale": [4, 3]}),
    ("DynamicSlice", [drawn(5, 6), whole([1, -3]), whole([4, 100]), whole([0, 1])], {}),
    ("SimplifiedLayerNormalization", [drawn(2, 3, 8), drawn(8)], {}),
    ("SimplifiedLayerNormalization", [drawn(2, 3, 8), drawn(3, 8)], {"axis": 1}),
]
MICROSOFTS = [*tokenizers(), *images(), *tables(), *arrays()]


def beside(model, feeds):
    found, wanted = ours(model, feeds), runtime(model, feeds)
    for x, y in zip(found, wanted, strict=True):
        if x.dtype.kind in "iu" and x.dtype.itemsize == 1:  # Ties round either way.
            assert np.abs(x.astype(int) - y.astype(int)).max() <= 1
            assert (x != y).mean() < 0.05
        else:
            check([x], [y], atol=1e-4)


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("number_", range(len(MICROSOFTS)), ids=lambda i: MICROSOFTS[i][0])
def test_an_op_gives_what_onnx_runtime_does(number_):
    op, inputs, outputs, how = MICROSOFTS[number_]
    beside(*one_node(op, inputs, outputs, MICROSOFT, **how))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("number_", range(len(RETIRED)), ids=lambda i: RETIRED[i][0])
def test_a_retired_op_gives_what_onnx_runtime_does(number_):
    op, inputs, how = RETIRED[number_]
    model, feeds = one_node(op, inputs, [FLOAT], "", **how)
    model.opset_import[0].version = 9
    beside(model, feeds)


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("shape", [[1, 1], [2, 3], [4, 2]])
def test_bins_of_regions_have_their_greatest_elements(shape):
    numbers = RANDOM.integers(0, 2, (4, 1))
    rois = np.concatenate([numbers, RANDOM.uniform(0, 9, (4, 4))], 1).astype(np.float32)
    how = {"pooled_shape": shape, "spatial_scale": 0.8}
    beside(*one_node("MaxRoiPool", [drawn(2, 3, 8, 9), rois], [FLOAT], "", **how))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("n", "k", "stride", "pad"), [(1, 2, 2, 0), (2, 3, 3, 0), (1, 5, 3, 1)])
def test_a_window_larger_than_the_image_by_less_than_a_stride(op, n, k, stride, pad):
    how = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [pad] * 4}
    beside(*one_node(op, [drawn(1, 2, n, n + 3)], [FLOAT], "", **how))
    if op == "AveragePool":
        how["count_include_pad"] = 1
        beside(*one_node(op, [drawn(1, 2, n, n + 3)], [FLOAT], "", **how))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("mode", ["reflect", "edge"])
@pytest.mark.parametrize("pads", [[0, 2, 1, -1], [-1, -1, 1, 1], [1, -2, 0, 1], [0, 0, -2, 3]])
def test_padding_that_also_cuts_off(mode, pads):
    beside(*one_node("Pad", [drawn(3, 4), whole(pads)], [FLOAT], "", mode=mode))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("onesided", [0, 1])
def test_a_real_signal_needs_no_last_dimension(onesided):
    inputs = [drawn(2, 64), number(8, np.int64), np.hanning(16).astype(np.float32)]
    inputs.append(number(16, np.int64))
    beside(*one_node("STFT", inputs, [FLOAT], "", onesided=onesided))


def _gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _softmax(x, axes):
    shares = np.exp(x - x.max(axes, keepdims=True))
    return shares / shares.sum(axes, keepdims=True)


def _of_complex(x):
    return np.stack([x.real, x.imag], -1)


DEFINED = [
    ("BiasSoftmax", [(2, 3, 4, 5), (2, 1, 1, 5)], {"axis": 3}, lambda x, y: _softmax(x + y, 3)),
    ("BiasSoftmax", [(2, 3, 4), (1, 3, 4)], {"axis": 1}, lambda x, y: _softmax(x + y, (1, 2))),
    ("BiasAdd", [(2, 3, 8), (8,), (2, 3, 8)], {}, lambda x, bias, skip: x + bias + skip),
    (
        "BiasSplitGelu",
        [(2, 3, 8), (8,)],
        {},
        lambda x, bias: (x + bias)[..., :4] * _gelu((x + bias)[..., 4:]),
    ),
    ("GemmFastGelu", [(2, 3, 4), (4, 5), (5,)], {}, lambda x, w, bias: _gelu_tanh(x @ w + bias)),
    ("GemmFastGelu", [(3, 4), (4, 5)], {}, lambda x, w: _gelu_tanh(x @ w)),
    (
        "ComplexMul",
        [(3, 4, 2), (3, 4, 2)],
        {},
        lambda x, y: _of_complex((x[..., 0] + 1j * x[..., 1]) * (y[..., 0] + 1j * y[..., 1])),
    ),
    (
        "ComplexMulConj",
        [(3, 4, 2), (1, 4, 2)],
        {},
        lambda x, y: _of_complex((x[..., 0] + 1j * x[..., 1]) * (y[..., 0] - 1j * y[..., 1])),
    ),
]
"""Operators that ONNX Runtime has for other devices only: inputs, attributes, definition."""


@pytest.mark.parametrize("case", DEFINED, ids=lambda x: x[0])
def test_what_has_no_kernel_for_processors_is_as_defined(case):
    op, sizes, how, definition = case
    inputs = [drawn(*x) for x in sizes]
    found = ours(*one_node(op, inputs, [FLOAT], MICROSOFT, **how))
    check(found, [definition(*inputs).astype(np.float32)], atol=1e-5)


@pytest.mark.parametrize("skip", [None, (2, 3, 3, 8), (2, 8)])
def test_groups_of_channels_are_normalized(skip):
    x, scale, offset = drawn(2, 3, 3, 8), drawn(8), drawn(8)
    added = None if skip is None else drawn(*skip)
    bias = None if skip is None else drawn(8)
    inputs = [x, scale, offset] if skip is None else [x, scale, offset, added, bias]
    op = "GroupNorm" if skip is None else "SkipGroupNorm"
    outputs = [FLOAT] if skip is None else [FLOAT, FLOAT]
    how = {"groups": 4, "activation": 1, "epsilon": 1e-5}
    found = ours(*one_node(op, inputs, outputs, MICROSOFT, **how))
    total = (
        x if skip is None else x + added.reshape(2, -1, added.shape[1] if skip[1] == 3 else 1, 8)
    )
    total = total if skip is None else total + bias
    parts = total.reshape(2, 3, 3, 4, 2)
    center = parts - parts.mean((1, 2, 4), keepdims=True)
    parts = center / np.sqrt((center**2).mean((1, 2, 4), keepdims=True) + 1e-5)
    wanted = parts.reshape(x.shape) * scale + offset
    check(found, [wanted / (1 + np.exp(-wanted)), total][: len(outputs)], atol=1e-4)


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
def test_a_function_whose_result_has_no_sizes_in_the_model():
    beside(*one_node("DynamicQuantizeLinear", [drawn(3, 4)], [U8, FLOAT, U8], ""))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
def test_an_lstm_clips_what_its_gates_take_and_not_its_cell():
    inputs = [drawn(4, 2, 3), drawn(1, 20, 3), drawn(1, 20, 5), drawn(1, 40), None]
    inputs += [drawn(1, 2, 5), 2 * drawn(1, 2, 5)]
    beside(*one_node("LSTM", inputs, [FLOAT] * 3, "", hidden_size=5, clip=0.5))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("how", [{"auto_pad": "SAME_UPPER"}, {"output_shape": [12, 15]}])
@pytest.mark.parametrize("kernel", [(2, 1), (3, 2), (4, 5)])
def test_a_transposed_convolution_whose_kernel_is_shorter_than_its_stride(how, kernel):
    inputs = [drawn(1, 4, 4, 5), drawn(4, 3, *kernel)]
    beside(*one_node("ConvTranspose", inputs, [FLOAT], "", strides=[3, 3], **how))
