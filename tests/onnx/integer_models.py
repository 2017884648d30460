"""Small models with products of integers, as quantizers write them, and what is fed to them."""

from functools import partial

import numpy as np
from tests.onnx.models import FLOAT, helper, model, tensor

INT8, UINT8, INT32 = 3, 2, 6
TYPES = {np.dtype(np.uint8): UINT8, np.dtype(np.int8): INT8}


def whole(rng, dtype, sizes):
    """Numbers of 8 bits: any."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, sizes).astype(dtype)


def dynamic(rows, inner, columns, *, by_column=False, dtype=np.int8):
    """A product of what is quantized while it runs; rows have one scale and zero point."""
    rng = np.random.default_rng(rows * 1000 + inner)
    weights = {"w": whole(rng, dtype, (inner, columns))}
    if by_column:
        weights["wz"] = whole(rng, dtype, columns)
    else:
        weights["wz"] = np.asarray(3, dtype)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["y"]),
    ]
    made = [tensor("y", INT32, [rows, columns]), tensor("q", UINT8, [rows, inner])]
    proto = model(nodes, [tensor("x", FLOAT, [rows, inner])], made, weights, 15)
    proto.ir_version = 8
    return proto, {"x": rng.normal(size=(rows, inner)).astype(np.float32)}


def recurrent(dtype, *, by_column=False):
    """A layer in both directions whose weights are quantized, and the values that it reads."""
    rng = np.random.default_rng(4)
    hidden, inner = 6, 9
    sizes = (2, 4 * hidden) if by_column else (2,)
    values = {"w": whole(rng, dtype, (2, inner, 4 * hidden))}
    values["r"] = whole(rng, dtype, (2, hidden, 4 * hidden))
    values["b"] = rng.normal(size=(2, 8 * hidden)).astype(np.float32)
    for name in ("w", "r"):
        values[f"{name}s"] = (0.002 + 0.01 * rng.random(sizes)).astype(np.float32)
        values[f"{name}z"] = whole(rng, dtype, sizes)
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft",
        hidden_size=hidden, direction="bidirectional",
    )  # fmt: skip
    x = rng.normal(size=(5, 3, inner)).astype(np.float32)
    made = [tensor("y", FLOAT, None)]
    proto = model([node], [tensor("x", FLOAT, x.shape)], made, values, 15)
    proto.ir_version = 8
    return proto, {"x": x}, values


def given(rows, inner, columns, types, zeros):
    """A product of integers that are fed with a matrix of weights."""
    rng = np.random.default_rng(rows * 100 + columns)
    x = whole(rng, types[0], (2, rows, inner))
    weights = {"w": whole(rng, types[1], (inner, columns))}
    names = ["x", "w"]
    for name, dtype, zero in zip(("xz", "wz"), types, zeros, strict=True):
        if zero is not None:
            weights[name] = np.asarray(zero, dtype)
        names.append("" if zero is None else name)
    nodes = [helper.make_node("MatMulInteger", names, ["y"])]
    made = [tensor("y", INT32, [2, rows, columns])]
    proto = model(nodes, [tensor("x", TYPES[x.dtype], x.shape)], made, weights, 15)
    proto.ir_version = 8
    return proto, {"x": x}


def linear(rows, inner, columns, types):
    """A quantized product whose result is quantized."""
    rng = np.random.default_rng(inner)
    x = whole(rng, types[0], (rows, inner))
    weights = {
        "xs": np.float32(0.011), "xz": np.asarray(7, types[0]),
        "w": whole(rng, types[1], (inner, columns)),
        "ws": np.float32(0.0037), "wz": np.asarray(0, types[1]),
        "ys": np.float32(0.23), "yz": np.asarray(11, types[0]),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    nodes = [helper.make_node("QLinearMatMul", names, ["y"])]
    made = [tensor("y", TYPES[x.dtype], [rows, columns])]
    proto = model(nodes, [tensor("x", TYPES[x.dtype], x.shape)], made, weights, 15)
    proto.ir_version = 8
    return proto, {"x": x}


def convolution(channels, outputs, *, groups=1, stride=1):
    """A convolution of integers with a zero point around the image."""
    rng = np.random.default_rng(channels * 10 + outputs)
    x = whole(rng, np.uint8, (1, channels, 9, 11))
    weights = {
        "w": whole(rng, np.int8, (outputs, channels // groups, 3, 3)),
        "xz": np.asarray(119, np.uint8),
    }
    window = {"pads": [1, 0, 1, 2], "strides": [stride, stride], "group": groups}
    nodes = [helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"], **window)]
    proto = model(nodes, [tensor("x", UINT8, x.shape)], [tensor("y", INT32, None)], weights, 15)
    proto.ir_version = 8
    return proto, {"x": x}


U8, S8 = np.uint8, np.int8
CASES = {
    **{f"dynamic, {m} rows": partial(dynamic, m, 200, 72) for m in (1, 2, 3, 5, 8, 33)},
    "dynamic by column": partial(dynamic, 4, 131, 40, by_column=True),
    "dynamic, unsigned": partial(dynamic, 7, 64, 33, dtype=U8),
    "long rows": partial(dynamic, 1, 3000, 17),
    **{
        f"given {x.__name__} {y.__name__} {zeros}": partial(given, 3, 96, 80, (x, y), zeros)
        for x, y in ((U8, S8), (U8, U8), (S8, S8))
        for zeros in ((None, None), (5, None), (100, 90))
    },
    "linear, few rows": partial(linear, 2, 160, 48, (U8, S8)),
    "linear, many rows": partial(linear, 40, 160, 48, (U8, U8)),
    "convolution": partial(convolution, 12, 20),
    "convolution by strides": partial(convolution, 3, 17, stride=2),
    "depthwise": partial(convolution, 24, 24, groups=24),
}
