"""Sizes with variables in them: what is provably equal, and how large they can be."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

Monomial = tuple[str, ...]
"""Variables multiplied, sorted; what is neither sum nor product counts as a variable."""


class Size:
    """A polynomial with integer coefficients in variables that are not negative.

    Two are equal if their coefficients are. Sums, differences and products are worked out; other
    expressions, as quotients and maximums, are equal if they are written alike.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {names: n for names, n in sorted(terms.items()) if n}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for names, n in other.terms.items():
            terms[names] = terms.get(names, 0) + n
        return Size(terms)

    def __mul__(self, other: Size) -> Size:
        terms: dict[Monomial, int] = {}
        for names, n in self.terms.items():
            for others, m in other.terms.items():
                product = tuple(sorted(names + others))
                terms[product] = terms.get(product, 0) + n * m
        return Size(terms)

    def __sub__(self, other: Size) -> Size:
        return self + other * constant(-1)

    @property
    def value(self) -> int | None:
        """The number, if there are no variables."""
        return self.terms.get((), 0) if set(self.terms) <= {()} else None

    def __str__(self) -> str:
        terms = [" * ".join([str(n), *names]) for names, n in self.terms.items()]
        return " + ".join(terms) or "0"


def constant(number: int) -> Size:
    """Return a size without variables."""
    return Size({(): number})


def parse_size(text: int | str) -> Size:
    """Return a size from a number or an expression; raises ValueError for what is neither."""
    if isinstance(text, int):
        return constant(text)
    try:
        return _size(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no size: {error.msg}") from None


def upper_bound(text: int | str, bounds: Mapping[str, int]) -> Size:
    """Return the most that a size can be, or the size itself where that is not bounded.

    `bounds` are the largest values of variables, the least is 0. Raises ValueError for what is no
    size.
    """
    if isinstance(text, int):
        return constant(text)
    size = parse_size(text)
    _, high = _range(ast.parse(text, mode="eval").body, bounds)
    return size if high is None else constant(high)


def _size(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value=int(number)):
            return constant(number)
        case ast.Name(id=name):
            return Size({(name,): 1})
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _size(operand) * constant(-1)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _EXACT:
            return _EXACT[type(kind)](_size(left), _size(right))
        case ast.BinOp(op=ast.FloorDiv()) | ast.BinOp(op=ast.Mod()) | ast.Call():
            _range(node, {})
            return Size({(ast.unparse(node),): 1})
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no size: expected + - * // % min max")


_EXACT: Final[dict[type[ast.operator], Callable[[Size, Size], Size]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}

Range = tuple[int | None, int | None]
"""The least and the greatest value, None where there is none."""


def _range(node: ast.expr, bounds: Mapping[str, int]) -> Range:
    match node:
        case ast.Constant(value=int(number)):
            return number, number
        case ast.Name(id=name):
            return 0, bounds.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            low, high = _range(operand, bounds)
            return _negative(high), _negative(low)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _RANGES:
            return _RANGES[type(kind)](_range(left, bounds), _range(right, bounds))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, *_] as args, keywords=[]):
            return _extreme(name, [_range(x, bounds) for x in args])
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no size: expected + - * // % min max")


def _negative(number: int | None) -> int | None:
    return None if number is None else -number


def _sum(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else a[0] + b[0]
    high = None if a[1] is None or b[1] is None else a[1] + b[1]
    return low, high


def _difference(a: Range, b: Range) -> Range:
    return _sum(a, (_negative(b[1]), _negative(b[0])))


def _product(a: Range, b: Range) -> Range:
    if None not in (*a, *b):
        corners = [x * y for x in a for y in b if x is not None and y is not None]
        return min(corners), max(corners)
    positive = all(x[0] is not None and x[0] >= 0 for x in (a, b))
    zero = (0, 0) in (a, b)
    return (0, 0) if zero else (0, None) if positive else (None, None)


def _quotient(a: Range, b: Range) -> Range:
    """Of a divisor that is above 0 for sure; else nothing is known."""
    if b[0] is None or b[0] < 1:
        return None, None
    low = None if a[0] is None else min(a[0] // b[0], a[0] // (b[1] or b[0]), 0)
    high = None if a[1] is None else max(a[1] // b[0], a[1] // (b[1] or b[0]), -1)
    return low, high


def _rest(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] < 1:
        return None, None
    below = None if b[1] is None else b[1] - 1
    highs = [x for x in (below, a[1] if a[0] is not None and a[0] >= 0 else None) if x is not None]
    return 0, min(highs, default=None)


def _extreme(name: str, ranges: list[Range]) -> Range:
    lows, highs = ([x[end] for x in ranges] for end in (0, 1))
    known = [[x for x in ends if x is not None] for ends in (lows, highs)]
    if name == "max":
        return max(known[0], default=None), None if None in highs else max(known[1])
    return None if None in lows else min(known[0]), min(known[1], default=None)


_RANGES: Final[dict[type[ast.operator], Callable[[Range, Range], Range]]] = {
    ast.Add: _sum,
    ast.Sub: _difference,
    ast.Mult: _product,
    ast.FloorDiv: _quotient,
    ast.Mod: _rest,
}
