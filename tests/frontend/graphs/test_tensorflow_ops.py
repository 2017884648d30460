"""Each op of TensorFlow's table against NumPy, through the evaluator."""

import colorsys

import ml_dtypes
import numpy as np
import pytest
from tests.frontend.graphs.cases import Case, Known, check, run_tensorflow
from tests.frontend.graphs.numpy_reference import (
    conv,
    conv_transpose,
    erf,
    nhwc,
    normalize,
    pool,
    softmax,
)
from tests.frontend.tensorflow.test_recorded import ops_recorded

from lowtide.frontend.graphs.graph import GraphError
from lowtide.frontend.graphs.registry import op_names
from lowtide.frontend.tensorflow.graph_def import OUTPUT_NAMES, value_name
from lowtide.frontend.tensorflow.random import counted

R = np.random.default_rng(7)
F = R.normal(size=(3, 4)).astype(np.float32)
G = R.normal(size=(3, 4)).astype(np.float32)
ROW = R.normal(size=4).astype(np.float32)
P = np.abs(F) + 0.5
U = np.clip(F / 3, -0.9, 0.9)
I = R.integers(-9, 9, (3, 4)).astype(np.int32)  # noqa: E741
J = R.integers(1, 9, (3, 4)).astype(np.int32)
B, C = F > 0, G > 0
X = np.array([1, np.inf, -np.inf, np.nan, 0], np.float32)
T = R.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = R.normal(size=(2, 4, 7, 6)).astype(np.float32)
KERNEL = R.normal(size=(6, 4, 3, 2)).astype(np.float32)
HWIO = (2, 3, 1, 0)

SQUARE = R.normal(size=(2, 4, 4)).astype(np.float32)
SIDES = R.normal(size=(2, 4, 3)).astype(np.float32)
COLORS = R.uniform(size=(2, 3, 3)).astype(np.float32)
HUES = np.array([colorsys.rgb_to_hsv(*x) for x in COLORS.reshape(-1, 3)], np.float32)
HUES = HUES.reshape(COLORS.shape)


def turned(hue, saturation):
    """COLORS with another hue and saturation."""
    found = []
    for h, s, v in HUES.reshape(-1, 3).tolist():
        found.append(colorsys.hsv_to_rgb((h + hue) % 1, min(s * saturation, 1), v))
    return np.array(found, np.float32).reshape(COLORS.shape)


PHOTO = R.normal(size=(2, 5, 6, 3)).astype(np.float32)
BOXES = np.array([[0, 0, 0.7, 0.8], [0.2, 0.1, 1.2, 0.9], [0.9, 0.8, 0.1, 0.2]], np.float32)
NUMBERS = np.array([0, 1, 1], np.int32)
FULL = min(-8 / F.min(), 7 / F.max())
"""How many steps a unit has where four bits hold all of F."""


def cropped(sizes, rest):
    """PHOTO's parts in BOXES, sample by sample."""
    found = np.full((3, *sizes, 3), rest, np.float32)
    for place in np.ndindex(3, *sizes):
        box, image = BOXES[place[0]], PHOTO[NUMBERS[place[0]]]
        at = []
        for i, (m, n) in enumerate(zip(sizes, image.shape, strict=False)):
            first, last = box[i] * (n - 1), box[i + 2] * (n - 1)
            share = 0.5 if m == 1 else place[i + 1] / (m - 1)
            at.append(first + (last - first) * share)
        if not (0 <= at[0] <= image.shape[0] - 1 and 0 <= at[1] <= image.shape[1] - 1):
            continue
        (y, x), (v, u) = [int(p) for p in at], [p - int(p) for p in at]
        rows = [image[min(y + i, 4)] for i in range(2)]
        parts = [(1 - u) * r[x] + u * r[min(x + 1, 5)] for r in rows]
        found[place] = (1 - v) * parts[0] + v * parts[1]
    return found


UNARY = [
    ("Abs", F, np.abs(F)),
    ("Acos", U, np.arccos(U)),
    ("Acosh", P + 1, np.arccosh(P + 1)),
    ("Asin", U, np.arcsin(U)),
    ("Asinh", F, np.arcsinh(F)),
    ("Atan", F, np.arctan(F)),
    ("Atanh", U, np.arctanh(U)),
    ("Ceil", F, np.ceil(F)),
    ("Cos", F, np.cos(F)),
    ("Cosh", F, np.cosh(F)),
    ("Elu", F, np.where(F > 0, F, np.expm1(F))),
    ("Erf", F, erf(F)),
    ("Erfc", F, 1 - erf(F)),
    ("Exp", F, np.exp(F)),
    ("Expm1", F, np.expm1(F)),
    ("Floor", F, np.floor(F)),
    ("Inv", P, 1 / P),
    ("Invert", I, ~I),
    ("IsFinite", X, np.isfinite(X)),
    ("IsInf", X, np.isinf(X)),
    ("IsNan", X, np.isnan(X)),
    ("Log", P, np.log(P)),
    ("Log1p", P, np.log1p(P)),
    ("LogicalNot", B, ~B),
    ("Neg", F, -F),
    ("OnesLike", I, np.ones_like(I)),
    ("Reciprocal", P, 1 / P),
    ("Relu", F, np.maximum(F, 0)),
    ("Relu6", F * 9, np.clip(F * 9, 0, 6)),
    ("Rint", F * 4, np.rint(F * 4)),
    ("Round", np.float32([0.5, 1.5, -2.5]), np.float32([0, 2, -2])),
    ("Round", I, I),
    ("Rsqrt", P, 1 / np.sqrt(P)),
    ("Selu", F, 1.05070098 * np.where(F > 0, F, 1.67326324 * np.expm1(F))),
    ("Sigmoid", F, 1 / (1 + np.exp(-F))),
    ("Sign", I, np.sign(I)),
    ("Sin", F, np.sin(F)),
    ("Sinh", F, np.sinh(F)),
    ("Softplus", F * 50, np.logaddexp(F * 50, np.float32(0))),
    ("Softsign", F, F / (1 + np.abs(F))),
    ("Sqrt", P, np.sqrt(P)),
    ("Square", I, I * I),
    ("Tan", F, np.tan(F)),
    ("Tanh", F, np.tanh(F)),
    ("ZerosLike", F, np.zeros_like(F)),
    ("Identity", F, F),
    ("StopGradient", F, F),
    ("PreventGradient", F, F),
    ("Snapshot", F, F),
    ("CheckNumerics", F, F),
    ("PlaceholderWithDefault", F, F),
    ("EnsureShape", F, F),
]

ZERO = np.float32([[0, 2, 0, 4]])
BINARY = [
    ("Add", F, ROW, F + ROW),
    ("AddV2", F, G[:, :1], F + G[:, :1]),
    ("Atan2", F, G, np.arctan2(F, G)),
    ("BitwiseAnd", I, J, I & J),
    ("BitwiseOr", I, J, I | J),
    ("BitwiseXor", I, J, I ^ J),
    ("Div", F, P, F / P),
    ("DivNoNan", F, ZERO, np.where(ZERO == 0, 0, F / np.where(ZERO == 0, 1, ZERO))),
    ("Equal", I, J, I == J),
    ("FloorDiv", I, -J, I // -J),
    ("FloorDiv", F, P, np.floor(F / P)),
    ("FloorMod", I, -J, I % -J),
    ("FloorMod", F, -P, F % -P),
    ("Greater", F, G, F > G),
    ("GreaterEqual", I, J, I >= J),
    ("LeftShift", I, J, I << J),
    ("Less", F, ROW, F < ROW),
    ("LessEqual", I, J, I <= J),
    ("LogicalAnd", B, C, B & C),
    ("LogicalOr", B, C, B | C),
    ("Maximum", F, ROW, np.maximum(F, ROW)),
    ("Minimum", F, ROW, np.minimum(F, ROW)),
    ("Mod", I, J, np.fmod(I, J)),
    ("Mul", F, np.float32(3), F * 3),
    ("NotEqual", F, G, F != G),
    ("Pow", P, G, P**G),
    ("RealDiv", F, P, F / P),
    ("RightShift", I, J, I >> J),
    ("SquaredDifference", F, ROW, (F - ROW) ** 2),
    ("Sub", ROW, F, ROW - F),
    ("TruncateDiv", I, J, np.trunc(I / J).astype(np.int32)),
    ("TruncateMod", I, -J, np.fmod(I, -J)),
]

ONE_HOT = np.where(np.arange(5)[None] == np.array([1, 7, 0])[:, None], 2, -1).astype(np.float32)
ELEMENTS = [
    Case("LeakyRelu", [F], np.where(F > 0, F, 0.3 * F), {"alpha": 0.3}),
    Case("MatrixInverse", [SQUARE], np.linalg.inv(SQUARE), tolerance=1e-4),
    Case(
        "MatrixInverse",
        [SQUARE],
        np.linalg.inv(SQUARE).swapaxes(1, 2),
        {"adjoint": True},
        tolerance=1e-4,
    ),
    Case("MatrixSolve", [SQUARE, SIDES], np.linalg.solve(SQUARE, SIDES), tolerance=1e-4),
    Case("MatrixDeterminant", [SQUARE], np.linalg.det(SQUARE), tolerance=1e-4),
    Case("LogMatrixDeterminant", [SQUARE], list(np.linalg.slogdet(SQUARE)), tolerance=1e-4),
    Case("RGBToHSV", [COLORS], HUES),
    Case("HSVToRGB", [HUES], COLORS),
    Case("AdjustHue", [COLORS, np.float32(0.3)], turned(0.3, 1)),
    Case("AdjustSaturation", [COLORS, np.float32(1.7)], turned(0, 1.7)),
    Case("AdjustContrastv2", [PHOTO, np.float32(2)], 2 * PHOTO - PHOTO.mean((1, 2), keepdims=True)),
    Case(
        "CropAndResize",
        [PHOTO, BOXES, NUMBERS, Known([4, 3])],
        cropped((4, 3), 7.0),
        {"extrapolation_value": 7.0},
    ),
    Case("CropAndResize", [PHOTO, BOXES, NUMBERS, Known([1, 3])], cropped((1, 3), 0)),
    Case(
        "ImageProjectiveTransformV2",
        [PHOTO, np.array([[1, 0, 1, 0, 1, 0, 0, 0]], np.float32), Known([5, 6])],
        np.pad(PHOTO[:, :, 1:], [(0, 0), (0, 0), (0, 1), (0, 0)]),
        {"interpolation": "NEAREST", "fill_mode": "CONSTANT"},
    ),
    Case(
        "QuantizeAndDequantizeV2",
        [F, np.float32(-1), np.float32(1)],
        np.round(np.clip(F, -128 / 127, 1) * 127) / 127,
        {"range_given": True},
    ),
    Case(
        "QuantizeAndDequantizeV2",
        [F, np.float32(0), np.float32(0)],
        np.round(F * FULL) / FULL,
        {"num_bits": 4},
    ),
    Case(
        "QuantizeAndDequantizeV3",
        [F, np.float32(-2), np.float32(2), Known(np.int32(4))],
        np.round(np.clip(F, -16 / 7, 2) * 3.5) / 3.5,
    ),
    Case(
        "SparseSegmentSumWithNumSegments",
        [F, np.array([2, 0, 1], np.int32), Known(np.array([0, 0, 2], np.int32)), Known(4)],
        np.stack([F[2] + F[0], 0 * F[0], F[1], 0 * F[0]]),
    ),
    Case(
        "SparseSegmentSqrtNWithNumSegments",
        [F, np.array([2, 0, 1], np.int32), Known(np.array([0, 0, 2], np.int32)), Known(4)],
        np.stack([(F[2] + F[0]) / np.float32(2**0.5), 0 * F[0], F[1], 0 * F[0]]),
    ),
    Case("AddN", [F, G, F], F + G + F),
    Case("Cast", [F * 9], (F * 9).astype(np.int32), {"SrcT": "float32", "DstT": "DT_INT32"}),
    Case("Cast", [I], I != 0, {"DstT": np.bool_}),
    Case("Cast", [F], F.astype(ml_dtypes.bfloat16), {"DstT": "bfloat16"}),
    Case("ClipByValue", [F, np.float32(-0.5), np.float32(0.5)], np.clip(F, -0.5, 0.5)),
    Case("Select", [B[:, 0], F, G], np.where(B[:, :1], F, G)),
    Case("SelectV2", [B, F, np.float32(1)], np.where(B, F, np.float32(1))),
]

A24 = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
STRIDED = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
ARRAYS = [
    Case("Reshape", [T, Known([4, -1])], T.reshape(4, -1)),
    Case("Transpose", [T, Known([2, 0, 1])], T.transpose(2, 0, 1)),
    Case("ExpandDims", [F, Known(-1)], F[..., None]),
    Case("Squeeze", [F[:, None, :, None]], F),
    Case("Squeeze", [F[:, None, :, None]], F[:, None], {"squeeze_dims": [-1]}),
    Case("ConcatV2", [F, G, Known(-1)], np.concatenate([F, G], -1)),
    Case("Concat", [Known(0), F, G], np.concatenate([F, G])),
    Case("Split", [Known(1), F], np.split(F, 2, 1), {"num_split": 2}),
    Case("SplitV", [F, Known([1, -1, 1]), Known(1)], [F[:, :1], F[:, 1:3], F[:, 3:]]),
    Case("Pack", [F, G], np.stack([F, G], 1), {"axis": 1}),
    Case("Unpack", [F], list(F.T), {"axis": -1, "num": 4}),
    Case("Slice", [T, Known([0, 1, 2]), Known([2, -1, 1])], T[0:2, 1:, 2:3]),
    Case(
        "StridedSlice",
        [A24, Known([1, 2, 3]), Known([0, 0, 0]), Known([1, -1, -2])],
        A24[1, 2:0:-1, 3:0:-2],
        {"shrink_axis_mask": 1},
    ),
    Case(
        "StridedSlice",
        [A24, Known([9, 1, 9, 9]), Known([9, 0, 0, 3]), Known([1, 1, 1, 1])],
        A24[..., 1, None, :3],
        {"ellipsis_mask": 1, "shrink_axis_mask": 2, "new_axis_mask": 4, "begin_mask": 8},
    ),
    Case("StridedSlice", [A24, Known([5]), Known([9]), Known([1])], A24[5:9]),
    Case(
        "StridedSlice",
        [A24, Known([-1]), Known([0]), Known([-1])],
        A24[::-1],
        {**STRIDED, "end_mask": 1},
    ),
    Case("Pad", [F, Known([[1, 0], [2, 3]])], np.pad(F, [(1, 0), (2, 3)])),
    Case(
        "PadV2",
        [F, Known([[1, 0], [0, 3]]), np.float32(7)],
        np.pad(F, [(1, 0), (0, 3)], constant_values=7),
    ),
    Case(
        "MirrorPad",
        [F, Known([[2, 1], [0, 3]])],
        np.pad(F, [(2, 1), (0, 3)], "reflect"),
        {"mode": "REFLECT"},
    ),
    Case(
        "MirrorPad",
        [F, Known([[3, 1], [0, 4]])],
        np.pad(F, [(3, 1), (0, 4)], "symmetric"),
        {"mode": "SYMMETRIC"},
    ),
    Case("Tile", [F, Known([2, 3])], np.tile(F, (2, 3))),
    Case("BroadcastTo", [ROW, Known([2, 3, 4])], np.broadcast_to(ROW, (2, 3, 4))),
    Case("Fill", [Known([2, 3]), np.float32(5)], np.full((2, 3), 5, np.float32)),
    Case("ReverseV2", [T, Known([0, -1])], T[::-1, :, ::-1]),
    Case("Shape", [T], np.int64([2, 3, 4]), {"out_type": np.int64}),
    Case("ShapeN", [T, F], [np.int32([2, 3, 4]), np.int32([3, 4])]),
    Case("Size", [T], np.int32(24)),
    Case("Rank", [T], np.int32(3)),
    Case("Range", [Known(7), Known(0), Known(-2)], np.arange(7, 0, -2)),
    Case("IdentityN", [F, G], [F, G]),
    Case("Const", [], F.astype(np.float64), {"value": F, "dtype": "DT_DOUBLE"}),
    Case("InvertPermutation", [Known(np.int32([2, 0, 1]))], np.int32([1, 2, 0])),
    Case(
        "SpaceToDepth",
        [A24.reshape(1, 6, 4, 1)],
        A24.reshape(1, 3, 2, 2, 2, 1).transpose(0, 1, 3, 2, 4, 5).reshape(1, 3, 2, 4),
        {"block_size": 2},
    ),
    Case(
        "DepthToSpace",
        [A24.reshape(1, 3, 2, 4)],
        A24.reshape(1, 3, 2, 2, 2, 1).transpose(0, 1, 3, 2, 4, 5).reshape(1, 6, 4, 1),
        {"block_size": 2},
    ),
]

INDEX = np.int32([[2, 0], [1, 1]])
PAIRS = np.int32([[0, 2], [1, 0]])
SCATTERED = np.zeros((5, 4), np.float32)
np.add.at(SCATTERED, [4, 1, 4], F)
NEAREST = IMAGE[:, :, [0, 0, 1, 2, 2, 3, 4, 4, 5, 6]][..., [0, 2, 4]]
INDEXING = [
    Case("Gather", [F, INDEX], F[INDEX]),
    Case("GatherV2", [T, INDEX, Known(1)], np.take(T, INDEX, 1)),
    Case(
        "GatherV2",
        [T, INDEX, Known(2)],
        np.stack([T[i][:, INDEX[i]] for i in range(2)]),
        {"batch_dims": 1},
    ),
    Case("GatherNd", [T, PAIRS], T[PAIRS[:, 0], PAIRS[:, 1]]),
    Case("ScatterNd", [np.int32([[4], [1], [4]]), F, Known([5, 4])], SCATTERED),
    Case("OneHot", [np.int32([1, 7, 0]), Known(5), np.float32(2), np.float32(-1)], ONE_HOT),
    Case(
        "OneHot",
        [np.int32([1, 7, 0]), Known(5), np.float32(2), np.float32(-1)],
        ONE_HOT.T,
        {"axis": 0},
    ),
    Case("ResizeNearestNeighbor", [nhwc(IMAGE), Known([10, 3])], nhwc(NEAREST)),
    Case(
        "ResizeBilinear",
        [np.float32([[0, 2], [4, 6]]).reshape(1, 2, 2, 1), Known([2, 3])],
        np.float32([[0, 1, 2], [4, 5, 6]]).reshape(1, 2, 3, 1),
        {"align_corners": True},
    ),
    Case(
        "ResizeBilinear",
        [np.float32([0, 4]).reshape(1, 1, 2, 1), Known([1, 4])],
        np.float32([0, 1, 3, 4]).reshape(1, 1, 4, 1),
        {"half_pixel_centers": True},
    ),
]

TIES = np.float32([[1, 3, 3, 0], [2, 2, 2, 2], [0, np.nan, 9, np.nan]])
REDUCTIONS = [
    Case("Sum", [T, Known([0, -1])], T.sum((0, 2))),
    Case("Sum", [T.astype(np.float16), Known([1])], T.astype(np.float16).sum(1), tolerance=2e-3),
    Case("Prod", [T, Known(1)], T.prod(1, keepdims=True), {"keep_dims": True}),
    Case("Max", [I, Known([0])], I.max(0)),
    Case("Min", [F, Known(np.zeros(0, np.int32))], F),
    Case("Min", [F, Known([1])], F.min(1)),
    Case("All", [B, Known([0])], B.all(0)),
    Case("Any", [B, Known([1])], B.any(1)),
    Case("Mean", [T, Known([1, 2])], T.mean((1, 2))),
    Case("EuclideanNorm", [F, Known([1])], np.sqrt((F * F).sum(1))),
    Case("ArgMax", [TIES, Known(1)], np.argmax(TIES, 1)),
    Case("ArgMin", [I, Known(0)], np.argmin(I, 0).astype(np.int32), {"output_type": "int32"}),
    Case(
        "TopKV2",
        [I, Known(2)],
        [-np.sort(-I)[:, :2], np.argsort(-I, kind="stable")[:, :2].astype(np.int32)],
    ),
    Case("Cumsum", [T, Known(1)], np.cumsum(T, 1)),
    Case(
        "Cumsum",
        [I, Known(-1)],
        np.cumsum(I[:, ::-1], 1, np.int32)[:, ::-1] - I,
        {"exclusive": True, "reverse": True},
    ),
    Case("Softmax", [T * 100], softmax(T * 100)),
    Case("LogSoftmax", [T], np.log(softmax(T))),
    Case("L2Loss", [F], np.float32((F * F).sum() / 2)),
    Case(
        "SoftmaxCrossEntropyWithLogits",
        [F, softmax(G)],
        [-(softmax(G) * np.log(softmax(F))).sum(1), softmax(F) - softmax(G)],
    ),
]


def conv_case(layout, **attributes):
    """SAME or VALID with strides and dilations, in both layouts."""
    expected = conv(IMAGE, KERNEL, (2, 1), ((1, 1), (0, 1)), (1, 1))
    x, y = (IMAGE, expected) if layout == "NCHW" else (nhwc(IMAGE), nhwc(expected))
    strides = [1, 1, 2, 1] if layout == "NCHW" else [1, 2, 1, 1]
    merged = {"strides": strides, "data_format": layout, "padding": "SAME", **attributes}
    return Case("Conv2D", [x, KERNEL.transpose(HWIO)], y, merged, 1e-4)


DEPTH = R.normal(size=(3, 2, 4, 2)).astype(np.float32)
MOMENTS = [IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))]
SCALE, SHIFT = P.ravel()[:4], F.ravel()[:4]
NORMED = normalize(IMAGE, (0, 2, 3), 1e-3) * SCALE[:, None, None] + SHIFT[:, None, None]
COUNT = IMAGE.size / 4
COMPLEX = (F + 1j * G).astype(np.complex64)
GRADIENT = R.normal(size=(2, 6, 4, 6)).astype(np.float32)
NETWORKS = [
    Case("MatMul", [F, G], F.T @ G, {"transpose_a": True}),
    Case("MatMul", [F, G], F @ G.T, {"transpose_b": True}),
    Case("BatchMatMul", [T, T], T @ T.transpose(0, 2, 1), {"adj_y": True}),
    Case("BatchMatMulV2", [T[:, None], T.transpose(0, 2, 1)], T[:, None] @ T.transpose(0, 2, 1)),
    Case("BatchMatMulV3", [COMPLEX, COMPLEX], COMPLEX.conj().T @ COMPLEX, {"adj_x": True}),
    Case("Einsum", [T, T], np.einsum("bij,bkj->bik", T, T), {"equation": "bij,bkj->bik"}),
    Case("Einsum", [T], np.einsum("...i->...", T), {"equation": "...i->..."}),
    Case("Einsum", [F, G, ROW], np.einsum("ij,kj,j->ik", F, G, ROW), {"equation": "ij,kj,j->ik"}),
    Case("Einsum", [F, G.T], F @ G.T, {"equation": "ab,bc"}),
    conv_case("NHWC"),
    conv_case("NCHW"),
    conv_case("NHWC", padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 0, 1, 0, 0]),
    Case(
        "Conv2D",
        [nhwc(IMAGE), KERNEL[:, :2].transpose(HWIO)],
        nhwc(conv(IMAGE, KERNEL[:, :2], (1, 1), ((0, 0), (0, 0)), (2, 3), groups=2)),
        {"strides": [1, 1, 1, 1], "dilations": [1, 2, 3, 1], "padding": "VALID"},
        1e-4,
    ),
    Case(
        "DepthwiseConv2dNative",
        [nhwc(IMAGE), DEPTH],
        nhwc(
            conv(
                IMAGE,
                DEPTH.transpose(2, 3, 0, 1).reshape(8, 1, 3, 2),
                (1, 1),
                ((0, 0), (0, 0)),
                groups=4,
            )
        ),
        {"strides": [1, 1, 1, 1], "padding": "VALID"},
        1e-4,
    ),
    Case(
        "Conv2DBackpropInput",
        [Known([2, 4, 7, 6]), KERNEL.transpose(HWIO), GRADIENT],
        conv_transpose(GRADIENT, KERNEL, (2, 1), ((1, 1), (0, 1)), (7, 6)),
        {"strides": [1, 1, 2, 1], "padding": "SAME", "data_format": "NCHW"},
        1e-4,
    ),
    Case(
        "MaxPool",
        [nhwc(IMAGE)],
        nhwc(pool(IMAGE, (3, 2), (2, 2), ((1, 1), (0, 0)), np.max, -np.inf)),
        {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    ),
    Case(
        "AvgPool",
        [IMAGE],
        pool(IMAGE, (3, 2), (2, 2), ((1, 1), (0, 0)), np.nanmean, np.nan),
        {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW"},
    ),
    Case("BiasAdd", [T, ROW], T + ROW),
    Case("BiasAddV1", [T, ROW], T + ROW),
    Case("BiasAdd", [IMAGE, ROW], IMAGE + ROW[:, None, None], {"data_format": "NCHW"}),
    Case(
        "FusedBatchNorm",
        [IMAGE, SCALE, SHIFT, *MOMENTS],
        NORMED,
        {"is_training": False, "epsilon": 1e-3, "data_format": "NCHW"},
        1e-4,
    ),
    Case(
        "FusedBatchNormV2",
        [nhwc(IMAGE), SCALE, SHIFT, *MOMENTS],
        nhwc(NORMED),
        {"is_training": False, "epsilon": 1e-3},
        1e-4,
    ),
    Case(
        "FusedBatchNormV3",
        [nhwc(IMAGE), SCALE, SHIFT, SCALE, SHIFT],
        [nhwc(NORMED), MOMENTS[0], MOMENTS[1] * COUNT / (COUNT - 1), *MOMENTS, np.float32(0)],
        {"is_training": True, "epsilon": 1e-3},
        1e-4,
    ),
]


def logistic(x):
    return 1 / (1 + np.exp(-x))


GRADIENTS = [
    Case("TanhGrad", [U, G], G * (1 - U * U)),
    Case("SigmoidGrad", [U, G], G * U * (1 - U)),
    Case("SqrtGrad", [P, G], G / (2 * P)),
    Case("RsqrtGrad", [P, G], -G * P**3 / 2),
    Case("ReciprocalGrad", [F, G], -G * F * F),
    Case("InvGrad", [F, G], -G * F * F),
    Case("ReluGrad", [G, F], np.where(F > 0, G, 0)),
    Case("Relu6Grad", [G, 5 * F], np.where((F > 0) & (5 * F < 6), G, 0)),
    Case("SoftplusGrad", [G, F], G * logistic(F)),
    Case("EluGrad", [G, U], np.where(U < 0, G * (U + 1), G)),
    Case("BiasAddGrad", [T], T.sum((0, 1))),
    Case("BiasAddGrad", [T], T.sum((0, 2)), {"data_format": b"NCHW"}),
    Case(
        "BroadcastGradientArgs",
        [Known([2, 1, 4]), Known([3, 1])],
        [np.array([1]), np.array([0, 2])],
    ),
]

RATE, SHARE = np.float32(0.1), np.float32(0.9)
MOVED = F * SHARE + G
STEP = RATE * np.sqrt(1 - np.float32(0.25)) / (1 - np.float32(0.5))
FIRST = G + (T[0] - G) * np.float32(0.1)
SECOND = P + (T[0] ** 2 - P) * np.float32(0.2)
ADAM = [F, G, P, *np.float32([0.5, 0.25, 0.1, 0.9, 0.8, 1e-3]), T[0]]
ROWS = np.array([2, 0], np.int32)
ADDED, REPLACED = F.copy(), F.copy()
ADDED[ROWS] += G[:2]
REPLACED[ROWS] = G[:2]
UPDATES = [
    Case("AssignAddVariableOp", [F, G], F + G),
    Case("AssignSubVariableOp", [F, G], F - G),
    Case("ResourceApplyGradientDescent", [F, RATE, G], F - RATE * G),
    Case("ResourceApplyMomentum", [P, F, RATE, G, SHARE], [P - RATE * MOVED, MOVED]),
    Case(
        "ResourceApplyMomentum",
        [P, F, RATE, G, SHARE],
        [P - RATE * (G + MOVED * SHARE), MOVED],
        {"use_nesterov": True},
    ),
    Case(
        "ResourceApplyKerasMomentum",
        [P, F, RATE, G, SHARE],
        [P + F * SHARE - RATE * G, F * SHARE - RATE * G],
    ),
    Case(
        "ResourceApplyAdam",
        ADAM,
        [F - STEP * FIRST / (np.sqrt(SECOND) + np.float32(1e-3)), FIRST, SECOND],
    ),
    Case("ResourceGather", [F, ROWS], F[ROWS]),
    Case("ResourceScatterAdd", [F, ROWS, G[:2]], ADDED),
    Case("ResourceScatterUpdate", [F, ROWS, G[:2]], REPLACED),
]

WITH_ENTRY = T.copy()
WITH_ENTRY[1] = F
LISTS = [
    Case("TensorArraySizeV3", [np.zeros(2, np.int32), T], np.int32(2)),
    Case(
        "TensorListReserve",
        [Known([3]), Known(2)],
        np.zeros((2, 3), np.float32),
        {"element_dtype": 1},
    ),
    Case("TensorListFromTensor", [T, Known([3, 4])], T),
    Case("TensorListStack", [T, Known([3, 4])], T),
    Case("TensorListLength", [T], np.int32(2)),
    Case("TensorListGetItem", [T, np.int32(1)], T[1]),
    Case("TensorListSetItem", [T, np.int32(1), F], WITH_ENTRY),
]

CASES = [
    *[Case(op, [x], y) for op, x, y in UNARY],
    *[Case(op, [x, y], z) for op, x, y, z in BINARY],
    *ELEMENTS,
    *ARRAYS,
    *INDEXING,
    *REDUCTIONS,
    *NETWORKS,
    *GRADIENTS,
    *UPDATES,
    *LISTS,
]

ELSEWHERE = {
    "Case",
    "If",
    "NoOp",
    "PartitionedCall",
    "Placeholder",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessWhile",
    "While",
}
"""Ops that `test_graphs.py` tests."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_gives_what_numpy_does(case):
    check(case, run_tensorflow(case))


UNSIZED = ("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3")


@pytest.mark.parametrize("op", UNSIZED)
def test_suppression_without_a_size_is_refused(op):
    limits = [Known(np.int32(2)), Known(np.float32(0.5)), Known(np.float32(0))]
    with pytest.raises(GraphError, match=r"NonMaxSuppressionV4 with pad_to_max_output_size"):
        run_tensorflow(Case(op, [BOXES, BOXES[:, 0], *limits], NUMBERS))


def test_each_op_has_a_case():
    recorded = ops_recorded().union(UNSIZED)
    tested = {case.op for case in CASES} | ELSEWHERE | recorded | {counted(x) for x in recorded}
    assert set(op_names("tf")) - tested == set()
    assert ({case.op for case in CASES} | ELSEWHERE) - set(op_names("tf")) == set()


@pytest.mark.parametrize("op", ["FusedBatchNormGradV3", "LogMatrixDeterminant", "TopKV2"])
def test_inputs_in_functions_name_outputs(op):
    for number, name in enumerate(OUTPUT_NAMES[op]):
        assert value_name(f"node:{name}:0", {"node": op}) == f"node:{number}"


def test_an_output_without_such_a_name_is_not_the_first_one():
    with pytest.raises(GraphError, match=r"TopKV2 has no output 'indexes'.*'indices'"):
        value_name("node:indexes:0", {"node": "TopKV2"})
    assert value_name("node:anything:2", {"node": "Unpack"}) == "node:2"


def test_each_op_of_several_results_has_names_for_them():
    several = {case.op for case in CASES if len(case.results) > 1}
    lists = {"Split", "SplitV", "Unpack", "IdentityN", "ShapeN"}
    updates = {x for x in several if x.startswith("ResourceApply")}
    assert several - lists - updates - set(OUTPUT_NAMES) == set()
