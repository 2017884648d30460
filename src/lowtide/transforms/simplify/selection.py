"""Choices between values: select, clamp, maximum and minimum with constants."""

from __future__ import annotations

from typing import Final

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Compare
from lowtide.passes.matching import has_one_user, identity_of, is_all, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.bounds import bounds_of
from lowtide.transforms.simplify.support import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    PRED,
    REALS,
    WHOLE,
    Made,
    again,
    arrays,
    elementwise,
    exact_on_integers,
    scalar,
    splat,
    spread,
)

# -- select ------------------------------------------------------------------------------------


def _branch(select: Instruction, chosen: Instruction) -> Made:
    return chosen if chosen.shape is select.shape else None


@arrays(Opcode.SELECT)
def select_known(select: Instruction, at: Rewriter) -> Made:
    """select(true, x, y) => x, select(false, x, y) => y"""
    p, x, y = select.operands
    value = scalar_value(p)
    return None if value is None else _branch(select, x if value else y)


@arrays(Opcode.SELECT)
def select_same(select: Instruction, at: Rewriter) -> Made:
    """select(p, x, x) => x"""
    _, x, y = select.operands
    return _branch(select, x) if x is y else None


@arrays(Opcode.SELECT, of=(Opcode.NOT,))
def select_by_complement(select: Instruction, at: Rewriter) -> Made:
    """select(not p, x, y) => select(p, y, x)"""
    p, x, y = select.operands
    return again(at, select, p.operands[0], y, x) if p.opcode is Opcode.NOT else None


@elementwise(Opcode.SELECT, on=PRED)
def select_truth_values(select: Instruction, at: Rewriter) -> Made:
    """select(p, true, q) => p or q, select(p, q, false) => p and q, and with not p"""
    p, x, y = select.operands
    if is_all(x, 1):
        return at(p) | at(y)
    if is_all(y, 0):
        return at(p) & at(x)
    if is_all(x, 0):
        return ~at(p) & at(y)
    return ~at(p) | at(x) if is_all(y, 1) else None


@arrays(Opcode.SELECT)
def select_one_or_zero(select: Instruction, at: Rewriter) -> Made:
    """select(p, 1, 0) => convert(p), select(p, 0, 1) => convert(not p)"""
    p, x, y = select.operands
    element_type = select.shape.element_type
    if p.shape.rank != select.shape.rank or element_type not in NUMBERS:
        return None
    for one, zero, chosen in ((x, y, True), (y, x, False)):
        if is_all(one, 1) and is_all(zero, 0) and _is_plain_zero(zero):
            return at.build.convert(at(p) if chosen else ~at(p), element_type)
    return None


def _is_plain_zero(zero: Instruction) -> bool:
    """Whether a zero has no sign."""
    value = scalar_value(zero)
    return value is not None and not any(value.tobytes())


@arrays(Opcode.SELECT, of=(Opcode.SELECT,))
def select_by_the_same(select: Instruction, at: Rewriter) -> Made:
    """select(p, select(p, x, y), z) => select(p, x, z), and so for the other branch"""
    p, x, y = select.operands
    if x.opcode is Opcode.SELECT and x.operands[0] is p:
        return again(at, select, p, x.operands[1], y)
    if y.opcode is Opcode.SELECT and y.operands[0] is p:
        return again(at, select, p, x, y.operands[2])
    return None


@arrays(Opcode.SELECT, of=(Opcode.SELECT,))
def select_same_of_two(select: Instruction, at: Rewriter) -> Made:
    """select(p, select(q, x, y), y) => select(p and q, x, y)"""
    p, inner, y = select.operands
    if inner.opcode is not Opcode.SELECT or not has_one_user(inner):
        return None
    q, x, other = inner.operands
    if other is not y or q.shape is not p.shape:
        return None
    return again(at, select, at(p) & at(q), x, y)


@arrays(Opcode.SELECT, of=(Opcode.SELECT,))
def select_same_of_either(select: Instruction, at: Rewriter) -> Made:
    """select(p, x, select(q, x, y)) => select(p or q, x, y)"""
    p, x, inner = select.operands
    if inner.opcode is not Opcode.SELECT or not has_one_user(inner):
        return None
    q, other, y = inner.operands
    if other is not x or q.shape is not p.shape:
        return None
    return again(at, select, at(p) | at(q), x, y)


@arrays(Opcode.SELECT, of=(Opcode.COMPARE,))
def select_by_comparison(select: Instruction, at: Rewriter) -> Made:
    """select(x == y, x, y) => y, select(x < y, x, y) => min(x, y), and so on, of integers"""
    p, a, b = select.operands
    if p.opcode is not Opcode.COMPARE or select.shape.element_type not in INTEGERS:
        return None
    direction = p.attributes_as(Compare).direction
    x, y = p.operands
    if (a, b) == (y, x):
        direction = _EXCHANGED[direction]
    elif (a, b) != (x, y):
        return None
    if direction in ("EQ", "NE"):
        return b if direction == "EQ" else a
    opcode = Opcode.MINIMUM if direction in ("LT", "LE") else Opcode.MAXIMUM
    return at.build.emit(opcode, [at(a), at(b)])


_EXCHANGED: Final = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


@arrays(Opcode.CONVERT, of=(Opcode.SELECT,))
def convert_selected_constants(convert: Instruction, at: Rewriter) -> Made:
    """convert(select(p, c, d)) => select(p, convert(c), convert(d))"""
    inner = convert.operands[0]
    if inner.opcode is not Opcode.SELECT or not has_one_user(inner):
        return None
    p, x, y = inner.operands
    values = [scalar_value(x), scalar_value(y)]
    if any(v is None for v in values):
        return None
    element_type = convert.shape.element_type
    parts = [
        spread(at, at.build.convert(scalar(at, v, inner.shape.element_type), element_type), x.shape)
        for v in values
    ]
    return at.build.emit(Opcode.SELECT, [at(p), *parts])


@exact_on_integers(Opcode.MULTIPLY, of=(Opcode.CONVERT,))
def masked(multiply: Instruction, at: Rewriter) -> Made:
    """x * convert(p) => select(p, x, 0), where p is a truth value"""
    return masked_product(multiply, at)


def masked_product(multiply: Instruction, at: Rewriter) -> Made:
    """Return the selection that is a product with a converted truth value, None for others."""
    left, right = multiply.operands
    for x, mask in ((left, right), (right, left)):
        p = truth_value(mask)
        if p is not None:
            return at.build.select(at(p), at(x), splat(at, 0, multiply.shape))
    return None


def truth_value(mask: Instruction) -> Instruction | None:
    """Return the truth value that a number was converted from, None for other numbers."""
    if mask.opcode is not Opcode.CONVERT:
        return None
    p = mask.operands[0]
    return p if p.shape.element_type in PRED else None


# -- maximum and minimum -----------------------------------------------------------------------


@elementwise(Opcode.MAXIMUM, Opcode.MINIMUM, on=REALS)
def extreme_of_extreme(x: Instruction, at: Rewriter) -> Made:
    """max(x, -inf) => x, min(x, inf) => x, and so for the ends of integer types"""
    operand, constant = x.operands
    value = scalar_value(constant)
    if value is None or value != identity_of(x.opcode, x.shape.element_type):
        return None
    return operand


@elementwise(Opcode.MAXIMUM, Opcode.MINIMUM, on=INTEGERS)
def extreme_within_bounds(x: Instruction, at: Rewriter) -> Made:
    """max(x, y) => x, where bounds say that x is at least y, and so for min"""
    a, b = x.operands
    (least_a, most_a), (least_b, most_b) = bounds_of(a), bounds_of(b)
    first, second = (a, b) if x.opcode is Opcode.MAXIMUM else (b, a)
    if least_a >= most_b:
        return first
    return second if least_b >= most_a else None


@elementwise(Opcode.MAXIMUM, Opcode.MINIMUM, on=FLOATS)
def extreme_of_negated(x: Instruction, at: Rewriter) -> Made:
    """max(-x, -y) => -min(x, y), min(-x, -y) => -max(x, y)"""
    left, right = x.operands
    for inner in (left, right):
        if inner.opcode is not Opcode.NEGATE or not has_one_user(inner):
            return None
    other = Opcode.MINIMUM if x.opcode is Opcode.MAXIMUM else Opcode.MAXIMUM
    return -at.build.emit(other, [at(left.operands[0]), at(right.operands[0])])


# -- clamp -------------------------------------------------------------------------------------


@arrays(Opcode.CLAMP, on=WHOLE)
def clamp_within_bounds(clamp: Instruction, at: Rewriter) -> Made:
    """clamp(low, x, high) => x, where bounds say that x is between"""
    low, x, high = [bounds_of(y) for y in clamp.operands]
    return clamp.operands[1] if low[1] <= x[0] and x[1] <= high[0] else None


@arrays(Opcode.CLAMP)
def clamp_clamped(clamp: Instruction, at: Rewriter) -> Made:
    """clamp(a, clamp(a, x, b), b) => clamp(a, x, b), of equal or constant bounds"""
    low, inner, high = clamp.operands
    if inner.opcode is not Opcode.CLAMP:
        return None
    pairs = ((low, inner.operands[0]), (high, inner.operands[2]))
    if not all(a is b or _same_constant(a, b) for a, b in pairs):
        return None
    return inner if inner.shape is clamp.shape else None


@arrays(Opcode.CLAMP, on=INTEGERS)
def clamp_to_one_value(clamp: Instruction, at: Rewriter) -> Made:
    """clamp(c, x, d) => d, where c is not less than d"""
    low, _, high = clamp.operands
    c, d = scalar_value(low), scalar_value(high)
    if c is None or d is None or c < d:
        return None
    return splat(at, d, clamp.shape)


def _same_constant(a: Instruction, b: Instruction) -> bool:
    x, y = scalar_value(a), scalar_value(b)
    return x is not None and y is not None and bool(x.tobytes() == y.tobytes())


@arrays(Opcode.CLAMP, on=INTEGERS)
def clamp_on_one_side(clamp: Instruction, at: Rewriter) -> Made:
    """clamp(low, x, high) => min(x, high) or max(x, low), where the other bound does nothing"""
    low, x, high = clamp.operands
    within = bounds_of(x)
    if bounds_of(low)[1] <= within[0]:
        return at.build.minimum(at(x), at(high))
    if bounds_of(high)[0] >= max(within[1], bounds_of(low)[1]):
        return at.build.maximum(at(x), at(low))
    return None


@arrays(Opcode.CLAMP, on=INTEGERS)
def merge_clamps(clamp: Instruction, at: Rewriter) -> Made:
    """clamp(a, clamp(b, x, c), d) => clamp(max(a, b), x, min(c, d)) of overlapping constants"""
    outer_low, inner, outer_high = clamp.operands
    if inner.opcode is not Opcode.CLAMP:
        return None
    inner_low, x, inner_high = inner.operands
    values = [scalar_value(y) for y in (outer_low, inner_low, inner_high, outer_high)]
    if any(v is None for v in values):
        return None
    a, b, c, d = [int(v) for v in values if v is not None]
    if not max(a, b) <= min(c, d):
        return None
    element_type: ElementType = clamp.shape.element_type
    low, high = scalar(at, max(a, b), element_type), scalar(at, min(c, d), element_type)
    return at.build.emit(Opcode.CLAMP, [low, at(x), high])
