"""Routines that LLVM's code generator calls where a processor has no instruction.

A compiler's run-time library has them, a process need not. Each is a module in LLVM's IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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

_TEXTS: Final = {"__truncdfhf2": _HALF_OF_DOUBLE}


def routines_of(objects: Sequence[bytes]) -> str:
    """Return a module with the routines that object files name; nothing where they name none."""
    named = [name for name in _TEXTS if any(name.encode() in code for code in objects)]
    return "".join([_TEXTS[name] for name in named])
