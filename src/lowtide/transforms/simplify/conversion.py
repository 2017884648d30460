"""Conversions that cancel, merge or change places; copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Layout, Opcode
from lowtide.ir.attributes import ReducePrecision
from lowtide.passes.matching import are_plain, has_one_user, scalar_value
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.support import (
    FLOATS,
    INTEGERS,
    PRED,
    Made,
    again,
    arrays,
    elementwise,
)

_FORMATS: Final = {
    ElementType.F16: (5, 10),
    ElementType.BF16: (8, 7),
    ElementType.F32: (8, 23),
    ElementType.F64: (11, 52),
}
"""Exponent and mantissa bits."""


_GROWING: Final[dict[Opcode, Callable[[Any, Any], Any]]] = {
    Opcode.ADD: lambda x, by: x + by,
    Opcode.CEIL: lambda x, by: np.ceil(x),
    Opcode.DIVIDE: lambda x, by: x / by,
    Opcode.FLOOR: lambda x, by: np.floor(x),
    Opcode.MULTIPLY: lambda x, by: x * by,
    Opcode.ROUND_NEAREST_EVEN: lambda x, by: np.rint(x),
}
"""Functions of one number that never fall as it grows, where what they take beside is positive."""

_BOUNDS: Final = {
    Opcode.CLAMP: {0: True, 2: False},
    Opcode.MAXIMUM: {1: True},
    Opcode.MINIMUM: {1: False},
}
"""Operands that bound the other one, and whether they do so from below."""


def holds_all(wide: ElementType, narrow: ElementType) -> bool:
    """Whether one type has all the values of another: converting to it loses nothing."""
    if narrow is wide or narrow is ElementType.PRED:
        return wide in INTEGERS or wide in FLOATS or narrow is wide
    if narrow in INTEGERS and wide in INTEGERS:
        spare = wide.bits - narrow.bits
        return spare > 0 and (wide.is_signed or not narrow.is_signed)
    if narrow in FLOATS and wide in FLOATS:
        return all(a >= b for a, b in zip(_FORMATS[wide], _FORMATS[narrow], strict=True))
    if narrow in INTEGERS and wide in FLOATS:
        digits = narrow.bits - narrow.is_signed
        exponent, mantissa = _FORMATS[wide]
        return digits <= mantissa + 1 and digits < 1 << exponent - 1
    return False


@arrays(Opcode.CONVERT)
def convert_to_same(convert: Instruction, at: Rewriter) -> Made:
    """convert(x) => x, where the type stays"""
    x = convert.operands[0]
    return x if x.shape is convert.shape else None


@arrays(Opcode.CONVERT, of=(Opcode.CONVERT,))
def convert_widened(convert: Instruction, at: Rewriter) -> Made:
    """convert(convert(x)) => convert(x), where the type between has all values of the first"""
    inner = convert.operands[0]
    if inner.opcode is not Opcode.CONVERT:
        return None
    x = inner.operands[0]
    first, second, last = [y.shape.element_type for y in (x, inner, convert)]
    if not holds_all(second, first):
        return None
    if first not in FLOATS and second in FLOATS and last.is_integer and not holds_all(last, first):
        return None  # From floating point it saturates, between integers it wraps around.
    return x if x.shape is convert.shape else again(at, convert, x)


@arrays(Opcode.CONVERT, on=INTEGERS, of=(Opcode.CONVERT,))
def convert_wrapped(convert: Instruction, at: Rewriter) -> Made:
    """convert(convert(x)) => convert(x) of integers, where the last type is not the widest"""
    inner = convert.operands[0]
    if inner.opcode is not Opcode.CONVERT:
        return None
    x = inner.operands[0]
    types = [y.shape.element_type for y in (x, inner, convert)]
    if not all(t in INTEGERS for t in types) or types[2].bits > types[1].bits:
        return None
    return x if x.shape is convert.shape else again(at, convert, x)


@arrays(Opcode.CONVERT, on=FLOATS, of=(Opcode.CLAMP,))
def convert_clamped(convert: Instruction, at: Rewriter) -> Made:
    """convert(clamp(low, x, high)) => convert(x) to integers, all of which lie between the ends

    From floating point it saturates by itself, and makes 0 of what is no number, clamped or not.
    """
    clamp, type_ = convert.operands[0], convert.shape.element_type
    if clamp.opcode is not Opcode.CLAMP or type_ not in INTEGERS:
        return None
    low, high = scalar_value(clamp.operands[0]), scalar_value(clamp.operands[2])
    if low is None or high is None:
        return None
    least = -(1 << type_.bits - 1) if type_.is_signed else 0
    most = (1 << type_.bits - type_.is_signed) - 1
    is_wide = float(low) <= least and float(high) >= most
    return again(at, convert, clamp.operands[1]) if is_wide else None


@arrays(Opcode.CONVERT, on=frozenset({ElementType.F32}), of=tuple(_GROWING))
def convert_bounded(convert: Instruction, at: Rewriter) -> Made:
    """convert(f(max(x, c))) => convert(f(x)) to integers, where f grows and f(c) is the least one

    So are ReLU and its like left out before numbers are quantized. f rounds, adds constants, and
    multiplies or divides by positive ones. NaN is 0 either way.
    """
    type_, steps, x = convert.shape.element_type, [], convert.operands[0]
    if type_ not in INTEGERS:
        return None
    while x.opcode in _GROWING and has_one_user(x):
        inner = _step(x)
        if inner is None:
            return None
        steps.append(x)
        x = inner
    bounds = _BOUNDS.get(x.opcode)
    if bounds is None or not steps or not has_one_user(x):
        return None
    least, most = type_.bounds
    for number, is_low in bounds.items():
        bound = scalar_value(x.operands[number])
        if bound is None or np.isnan(bound):
            return None
        end = _carried(steps, bound)
        if not (end <= least if is_low else end >= most):
            return None
    made: Instruction | Op = next(y for i, y in enumerate(x.operands) if i not in bounds)
    for step in reversed(steps):
        inner = _step(step)
        made = again(at, step, *[made if y is inner else y for y in step.operands])
    return again(at, convert, made)


def _step(x: Instruction) -> Instruction | None:
    """What a function that never falls is of: the other operand is a constant, if there is one."""
    if len(x.operands) == 1:
        return x.operands[0]
    a, b = x.operands
    if scalar_value(b) is None and x.opcode is not Opcode.DIVIDE:
        a, b = b, a
    by = scalar_value(b)
    if by is None or a is b or not np.isfinite(by):
        return None
    return a if x.opcode is Opcode.ADD or by > 0 else None


def _carried(steps: list[Instruction], value: np.float32) -> np.float32:
    """What functions make of a number, the last one of them first."""
    with np.errstate(over="ignore", under="ignore"):
        for x in reversed(steps):
            inner = _step(x)
            other = next((scalar_value(y) for y in x.operands if y is not inner), None)
            value = np.float32(_GROWING[x.opcode](value, other))
    return value


@arrays(Opcode.CONVERT, on=FLOATS, of=(Opcode.ADD,))
def convert_sum_with_zero(convert: Instruction, at: Rewriter) -> Made:
    """convert(x + 0) => convert(x) to integers, of which -0 is 0 as well"""
    added = convert.operands[0]
    if added.opcode is not Opcode.ADD or convert.shape.element_type not in INTEGERS:
        return None
    for x, other in (added.operands, added.operands[::-1]):
        if scalar_value(other) == 0:
            return again(at, convert, x)
    return None


@arrays(Opcode.CONVERT, on=FLOATS, exact=False, of=(Opcode.CONVERT,))
def convert_there_and_back(convert: Instruction, at: Rewriter) -> Made:
    """convert(convert(x)) => x, where a floating point number was rounded on the way"""
    inner = convert.operands[0]
    if inner.opcode is not Opcode.CONVERT:
        return None
    x = inner.operands[0]
    return x if x.shape is convert.shape and x.shape.element_type in FLOATS else None


@arrays(Opcode.CONVERT, of=(Opcode.IOTA,))
def convert_iota(convert: Instruction, at: Rewriter) -> Made:
    """convert(iota) => iota of the other type, where both types hold all its values"""
    iota = convert.operands[0]
    if iota.opcode is not Opcode.IOTA:
        return None
    types = (iota.shape.element_type, convert.shape.element_type)
    last = max(iota.shape.dimensions) - 1
    if not all(last <= _consecutive(t) for t in types):
        return None
    return at.build.emit(Opcode.IOTA, (), iota.attributes, shape=convert.shape)


def _consecutive(element_type: ElementType) -> int:
    """Return up to which number a type has all whole numbers from 0; -1 for other types."""
    if element_type in INTEGERS:
        return (1 << element_type.bits - element_type.is_signed) - 1
    return 1 << _FORMATS[element_type][1] + 1 if element_type in FLOATS else -1


@arrays(Opcode.BITCAST_CONVERT)
def bitcast_to_same(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast-convert(x) => x, where the type stays"""
    x = bitcast.operands[0]
    return x if x.shape is bitcast.shape else None


@arrays(Opcode.BITCAST_CONVERT)
def bitcast_twice(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast-convert(bitcast-convert(x)) => bitcast-convert(x), of equal widths or back to x"""
    inner = bitcast.operands[0]
    if inner.opcode is not Opcode.BITCAST_CONVERT:
        return None
    x = inner.operands[0]
    if x.shape is bitcast.shape:
        return x
    widths = {y.shape.element_type.bits for y in (x, inner, bitcast)}
    return again(at, bitcast, x) if len(widths) == 1 else None


@arrays(Opcode.BITCAST_CONVERT, on=INTEGERS)
def bitcast_of_integers(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast-convert(x) => convert(x), between integers of one width"""
    x = bitcast.operands[0]
    target = bitcast.shape.element_type
    if target not in INTEGERS or target.bits != x.shape.element_type.bits:
        return None
    return at.build.convert(at(x), target)


@elementwise(Opcode.REDUCE_PRECISION, on=FLOATS)
def round_to_own_precision(x: Instruction, at: Rewriter) -> Made:
    """reduce-precision(x) => x, where the format is not narrower than the type"""
    how = x.attributes_as(ReducePrecision)
    exponent, mantissa = _FORMATS[x.shape.element_type]
    return (
        x.operands[0] if how.exponent_bits >= exponent and how.mantissa_bits >= mantissa else None
    )


@elementwise(Opcode.REDUCE_PRECISION, on=FLOATS)
def round_twice(x: Instruction, at: Rewriter) -> Made:
    """reduce-precision(reduce-precision(x)) => reduce-precision(x), of one format"""
    inner = x.operands[0]
    same = inner.opcode is Opcode.REDUCE_PRECISION and inner.attributes == x.attributes
    return inner if same else None


@arrays(Opcode.AND, Opcode.OR, Opcode.XOR, on=INTEGERS)
def bits_of_truth_values(x: Instruction, at: Rewriter) -> Made:
    """convert(p) and convert(q) => convert(p and q), and so for or and xor of truth values"""
    for operand in x.operands:
        if operand.opcode is not Opcode.CONVERT or not has_one_user(operand):
            return None
        if operand.operands[0].shape.element_type not in PRED:
            return None
    inner = at.build.emit(x.opcode, [at(operand.operands[0]) for operand in x.operands])
    return at.build.convert(inner, x.shape.element_type)


@arrays(Opcode.AND, Opcode.OR, Opcode.XOR, on=INTEGERS)
def bits_of_widened(x: Instruction, at: Rewriter) -> Made:
    """convert(a) and convert(b) => convert(a and b), and so for or and xor of unsigned integers"""
    shapes = set()
    for operand in x.operands:
        if operand.opcode is not Opcode.CONVERT or not has_one_user(operand):
            return None
        shapes.add(operand.operands[0].shape)
    source = x.operands[0].operands[0].shape.element_type
    if len(shapes) != 1 or source not in INTEGERS or source.is_signed:
        return None
    if source.bits > x.shape.element_type.bits:
        return None
    inner = at.build.emit(x.opcode, [at(operand.operands[0]) for operand in x.operands])
    return at.build.convert(inner, x.shape.element_type)


@arrays(Opcode.CONCATENATE)
def concatenate_widened(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(convert(x), convert(y)) => convert(concatenate(x, y)), of types not wider"""
    sources = []
    for operand in concatenate.operands:
        if operand.opcode is not Opcode.CONVERT or not has_one_user(operand):
            return None
        sources.append(operand.operands[0])
    source, target = sources[0].shape.element_type, concatenate.shape.element_type
    if any(x.shape.element_type is not source for x in sources) or source.bits > target.bits:
        return None
    joined = at.build.emit(Opcode.CONCATENATE, [at(x) for x in sources], concatenate.attributes)
    return at.build.convert(joined, target)


# -- copies ------------------------------------------------------------------------------------


@rule(Opcode.COPY)
def copy_to_same_layout(copy: Instruction, at: Rewriter) -> Made:
    """copy(x) => x, where the layout stays; copies that aliasing needs are made after all passes"""
    x = copy.operands[0]
    return x if x.shape is copy.shape else None


@rule(Opcode.COPY)
def copy_of_copy(copy: Instruction, at: Rewriter) -> Made:
    """copy(copy(x)) => copy(x), within one memory: a way through another is a wish"""
    inner = copy.operands[0]
    if inner.opcode is not Opcode.COPY:
        return None
    if inner.shape.memory_space != inner.operands[0].shape.memory_space:
        return None
    return at.build.emit(Opcode.COPY, [at(inner.operands[0])], shape=copy.shape)


@rule(Opcode.BITCAST)
def bitcast_to_same_shape(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast(x) => x, where shape and layout stay"""
    x = bitcast.operands[0]
    return x if x.shape is bitcast.shape else None


@rule(Opcode.BITCAST)
def bitcast_of_bitcast(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast(bitcast(x)) => bitcast(x), of arrays without tiles and padding"""
    inner = bitcast.operands[0]
    if inner.opcode is not Opcode.BITCAST:
        return None
    x = inner.operands[0]
    if any(_is_odd(y) for y in (x, inner, bitcast)):
        return None
    return at.build.bitcast(at(x), bitcast.shape)


@rule(Opcode.BITCAST)
def bitcast_of_reshape(bitcast: Instruction, at: Rewriter) -> Made:
    """bitcast(reshape(x)) => bitcast(x)"""
    inner = bitcast.operands[0]
    if inner.opcode is not Opcode.RESHAPE or _is_odd(bitcast):
        return None
    if not are_plain(inner, inner.operands[0]):
        return None
    return at.build.bitcast(at(inner.operands[0]), bitcast.shape)


def _is_odd(x: Instruction) -> bool:
    """Whether more than the order of dimensions counts for how an array lies in memory."""
    shape = x.shape
    if not shape.is_array or shape.is_dynamic or shape.layout is None:
        return True
    return shape.layout != Layout(shape.layout.minor_to_major)
