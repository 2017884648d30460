"""Comparisons whose outcome is known, or that say the same in simpler words."""

from __future__ import annotations

import operator
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Compare
from lowtide.passes.matching import are_plain, is_all, is_uniform, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.bounds import bounds_of, never_negative
from lowtide.transforms.simplify.support import (
    FLOATS,
    INTEGERS,
    PRED,
    WHOLE,
    Made,
    arrays,
    elementwise,
    folded,
    splat,
)

SWAPPED: Final = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_REFLEXIVE: Final = frozenset({"EQ", "LE", "GE"})


def _direction(compare: Instruction) -> str:
    return compare.attributes_as(Compare).direction


def _by_value(compare: Instruction) -> bool:
    return compare.attributes_as(Compare).type != "TOTALORDER"


def _redone(at: Rewriter, compare: Instruction, a: Op, b: Op, direction: str = "") -> Op:
    how = compare.attributes_as(Compare)
    return at.build.compare(a, b, direction or how.direction, how.type)


@arrays(Opcode.COMPARE)
def compare_constant_on_the_right(compare: Instruction, at: Rewriter) -> Made:
    """c < x => x > c, and so for all directions"""
    a, b = compare.operands
    if scalar_value(a) is None or scalar_value(b) is not None:
        return None
    return _redone(at, compare, at(b), at(a), SWAPPED[_direction(compare)])


@arrays(Opcode.COMPARE)
def compare_self(compare: Instruction, at: Rewriter) -> Made:
    """x == x => true and x != x => false, but for NaN; x < x => false"""
    a, b = compare.operands
    if a is not b:
        return None
    known = a.shape.element_type in WHOLE or not _by_value(compare)
    direction = _direction(compare)
    if not known and direction not in ("LT", "GT"):
        return None
    return splat(at, direction in _REFLEXIVE, compare.shape)


@arrays(Opcode.COMPARE, on=PRED)
def compare_truth_value(compare: Instruction, at: Rewriter) -> Made:
    """(p == true) => p, (p != false) => p, (p == false) => not p, (p != true) => not p"""
    p, constant = compare.operands
    value, direction = scalar_value(constant), _direction(compare)
    if value is None or direction not in ("EQ", "NE"):
        return None
    return p if bool(value) == (direction == "EQ") else ~at(p)


@arrays(Opcode.COMPARE, on=PRED)
def compare_truth_values(compare: Instruction, at: Rewriter) -> Made:
    """(p != q) => p xor q"""
    p, q = compare.operands
    return at(p) ^ at(q) if _direction(compare) == "NE" else None


@arrays(Opcode.COMPARE, on=INTEGERS)
def compare_beyond_bounds(compare: Instruction, at: Rewriter) -> Made:
    """x < y => true or false, where the bounds of x and y decide; e.g. an iota and its size"""
    a, b = [bounds_of(x) for x in compare.operands]
    outcome = _decided(_direction(compare), a, b)
    return None if outcome is None else splat(at, outcome, compare.shape)


def _decided(direction: str, a: tuple[int, int], b: tuple[int, int]) -> bool | None:
    if direction in ("GT", "GE"):
        return _decided(SWAPPED[direction], b, a)
    if direction == "LT":
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if direction == "LE":
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    if a[1] < b[0] or b[1] < a[0]:
        return direction == "NE"
    return direction == "EQ" if a[0] == a[1] == b[0] == b[1] else None


@arrays(Opcode.COMPARE, on=INTEGERS)
def compare_at_bound(compare: Instruction, at: Rewriter) -> Made:
    """x < c => x == c - 1 and x >= c => x != c - 1, where x is at least c - 1; and mirrored"""
    x, y = compare.operands
    value, direction = scalar_value(y), _direction(compare)
    if value is None or direction in ("EQ", "NE"):
        return None
    least, most = bounds_of(x)
    c = int(value)
    # The one value on the side of the bound, and whether the comparison holds there.
    at_least = {"LT": (c - 1, "EQ"), "LE": (c, "EQ"), "GT": (c, "NE"), "GE": (c - 1, "NE")}
    at_most = {"GT": (c + 1, "EQ"), "GE": (c, "EQ"), "LT": (c, "NE"), "LE": (c + 1, "NE")}
    for bound, table in ((least, at_least), (most, at_most)):
        only, found = table[direction]
        if only == bound:
            return _redone(at, compare, at(x), splat(at, only, y.shape), found)
    return None


@arrays(Opcode.COMPARE, on=INTEGERS)
def compare_sum_with_constant(compare: Instruction, at: Rewriter) -> Made:
    """(x + c == d) => x == d - c, and so for !="""
    inner, outer = compare.operands
    d = scalar_value(outer)
    if d is None or inner.opcode is not Opcode.ADD or _direction(compare) not in ("EQ", "NE"):
        return None
    c = scalar_value(inner.operands[1])
    if c is None:
        return None
    value = folded(Opcode.SUBTRACT, d, c)
    return _redone(at, compare, at(inner.operands[0]), splat(at, value, outer.shape))


@arrays(Opcode.COMPARE, on=INTEGERS)
def compare_difference_with_zero(compare: Instruction, at: Rewriter) -> Made:
    """(x - y == 0) => x == y, (x xor y == 0) => x == y, and so for !="""
    inner, zero = compare.operands
    if inner.opcode not in (Opcode.SUBTRACT, Opcode.XOR) or not is_all(zero, 0):
        return None
    if _direction(compare) not in ("EQ", "NE"):
        return None
    x, y = inner.operands
    return _redone(at, compare, at(x), at(y))


@arrays(Opcode.COMPARE)
def compare_negated(compare: Instruction, at: Rewriter) -> Made:
    """-x < -y => x > y of floating point numbers, (-x == -y) => x == y of all"""
    a, b = compare.operands
    if a.opcode is not Opcode.NEGATE or b.opcode is not Opcode.NEGATE:
        return None
    direction = _direction(compare)
    if direction not in ("EQ", "NE") and a.shape.element_type not in FLOATS:
        return None
    direction = SWAPPED[direction]
    return _redone(at, compare, at(a.operands[0]), at(b.operands[0]), direction)


@arrays(Opcode.COMPARE, on=FLOATS)
def compare_negated_with_constant(compare: Instruction, at: Rewriter) -> Made:
    """-x < c => x > -c"""
    a, b = compare.operands
    value = scalar_value(b)
    if a.opcode is not Opcode.NEGATE or value is None:
        return None
    direction = SWAPPED[_direction(compare)]
    negated = splat(at, folded(Opcode.NEGATE, value), b.shape)
    return _redone(at, compare, at(a.operands[0]), negated, direction)


@arrays(Opcode.COMPARE, on=FLOATS)
def compare_positive_with_zero(compare: Instruction, at: Rewriter) -> Made:
    """|x| < 0 => false, and so for squares, exponentials and negative constants"""
    x, y = compare.operands
    value = scalar_value(y)
    if value is None or not _by_value(compare) or not value <= 0 or not never_negative(x):
        return None
    false = ("LT", "LE", "EQ") if value < 0 else ("LT",)
    return splat(at, False, compare.shape) if _direction(compare) in false else None


@arrays(Opcode.COMPARE)
def compare_converted_with_constant(compare: Instruction, at: Rewriter) -> Made:
    """(convert(p) != 0) => p, (convert(p) == 0) => not p, and so for 1, where p is a truth value"""
    inner, constant = compare.operands
    value, direction = scalar_value(constant), _direction(compare)
    if inner.opcode is not Opcode.CONVERT or value is None or direction not in ("EQ", "NE"):
        return None
    p = inner.operands[0]
    if p.shape.element_type not in PRED or not _by_value(compare) or value not in (0, 1):
        return None
    return p if bool(value == 1) == (direction == "EQ") else ~at(p)


@arrays(Opcode.COMPARE, on=INTEGERS)
def compare_widened(compare: Instruction, at: Rewriter) -> Made:
    """convert(x) < convert(y) => x < y, where an integer type holds the other one's values"""
    a, b = compare.operands
    if a.opcode is not Opcode.CONVERT or b.opcode is not Opcode.CONVERT:
        return None
    x, y = a.operands[0], b.operands[0]
    narrow, wide = x.shape.element_type, a.shape.element_type
    if y.shape is not x.shape or not _is_widened(narrow, wide):
        return None
    return at.build.compare(at(x), at(y), _direction(compare))


def _is_widened(narrow: ElementType, wide: ElementType) -> bool:
    if narrow not in INTEGERS:
        return False
    if narrow.is_signed:
        return wide.is_signed and wide.bits >= narrow.bits
    return wide.bits > narrow.bits or wide is narrow


# -- comparisons that meet ---------------------------------------------------------------------

_OUTCOMES: Final = {
    "LT": frozenset("<"),
    "LE": frozenset("<="),
    "GT": frozenset(">"),
    "GE": frozenset(">="),
    "EQ": frozenset("="),
    "NE": frozenset("<>?"),
}
"""How x and y may be where a comparison holds; `?` stands for a NaN among them."""
_ORDERED: Final = frozenset("<=>")


@elementwise(Opcode.AND, Opcode.OR, on=PRED, of=(Opcode.COMPARE,))
def comparisons_of_the_same(x: Instruction, at: Rewriter) -> Made:
    """x < y or x == y => x <= y, x <= y and x >= y => x == y, and so on"""
    a, b = x.operands
    if a.opcode is not b.opcode or _by_value(a) != _by_value(b) or not is_uniform(a):
        return None
    second = _OUTCOMES[_direction(b)]
    if a.operands == b.operands[::-1]:
        second = _OUTCOMES[SWAPPED[_direction(b)]]
    elif a.operands != b.operands:
        return None
    first = _OUTCOMES[_direction(a)]
    met = first & second if x.opcode is Opcode.AND else first | second
    floating = a.operands[0].shape.element_type not in WHOLE and _by_value(a)
    possible = _ORDERED | {"?"} if floating else _ORDERED
    if met & possible in (frozenset(), possible):
        return splat(at, bool(met & possible), x.shape)
    for direction, outcomes in _OUTCOMES.items():
        if outcomes & possible == met & possible:
            return _redone(at, a, at(a.operands[0]), at(a.operands[1]), direction)
    return None


_HOLDS: Final = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "GT": operator.gt,
    "LE": operator.le,
    "GE": operator.ge,
}


@arrays(Opcode.COMPARE, on=WHOLE | FLOATS, of=(Opcode.SELECT,))
def compare_selected_constants(compare: Instruction, at: Rewriter) -> Made:
    """(select(p, c, d) == e) => p, not p, true or false"""
    inner, constant = compare.operands
    if inner.opcode is not Opcode.SELECT or not _by_value(compare):
        return None
    p, *branches = inner.operands
    c, d, e = [scalar_value(y) for y in (*branches, constant)]
    if c is None or d is None or e is None or not are_plain(p, *branches):
        return None
    first, second = [bool(_HOLDS[_direction(compare)](value, e)) for value in (c, d)]
    if first == second:
        return splat(at, first, compare.shape)
    if p.shape is not compare.shape:
        return None
    return p if first else ~at(p)
