"""Each op of ONNX's table against NumPy, through the evaluator."""

import math

import numpy as np
import pytest
from tests.frontend.graphs.cases import Case, Known, check, run_onnx
from tests.frontend.graphs.numpy_reference import (
    conv,
    conv_transpose,
    erf,
    normalize,
    pool,
    softmax,
)

import lowtide.frontend.onnx.kernels  # noqa: F401, has them in the table.
from lowtide.evaluator import evaluate
from lowtide.frontend.graphs.registry import op_names
from lowtide.frontend.onnx import OnnxNode, compile_nodes
from lowtide.ir import Opcode, array_shape
from lowtide.ir.literal import ELEMENT_TYPES

R = np.random.default_rng(11)
F = R.normal(size=(3, 4)).astype(np.float32)
G = R.normal(size=(3, 4)).astype(np.float32)
ROW = R.normal(size=4).astype(np.float32)
P = np.abs(F) + 0.5
U = np.clip(F / 3, -0.9, 0.9)
M = R.integers(-9, 9, (3, 4))
N = R.integers(1, 9, (3, 4))
BITS = N.astype(np.uint8)
B, C = F > 0, G > 0
X = np.array([1, np.inf, -np.inf, np.nan, 0], np.float32)
T = R.normal(size=(2, 3, 4)).astype(np.float32)
A24 = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = R.normal(size=(2, 4, 7, 6)).astype(np.float32)
KERNEL = R.normal(size=(6, 4, 3, 2)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def on_channels(x):
    return x[:, None, None]


UNARY = [
    ("Abs", F, np.abs(F)),
    ("Acos", U, np.arccos(U)),
    ("Acosh", P + 1, np.arccosh(P + 1)),
    ("Asin", U, np.arcsin(U)),
    ("Asinh", F, np.arcsinh(F)),
    ("Atan", F, np.arctan(F)),
    ("Atanh", U, np.arctanh(U)),
    ("BitwiseNot", M, ~M),
    ("Ceil", F, np.ceil(F)),
    ("Cos", F, np.cos(F)),
    ("Cosh", F, np.cosh(F)),
    ("Erf", F, erf(F)),
    ("Exp", F, np.exp(F)),
    ("Floor", F, np.floor(F)),
    ("HardSwish", F * 5, F * 5 * np.clip(F * 5 / 6 + 0.5, 0, 1)),
    ("Identity", F, F),
    ("IsNaN", X, np.isnan(X)),
    ("Log", P, np.log(P)),
    ("Mish", F, F * np.tanh(np.log1p(np.exp(F)))),
    ("Neg", F, -F),
    ("Not", B, ~B),
    ("Reciprocal", P, 1 / P),
    ("Relu", F, np.maximum(F, 0)),
    ("Round", np.float32([0.5, 1.5, -2.5]), np.float32([0, 2, -2])),
    ("Sigmoid", F, sigmoid(F)),
    ("Sign", M, np.sign(M)),
    ("Sin", F, np.sin(F)),
    ("Sinh", F, np.sinh(F)),
    ("Softplus", F, np.log1p(np.exp(F))),
    ("Softsign", F, F / (1 + np.abs(F))),
    ("Sqrt", P, np.sqrt(P)),
    ("Tan", F, np.tan(F)),
    ("Tanh", F, np.tanh(F)),
]

BINARY = [
    ("Add", F, ROW, F + ROW),
    ("And", B, C, B & C),
    ("BitwiseAnd", M, N, M & N),
    ("BitwiseOr", M, N, M | N),
    ("BitwiseXor", M, N, M ^ N),
    ("Div", M, -N, np.trunc(M / -N).astype(np.int64)),
    ("Div", F, P, F / P),
    ("Equal", M, N, M == N),
    ("Greater", F, G[:1], G[:1] < F),
    ("GreaterOrEqual", M, N, M >= N),
    ("Less", F, G, F < G),
    ("LessOrEqual", M, N, M <= N),
    ("Mul", F, ROW, F * ROW),
    ("Or", B, C, B | C),
    ("Pow", P, N, P ** N.astype(np.float32)),
    ("Pow", F, Known(np.float32(3)), F**3),
    ("Pow", F, Known(np.float32([3])), F**3),
    ("Pow", F, Known(np.float32([3, 3, 3, 2])), F ** np.float32([3, 3, 3, 2])),
    ("Pow", X, Known(np.int64(3)), X**3),
    ("Sub", ROW, F, ROW - F),
    ("Xor", B, C, B ^ C),
]

GELU = 0.5 * F * (1 + np.tanh(math.sqrt(2 / math.pi) * (F + 0.044715 * F**3)))
SELU = 1.05070098 * np.where(F > 0, F, 1.67326324 * np.expm1(F))
ELEMENTS = [
    Case("BitShift", [BITS, BITS % 3], BITS << (BITS % 3), {"direction": "LEFT"}),
    Case("BitShift", [BITS, BITS % 3], BITS >> (BITS % 3), {"direction": "RIGHT"}),
    Case("Cast", [F * 9], (F * 9).astype(np.int64), {"to": 7}),
    Case("CastLike", [F * 9, BITS.astype(np.float64)], (F * 9).astype(np.float64)),
    Case("Celu", [F], np.maximum(F, 0) + np.minimum(2 * np.expm1(F / 2), 0), {"alpha": 2.0}),
    Case("Clip", [F, np.float32(-0.5)], np.maximum(F, np.float32(-0.5))),
    Case("Clip", [F, None, np.float32(0.5)], np.minimum(F, np.float32(0.5))),
    Case("Clip", [F], np.clip(F, -1, 1), {"min": -1.0, "max": 1.0}),
    Case("Dropout", [F, Known(np.float32(0.3)), Known(False)], [F, np.ones_like(B)]),
    Case("Elu", [F], np.where(F > 0, F, 2 * np.expm1(F)), {"alpha": 2.0}),
    Case("Gelu", [F], 0.5 * F * (1 + erf(F / np.float32(math.sqrt(2))))),
    Case("Gelu", [F], GELU, {"approximate": "tanh"}),
    Case("HardSigmoid", [F * 5], np.clip(F * 5 * 0.2 + 0.5, 0, 1)),
    Case("IsInf", [X], np.inf == X, {"detect_negative": 0}),
    Case("IsInf", [X], np.isinf(X)),
    Case("IsInf", [X], np.zeros(5, bool), {"detect_negative": 0, "detect_positive": 0}),
    Case("LeakyRelu", [F], np.where(F > 0, F, 0.01 * F)),
    Case("Max", [F, ROW, np.float32(0)], np.maximum(np.maximum(F, ROW), 0)),
    Case("Mean", [F, ROW], (F + ROW) / 2),
    Case("Min", [M, N], np.minimum(M, N)),
    Case("Mod", [M, -N], M % -N),
    Case("Mod", [F, P], np.fmod(F, P), {"fmod": 1}),
    Case("PRelu", [F, ROW], np.where(F < 0, F * ROW, F)),
    Case("Selu", [F], SELU),
    Case("Sum", [F, G, ROW], F + G + ROW),
    Case("ThresholdedRelu", [F], np.where(F > 0.5, F, 0), {"alpha": 0.5}),
    Case("Where", [B, F, np.float32(1)], np.where(B, F, np.float32(1))),
]

PADS = [1, 0, 2, 3]
BLOCKS = A24.reshape(1, 1, 6, 4)
DEEP = A24.reshape(1, 8, 1, 3)
ARRAYS = [
    Case("Constant", [], F, {"value": F}),
    Case("Constant", [], np.int64([3, 4]), {"value_ints": [3, 4]}),
    Case("Constant", [], np.float32(2.5), {"value_float": 2.5}),
    Case("ConstantOfShape", [Known([2, 3])], np.zeros((2, 3), np.float32)),
    Case("ConstantOfShape", [Known([2])], np.int64([5, 5]), {"value": np.array([5])}),
    Case("Reshape", [T, Known([0, -1])], T.reshape(2, -1)),
    Case("Flatten", [T], T.reshape(6, 4), {"axis": -1}),
    Case("Flatten", [T], T.reshape(1, 24), {"axis": 0}),
    Case("Transpose", [T], T.T),
    Case("Transpose", [T], T.transpose(1, 0, 2), {"perm": [1, 0, 2]}),
    Case("Unsqueeze", [F, Known([-1, 0])], F[None, :, :, None]),
    Case("Squeeze", [F[None, :, None], Known([0])], F[:, None]),
    Case("Squeeze", [F[None, :, None]], F),
    Case("Concat", [F, G], np.concatenate([F, G], 1), {"axis": -1}),
    Case("Split", [F, Known([1, 3])], [F[:, :1], F[:, 1:]], {"axis": 1}),
    Case("Split", [F], [F[:2], F[2:]], {"num_outputs": 2}),
    Case(
        "Slice",
        [A24, Known([-1, 2**62]), Known([1, -(2**62)]), Known([1, 2]), Known([1, -2])],
        A24[:, -1:1, ::-2],
    ),
    Case("Slice", [A24, Known([1]), Known([3]), Known([-1])], A24[..., 1:3]),
    Case("Slice", [F], F[1:, :2], {"starts": [1, 0], "ends": [9, -2]}),
    Case("Pad", [F, Known(PADS)], np.pad(F, [(1, 2), (0, 3)])),
    Case("Pad", [F, Known([0, 0, -1, 2])], np.pad(F, [(0, 0), (0, 2)])[:2]),
    Case(
        "Pad",
        [F, Known([1, 2]), np.float32(7), Known([1])],
        np.pad(F, [(0, 0), (1, 2)], constant_values=7),
    ),
    Case("Pad", [F, Known(PADS)], np.pad(F, [(1, 2), (0, 3)], "reflect"), {"mode": "reflect"}),
    Case("Pad", [F, Known(PADS)], np.pad(F, [(1, 2), (0, 3)], "edge"), {"mode": "edge"}),
    Case("Expand", [F[:, :1], Known([2, 1, 4])], np.broadcast_to(F[:, :1], (2, 3, 4))),
    Case("Tile", [F, Known([2, 3])], np.tile(F, (2, 3))),
    Case("Shape", [T], np.int64([2, 3, 4])),
    Case("Shape", [T], np.int64([3]), {"start": 1, "end": -1}),
    Case("Size", [T], np.int64(24)),
    Case("Range", [Known(1.0), Known(2.0), Known(0.25)], np.arange(1, 2, 0.25)),
    Case("EyeLike", [F], np.eye(3, 4, 1, np.int64), {"k": 1, "dtype": 7}),
    Case("Trilu", [T, Known(1)], np.triu(T, 1)),
    Case("Trilu", [M], np.tril(M), {"upper": 0}),
    Case(
        "SpaceToDepth",
        [BLOCKS],
        BLOCKS.reshape(1, 1, 3, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 4, 3, 2),
        {"blocksize": 2},
    ),
    Case(
        "DepthToSpace",
        [DEEP],
        DEEP.reshape(1, 2, 2, 2, 1, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 2, 6),
        {"blocksize": 2},
    ),
    Case(
        "DepthToSpace",
        [DEEP],
        DEEP.reshape(1, 2, 2, 2, 1, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 2, 6),
        {"blocksize": 2, "mode": "CRD"},
    ),
]

INDEX = np.array([[2, 0], [-1, 1]])
PLACES = np.array([[0, -1], [1, 0]])
ALONG = np.array([[2, 0, -1, 1], [0, 0, 1, 1]])
STORED, ADDED, ROWS = F.copy(), F.copy(), F.copy()
np.put_along_axis(STORED, ALONG, G[:2], 0)
np.add.at(ADDED, (ALONG, np.arange(4)[None]), G[:2])
ROWS[[2, 0]] = G[:2]
SMALLEST = np.minimum(F, np.where(np.arange(3)[:, None] == 1, G, np.inf)).astype(np.float32)
UP = np.float32([[1, 2], [3, 4]]).reshape(1, 1, 2, 2)
INDEXING = [
    Case("Gather", [T, INDEX], np.take(T, INDEX, 1), {"axis": 1}),
    Case("Gather", [F, np.int32(-1)], F[-1]),
    Case("GatherElements", [F, ALONG], np.take_along_axis(F, ALONG, 0)),
    Case("GatherND", [T, PLACES], T[PLACES[:, 0], PLACES[:, 1]]),
    Case("GatherND", [T, PLACES[:, :1]], T[[0, 1], PLACES[:, 0]], {"batch_dims": 1}),
    Case("ScatterND", [F, np.array([[-1], [0]]), G[:2]], ROWS),
    Case("ScatterND", [F, np.array([[1]]), G[1:2]], SMALLEST, {"reduction": "min"}),
    Case("ScatterElements", [F, ALONG, G[:2]], STORED),
    Case("ScatterElements", [F, ALONG, G[:2]], ADDED, {"reduction": "add", "axis": 0}),
    Case(
        "OneHot",
        [np.array([1, -1, 7]), Known(3), np.float32([-1, 2])],
        np.float32([[-1, 2, -1], [-1, -1, 2], [-1, -1, -1]]),
    ),
    Case(
        "Resize",
        [UP, None, Known(np.float32([1, 1, 2, 3]))],
        np.kron(UP, np.ones((2, 3), np.float32)),
    ),
    Case(
        "Resize",
        [UP, None, None, Known([1, 1, 3, 3])],
        np.float32([[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]).reshape(1, 1, 3, 3),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    Case(
        "Resize",
        [UP[:, :, :1], None, None, Known([1, 1, 1, 4])],
        np.float32([1, 1.25, 1.75, 2]).reshape(1, 1, 1, 4),
        {"mode": "linear"},
    ),
    Case("Upsample", [UP, Known(np.float32([1, 1, 1, 2]))], UP.repeat(2, 3)),
]

TIES = np.float32([[1, 3, 3, 0], [2, 2, 2, 2], [0, np.nan, 9, 9]])


def reduction(op, expected, axes=(1,), **attributes):
    return Case(op, [P, Known(np.array(axes, np.int64))], expected, attributes)


REDUCTIONS = [
    reduction("ReduceSum", P.sum(1, keepdims=True)),
    reduction("ReduceSum", P, (), noop_with_empty_axes=1),
    Case("ReduceSum", [T], T.sum(), {"keepdims": 0}),
    Case("ReduceSum", [T], T.sum((0, 2)), {"keepdims": 0, "axes": [0, -1]}),
    reduction("ReduceProd", P.prod(1), keepdims=0),
    reduction("ReduceMax", P.max(1, keepdims=True)),
    reduction("ReduceMin", P.min(0), (-2,), keepdims=0),
    reduction("ReduceMean", P.mean((0, 1), keepdims=True), (0, 1)),
    reduction("ReduceL1", np.abs(P).sum(1, keepdims=True)),
    reduction("ReduceL2", np.sqrt((P * P).sum(1, keepdims=True))),
    reduction("ReduceLogSum", np.log(P.sum(1, keepdims=True))),
    Case("ReduceLogSumExp", [P + 200], np.log(np.exp(P).sum()) + 200, {"keepdims": 0}),
    reduction("ReduceSumSquare", (P * P).sum(1, keepdims=True)),
    Case("ArgMax", [TIES], np.argmax(TIES, 1), {"axis": 1, "keepdims": 0}),
    Case("ArgMax", [TIES[:2]], np.array([[2], [3]]), {"axis": -1, "select_last_index": 1}),
    Case("ArgMin", [M], np.argmin(M, 0)[None]),
    Case(
        "TopK",
        [M, Known([2])],
        [np.sort(M, 0)[:2], np.argsort(M, 0, kind="stable")[:2]],
        {"axis": 0, "largest": 0},
    ),
    Case("TopK", [F, Known([3])], [-np.sort(-F)[:, :3], np.argsort(-F)[:, :3]]),
    Case("CumSum", [T, Known(1)], np.cumsum(T, 1)),
    Case("CumSum", [M, Known(1)], np.cumsum(M, 1) - M, {"exclusive": 1}),
    Case("CumSum", [M, Known(0)], np.cumsum(M[::-1], 0)[::-1], {"reverse": 1}),
    Case("Softmax", [T], softmax(T, 1), {"axis": 1}),
    Case("LogSoftmax", [T], np.log(softmax(T))),
]

FORWARD = conv(IMAGE, KERNEL, (2, 1), ((1, 1), (0, 1)))
WEIGHTS = R.normal(size=(4, 3, 3, 2)).astype(np.float32)
SPREAD = conv_transpose(IMAGE, WEIGHTS, (2, 1), ((0, 0), (0, 0)), (15, 7))
GROUPED = conv_transpose(IMAGE, WEIGHTS, (2, 2), ((1, 1), (0, 0)), (14, 12), groups=2)
MOMENTS = [IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))]
SCALE, SHIFT = P.ravel()[:4], F.ravel()[:4]
NORMED = normalize(IMAGE, (0, 2, 3), 1e-5) * on_channels(SCALE) + on_channels(SHIFT)
LAYER = normalize(T, (1, 2), 1e-5)
GROUPS = normalize(IMAGE.reshape(2, 2, -1), (2,), 1e-5).reshape(IMAGE.shape)
INSTANCES = normalize(IMAGE, (2, 3), 1e-5)
LINE = IMAGE[:, :, :, 0]
NETWORKS = [
    Case("MatMul", [T, ROW], T @ ROW),
    Case("MatMul", [ROW, T.transpose(0, 2, 1)], ROW @ T.transpose(0, 2, 1)),
    Case("MatMul", [ROW, ROW], np.float32(ROW @ ROW)),
    Case(
        "Gemm",
        [F, G, ROW[:3]],
        0.5 * F @ G.T + 2 * ROW[:3],
        {"alpha": 0.5, "beta": 2.0, "transB": 1},
    ),
    Case("Gemm", [F, G], F.T @ G, {"transA": 1}),
    Case("Einsum", [T, G], np.einsum("...ij,kj->k...i", T, G), {"equation": "...ij,kj->k...i"}),
    Case("Conv", [IMAGE, KERNEL], FORWARD, {"strides": [2, 1], "pads": [1, 0, 1, 1]}, 1e-4),
    Case(
        "Conv",
        [IMAGE, KERNEL, SCALE.repeat(2)[:6]],
        conv(IMAGE, KERNEL, (2, 1), ((1, 1), (1, 0))) + on_channels(SCALE.repeat(2)[:6]),
        {"strides": [2, 1], "auto_pad": "SAME_LOWER"},
        1e-4,
    ),
    Case(
        "Conv",
        [IMAGE, KERNEL[:, :2]],
        conv(IMAGE, KERNEL[:, :2], (1, 1), ((0, 0), (0, 0)), (2, 3), 2),
        {"dilations": [2, 3], "group": 2},
        1e-4,
    ),
    Case(
        "Conv",
        [LINE, KERNEL[..., 0]],
        conv(LINE[..., None], KERNEL[..., :1], (1, 1), ((0, 0), (0, 0)))[..., 0],
        {},
        1e-4,
    ),
    Case("ConvTranspose", [IMAGE, WEIGHTS], SPREAD, {"strides": [2, 1]}, 1e-4),
    Case(
        "ConvTranspose",
        [IMAGE, WEIGHTS, SCALE[:3]],
        SPREAD[:, :, 1:15] + on_channels(SCALE[:3]),
        {"strides": [2, 1], "output_shape": [14, 7]},
        1e-4,
    ),
    Case(
        "ConvTranspose",
        [IMAGE, WEIGHTS],
        GROUPED,
        {"strides": [2, 2], "pads": [1, 0, 1, 0], "output_padding": [1, 0], "group": 2},
        1e-4,
    ),
    Case("GlobalLpPool", [IMAGE], np.sqrt((IMAGE**2).sum((2, 3), keepdims=True)), {}, 1e-4),
    Case(
        "MaxPool",
        [IMAGE],
        pool(IMAGE, (3, 2), (2, 2), ((1, 1), (0, 0)), np.max, -np.inf),
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]},
    ),
    Case(
        "AveragePool",
        [IMAGE],
        pool(IMAGE, (3, 2), (1, 1), ((1, 1), (0, 1)), np.nanmean, np.nan),
        {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"},
    ),
    Case(
        "AveragePool",
        [IMAGE],
        pool(IMAGE, (3, 2), (1, 1), ((1, 1), (0, 0)), np.mean, 0),
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0], "count_include_pad": 1},
    ),
    Case("GlobalAveragePool", [IMAGE], IMAGE.mean((2, 3), keepdims=True)),
    Case("GlobalMaxPool", [IMAGE], IMAGE.max((2, 3), keepdims=True)),
    Case("BatchNormalization", [IMAGE, SCALE, SHIFT, *MOMENTS], NORMED, {}, 1e-4),
    Case(
        "BatchNormalization",
        [IMAGE, SCALE, SHIFT, SCALE, SHIFT],
        [NORMED, 0.8 * SCALE + 0.2 * MOMENTS[0], 0.8 * SHIFT + 0.2 * MOMENTS[1]],
        {"training_mode": 1, "momentum": 0.8},
        1e-4,
    ),
    Case(
        "LayerNormalization",
        [T, ROW, ROW],
        [
            normalize(T, (2,), 1e-5) * ROW + ROW,
            T.mean(2, keepdims=True),
            1 / np.sqrt(T.var(2, keepdims=True) + 1e-5),
        ],
        {},
        1e-4,
    ),
    Case("LayerNormalization", [T, F], LAYER * F, {"axis": 1}, 1e-4),
    Case(
        "InstanceNormalization",
        [IMAGE, SCALE, SHIFT],
        INSTANCES * on_channels(SCALE) + on_channels(SHIFT),
        {},
        1e-4,
    ),
    Case(
        "GroupNormalization",
        [IMAGE, SCALE, SHIFT],
        GROUPS * on_channels(SCALE) + on_channels(SHIFT),
        {"num_groups": 2},
        1e-4,
    ),
    Case("LpNormalization", [F], F / np.abs(F).sum(0), {"axis": 0, "p": 1}),
    Case("LpNormalization", [F], F / np.sqrt((F * F).sum(1, keepdims=True))),
]

CASES = [
    *[Case(op, [x], y) for op, x, y in UNARY],
    *[Case(op, [x, y], z) for op, x, y, z in BINARY],
    *ELEMENTS,
    *ARRAYS,
    *INDEXING,
    *REDUCTIONS,
    *NETWORKS,
]

ELSEWHERE = {"If", "Loop"}
"""Ops that `test_graphs.py` tests."""

IN_SUITE = {
    "Attention",
    "BitCast",
    "CausalConvWithState",
    "Col2Im",
    "ConvInteger",
    "CumProd",
    "DFT",
    "DeformConv",
    "DequantizeLinear",
    "GRU",
    "GridSample",
    "Hardmax",
    "LRN",
    "LSTM",
    "LinearAttention",
    "LpPool",
    "MatMulInteger",
    "MaxUnpool",
    "MelWeightMatrix",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RNN",
    "ReverseSequence",
    "STFT",
    "Scan",
    "Scatter",
    "Shrink",
    "Swish",
    "TensorScatter",
    "ai.onnx.ml.ArrayFeatureExtractor",
    "ai.onnx.ml.Binarizer",
    "ai.onnx.preview.training.Adagrad",
    "ai.onnx.preview.training.Adam",
    "ai.onnx.preview.training.Momentum",
}
"""Ops that the slice of ONNX's own suite tests, in tests/onnx."""

RETIRED = {
    "Affine",
    "Crop",
    "DynamicSlice",
    "ImageScaler",
    "MaxRoiPool",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
    "SimplifiedLayerNormalization",
}
"""Ops that tests/onnx/test_runtime_ops.py tests."""

OF_DOMAINS = {
    x for x in op_names("onnx") if x.startswith(("com.microsoft.", "ai.onnx.ml.", "lowtide."))
}
"""Ops that tests/onnx tests."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_gives_what_numpy_does(case):
    check(case, run_onnx(case))


def test_each_op_has_a_case():
    tested = {case.op for case in CASES} | ELSEWHERE | IN_SUITE | OF_DOMAINS | RETIRED
    assert tested == set(op_names("onnx"))


@pytest.mark.parametrize(("exponent", "type_", "has_power"), [
    (3, np.float32, False), (3, np.float64, False), (3, np.float16, True), (2.5, np.float32, True),
])  # fmt: skip
def test_a_third_power_is_two_products(exponent, type_, has_power):
    """Of f32 and f64: a power in general takes ten times as long."""
    x = np.linspace(-3, 3, 7).astype(type_)
    nodes = [OnnxNode("Pow", ["x", "e"], ["y"])]
    given = {"x": array_shape(ELEMENT_TYPES[x.dtype], x.shape), "e": np.asarray(exponent, type_)}
    program = compile_nodes(nodes, given, ["y"])
    opcodes = {i.opcode for i in program.module.entry.instructions.values()}
    assert (Opcode.POWER in opcodes) == has_power
    (found,) = evaluate(program.module, [x])
    if not has_power:
        np.testing.assert_array_equal(found, x * x * x)
