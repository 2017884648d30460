"""Instructions of graphics processors: an estimate of 2**x, and rounding to bf16.

Programs of narrow numbers would wait for the many instructions of other forms rather than for
memory.
"""

from __future__ import annotations

import math
from typing import Final

from lowtide.codegen.elementwise.number import Number, fma
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

_POWER_OF_TWO: Final = external("llvm.nvvm.ex2.approx.f", "float", "float")

_BFLOATS: Final = external("llvm.nvvm.ff2bf16x2.rn", "<2 x bfloat>", "float", "float")
"""Rounds two floats, of which the second one goes to the lower half of a word."""

_LOG2_E: Final = (1.44269502162933349609375, 1.925963033500011e-08)
"""log2(e) in two parts."""

_ENDS: Final = (-110.0, 90.0)
"""Beyond these exp is 0 or infinite."""


def is_gpu(target: Target) -> bool:
    """Return whether a target is a graphics processor, which has estimates."""
    return target.triple.startswith("nvptx")


def estimated_exp(x: Number) -> Number:
    """Return e to the x of floats, 2.5 ulp off at most.

    2**t is estimated, for t = x * log2(e) as a float; what t is off by is put right behind that.
    """
    low, high = _ENDS
    bounded = x.intrinsic("maximum", low).intrinsic("minimum", high)
    first, second = _LOG2_E
    t = bounded * first
    rest = fma(bounded, second, fma(bounded, first, -t))
    return _power_of_two(t) * fma(rest, math.log(2.0), 1.0)


def rounded_to_bfloat(x: Number) -> Number:
    """Return floats rounded to bf16, as floats; two are rounded at once."""
    fn = x.fn
    if not x.lanes:
        return x.named("float", _lower(fn, _word(fn, "0.0", x.name)))
    found = "poison"
    for lane in range(0, x.lanes, 2):
        several = range(lane, min(lane + 2, x.lanes))
        given = [fn.op(f"extractelement {x.type} {x.name}, i64 {i}") for i in several]
        word = _word(fn, given[1] if len(given) == 2 else "0.0", given[0])
        for i, half in zip(several, (_lower, _upper), strict=False):
            found = fn.op(f"insertelement {x.type} {found}, float {half(fn, word)}, i64 {i}")
    return x.named("float", found)


def _word(fn: Function, upper: str, lower: str) -> str:
    """Two floats as bf16, an i32."""
    return fn.op(f"bitcast <2 x bfloat> {fn.call(_BFLOATS, [upper, lower])} to i32")


def _lower(fn: Function, word: str) -> str:
    return fn.op(f"bitcast i32 {fn.op(f'shl i32 {word}, 16')} to float")


def _upper(fn: Function, word: str) -> str:
    return fn.op(f"bitcast i32 {fn.op(f'and i32 {word}, -65536')} to float")


def _power_of_two(x: Number) -> Number:
    """2**x of each lane, 2**-22 of itself off."""
    fn = x.fn
    if not x.lanes:
        return x.named(x.element, fn.call(_POWER_OF_TWO, [x.name]))
    found = "poison"
    for lane in range(x.lanes):
        one = fn.call(_POWER_OF_TWO, [fn.op(f"extractelement {x.type} {x.name}, i64 {lane}")])
        found = fn.op(f"insertelement {x.type} {found}, float {one}, i64 {lane}")
    return x.named(x.element, found)
