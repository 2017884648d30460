"""Ops of com.microsoft that quantizers and optimizers write, beside their definitions in NumPy.

Where ONNX Runtime is installed it is asked too.
"""

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, check, one_node, ours, runtime

FLOAT, U8, S8, INT32 = 1, 2, 3, 6
RANDOM = np.random.default_rng(11)


def drawn(*sizes):
    return RANDOM.normal(size=sizes).astype(np.float32)


def bytes_(*sizes, kind=np.uint8):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, sizes).astype(kind)


def number(value, kind=np.float32):
    return np.array(value, kind)


def quantized(x):
    """Floats as u8, with their scale and zero point."""
    least, most = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = np.float32(np.float32(most - least) / np.float32(255)) or np.float32(1)
    zero = np.clip(np.rint(np.float32(-least) / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255), scale, zero


def dynamic_product(x, w, scale, zero):
    found, x_scale, x_zero = quantized(x)
    return ((found - x_zero) @ (w.astype(np.float64) - zero) * (x_scale * scale)).astype(np.float32)


def steps(x, scale, zero, kind=np.uint8):
    limits = np.iinfo(kind)
    return np.clip(np.rint(x / np.float32(scale)) + zero, limits.min, limits.max).astype(kind)


def floats(x, scale, zero):
    return ((x.astype(np.float32) - zero) * np.float32(scale)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(inputs):
    x, w, r, bias = inputs[:4]
    h, c = np.zeros((x.shape[1], r.shape[1]), np.float32), np.zeros((x.shape[1], r.shape[1]))
    incoming = dynamic_product(x.reshape(-1, x.shape[2]), w[0], *[y[0] for y in inputs[8:10]])
    incoming = incoming.reshape(*x.shape[:2], -1)
    results = []
    for part in incoming:
        gates = part + dynamic_product(h, r[0], *[y[0] for y in inputs[10:12]])
        gates = gates + bias[0, : gates.shape[1]] + bias[0, gates.shape[1] :]
        i, o, f, g = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = (sigmoid(o) * np.tanh(c)).astype(np.float32)
        results.append(h)
    return [np.stack(results)[:, None], h[None], c[None].astype(np.float32)]


LSTM = [
    drawn(4, 1, 3),
    bytes_(1, 3, 20, kind=np.int8),
    bytes_(1, 5, 20, kind=np.int8),
    drawn(1, 40),
    *[None] * 4,
    np.array([0.01], np.float32),
    np.array([0], np.int8),
    np.array([0.008], np.float32),
    np.array([0], np.int8),
]
X8, Y8 = bytes_(2, 5), bytes_(2, 5)
QX, QY = (number(0.05), number(120, np.uint8)), (number(0.03), number(7, np.uint8))
QZ = (number(0.09), number(99, np.uint8))
IMAGE = bytes_(1, 3, 4, 4)
A, B = drawn(3, 4), drawn(4, 5)
B8, S5 = bytes_(4, 5, kind=np.int8), np.abs(drawn(5)) * 0.01
WORDS, SEGMENTS = np.array([[1, 3, 2]], np.int32), np.array([[0, 1, 0]], np.int32)
TABLES = [drawn(6, 8), drawn(5, 8), drawn(2, 8)]


def normalized(x):
    center = x - x.mean(-1, keepdims=True)
    return center / np.sqrt((center**2).mean(-1, keepdims=True) + 1e-12)


def embedded(inputs):
    words, segments, *tables = inputs[:5]
    total = tables[0][words] + tables[1][np.arange(words.shape[1])] + tables[2][segments]
    lengths = inputs[7].sum(1).astype(np.int32)
    return [normalized(total) * inputs[5] + inputs[6], lengths]


def self_attention(inputs, heads=2):
    x, w, bias = inputs[:3]
    q, k, v = [
        y.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for y in np.split(x @ w + bias, 3, 2)
    ]
    scores = q @ k.swapaxes(2, 3) / np.float32(np.sqrt(q.shape[3]))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found = powers / powers.sum(-1, keepdims=True) @ v
    return [found.swapaxes(1, 2).reshape(*x.shape[:2], -1)]


def turned(inputs):
    x, _, cos, sin = inputs
    first, second = np.split(x, 2, 3)
    c, s = cos[None, None, : x.shape[2]], sin[None, None, : x.shape[2]]
    return [np.concatenate([first * c - second * s, first * s + second * c], 3)]


def q_binary(function):
    def run(inputs):
        x, y = [floats(*inputs[i : i + 3]) for i in (0, 3)]
        return [steps(function(x, y), *inputs[6:8])]

    return run


def q_unary(function):
    return lambda inputs: [steps(function(floats(*inputs[:3])), *inputs[3:5])]


def one_conv(inputs):
    """A convolution with a kernel of 1, plus a bias and another image, without what is below 0."""
    x, w, bias, added = inputs
    found = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + bias[:, None, None] + added
    return [np.maximum(found, 0)]


POSITIONS = np.arange(3, dtype=np.int64)[None]
CASES = {
    "DynamicQuantizeMatMul": (
        [A, B8, S5, bytes_(5, kind=np.int8), drawn(5)],
        [FLOAT],
        {},
        lambda i: [dynamic_product(*i[:4]) + i[4]],
    ),
    "MatMulIntegerToFloat": (
        [bytes_(3, 4), B8, number(0.02), S5, number(9, np.uint8), number(3, np.int8)],
        [FLOAT],
        {},
        lambda i: [((i[0] - 9.0) @ (i[1] - 3.0) * (0.02 * i[3])).astype(np.float32)],
    ),
    "DynamicQuantizeLSTM": (LSTM, [FLOAT] * 3, {"hidden_size": 5}, lstm),
    "QLinearAdd": ([X8, *QX, Y8, *QY, *QZ], [U8], {}, q_binary(np.add)),
    "QLinearMul": ([X8, *QX, Y8, *QY, *QZ], [U8], {}, q_binary(np.multiply)),
    "QLinearSigmoid": ([X8, *QX, number(1 / 256), number(0, np.uint8)], [U8], {}, q_unary(sigmoid)),
    "QLinearLeakyRelu": (
        [X8, *QX, *QZ],
        [U8],
        {"alpha": 0.2},
        q_unary(lambda x: np.where(x < 0, np.float32(0.2) * x, x)),
    ),
    "QLinearGlobalAveragePool": (
        [IMAGE, *QX, *QZ],
        [U8],
        {},
        q_unary(lambda x: x.mean((2, 3), keepdims=True)),
    ),
    "QLinearConcat": (
        [*QZ, X8, *QX, Y8, *QY],
        [U8],
        {"axis": 1},
        lambda i: [np.concatenate([steps(floats(*i[n : n + 3]), *i[:2]) for n in (2, 5)], 1)],
    ),
    "QGemm": (
        [bytes_(3, 4), *QX, B8, number(0.01), number(0, np.int8), None, *QZ],
        [U8],
        {},
        lambda i: [steps(floats(*i[:3]) @ floats(*i[3:6]), *i[7:9])],
    ),
    "FusedConv": (
        [drawn(1, 3, 4, 4), drawn(2, 3, 1, 1), drawn(2), drawn(1, 2, 4, 4)],
        [FLOAT],
        {"activation": "Relu"},
        one_conv,
    ),
    "FusedGemm": (
        [A, B, drawn(5)],
        [FLOAT],
        {"activation": "Tanh", "alpha": 0.5, "beta": 2.0},
        lambda i: [np.tanh(0.5 * i[0] @ i[1] + 2 * i[2])],
    ),
    "EmbedLayerNormalization": (
        [WORDS, SEGMENTS, *TABLES, drawn(8), drawn(8), np.array([[1, 1, 0]], np.int32)],
        [FLOAT, INT32],
        {},
        embedded,
    ),
    "Attention": (
        [drawn(1, 3, 8), drawn(8, 24), drawn(24)],
        [FLOAT],
        {"num_heads": 2},
        self_attention,
    ),
    "RotaryEmbedding": (
        [drawn(1, 2, 3, 4), POSITIONS, drawn(6, 2), drawn(6, 2)],
        [FLOAT],
        {},
        turned,
    ),
}

STEPS = {x for x in CASES if x.startswith("Q")}
"""Results that are rounded to whole steps: one may lie a step beside where two ways round apart."""


def close(name, found, wanted):
    if name not in STEPS:
        check(found, wanted, atol=1e-4)
        return
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        assert np.abs(x.astype(int) - y.astype(int)).max() <= 1


@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_what_its_definition_says(name):
    inputs, outputs, attributes, definition = CASES[name]
    model, feeds = one_node(name, inputs, outputs, "com.microsoft", **attributes)
    close(name, ours(model, feeds), definition(inputs))


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_what_onnx_runtime_does(name):
    inputs, outputs, attributes, _ = CASES[name]
    model, feeds = one_node(name, inputs, outputs, "com.microsoft", **attributes)
    close(name, ours(model, feeds), runtime(model, feeds))
