"""Ops of com.microsoft beside what their definitions say, in NumPy."""

import math

import numpy as np
import pytest
from tests.onnx.models import FLOAT, helper, model, tensor

from lowtide.onnx import InferenceSession

RANDOM = np.random.default_rng(7)
KINDS = {np.dtype(np.float32): FLOAT, np.dtype(np.uint8): 2, np.dtype(np.int32): 6}


def drawn(*sizes):
    return RANDOM.normal(size=sizes).astype(np.float32)


def run(op, inputs, outputs=1, **attributes):
    """The outputs of one node; an input None is left out."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs, strict=True) if n}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
    types = [tensor(n, KINDS[x.dtype], x.shape) for n, x in given.items()]
    proto = model([node], types, [helper.make_empty_tensor_value_info(n) for n in results])
    return InferenceSession(proto, effort="fast", cache=False, threads=1).run(None, given)


def close(found, wanted):
    """Check that numbers are near; what is left of terms that cancel is as wrong as these."""
    largest = np.max(np.abs(wanted), initial=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 + 1e-6 * largest)


def gelu(x):
    return np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.ravel()]).reshape(
        x.shape
    )


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_gelu_and_its_forms():
    x, bias = drawn(2, 8), drawn(8)
    close(run("Gelu", [x])[0], gelu(x))
    close(run("BiasGelu", [x, bias])[0], gelu(x + bias))
    close(run("QuickGelu", [x])[0], x / (1 + np.exp(-1.702 * x)))
    y = x + bias
    close(
        run("FastGelu", [x, bias])[0],
        0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
    )


def test_fused_matmul():
    x, y = drawn(2, 5, 3), drawn(2, 4, 5)
    found = run("FusedMatMul", [x, y], transA=1, transB=1, alpha=0.5)[0]
    close(found, 0.5 * x.transpose(0, 2, 1) @ y.transpose(0, 2, 1))


def test_skip_layer_normalization():
    x, skip, scale, offset, bias = drawn(2, 3, 8), drawn(2, 3, 8), drawn(8), drawn(8), drawn(8)
    y, _, _, total = run("SkipLayerNormalization", [x, skip, scale, offset, bias], 4, epsilon=1e-5)
    wanted = x + skip + bias
    close(total, wanted)
    deviation = np.sqrt(wanted.var(-1, keepdims=True) + 1e-5)
    close(y, (wanted - wanted.mean(-1, keepdims=True)) / deviation * scale + offset)


def test_skip_simplified_layer_normalization():
    x, skip, scale = drawn(2, 3, 8), drawn(2, 3, 8), drawn(8)
    y = run("SkipSimplifiedLayerNormalization", [x, skip, scale], epsilon=1e-5)[0]
    total = x + skip
    close(y, total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * scale)


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def flat(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def test_multi_head_attention_with_bias_and_lengths():
    q, k, v, bias = drawn(2, 3, 8), drawn(2, 4, 8), drawn(2, 4, 8), drawn(24)
    lengths = np.array([4, 2], np.int32)
    y = run("MultiHeadAttention", [q, k, v, bias, lengths], num_heads=2)[0]
    q, k, v = [heads(x + b, 2) for x, b in zip((q, k, v), np.split(bias, 3), strict=True)]
    scores = q @ k.transpose(0, 1, 3, 2) / 2
    scores[1, :, :, 2:] = -np.inf
    close(y, flat(softmax(scores) @ v))


def grouped(q, k, v, cache, lasts, size, cos, sin):
    """Attention of each entry of the batch by itself, step by step."""
    found = np.zeros((*q.shape[:3], size), np.float32)
    keys, values = cache[0].copy(), cache[1].copy()
    for n, last in enumerate(lasts):
        length = q.shape[2]
        start = last + 1 - length
        turned = []
        for x in (q[n], k[n]):
            c, s = cos[start : start + length], sin[start : start + length]
            first, second = np.split(x, 2, -1)
            turned.append(np.concatenate([first * c - second * s, first * s + second * c], -1))
        keys[n, :, start : last + 1] = turned[1]
        values[n, :, start : last + 1] = v[n]
        for head in range(q.shape[1]):
            own = head * k.shape[1] // q.shape[1]
            for i in range(length):
                scores = keys[n, own, : start + i + 1] @ turned[0][head, i] / math.sqrt(size)
                found[n, head, i] = softmax(scores) @ values[n, own, : start + i + 1]
    return flat(found), keys, values


def check_grouped(length, lasts):
    size, room = 4, 6
    q, k, v = drawn(2, length, 4 * size), drawn(2, length, 2 * size), drawn(2, length, 2 * size)
    cache = drawn(2, 2, room, size), drawn(2, 2, room, size)
    angles = drawn(room, size // 2)
    tables = np.cos(angles), np.sin(angles)
    numbers = np.array(lasts, np.int32), np.array(room, np.int32)
    inputs = [q, k, v, *cache, *numbers, *tables]
    found = run("GroupQueryAttention", inputs, 3, num_heads=4, kv_num_heads=2, do_rotary=1)
    q, k, v = heads(q, 4), heads(k, 2), heads(v, 2)
    for mine, wanted in zip(found, grouped(q, k, v, cache, lasts, size, *tables), strict=True):
        close(mine, wanted)


def test_group_query_attention_of_one_token():
    check_grouped(1, [3, 5])


def test_group_query_attention_of_several_tokens():
    check_grouped(3, [2, 4])


@pytest.mark.parametrize("rows", [(2,), (2, 3)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_with_packed_weights(bits, rows):
    """Columns of x are put in the order in which bytes have the numbers; 40 fill no block."""
    x, k, n, block, parts = drawn(*rows, 40), 40, 5, 16, 8 // bits
    count = -(-k // block)
    numbers = RANDOM.integers(0, 1 << bits, (n, count * block)).astype(np.uint8)
    each = [numbers[:, i::parts] << i * bits for i in range(parts)]
    packed = np.bitwise_or.reduce(each).reshape(n, count, block // parts)
    scales = drawn(n, count)
    wanted = (numbers.astype(np.float32) - (1 << bits - 1)) * np.repeat(scales, block, 1)
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    close(run("MatMulNBits", [x, packed, scales], **attributes)[0], x @ wanted[:, :k].T)
