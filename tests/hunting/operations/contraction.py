"""Dots of every kind of dimension, and convolutions of every kind of window."""

from __future__ import annotations

from math import prod
from typing import Final

from tests.hunting.arrays import COMPLEX, F8, INTEGERS, DrawnArray, braced
from tests.hunting.operations.windows import draw_dimension, window_text
from tests.hunting.scope import Maker, Scope, halved, joined

_MOST_WORK: Final = 20_000_000
"""How many products of two elements an operation may take."""


def _result_type(scope: Scope, type_: str) -> str:
    """The element type of a product: that of the operands, or at times a wider one."""
    if type_ in F8:
        return scope.random.choice(("f32", "f32", "bf16", "f16"))
    wider = {"bf16": "f32", "f16": "f32", "s8": "s32", "f32": "f64", "u8": "u32"}
    return wider[type_] if type_ in wider and scope.chance(3) else type_


def _second_type(scope: Scope, type_: str) -> str:
    """The element type of the other operand: floats of a byte meet any other ones."""
    return scope.random.choice(F8) if type_ in F8 and scope.chance(2) else type_


def _rounding(type_: str) -> int:
    """How many roundings a sum of products has."""
    return 0 if type_ in INTEGERS or type_ == "pred" else 1


def _shuffled(scope: Scope, kinds: list[tuple[str, int]]) -> list[tuple[str, int]]:
    order = list(kinds)
    scope.random.shuffle(order)
    return order


def _places(order: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> list[int]:
    return [order.index(x) for x in wanted]


def _dot(scope: Scope, type_: str) -> DrawnArray | None:
    draw = scope.random
    batch = [("b", i) for i in range(draw.choice((0, 0, 0, 1, 2)))]
    summed = [("k", i) for i in range(draw.choice((0, 1, 1, 1, 1, 2)))]
    left = [("m", i) for i in range(draw.choice((0, 1, 1, 1, 2)))]
    right = [("n", i) for i in range(draw.choice((0, 1, 1, 1, 2)))]
    dimensions = [*batch, *summed, *left, *right]
    work = halved([scope.size() for _ in dimensions], _MOST_WORK)
    size = dict(zip(dimensions, work, strict=True))
    first = _shuffled(scope, batch + summed + left)
    second = _shuffled(scope, batch + summed + right)
    if scope.focus is not None and scope.focus.rank == len(first):
        size |= dict(zip(first, scope.focus.sizes, strict=True))
    result = batch + [x for x in first if x[0] == "m"] + [x for x in second if x[0] == "n"]
    sizes = tuple([size[x] for x in result])
    operands = [tuple([size[x] for x in y]) for y in (first, second)]
    most = 10 * scope.draft.most
    if prod(size.values()) > _MOST_WORK or any(prod(x) > most for x in (sizes, *operands)):
        return None
    types = type_, _second_type(scope, type_)
    a, b = [scope.array(t, x) for t, x in zip(types, operands, strict=True)]
    attributes = [
        f"lhs_contracting_dims={braced(_places(first, summed))}",
        f"rhs_contracting_dims={braced(_places(second, summed))}",
    ]
    if batch:
        attributes.insert(0, f"lhs_batch_dims={braced(_places(first, batch))}")
        attributes.insert(2, f"rhs_batch_dims={braced(_places(second, batch))}")
    noise = _rounding(type_) and 1 + max(a.noise, b.noise)
    expression = f"dot({joined([a, b])}), {', '.join(attributes)}"
    return scope.emit(_result_type(scope, type_), sizes, expression, noise)


def _labels(scope: Scope, first: str, second: str, spatial: int) -> str:
    order = [first, second, *map(str, range(spatial))]
    scope.random.shuffle(order)
    return "".join(order)


def _length(scope: Scope) -> int:
    """The size of an array along a dimension of a window."""
    if scope.draft.wide and scope.chance(2):
        return scope.random.choice((16, 28, 56, 100, 224, 300, 1000))
    return scope.random.randint(0 if scope.chance(20) else 1, 6)


def _features(scope: Scope) -> int:
    """The number of features that meet in a convolution, or come out of it for a group."""
    if scope.draft.wide and scope.chance(3):
        return scope.random.choice((8, 16, 17, 32, 64, 130))
    return scope.random.randint(1, 4)


def _convolution(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ == "pred":
        return None
    draw = scope.random
    spatial = draw.choice((0, 1, 1, 2, 2, 3))
    groups = draw.choice((1, 1, 1, 2, 3, 32) if scope.draft.wide else (1, 1, 1, 2, 3))
    batches = draw.choice((1, 1, 2)) if groups == 1 else 1
    lengths = [_length(scope) for _ in range(spatial)]
    window = [draw_dimension(scope, x, spreads=True) for x in lengths]
    places = [x.places(length) for x, length in zip(window, lengths, strict=True)]
    features, outputs = _features(scope), _features(scope) * groups * batches
    samples = draw.randint(1, 3) * batches
    sizes = {"b": samples, "f": features * groups, "i": features, "o": outputs}
    terms = [samples // batches, features, outputs, *places, *[x.size for x in window]]
    if prod(terms) > _MOST_WORK or prod(lengths) * samples * features > 10 * scope.draft.most:
        return None
    lhs, rhs, out = (_labels(scope, *x, spatial) for x in (("b", "f"), ("i", "o"), ("b", "f")))
    given = {str(i): x for i, x in enumerate(lengths)}
    kernel = {str(i): x.size for i, x in enumerate(window)}
    made = {"b": samples // batches, "f": outputs, **{str(i): x for i, x in enumerate(places)}}
    a = scope.array(type_, tuple([{**sizes, **given}[x] for x in lhs]))
    b = scope.array(_second_type(scope, type_), tuple([{**sizes, **kernel}[x] for x in rhs]))
    attributes = [f"dim_labels={lhs}_{rhs}->{out}"]
    if spatial:
        reversals = [draw.choice((0, 0, 1)) for _ in window]
        attributes.insert(0, f"window={window_text(window, reversals)}")
    if groups > 1:
        attributes.append(f"feature_group_count={groups}")
    if batches > 1:
        attributes.append(f"batch_group_count={batches}")
    noise = _rounding(type_) and 1 + max(a.noise, b.noise)
    expression = f"convolution({joined([a, b])}), {', '.join(attributes)}"
    result = tuple([made[x] for x in out])
    return scope.emit(_result_type(scope, type_), result, expression, noise)


def _ragged_dot(scope: Scope, type_: str) -> DrawnArray | None:
    """A product of which one dimension falls into groups, whose sizes are computed."""
    if type_ in COMPLEX or type_ == "pred":
        return None
    form = scope.random.choice(("rows", "sums", "batch"))
    groups = scope.random.randint(1, 4)
    batch = [scope.random.randint(1, 3)] if form == "batch" or scope.chance(2) else []
    rows, terms, columns = halved([scope.size() for _ in range(3)], scope.draft.most)
    is_grouped = [groups] if form == "rows" else []
    a = scope.array(type_, (*batch, rows, terms), 0)
    b = scope.array(type_, (*batch, *is_grouped, terms, columns), 0)
    first = len(batch)
    counts = scope.emit("s32", (groups,), f"convert({scope.array('u8', (groups,), 0).name})")
    attributes = [
        f"lhs_contracting_dims={{{first + 1}}}",
        f"rhs_contracting_dims={{{first + len(is_grouped)}}}",
        f"lhs_ragged_dims={{{ {'rows': first, 'sums': first + 1, 'batch': 0}[form] }}}",
    ]
    if batch:
        attributes = ["lhs_batch_dims={0}", "rhs_batch_dims={0}", *attributes]
    attributes.append(f"rhs_group_dims={braced([first] if is_grouped else [])}")
    parts = [groups] if form == "sums" else []
    sizes = (*parts, *batch, rows, columns)
    if prod(sizes) > 10 * scope.draft.most:
        return None
    expression = f"ragged-dot({joined([a, b, counts])}), {', '.join(attributes)}"
    return scope.emit(_result_type(scope, type_), sizes, expression, _rounding(type_))


def _scaled_dot(scope: Scope, type_: str) -> DrawnArray | None:
    """A product whose operands are multiplied by scales, each of a block of their elements."""
    if type_ not in (*F8, "bf16", "f32"):
        return None
    blocks = scope.random.choice((1, 2, 4))
    terms = blocks * scope.random.choice((1, 2, 8, 32))
    rows, columns = halved([scope.size() for _ in range(2)], scope.draft.most // terms)
    a = scope.array(type_, (rows, terms), 0)
    b = scope.array(_second_type(scope, type_), (terms, columns), 0)
    scale = scope.random.choice(("bf16", "f32", *F8))
    s = scope.array(scale, (scope.random.choice((1, rows)), blocks), 0)
    t = scope.array(scale, (scope.random.choice((1, blocks)), columns), 0)
    dimensions = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    expression = f"scaled-dot({joined([a, b, s, t])}), {dimensions}"
    made = scope.random.choice(("f32", "bf16"))
    return scope.emit(made, (rows, columns), expression, 1)


MAKERS: Final[dict[str, Maker]] = {
    "dot": _dot,
    "convolution": _convolution,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _scaled_dot,
}
