"""Instructions of a device for single numbers, as functions of the host."""

from __future__ import annotations

from typing import Final

_POWERS: Final = (
    *("0x3DBC3BD650FC2983", "0x3DFE8CAC7351BB22", "0x3E3E4CF5158B8EC7", "0x3E7B5253D395E7C1"),
    *("0x3EB62C0223A5C822", "0x3EEFFCBFC588B0C5", "0x3F2430912F86C786", "0x3F55D87FE78A6730"),
    *("0x3F83B2AB6FBA4E77", "0x3FAC6B08D704A0BF", "0x3FCEBFBDFF82C58E", "0x3FE62E42FEFA39EF"),
    "0x3FF0000000000000",
)
"""The terms of the series of 2**x, the highest power first."""

_FIRST: Final = _POWERS[0]


def _series() -> str:
    lines, before = [], f"double {_FIRST}"
    for number, term in enumerate(_POWERS[1:]):
        lines.append(f"  %m{number} = fmul {before}, %r")
        lines.append(f"  %a{number} = fadd double %m{number}, {term}")
        before = f"double %a{number}"
    return "\n".join(lines)


NUMBERS: Final = f"""
define internal float @gpu_power_of_two(float %x) {{
  %isnan = fcmp uno float %x, %x
  %low = fcmp olt float %x, -1.600000e+02
  %raised = select i1 %low, float -1.600000e+02, float %x
  %high = fcmp ogt float %raised, 1.600000e+02
  %lowered = select i1 %high, float 1.600000e+02, float %raised
  %given = select i1 %isnan, float 0.0, float %lowered
  %wide = fpext float %given to double
  %n = fptosi double %wide to i64
  %whole = sitofp i64 %n to double
  %r = fsub double %wide, %whole
{_series()}
  %biased = add i64 %n, 1023
  %bits = shl i64 %biased, 52
  %scale = bitcast i64 %bits to double
  %product = fmul double %a{len(_POWERS) - 2}, %scale
  %found = fptrunc double %product to float
  %result = select i1 %isnan, float %x, float %found
  ret float %result
}}
define internal i32 @gpu_bfloat(float %x) {{
  %bits = bitcast float %x to i32
  %isnan = fcmp uno float %x, %x
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %bits, 32767
  %up = add i32 %half, %odd
  %cut = lshr i32 %up, 16
  %number = select i1 %isnan, i32 32767, i32 %cut
  ret i32 %number
}}
define internal <2 x bfloat> @gpu_bfloats(float %x, float %y) {{
  %upper = call i32 @gpu_bfloat(float %x)
  %lower = call i32 @gpu_bfloat(float %y)
  %raised = shl i32 %upper, 16
  %word = or i32 %raised, %lower
  %result = bitcast i32 %word to <2 x bfloat>
  ret <2 x bfloat> %result
}}
"""
"""The estimate of a device, closer than it makes it, and two floats rounded to bf16.

NaN becomes the one NaN of a device.
"""
