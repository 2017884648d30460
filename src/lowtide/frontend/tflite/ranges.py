"""Between which integers the elements of an array lie, by the operations that make them.

What differs from channel to channel, as weights and biases do, is told channel by channel: channels
are the last dimension. Sums of constant weights are bounded by these weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Constant, Convolution, Dimensions, Dot, Pad
from lowtide.ir.literal import Array
from lowtide.records import dataclass

_MOST_STEPS: Final = 32
"""Operations behind a number that are looked at."""


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """The least and the greatest integers: one of each, or one for each channel.

    They are arrays of Python's integers, which have no end.
    """

    low: Array
    high: Array

    @property
    def whole(self) -> IntegerRange:
        """The range of all channels together."""
        return _range(self.low.min(), self.high.max())


_Rule: TypeAlias = Callable[[Instruction, "_Ranges"], IntegerRange]


def range_of(x: Instruction) -> IntegerRange:
    """Return a range in which the elements lie.

    Sums and products are bounded as if they had no end of bits: where the range fits the type, they
    did not wrap around, else it is that of the type.
    """
    return _Ranges().of(x)


class _Ranges:
    """The ranges of instructions that were looked at, up to some steps behind the first one."""

    def __init__(self) -> None:
        self._found: dict[Instruction, IntegerRange] = {}
        self._steps = _MOST_STEPS

    def of(self, x: Instruction) -> IntegerRange:
        if x not in self._found:
            self._found[x] = self._made(x)
        return self._found[x]

    def _made(self, x: Instruction) -> IntegerRange:
        rule, limits = _RULES.get(x.opcode), _limits(x)
        if rule is None or not self._steps or not x.shape.element_type.is_integer:
            return limits
        self._steps -= 1
        made = rule(x, self)
        self._steps += 1
        is_outside = (made.low < limits.low) | (made.high > limits.high)
        low, high = (np.where(is_outside, ends, own) for ends, own in _ends(limits, made))
        return IntegerRange(low, high)


def _ends(x: IntegerRange, y: IntegerRange) -> list[tuple[Array, Array]]:
    return [(x.low, y.low), (x.high, y.high)]


def _range(low: int, high: int) -> IntegerRange:
    return IntegerRange(np.array([int(low)], object), np.array([int(high)], object))


def _limits(x: Instruction) -> IntegerRange:
    """The range of the type; of what is no integer, one beyond that of all integers."""
    type_ = x.shape.element_type
    return _range(*type_.bounds) if type_.is_integer else _range(-(1 << 65), 1 << 65)


def _of_values(values: Array) -> IntegerRange:
    """The range of an array, by channels."""
    if not values.size:
        return _range(0, 0)
    rows = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    return IntegerRange(rows.min(0).astype(object), rows.max(0).astype(object))


def _constant(x: Instruction, ranges: _Ranges) -> IntegerRange:
    return _of_values(x.attributes_as(Constant).literal.array)


def _same(x: Instruction, ranges: _Ranges) -> IntegerRange:
    return ranges.of(x.operands[0])


def _broadcast(x: Instruction, ranges: _Ranges) -> IntegerRange:
    given = ranges.of(x.operands[0])
    along = x.attributes_as(Dimensions).dimensions
    return given if along and along[-1] == x.shape.rank - 1 else given.whole


def _reshaped(x: Instruction, ranges: _Ranges) -> IntegerRange:
    """Channels stay where the last dimension keeps its size."""
    given = ranges.of(x.operands[0])
    sizes = [y.shape.dimensions[-1:] for y in (x, x.operands[0])]
    return given if sizes[0] == sizes[1] else given.whole


def _transposed(x: Instruction, ranges: _Ranges) -> IntegerRange:
    given = ranges.of(x.operands[0])
    order = x.attributes_as(Dimensions).dimensions
    return given if order and order[-1] == len(order) - 1 else given.whole


def _padded(x: Instruction, ranges: _Ranges) -> IntegerRange:
    given, value = (ranges.of(y) for y in x.operands)
    last = x.attributes_as(Pad).dimensions[-1:]
    if any(d.low or d.high or d.interior for d in last):
        given = given.whole
    return IntegerRange(np.minimum(given.low, value.low), np.maximum(given.high, value.high))


def _sum(x: Instruction, ranges: _Ranges) -> IntegerRange:
    y, z = (ranges.of(y) for y in x.operands)
    return IntegerRange(y.low + z.low, y.high + z.high)


def _difference(x: Instruction, ranges: _Ranges) -> IntegerRange:
    y, z = (ranges.of(y) for y in x.operands)
    return IntegerRange(y.low - z.high, y.high - z.low)


def _product(x: Instruction, ranges: _Ranges) -> IntegerRange:
    return _product_of(*[ranges.of(y) for y in x.operands])


def _product_of(y: IntegerRange, z: IntegerRange) -> IntegerRange:
    ends = [a * b for a in (y.low, y.high) for b in (z.low, z.high)]
    return IntegerRange(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _upper_half(x: Instruction, ranges: _Ranges) -> IntegerRange:
    found, bits = _product(x, ranges), x.shape.element_type.bits
    return IntegerRange(found.low >> bits, found.high >> bits)


def _and(x: Instruction, ranges: _Ranges) -> IntegerRange:
    """Bits of both: no more than one that is not negative, no more bits than the lower one has."""
    y, z = (ranges.of(y).whole for y in x.operands)
    (low, other_low), (high, other_high) = [(int(a[0]), int(b[0])) for a, b in _ends(y, z)]
    if low < 0 and other_low < 0:
        bits = (-min(low, other_low) - 1).bit_length()
        return _range(-(1 << bits), max(high, other_high))
    ends = [top for bottom, top in ((low, high), (other_low, other_high)) if bottom >= 0]
    return _range(0, min(ends))


def _shifted(x: Instruction, ranges: _Ranges) -> IntegerRange:
    """Numbers shifted right by amounts that are constants."""
    given, amount = (ranges.of(y) for y in x.operands)
    is_logical = x.opcode is Opcode.SHIFT_RIGHT_LOGICAL
    bits = x.shape.element_type.bits
    if amount.low.min() < 0 or amount.high.max() >= bits:
        return _limits(x)
    if is_logical and given.low.min() < 0:
        is_moved = amount.low.min() > 0
        return _range(0, ((1 << bits) - 1) >> int(amount.low.min())) if is_moved else _limits(x)
    ends = [y >> a for y in (given.low, given.high) for a in (amount.low, amount.high)]
    return IntegerRange(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _dot(x: Instruction, ranges: _Ranges) -> IntegerRange:
    found = x.attributes_as(Dot).dimensions
    weights = x.operands[1].shape
    sizes = x.operands[0].shape.dimensions
    count = int(np.prod([sizes[d] for d in found.lhs_contracting], dtype=object))
    inner = (*found.rhs_batch, *found.rhs_contracting)
    free = [d for d in range(weights.rank) if d not in inner]
    return _sum_of_products(x, count, free, ranges)


def _convolution(x: Instruction, ranges: _Ranges) -> IntegerRange:
    how, kernel = x.attributes_as(Convolution), x.operands[1].shape
    feature = how.dimensions.kernel_output_feature
    count = kernel.element_count // max(1, kernel.dimensions[feature])
    is_last = how.dimensions.output_feature == x.shape.rank - 1
    return _sum_of_products(x, count, [feature] if is_last else [], ranges)


def _sum_of_products(
    x: Instruction, count: int, free: Sequence[int], ranges: _Ranges
) -> IntegerRange:
    """Sums of a count of products, by channels where dimension `free` of weights has them.

    Any of the products may be missing, as beyond the edge of an image.
    """
    given, other = ranges.of(x.operands[0]), ranges.of(x.operands[1])
    weights = _known(x.operands[1])
    if weights is None or len(free) != 1:
        found = _product_of(given.whole, other.whole)
        return IntegerRange(np.minimum(found.low * count, 0), np.maximum(found.high * count, 0))
    if not weights.size:
        return _range(0, 0)
    wide = np.moveaxis(weights, free[0], -1).reshape(-1, weights.shape[free[0]]).astype(np.int64)
    above = np.maximum(wide, 0).sum(0).astype(object)
    below = np.minimum(wide, 0).sum(0).astype(object)
    low, high = min(int(given.low.min()), 0), max(int(given.high.max()), 0)
    return IntegerRange(above * low + below * high, above * high + below * low)


def _known(x: Instruction) -> Array | None:
    """The array of a constant of few bits, which may be converted."""
    while x.opcode is Opcode.CONVERT and x.operands[0].shape.element_type.is_integer:
        x = x.operands[0]
    if x.opcode is not Opcode.CONSTANT or x.shape.element_type.bits > 32:
        return None
    return x.attributes_as(Constant).literal.array


def _reduced(x: Instruction, ranges: _Ranges) -> IntegerRange:
    """The range of a sum; of another reduction that of the type."""
    body, given = x.called_computations[0].root, x.operands[0]
    if body.opcode is not Opcode.ADD or len(x.operands) != 2:
        return _limits(x)
    inner = [given.shape.dimensions[d] for d in x.attributes_as(Dimensions).dimensions]
    count = int(np.prod(inner, dtype=object))
    each, start = ranges.of(given).whole, ranges.of(x.operands[1])
    return IntegerRange(each.low * count + start.low, each.high * count + start.high)


_RULES: Final[Mapping[Opcode, _Rule]] = {
    Opcode.ADD: _sum,
    Opcode.AND: _and,
    Opcode.BROADCAST: _broadcast,
    Opcode.CONSTANT: _constant,
    Opcode.CONVERT: _same,
    Opcode.CONVOLUTION: _convolution,
    Opcode.DOT: _dot,
    Opcode.MULHI: _upper_half,
    Opcode.MULTIPLY: _product,
    Opcode.PAD: _padded,
    Opcode.REDUCE: _reduced,
    Opcode.RESHAPE: _reshaped,
    Opcode.SHIFT_RIGHT_ARITHMETIC: _shifted,
    Opcode.SHIFT_RIGHT_LOGICAL: _shifted,
    Opcode.SUBTRACT: _difference,
    Opcode.TRANSPOSE: _transposed,
}
