"""Dots of every kind of dimension, and convolutions of every kind of window."""

from __future__ import annotations

from math import prod
from typing import Final

from tests.hunting.arrays import F8, INTEGERS, DrawnArray, braced
from tests.hunting.operations.windows import draw_dimension, window_text
from tests.hunting.scope import Maker, Scope, halved, joined

_MOST_WORK: Final = 20_000_000
"""How many products of two elements an operation may take."""


def _result_type(scope: Scope, type_: str) -> str:
    """The element type of a product: that of the operands, or at times a wider one."""
    wider = {"bf16": "f32", "f16": "f32", "s8": "s32", "f32": "f64", "u8": "u32"}
    return wider[type_] if type_ in wider and scope.chance(3) else type_


def _shuffled(scope: Scope, kinds: list[tuple[str, int]]) -> list[tuple[str, int]]:
    order = list(kinds)
    scope.random.shuffle(order)
    return order


def _places(order: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> list[int]:
    return [order.index(x) for x in wanted]


def _dot(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ == "pred" or type_ in F8:
        return None
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
    a, b = [scope.array(type_, x) for x in operands]
    attributes = [
        f"lhs_contracting_dims={braced(_places(first, summed))}",
        f"rhs_contracting_dims={braced(_places(second, summed))}",
    ]
    if batch:
        attributes.insert(0, f"lhs_batch_dims={braced(_places(first, batch))}")
        attributes.insert(2, f"rhs_batch_dims={braced(_places(second, batch))}")
    noise = 0 if type_ in INTEGERS else 1 + max(a.noise, b.noise)
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
    if type_ == "pred" or type_ in F8:
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
    b = scope.array(type_, tuple([{**sizes, **kernel}[x] for x in rhs]))
    attributes = [f"dim_labels={lhs}_{rhs}->{out}"]
    if spatial:
        reversals = [draw.choice((0, 0, 1)) for _ in window]
        attributes.insert(0, f"window={window_text(window, reversals)}")
    if groups > 1:
        attributes.append(f"feature_group_count={groups}")
    if batches > 1:
        attributes.append(f"batch_group_count={batches}")
    noise = 0 if type_ in INTEGERS else 1 + max(a.noise, b.noise)
    expression = f"convolution({joined([a, b])}), {', '.join(attributes)}"
    result = tuple([made[x] for x in out])
    return scope.emit(_result_type(scope, type_), result, expression, noise)


MAKERS: Final[dict[str, Maker]] = {"dot": _dot, "convolution": _convolution}
