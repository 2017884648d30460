"""What programs compute in several operations that belong together, and long rows of one.

Attention, softmax, normalization, cards of one-hot numbers; products of few rows, sorts and
transforms of rows so long that they take other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.hunting.arrays import FLOATS, DrawnArray, braced
from tests.hunting.operations.reducers import comparator, reducer
from tests.hunting.scope import Scope, halved, joined

Sizes = tuple[int, ...]


def _spread(scope: Scope, x: DrawnArray, sizes: Sizes, dimensions: list[int]) -> DrawnArray:
    expression = f"broadcast({x.name}), dimensions={braced(dimensions)}"
    return scope.emit(x.type, sizes, expression, x.noise)


def _number(scope: Scope, type_: str, text: str, sizes: Sizes) -> DrawnArray:
    return _spread(scope, scope.constant(type_, text), sizes, [])


def _apply(scope: Scope, opcode: str, *given: DrawnArray, noise: int = 0) -> DrawnArray:
    behind = max([x.noise for x in given]) + noise
    return scope.emit(given[0].type, given[0].sizes, f"{opcode}({joined(given)})", behind)


def _over(scope: Scope, opcode: str, x: DrawnArray, place: int) -> DrawnArray:
    """A reduction along one dimension, spread along it again."""
    text = {"maximum": "-inf", "add": "0"}[opcode]
    start = scope.constant(x.type, text)
    callee, noise = reducer(scope, opcode, x.type)
    kept = [i for i in range(len(x.sizes)) if i != place]
    sizes = tuple([x.sizes[i] for i in kept])
    attributes = f"dimensions={{{place}}}, to_apply={callee}"
    expression = f"reduce({joined([x, start])}), {attributes}"
    return _spread(scope, scope.emit(x.type, sizes, expression, x.noise + noise), x.sizes, kept)


def _shares(scope: Scope, x: DrawnArray, place: int) -> DrawnArray:
    """The softmax of an array along a dimension."""
    top = _over(scope, "maximum", x, place)
    powers = _apply(scope, "exponential", _apply(scope, "subtract", x, top), noise=1)
    return _apply(scope, "divide", powers, _over(scope, "add", powers, place), noise=1)


_LARGE: Final = (17, 64, 130, 257, 384, 512, 700)
_MOST_SCORES: Final = 1_500_000


def _rows_of_layer(scope: Scope) -> Sizes:
    """Sizes of what is computed along rows, at times of more than a cache holds."""
    if not scope.chance(3):
        return scope.sizes(1, 3)
    return scope.random.choice((300, 513, 1000)), scope.random.choice((800, 1024, 1500))


def _softmax(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, _rows_of_layer(scope), 0)
    return _shares(scope, x, scope.random.randrange(x.rank)) if x.count else None


def _normalization(scope: Scope, type_: str) -> DrawnArray | None:
    """Rows less their means (at times), by the root of the means of their squares."""
    x = scope.array(type_, _rows_of_layer(scope), 0)
    if not x.count:
        return None
    place = scope.random.choice((x.rank - 1, x.rank - 1, scope.random.randrange(x.rank)))
    count = _number(scope, type_, str(x.sizes[place]), x.sizes)
    if scope.chance(2):
        mean = _apply(scope, "divide", _over(scope, "add", x, place), count, noise=1)
        x = _apply(scope, "subtract", x, mean)
    squares = _over(scope, "add", _apply(scope, "multiply", x, x), place)
    little = _number(scope, type_, "0.125", x.sizes)
    mean = _apply(scope, "add", _apply(scope, "divide", squares, count, noise=1), little)
    made = _apply(scope, "multiply", x, _apply(scope, "rsqrt", mean, noise=1))
    if scope.chance(2):
        scale = scope.array(type_, (x.sizes[place],), 0)
        made = _apply(scope, "multiply", made, _spread(scope, scale, x.sizes, [place]))
    return made


def _attention(scope: Scope, type_: str) -> DrawnArray | None:
    """Means of rows weighted by the softmax of products; heads lie before rows or behind them."""
    draw = scope.random
    batch, heads = draw.randint(1, 3), draw.randint(1, 3)
    large = scope.chance(2)
    rows, keys = [draw.choice(_LARGE) if large else scope.size() for _ in range(2)]
    rows, keys = halved([rows, keys], _MOST_SCORES // (batch * heads))
    depth, width = [draw.choice((4, 16, 33, 64)) for _ in range(2)]
    if not rows * keys:
        return None
    place = draw.choice((1, 2))  # Of heads.
    given = []
    for count, size in ((rows, depth), (keys, depth), (keys, width)):
        middle = (heads, count) if place == 1 else (count, heads)
        given.append(scope.array(type_, (batch, *middle, size), 0))
    along = braced([0, place])
    scores = scope.emit(
        type_,
        (batch, heads, rows, keys),
        f"dot({joined(given[:2])}), lhs_batch_dims={along}, lhs_contracting_dims={{3}}, "
        f"rhs_batch_dims={along}, rhs_contracting_dims={{3}}",
        1,
    )
    weights = _shares(scope, _masked(scope, scores), 3)
    return scope.emit(
        type_,
        (batch, heads, rows, width),
        f"dot({joined([weights, given[2]])}), lhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, "
        f"rhs_batch_dims={along}, rhs_contracting_dims={{{3 - place}}}",
        weights.noise + 1,
    )


def _masked(scope: Scope, scores: DrawnArray) -> DrawnArray:
    """Scores, scaled, with a bias, or without those of later places."""
    type_, sizes = scores.type, scores.sizes
    if scope.chance(2):
        scores = _apply(scope, "multiply", scores, _number(scope, type_, "0.125", sizes))
    if scope.chance(3):
        bias = scope.array(type_, sizes[2:], 0)
        scores = _apply(scope, "add", scores, _spread(scope, bias, sizes, [2, 3]))
    if scope.chance(2):
        numbers = [
            scope.emit("s32", sizes[2:], f"iota(), iota_dimension={i}").name for i in range(2)
        ]
        direction = scope.random.choice(("GE", "GE", "LE"))
        inside = f"compare({', '.join(numbers)}), direction={direction}"
        mask = _spread(scope, scope.emit("pred", sizes[2:], inside), sizes, [2, 3])
        least = _number(scope, type_, scope.random.choice(("-inf", "-10000")), sizes)
        scores = scope.emit(type_, sizes, f"select({joined([mask, scores, least])})", scores.noise)
    return scores


def _one_hot(scope: Scope, type_: str) -> DrawnArray | None:
    """Rows of a table by a product with rows of zeros and one 1."""
    count, rows, width = [halved([scope.size()], 300)[0] for _ in range(3)]
    places = scope.array("s32", (count,), 0)
    given = _spread(scope, places, (count, rows), [0])
    numbers = scope.emit("s32", (count, rows), "iota(), iota_dimension=1")
    same = scope.emit("pred", (count, rows), f"compare({joined([given, numbers])}), direction=EQ")
    cards = scope.emit(type_, (count, rows), f"convert({same.name})")
    table = scope.array(type_, (rows, width), 0)
    expression = f"dot({joined([cards, table])}), lhs_contracting_dims={{1}}"
    return scope.emit(type_, (count, width), f"{expression}, rhs_contracting_dims={{0}}", 1)


def _few_rows(scope: Scope, type_: str) -> DrawnArray | None:
    """A product of few rows with many columns, which lie along either dimension."""
    draw = scope.random
    rows, steps = draw.randint(1, 5), draw.choice((400, 700, 1024))
    columns = draw.choice((512, 777, 1024, 2000))
    turned = draw.randrange(2)
    a = scope.array(type_, (rows, steps), 0)
    b = scope.array(type_, (columns, steps) if turned else (steps, columns), 0)
    expression = f"dot({joined([a, b])}), lhs_contracting_dims={{1}}"
    dimensions = f"rhs_contracting_dims={{{turned}}}"
    return scope.emit(type_, (rows, columns), f"{expression}, {dimensions}", 1)


_LONG: Final = (3000, 4099, 8192, 16385, 20000, 32768, 40001, 65537, 100_000)


def _long_sort(scope: Scope, type_: str) -> DrawnArray | None:
    rows, size = scope.random.choice((1, 1, 2, 3, 5)), scope.random.choice(_LONG)
    (size,) = halved([size], 200_000 // rows)
    types = [type_, *[scope.type() for _ in range(scope.random.choice((0, 0, 1, 2)))]]
    arrays = [scope.array(t, (rows, size), 0) for t in types]
    order = comparator(scope, types, scope.random.choice(("LT", "GT")))
    expression = f"sort({joined(arrays)}), dimensions={{1}}, is_stable=true, to_apply={order}"
    if len(types) == 1:
        return scope.emit(type_, (rows, size), expression)
    return scope.random.choice(scope.emit_parts([(t, (rows, size)) for t in types], expression))


def _long_transform(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in ("f32", "f64"):
        return None
    whole = "c64" if type_ == "f32" else "c128"
    rows, size = scope.random.choice((1, 1, 3, 16)), scope.random.choice((*_LONG, 1024, 2048, 6000))
    (size,) = halved([size], 100_000 // rows)
    kind = scope.random.choice(("FFT", "IFFT", "RFFT", "RFFT", "IRFFT", "IRFFT"))
    half = (rows, size // 2 + 1)
    given = (type_, (rows, size)) if kind == "RFFT" else (whole, half)
    made = (type_, (rows, size)) if kind == "IRFFT" else (whole, half)
    if "R" not in kind:
        given = made = (whole, (rows, size))
    x = scope.array(*given, 0)
    return scope.emit(*made, f"fft({x.name}), fft_type={kind}, fft_length={{{size}}}", 2)


LAYERS: Final[dict[str, Callable[[Scope, str], DrawnArray | None]]] = {
    "softmax": _softmax,
    "normalization": _normalization,
    "attention": _attention,
    "one-hot": _one_hot,
    "few rows": _few_rows,
    "long sort": _long_sort,
    "long transform": _long_transform,
}


def layer_types(name: str) -> tuple[str, ...]:
    """Return the element types for which a layer is drawn."""
    return FLOATS[::2] if name == "long transform" else (*FLOATS, *_MORE.get(name, ()))


_MORE: Final = {"long sort": ("s32", "u8", "s64", "u32", "u16"), "few rows": ("s8", "s32")}
