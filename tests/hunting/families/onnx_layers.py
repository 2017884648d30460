"""Nodes of ONNX graphs: images, points by indices, normalization, quantized numbers, parts.

Operators whose results jump get exact operands, and numbers at which nothing is half way.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from tests.hunting.families.onnx_drawing import FLOATS, MOST, NUMBERS, Drawn, GraphDraft, Maker

_LEFT_OUT: Final = Drawn("", "float32", ())
"""An operand that is not given."""


def _sizes(draft: GraphDraft, rank: int, most: int = 5) -> tuple[int, ...]:
    return tuple([draft.random.randint(1, most) for _ in range(rank)])


def _floats(draft: GraphDraft, values: float | list[float], sizes: tuple[int, ...]) -> Drawn:
    return draft.constant(values, sizes, "float32")


def _finite(draft: GraphDraft, x: Drawn) -> Drawn:
    """A value with 0 for what is infinite or NaN."""
    zero = _floats(draft, [0.0], (1,))
    product = draft.node("Mul", [x, zero], x.type, x.sizes)
    is_finite = draft.node("Equal", [product, zero], "bool", x.sizes)
    return draft.node("Where", [is_finite, x, zero], x.type, x.sizes)


def _resize(draft: GraphDraft) -> Drawn | None:
    random = draft.random
    x = draft.array(("float32",), 1, 4)
    mode = random.choice(("nearest", "linear", "cubic"))
    scales = [random.choice((1.0, 1.0, 2.0, 0.5, 1.5, 3.0)) for _ in x.sizes]
    sizes = tuple([int(n * s) for n, s in zip(x.sizes, scales, strict=True)])
    if prod(sizes) > MOST or not prod(sizes):
        return None
    # ONNX's reference leaves a neighbour with the weight 0 out, or has 0 * NaN for it.
    x = _finite(draft, x)
    ways: dict[str, Any] = {"mode": mode}
    places = ["half_pixel", "asymmetric"]
    if mode != "nearest":
        places.append("align_corners")
        if 1 not in sizes:  # Where one place is left, ONNX's reference asks for its fraction.
            places.append("pytorch_half_pixel")
    ways["coordinate_transformation_mode"] = random.choice(places)
    if mode == "nearest":
        how = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        ways["nearest_mode"] = random.choice(how)
    if mode == "cubic":
        ways |= {"exclude_outside": random.randrange(2), "cubic_coeff_a": -0.5}
    if mode != "nearest" and random.randrange(2):
        asked = draft.constant([*sizes], (len(sizes),))
        given = [x, _LEFT_OUT, _LEFT_OUT, asked]
    else:
        given = [x, _LEFT_OUT, _floats(draft, scales, (len(scales),))]
    return draft.node("Resize", given, x.type, sizes, mode != "nearest", **ways)


def _top(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32", "int64"), 1, exact=True)
    axis = draft.random.randrange(len(x.sizes))
    count = draft.random.randint(1, x.sizes[axis])
    sizes = tuple([count if i == axis else n for i, n in enumerate(x.sizes)])
    given = [x, draft.constant([count], (1,))]
    ways = {"axis": axis, "largest": draft.random.randrange(2), "sorted": 1}
    return draft.nodes("TopK", given, [(x.type, sizes), ("int64", sizes)], False, ways)[0]


def _split(draft: GraphDraft) -> Drawn | None:
    x = draft.array(NUMBERS, 1)
    axis = draft.random.randrange(len(x.sizes))
    if x.sizes[axis] < 2:
        return None
    first = draft.random.randint(1, x.sizes[axis] - 1)
    lengths = [first, x.sizes[axis] - first]
    parts = [tuple([k if i == axis else n for i, n in enumerate(x.sizes)]) for k in lengths]
    given = [x, draft.constant(lengths, (2,))]
    shapes = [(x.type, sizes) for sizes in parts]
    return draft.nodes("Split", given, shapes, False, {"axis": axis})[0]


def _points(draft: GraphDraft, sizes: tuple[int, ...], depth: int, count: int) -> Drawn:
    """The indices of different places along the first dimensions."""
    places = draft.random.sample(range(prod(sizes[:depth])), count)
    rows = []
    for place in places:
        row = []
        for n in reversed(sizes[:depth]):
            row.append(place % n - draft.random.choice((0, n)))
            place //= n
        rows.append(row[::-1])
    return draft.constant(rows, (count, depth))


def _gather_nd(draft: GraphDraft) -> Drawn:
    x = draft.array(NUMBERS, 1)
    depth = draft.random.randint(1, len(x.sizes))
    count = draft.random.randint(1, min(4, prod(x.sizes[:depth])))
    points = _points(draft, x.sizes, depth, count)
    return draft.node("GatherND", [x, points], x.type, (count, *x.sizes[depth:]))


def _scatter_nd(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32", "int64"), 1)
    depth = draft.random.randint(1, len(x.sizes))
    count = draft.random.randint(1, min(4, prod(x.sizes[:depth])))
    points = _points(draft, x.sizes, depth, count)
    updates = draft.array((x.type,), 1, 5, (count, *x.sizes[depth:]))
    how = draft.random.choice(("none", "none", "add", "mul"))
    return draft.node("ScatterND", [x, points, updates], x.type, x.sizes, reduction=how)


def _one_hot(draft: GraphDraft) -> Drawn:
    x = draft.array(("int64", "int32"), 0, 3)
    depth, axis = draft.random.randint(1, 6), draft.random.randint(0, len(x.sizes))
    values = _floats(draft, [-1.0, 2.0], (2,))
    sizes = (*x.sizes[:axis], depth, *x.sizes[axis:])
    given = [x, draft.constant([depth], (1,)), values]
    return draft.node("OneHot", given, "float32", sizes, axis=axis)


def _clip(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32", "int32", "int64"))
    low, high = [draft.constant(v, (), x.type) for v in (-1, 2)]
    given = [[x, low, high], [x, low], [x, _LEFT_OUT, high]][draft.random.randrange(3)]
    return draft.node("Clip", given, x.type, x.sizes)


def _mod(draft: GraphDraft) -> Drawn:
    x = draft.array(("int32", "int64", "float32"), exact=True)
    by = draft.constant(draft.random.choice((1, 2, 3, -2, -3)), (), x.type)
    kind = 1 if x.type == "float32" else draft.random.randrange(2)
    return draft.node("Mod", [x, by], x.type, x.sizes, fmod=kind)


def _blocks(draft: GraphDraft) -> Drawn:
    n, c, h, w = _sizes(draft, 4, 3)
    if draft.random.randrange(2):
        x = draft.array(("float32",), 4, 4, (n, c, 2 * h, 2 * w))
        return draft.node("SpaceToDepth", [x], x.type, (n, 4 * c, h, w), blocksize=2)
    x = draft.array(("float32",), 4, 4, (n, 4 * c, h, w))
    mode = draft.random.choice(("DCR", "CRD"))
    return draft.node("DepthToSpace", [x], x.type, (n, c, 2 * h, 2 * w), blocksize=2, mode=mode)


_EQUATIONS: Final = (
    *("ij,jk->ik", "bij,bjk->bik", "ij,ij->i", "ij->ji", "i,j->ij", "ij,kj->ki", "ij->"),
    *("bhij,bhkj->bhik", "ijk,k->ij", "abc,cd,de->abe"),
)


def _einsum(draft: GraphDraft) -> Drawn:
    equation = draft.random.choice(_EQUATIONS)
    terms, made = equation.split("->")
    size = {letter: draft.random.randint(1, 4) for letter in equation}
    parts = [tuple([size[x] for x in term]) for term in terms.split(",")]
    given = [draft.array(("float32",), 1, 4, sizes) for sizes in parts]
    sizes = tuple([size[x] for x in made])
    return draft.node("Einsum", given, "float32", sizes, True, equation=equation)


def _batch_norm(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32",), 3, 4)
    count = x.sizes[1]
    scale, bias, mean = [draft.array(("float32",), 1, 1, (count,)) for _ in range(3)]
    if draft.random.randrange(2):
        given = [x, scale, bias]
        return draft.node("InstanceNormalization", given, x.type, x.sizes, True, epsilon=0.25)
    variance = _floats(
        draft, [draft.random.choice((0.5, 1.0, 3.0)) for _ in range(count)], (count,)
    )
    given = [x, scale, bias, mean, variance]
    return draft.node("BatchNormalization", given, x.type, x.sizes, True, epsilon=0.25)


def _conv_transpose(draft: GraphDraft) -> Drawn:
    n, c, h, w = _sizes(draft, 4, 4)
    x = draft.array(("float32",), 4, 4, (n, c, h, w))
    kernel = [draft.random.randint(1, 3) for _ in range(2)]
    strides = [draft.random.choice((1, 2)) for _ in range(2)]
    pads = [draft.random.randint(0, (k - 1) // 2) for k in kernel] * 2
    made = draft.random.randint(1, 3)
    weights = draft.array(("float32",), 4, 4, (c, made, *kernel))
    rows = zip((h, w), kernel, strides, pads, strict=False)
    sizes = (n, made, *[(a - 1) * s + k - 2 * p for a, k, s, p in rows])
    ways = {"strides": strides, "pads": pads, "kernel_shape": kernel}
    return draft.node("ConvTranspose", [x, weights], "float32", sizes, True, **ways)


def _whole_pool(draft: GraphDraft) -> Drawn:
    # ONNX's reference takes the maximum of arrays of three dimensions along features, too.
    x = draft.array(("float32",), 4, 4, exact=True)
    operator = draft.random.choice(("GlobalAveragePool", "GlobalMaxPool"))
    sizes = (*x.sizes[:2], *[1 for _ in x.sizes[2:]])
    return draft.node(operator, [x], x.type, sizes, operator == "GlobalAveragePool")


def _hard_max(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32",), 1, exact=True)
    axis = draft.random.randrange(-len(x.sizes), len(x.sizes))
    return draft.node("Hardmax", [x], x.type, x.sizes, axis=axis)


def _quantized(draft: GraphDraft) -> Drawn:
    x = draft.array(("float32",), 1, exact=True)
    type_ = draft.random.choice(("int8", "uint8"))
    axis = draft.random.randrange(len(x.sizes))
    each = draft.random.randrange(2)
    count = (x.sizes[axis],) if each else ()
    scales = [draft.random.choice((0.25, 0.125, 1.0)) for _ in range(prod(count))]
    zeros = [draft.random.randint(0, 9) for _ in scales]
    scale = _floats(draft, scales if each else scales[0], count)
    zero = draft.constant(zeros if each else zeros[0], count, type_)
    made = draft.node("QuantizeLinear", [x, scale, zero], type_, x.sizes, axis=axis)
    if draft.random.randrange(2):
        return made
    return draft.node("DequantizeLinear", [made, scale, zero], "float32", x.sizes, axis=axis)


def _integer_product(draft: GraphDraft) -> Drawn:
    x = draft.array(("int8", "uint8"), 2, 3)
    columns = draft.random.choice((1, 2, 5))
    y = draft.array(("int8", "uint8"), 2, 2, (x.sizes[-1], columns))
    given = [x, y]
    if draft.random.randrange(2):
        given += [draft.constant(draft.random.randint(0, 5), (), z.type) for z in (x, y)]
    return draft.node("MatMulInteger", given, "int32", (*x.sizes[:-1], columns))


def _reversed(draft: GraphDraft) -> Drawn:
    x = draft.array((*FLOATS, "int64"), 2)
    batch = draft.random.randrange(2)
    lengths = [draft.random.randint(1, x.sizes[1 - batch]) for _ in range(x.sizes[batch])]
    given = [x, draft.constant(lengths, (len(lengths),))]
    ways = {"batch_axis": batch, "time_axis": 1 - batch}
    return draft.nodes("ReverseSequence", given, [(x.type, x.sizes)], False, ways)[0]


def _transform(draft: GraphDraft) -> Drawn:
    rows, length = draft.random.randint(1, 3), draft.random.randint(2, 12)
    parts, inverse = draft.random.choice((1, 2)), draft.random.randrange(2)
    x = draft.array(("float32",), 3, 3, (rows, length, parts))
    half = int(parts == 1 and not inverse and draft.random.randrange(2))
    sizes = (rows, length // 2 + 1 if half else length, 2)
    given = [x, _LEFT_OUT, draft.constant(1, ())]
    return draft.node("DFT", given, "float32", sizes, True, inverse=inverse, onesided=half)


LAYERS: Final[dict[str, Maker]] = {
    "Resize": _resize,
    "TopK": _top,
    "Split": _split,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "Clip": _clip,
    "Mod": _mod,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    "Einsum": _einsum,
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _batch_norm),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _whole_pool),
    "Hardmax": _hard_max,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantized),
    "MatMulInteger": _integer_product,
    "ReverseSequence": _reversed,
    "DFT": _transform,
}
"""By operator, a function that draws it, or one that draws it among others."""
