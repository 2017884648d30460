"""Element-wise operations: of numbers, bits, logic, complex parts, and conversions."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.hunting.arrays import COMPLEX, F8, FLOATS, INTEGERS, TYPES, DrawnArray, element_type, one
from tests.hunting.scope import MOST_NOISE, Maker, Scope, joined

REAL: Final = (*FLOATS, *F8)
NUMBERS: Final = (*REAL, *INTEGERS, *COMPLEX)

SIGNED: Final = tuple([x for x in INTEGERS if x[0] == "s"])

EXACT: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "abs": (1, (*REAL, *SIGNED)),
    "add": (2, (*NUMBERS, "pred")),
    "and": (2, (*INTEGERS, "pred")),
    "ceil": (1, REAL),
    "floor": (1, REAL),
    "count-leading-zeros": (1, INTEGERS),
    "maximum": (2, (*REAL, *INTEGERS, "pred")),
    "minimum": (2, (*REAL, *INTEGERS, "pred")),
    "mulhi": (2, INTEGERS[:8]),
    "multiply": (2, (*REAL, *INTEGERS, "pred")),
    "negate": (1, NUMBERS),
    "not": (1, (*INTEGERS, "pred")),
    "or": (2, (*INTEGERS, "pred")),
    "popcnt": (1, INTEGERS),
    "round-nearest-afz": (1, REAL),
    "round-nearest-even": (1, REAL),
    "shift-left": (2, INTEGERS),
    "shift-right-arithmetic": (2, INTEGERS),
    "shift-right-logical": (2, INTEGERS),
    "sign": (1, (*FLOATS, *SIGNED)),
    "subtract": (2, NUMBERS),
    "xor": (2, (*INTEGERS, "pred")),
}
"""Operations whose results have no choice: how many operands, and which element types."""

ROUNDED: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "atan2": (2, REAL),
    "cbrt": (1, REAL),
    "cosine": (1, (*REAL, *COMPLEX)),
    "divide": (2, (*REAL, *INTEGERS, *COMPLEX)),
    "erf": (1, REAL),
    "exponential": (1, (*REAL, *COMPLEX)),
    "exponential-minus-one": (1, (*REAL, *COMPLEX)),
    "log": (1, (*REAL, *COMPLEX)),
    "log-plus-one": (1, (*REAL, *COMPLEX)),
    "logistic": (1, (*REAL, *COMPLEX)),
    "power": (2, (*REAL, *COMPLEX)),
    "remainder": (2, (*REAL, *INTEGERS)),
    "rsqrt": (1, (*REAL, *COMPLEX)),
    "sine": (1, (*REAL, *COMPLEX)),
    "sqrt": (1, (*REAL, *COMPLEX)),
    "tan": (1, (*REAL, *COMPLEX)),
    "tanh": (1, (*REAL, *COMPLEX)),
    "acos": (1, FLOATS),
    "acosh": (1, FLOATS),
    "asin": (1, FLOATS),
    "asinh": (1, (*FLOATS, *COMPLEX)),
    "atanh": (1, FLOATS),
    "cosh": (1, (*FLOATS, *COMPLEX)),
    "sinh": (1, (*FLOATS, *COMPLEX)),
}
"""Operations whose last bits are free, but for integers."""

_STEPS: Final = frozenset({"ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign"})
"""Operations that jump, so that their operand may not be off by a rounding."""


def _exact(opcode: str, scope: Scope, type_: str) -> DrawnArray | None:
    operands, types = EXACT[opcode]
    if opcode == "abs" and type_ in COMPLEX:
        return _part(opcode, scope, type_)
    if opcode == "multiply" and type_ in COMPLEX:
        return _complex_product(scope, type_)
    if type_ not in types:
        return None
    sizes = scope.sizes()
    noise = 0 if opcode in _STEPS else MOST_NOISE - 1
    given = [scope.array(type_, sizes, noise) for _ in range(operands)]
    behind = max([x.noise for x in given])
    return scope.emit(type_, sizes, f"{opcode}({joined(given)})", behind)


def _complex_product(scope: Scope, type_: str) -> DrawnArray | None:
    """A product whose parts are sums of rounded products."""
    sizes = scope.sizes()
    given = [scope.array(type_, sizes, scope.noisiest) for _ in range(2)]
    noise = 1 + max([x.noise for x in given])
    return scope.emit(type_, sizes, f"multiply({joined(given)})", noise)


def _rounded(opcode: str, scope: Scope, type_: str) -> DrawnArray | None:
    operands, types = ROUNDED[opcode]
    if type_ not in types:
        return None
    sizes = scope.sizes()
    noise = 0 if type_ in INTEGERS else scope.noisiest
    given = [scope.array(type_, sizes, noise) for _ in range(operands)]
    if type_ in INTEGERS and not scope.chance(20):  # XLA:CPU may die of a division by 0.
        given[1] = _odd(scope, given[1])
    behind = max([x.noise for x in given])
    rounding = int(type_ not in INTEGERS)
    return scope.emit(type_, sizes, f"{opcode}({joined(given)})", behind + rounding)


def _odd(scope: Scope, x: DrawnArray) -> DrawnArray:
    """Integers with the lowest bit set."""
    unit = scope.constant(x.type, one(x.type))
    units = scope.emit(x.type, x.sizes, f"broadcast({unit.name}), dimensions={{}}")
    return scope.emit(x.type, x.sizes, f"or({joined([x, units])})")


def _compared(scope: Scope, type_: str, sizes: tuple[int, ...]) -> DrawnArray:
    """An array to compare: at times the numbers of places, as masks are made."""
    if type_ in INTEGERS and sizes and scope.chance(3):
        place = scope.random.randrange(len(sizes))
        return scope.emit(type_, sizes, f"iota(), iota_dimension={place}")
    return scope.array(type_, sizes, 0)


def _compare(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes()
    a, b = [_compared(scope, type_, sizes) for _ in range(2)]
    directions = ("EQ", "NE") if type_ in COMPLEX else ("EQ", "NE", "LT", "LE", "GT", "GE")
    order = ", type=TOTALORDER" if type_ in FLOATS and scope.chance(4) else ""
    direction = scope.random.choice(directions)
    return scope.emit("pred", sizes, f"compare({joined([a, b])}), direction={direction}{order}")


def _select(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes()
    which = scope.array("pred", sizes if scope.chance(2) else (), 0)
    if which.sizes != sizes:
        which = scope.emit("pred", sizes, f"broadcast({which.name}), dimensions={{}}")
    a, b = scope.array(type_, sizes), scope.array(type_, sizes)
    return scope.emit(type_, sizes, f"select({joined([which, a, b])})", max(a.noise, b.noise))


def _clamp(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ in COMPLEX or type_ == "pred":
        return None
    sizes = scope.sizes()
    ends = sizes if scope.chance(2) else ()
    low, high = scope.array(type_, ends, 0), scope.array(type_, ends, 0)
    least = scope.emit(type_, ends, f"minimum({joined([low, high])})")
    most = scope.emit(type_, ends, f"maximum({joined([low, high])})")
    x = scope.array(type_, sizes)
    return scope.emit(type_, sizes, f"clamp({joined([least, x, most])})", x.noise)


def _complex(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in COMPLEX:
        return None
    part = "f32" if type_ == "c64" else "f64"
    sizes = scope.sizes()
    a, b = scope.array(part, sizes), scope.array(part, sizes)
    return scope.emit(type_, sizes, f"complex({joined([a, b])})", max(a.noise, b.noise))


def _part(opcode: str, scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in COMPLEX:
        return None
    part = "f32" if type_ == "c64" else "f64"
    x = scope.array(type_, scope.sizes(), scope.noisiest if opcode == "abs" else MOST_NOISE - 1)
    noise = x.noise + (opcode == "abs")
    return scope.emit(part, x.sizes, f"{opcode}({x.name})", noise)


def _is_finite(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in REAL:
        return None
    x = scope.array(type_, scope.sizes(), 0)
    return scope.emit("pred", x.sizes, f"is-finite({x.name})")


def _convert(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(), 0)
    return scope.converted(x, scope.type())


def _bitcast_convert(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ in COMPLEX or type_ == "pred":
        return None
    sizes = scope.sizes()
    bits = element_type(type_).bits
    same = [t for t in TYPES if t not in (*COMPLEX, "pred", type_)]
    other = scope.random.choice(same)
    wide = element_type(other).bits
    x = scope.array(type_, sizes, 0)
    if wide == bits:
        return scope.emit(other, sizes, f"bitcast-convert({x.name})")
    if wide < bits:
        return scope.emit(other, (*sizes, bits // wide), f"bitcast-convert({x.name})")
    x = scope.array(type_, (*sizes, wide // bits), 0)
    return scope.emit(other, sizes, f"bitcast-convert({x.name})")


def _reduce_precision(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in FLOATS:
        return None
    x = scope.array(type_, scope.sizes(), 0)
    exponent, mantissa = scope.random.choice([(8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (11, 20)])
    attributes = f"exponent_bits={exponent}, mantissa_bits={mantissa}"
    return scope.emit(type_, x.sizes, f"reduce-precision({x.name}), {attributes}")


def _stochastic_convert(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in FLOATS:
        return None
    x = scope.array(type_, scope.sizes(), 0)
    random = scope.array(f"u{element_type(type_).bits}", x.sizes, 0)
    narrower = [t for t in (*FLOATS, "s32", "s16", "s8", "u8") if _bits(t) < _bits(type_)]
    made = scope.random.choice(narrower or ["s8"])
    return scope.emit(made, x.sizes, f"stochastic-convert({joined([x, random])})")


def _bits(type_: str) -> int:
    return element_type(type_).bits


def _map(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ not in NUMBERS:
        return None
    sizes = scope.sizes()
    a, b = scope.array(type_, sizes), scope.array(type_, sizes)
    lines = [
        f"a = {type_}[] parameter(0)",
        f"b = {type_}[] parameter(1)",
        f"c = {type_}[] subtract(a, b)",
        f"ROOT d = {type_}[] add(c, b)",
    ]
    callee = scope.draft.computation("mapped", lines)
    order = ",".join(map(str, range(len(sizes))))
    expression = f"map({joined([a, b])}), dimensions={{{order}}}, to_apply={callee}"
    return scope.emit(type_, sizes, expression, max(a.noise, b.noise))


def _copy(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes())
    return scope.emit(type_, x.sizes, f"copy({x.name})", x.noise)


MAKERS: Final[dict[str, Maker]] = {
    **{opcode: partial(_exact, opcode) for opcode in EXACT},
    **{opcode: partial(_rounded, opcode) for opcode in ROUNDED},
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "complex": _complex,
    "real": partial(_part, "real"),
    "imag": partial(_part, "imag"),
    "is-finite": _is_finite,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic_convert,
    "map": _map,
    "copy": _copy,
}
