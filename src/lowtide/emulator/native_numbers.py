"""What a device does with single numbers, as native functions."""

from __future__ import annotations

from lowtide.native import BF16PairBits, F32Bits, native


@native
def _bfloat(bits: int) -> int:
    """Round an f32 to the nearest bf16, of two the even one; NaN is the one NaN of a device."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FFF
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@native
def gpu_bfloats(upper: F32Bits, lower: F32Bits) -> BF16PairBits:
    """Round two numbers to bf16."""
    return _bfloat(upper) << 16 | _bfloat(lower)
