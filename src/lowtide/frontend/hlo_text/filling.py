"""Values of constants that a text leaves out, `{...}`: the numbers of XLA's parser.

XLA counts 32-bit words over all such constants of a process in the order of the text, and the bytes
behind the last whole word of each constant by a second counter, which it puts where the number of
words says, over bytes that are already there. Results can be compared with XLA's only with the same
numbers. Here the count starts anew with each text, as in a process that reads one.

Read as floating-point numbers of 16 bits and more with the exponents of f32 or f64, the counts are
mostly subnormal. XLA's programs take those for zero wherever they compute, so they are zeros here.
"""

from __future__ import annotations

from typing import Final, final

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array, Literal, zero_literal
from lowtide.ir.shape import Shape

LARGEST_FILLING: Final = 1 << 24
"""Arrays of more elements are zeros, which take no memory."""


@final
class LiteralFilling:
    """The two counters: of words, modulo 2**32, and of bytes, modulo 256."""

    __slots__ = ("_bytes", "_words")

    def __init__(self) -> None:
        self._words = 0
        self._bytes = 0

    def next_literal(self, shape: Shape) -> Literal:
        """Return the next constant without a value in the text: an array or tuple of any shape."""
        if shape.is_tuple:
            parts = tuple([self.next_literal(part) for part in shape.tuple_shapes])
            return Literal(shape, parts, elided=True)
        if not shape.is_array or not shape.element_count:
            return zero_literal(shape)
        dtype = DTYPES[shape.element_type]
        size = shape.element_count * dtype.itemsize
        words, rest = divmod(size, 4)
        first_word, first_byte = self._words, self._bytes
        self._words = (first_word + words) % 2**32
        self._bytes = (first_byte + rest) % 2**8
        if shape.element_count > LARGEST_FILLING:
            return zero_literal(shape, elided=True)
        data = np.zeros(size, np.uint8)
        counted = np.arange(first_word, first_word + words, dtype=np.uint64)
        data[: 4 * words] = counted.astype("<u4").view(np.uint8)
        data[words : words + rest] = np.arange(first_byte, first_byte + rest).astype(np.uint8)
        value = _plain(data, shape.element_type).view(dtype)
        _flush(value, shape.element_type)
        return Literal(shape, value.reshape(shape.dimensions), elided=True)


def _plain(
    data: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], of: ElementType
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Return bytes with the bits that a type has not made equal to its sign, or 0."""
    if of is ElementType.PRED:
        return data & np.uint8(1)
    if of.bits >= 8:
        return data
    low = data & np.uint8((1 << of.bits) - 1)
    if of.is_floating or of.is_unsigned:
        return low
    sign = np.uint8(1 << (of.bits - 1))
    return ((low ^ sign) - sign).astype(np.uint8)


_REAL_PARTS: Final = {
    **{x: x for x in (ElementType.BF16, ElementType.F32, ElementType.F64)},
    ElementType.C64: ElementType.F32,
    ElementType.C128: ElementType.F64,
}
"""The types of whose numbers XLA takes the subnormal ones for zero."""


def _flush(value: Array, of: ElementType) -> None:
    """Put zeros for subnormal numbers."""
    part = _REAL_PARTS.get(of)
    if part is None:
        return
    dtype = DTYPES[part]
    parts = value.view(dtype)
    least = np.finfo(np.float64 if dtype.itemsize == 8 else np.float32).tiny
    parts[np.abs(parts.astype(np.float64)) < least] = 0
