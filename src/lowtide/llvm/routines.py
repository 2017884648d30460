"""Routines that LLVM's code generator calls where a processor has no instruction.

A compiler's run-time library has them, a process need not. Each is a module in LLVM's IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.llvm.elf import read_object

_HALF_OF_DOUBLE: Final = """
define weak hidden half @__truncdfhf2(double %x) nounwind {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %is.rounded = fcmp one double %back, %x
  %exact.bits = bitcast double %x to i64
  %back.bits = bitcast double %back to i64
  %is.above = icmp ugt i64 %back.bits, %exact.bits
  %less = sext i1 %is.above to i32
  %bits = bitcast float %near to i32
  %below = add i32 %bits, %less
  %odd = or i32 %below, 1
  %kept = select i1 %is.rounded, i32 %odd, i32 %bits
  %float = bitcast i32 %kept to float
  %half = fptrunc float %float to half
  ret half %half
}
"""
"""Rounded once: a float on the way is cut off, its last bit set where anything was lost."""

_HALF_OF_FLOAT: Final = """
define weak hidden half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %sign.bit = lshr i32 %bits, 16
  %sign = and i32 %sign.bit, 32768
  %size = and i32 %bits, 2147483647
  %payload = lshr i32 %size, 13
  %payload.bits = and i32 %payload, 1023
  %nan = or i32 %payload.bits, 32256
  %is.nan = icmp ugt i32 %size, 2139095040
  %is.large = icmp uge i32 %size, 1199566848
  %is.small = icmp ult i32 %size, 947912704
  %magnitude = bitcast i32 %size to float
  %shifted = fadd float %magnitude, 5.0e-01
  %shifted.bits = bitcast float %shifted to i32
  %small = sub i32 %shifted.bits, 1056964608
  %scaled = sub i32 %size, 939524096
  %odd.bit = lshr i32 %scaled, 13
  %odd = and i32 %odd.bit, 1
  %less = add i32 %scaled, 4095
  %carried = add i32 %less, %odd
  %normal = lshr i32 %carried, 13
  %finite = select i1 %is.small, i32 %small, i32 %normal
  %number = select i1 %is.large, i32 31744, i32 %finite
  %found = select i1 %is.nan, i32 %nan, i32 %number
  %whole = or i32 %found, %sign
  %narrow = trunc i32 %whole to i16
  %half = bitcast i16 %narrow to half
  ret half %half
}
"""
"""Rounded to even: small numbers by adding a half, whose last bit is that of the least half."""

_FLOAT_OF_HALF: Final = """
define weak hidden float @__extendhfsf2(half %x) nounwind {
  %narrow = bitcast half %x to i16
  %bits = zext i16 %narrow to i32
  %sign.bit = and i32 %bits, 32768
  %sign = shl i32 %sign.bit, 16
  %size = and i32 %bits, 32767
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, 939524096
  %counted = uitofp i32 %size to float
  %small = fmul float %counted, 0x3E70000000000000
  %small.bits = bitcast float %small to i32
  %special = or i32 %moved, 2139095040
  %quiet = or i32 %special, 4194304
  %is.small = icmp ult i32 %size, 1024
  %is.special = icmp uge i32 %size, 31744
  %is.nan = icmp ugt i32 %size, 31744
  %finite = select i1 %is.small, i32 %small.bits, i32 %normal
  %number = select i1 %is.special, i32 %special, i32 %finite
  %found = select i1 %is.nan, i32 %quiet, i32 %number
  %whole = or i32 %found, %sign
  %float = bitcast i32 %whole to float
  ret float %float
}
"""

_BFLOAT_OF_FLOAT: Final = """
define weak hidden bfloat @__truncsfbf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %top = lshr i32 %bits, 16
  %odd = and i32 %top, 1
  %less = add i32 %bits, 32767
  %carried = add i32 %less, %odd
  %finite = lshr i32 %carried, 16
  %quiet = or i32 %top, 64
  %is.nan = fcmp uno float %x, %x
  %found = select i1 %is.nan, i32 %quiet, i32 %finite
  %narrow = trunc i32 %found to i16
  %short = bitcast i16 %narrow to bfloat
  ret bfloat %short
}
"""
"""Rounded to even; what is above the largest one carries into the exponent of infinity."""

_BFLOAT_OF_DOUBLE: Final = (
    _HALF_OF_DOUBLE.replace("half @__truncdfhf2", "bfloat @__truncdfbf2")
    .replace("to half", "to bfloat")
    .replace("ret half %half", "ret bfloat %half")
)

_TEXTS: Final = {
    "__truncdfhf2": _HALF_OF_DOUBLE,
    "__truncsfhf2": _HALF_OF_FLOAT,
    "__extendhfsf2": _FLOAT_OF_HALF,
    "__truncdfbf2": _BFLOAT_OF_DOUBLE,
    "__truncsfbf2": _BFLOAT_OF_FLOAT,
}
"""By name. Those of doubles use those of floats where a processor has no instruction for that."""

_NAMES: Final = tuple([x.encode() for x in _TEXTS])


def routines_of(objects: Sequence[bytes]) -> str:
    """Return a module with all routines where object files use one and none has it, else ""."""
    naming = [x for x in objects if any(name in x for name in _NAMES)]
    if not naming:
        return ""
    files = [read_object(x) for x in naming]
    used, had = ({name for x in files for name in x.names(defined=y)} for y in (False, True))
    return "".join(_TEXTS.values()) if used.intersection(_TEXTS) - had else ""
