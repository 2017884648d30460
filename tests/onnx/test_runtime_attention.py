"""Attention of com.microsoft in all its forms, beside ONNX Runtime and other ways to say it."""

import numpy as np
import pytest
from tests.onnx.beside import HAS_RUNTIME, check, one_node, ours, runtime

FLOAT, INT32 = 1, 6
RANDOM = np.random.default_rng(5)
N, LENGTH, HEADS, SIZE = 2, 3, 2, 4
WIDTH = HEADS * SIZE


def drawn(*sizes):
    return RANDOM.normal(size=sizes).astype(np.float32)


def bytes_(*sizes, kind=np.uint8):
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, sizes).astype(kind)


def number(value, kind=np.float32):
    return np.array(value, kind)


def masks(total):
    marks = RANDOM.integers(0, 2, (N, LENGTH, total)).astype(np.int32)
    marks[..., 0] = 1
    return {
        "none": None,
        "ends": number([total, total - 1], np.int32),
        "ends and starts": number([total, total, 1, 0], np.int32),
        "keys": marks[:, 0],
        "queries": marks,
    }


def packed_cases():
    for causal in (0, 1):
        for past in (0, 2):
            cache = drawn(2, N, HEADS, past, SIZE) if past else None
            outputs = [FLOAT, FLOAT] if past else [FLOAT]
            how = {"num_heads": HEADS, "unidirectional": causal}
            for name, mask in masks(LENGTH + past).items():
                label = f"{name}, causal {causal}, past {past}"
                bias = drawn(3 * WIDTH)
                plain = [drawn(N, LENGTH, 8), drawn(8, 3 * WIDTH), bias, mask, cache]
                yield f"Attention, {label}", ("Attention", plain, outputs, how)
                added = None if past else drawn(1, HEADS, LENGTH, LENGTH)
                yield f"Attention plus, {label}", ("Attention", [*plain, added], outputs, how)
                whole = [bytes_(N, LENGTH, 8), bytes_(8, 3 * WIDTH, kind=np.int8), bias]
                rest = [number(0.02), number(0.03), mask, number(120, np.uint8)]
                inputs = [*whole, *rest, number(3, np.int8), cache]
                yield f"QAttention, {label}", ("QAttention", inputs, outputs, how)


def of_three_cases():
    for causal in (0, 1):
        for past in (0, 2):
            caches = [drawn(N, HEADS, past, SIZE) if past else None for _ in range(2)]
            total = LENGTH + past
            for name, mask in masks(total).items():
                if name == "ends and starts":
                    continue
                for added in (None, drawn(1, HEADS, LENGTH, total)):
                    inputs = [*[drawn(N, LENGTH, WIDTH) for _ in range(3)], drawn(3 * WIDTH)]
                    label = f"{name}, causal {causal}, past {past}, added {added is not None}"
                    how = {"num_heads": HEADS, "unidirectional": causal}
                    inputs += [mask, added, *caches]
                    yield label, ("MultiHeadAttention", inputs, [FLOAT] * 4, how)


def grouped(length, lasts, total, room, **how):
    heads, kv_heads, size = 4, 2, 16
    n = len(lasts)
    inputs = [drawn(n, length, k * size) for k in (heads, kv_heads, kv_heads)]
    if how.pop("packed", False):
        inputs = [np.concatenate(inputs, 2), None, None]
    inputs += [None if room is None else drawn(n, kv_heads, room, size) for _ in range(2)]
    inputs += [number([x - 1 for x in lasts], np.int32), number(total, np.int32)]
    angles = how.get("do_rotary")
    inputs += [drawn(32, size // 2) if angles else None for _ in range(2)]
    inputs += [None, drawn(1, heads, length, total) if how.pop("added", False) else None]
    inputs += [drawn(heads) if how.pop("sink", False) else None]
    while inputs[-1] is None:
        inputs.pop()
    how |= {"num_heads": heads, "kv_num_heads": kv_heads}
    return "GroupQueryAttention", inputs, [FLOAT] * 3, how


GROUPED = {
    "no cache": (3, [3, 3], 3, None, {}),
    "empty cache": (3, [3, 3], 3, 0, {"do_rotary": 1}),
    "first": (3, [3, 3], 3, 8, {"do_rotary": 1}),
    "one token": (1, [4, 6], 6, 6, {"do_rotary": 1}),
    "pairs": (1, [4, 6], 6, 6, {"do_rotary": 1, "rotary_interleaved": 1}),
    "cache grows": (1, [6, 6], 6, 5, {}),
    "several tokens": (3, [6], 6, 8, {"do_rotary": 1}),
    "added": (2, [6], 6, 8, {"added": True}),
    "sink": (1, [3, 4], 4, 8, {"sink": True}),
    "smooth": (1, [3, 4], 4, 8, {"smooth_softmax": 1}),
    "cap": (3, [3, 3], 3, 8, {"softcap": 2.0}),
    "window": (1, [6, 7], 7, 8, {"local_window_size": 3}),
    "window of many": (5, [5, 5], 5, 8, {"local_window_size": 2}),
    "both ways": (3, [3, 3], 3, 8, {"causal": 0}),
    "scale": (1, [5, 5], 5, 8, {"scale": 0.7}),
}


def grouped_cases():
    for name, (*numbers, how) in GROUPED.items():
        for packed in (False, True):
            yield f"{name}, packed {packed}", grouped(*numbers, packed=packed, **how)


def rotary_cases():
    for rotary in (0, 4):
        for interleaved in (0, 1):
            half = (rotary or 8) // 2
            how = {"rotary_embedding_dim": rotary, "interleaved": interleaved, "num_heads": 4}
            for x in (drawn(2, 3, 32), drawn(2, 4, 3, 8)):
                for places in (number([2], np.int64), RANDOM.integers(0, 9, (2, 3))):
                    inputs = [x, places, drawn(12, half), drawn(12, half)]
                    label = f"rotary {rotary}, {interleaved}, {x.ndim}, {places.ndim}"
                    yield label, ("RotaryEmbedding", inputs, [FLOAT], how)


CASES = dict([*packed_cases(), *of_three_cases(), *grouped_cases(), *rotary_cases()])


def without_rest(case, results):
    """Results of which the places of a cache behind the last token, which are free, are 0."""
    op, inputs, *_ = case
    if op != "GroupQueryAttention" or inputs[3] is None:
        return results
    found = [x.copy() for x in results]
    for cache in found[1:3]:
        for entry, last in zip(cache, inputs[5], strict=True):
            entry[:, last + 1 :] = 0
    return found


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("name", CASES)
def test_attention_gives_what_onnx_runtime_does(name):
    op, inputs, outputs, how = CASES[name]
    model, feeds = one_node(op, inputs, outputs, "com.microsoft", **how)
    results = [without_rest(CASES[name], run(model, feeds)) for run in (ours, runtime)]
    check(*results)


@pytest.mark.skipif(not HAS_RUNTIME, reason="takes the package onnxruntime")
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("name", ["first", "one token", "several tokens", "cap", "window", "added"])
def test_scores_are_shown_before_or_after_softmax(name, kind):
    *numbers, how = GROUPED[name]
    op, inputs, outputs, attributes = grouped(*numbers, packed=False, **how)
    attributes |= {"qk_output": kind}
    model, feeds = one_node(op, inputs, [*outputs, FLOAT], "com.microsoft", **attributes)
    check(ours(model, feeds)[3:], runtime(model, feeds)[3:])


def attended(inputs, **how):
    model, feeds = one_node("MultiHeadAttention", inputs, [FLOAT], "com.microsoft", **how)
    return ours(model, feeds)


def test_packed_inputs_are_three_inputs():
    q, k, v = [drawn(N, LENGTH, HEADS, SIZE) for _ in range(3)]
    flat = [x.reshape(N, LENGTH, WIDTH) for x in (q, k, v)]
    wanted = attended(flat, num_heads=HEADS)
    check(attended([np.stack([q, k, v], 3)], num_heads=HEADS), wanted)
    check(attended([flat[0], np.stack([k, v], 3)], num_heads=HEADS), wanted)


def test_a_square_mask_is_one_for_each_query():
    x, w, bias = drawn(N, LENGTH, 8), drawn(8, 3 * WIDTH), drawn(3 * WIDTH)
    marks = RANDOM.integers(0, 2, (N, 1, 6, 6)).astype(np.int32)
    marks[..., 0] = 1
    found = []
    for mask in (marks, marks[:, 0, :LENGTH, :LENGTH]):
        inputs = [x, w, bias, mask]
        model, feeds = one_node("Attention", inputs, [FLOAT], "com.microsoft", num_heads=HEADS)
        found.append(ours(model, feeds))
    check(*found)


def test_keys_and_queries_are_normalized():
    op, inputs, outputs, how = grouped(3, [3, 3], 3, 8)
    sizes = [(len(x), 3, -1, 16) for x in inputs[:2]]
    weights = [drawn(16), drawn(16)]
    wanted = list(inputs)
    for i, (x, w) in enumerate(zip(inputs[:2], weights, strict=True)):
        y = x.reshape(sizes[i])
        y = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6) * w
        wanted[i] = y.reshape(x.shape).astype(np.float32)
    found = []
    for given in ([*inputs, *[None] * 7, *weights], wanted):
        model, feeds = one_node(op, given, outputs, "com.microsoft", **how)
        found.append(ours(model, feeds))
    check(*found)
