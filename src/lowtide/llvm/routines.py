"""Routines that LLVM's code generator calls where a processor has no instruction.

A compiler's run-time library has them, a process need not. They work on the bits, so that it does
not matter how a thread treats denormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.llvm.elf import read_object
from lowtide.llvm.target import Target
from lowtide.native import BF16Bits, F16Bits, F32Bits, F64Bits, NativeUnit, leading_zeros, native


@native
def _rounded(bits: int, size_bits: int, fraction: int, bias: int, kept: int, new_bias: int) -> int:
    """Return the bits of the nearest float of 16 bits, of two the even one.

    `size_bits` are all but the sign; `bias` is the exponent of 1.0, `kept` the result's fraction.
    """
    size = bits & ((1 << size_bits) - 1)
    sign = (bits >> size_bits & 1) << 15
    infinity = 0x7FFF >> kept << kept
    if size > ((1 << size_bits) - 1) >> fraction << fraction:
        payload = size >> (fraction - kept) & ((1 << kept) - 1)
        return sign | infinity | 1 << (kept - 1) | payload
    significand, shift = size - ((bias - new_bias) << fraction), fraction - kept
    exponent = (size >> fraction) - bias + new_bias
    if exponent < 1 and bias > new_bias:
        significand = size & ((1 << fraction) - 1) | 1 << fraction
        shift = min(shift + 1 - exponent, 62)
    half_less = (1 << (shift - 1)) - 1
    return sign | min((significand + half_less + (significand >> shift & 1)) >> shift, infinity)


@native
def __truncdfhf2(bits: F64Bits) -> F16Bits:
    return _rounded(bits, 63, 52, 1023, 10, 15)


@native
def __truncsfhf2(bits: F32Bits) -> F16Bits:
    return _rounded(bits, 31, 23, 127, 10, 15)


@native
def __truncdfbf2(bits: F64Bits) -> BF16Bits:
    return _rounded(bits, 63, 52, 1023, 7, 127)


@native
def __truncsfbf2(bits: F32Bits) -> BF16Bits:
    return _rounded(bits, 31, 23, 127, 7, 127)


@native
def __extendhfsf2(bits: F16Bits) -> F32Bits:
    sign, size = (bits & 0x8000) << 16, bits & 0x7FFF
    if size > 0x7C00:
        return sign | 0x7FC00000 | size << 13
    if size == 0x7C00:
        return sign | 0x7F800000
    if size >= 0x400:
        return sign | (size << 13) + (112 << 23)
    if size == 0:
        return sign
    up = leading_zeros(size) - 53
    return sign | ((113 - up) << 23) + (((size << up) - 0x400) << 13)


_UNIT: Final = NativeUnit(
    "routines",
    (__truncdfhf2, __truncsfhf2, __extendhfsf2, __truncdfbf2, __truncsfbf2),
    "weak hidden ",
)


def routines_of(objects: Sequence[bytes], target: Target) -> str:
    """Return a module with all routines where object files use one and none has it, else ""."""
    names = [x.encode() for x in _UNIT.names]
    naming = [x for x in objects if any(name in x for name in names)]
    if not naming:
        return ""
    files = [read_object(x) for x in naming]
    used, had = ({name for x in files for name in x.names(defined=y)} for y in (False, True))
    return _UNIT.text(target.triple) if used.intersection(_UNIT.names) - had else ""
