"""Long functions of numbers that a kernel of few elements has many times.

Rows and steps that are written out compute the same function at each point. A compilation then
takes as long as the text is, and its calls take hardly longer: most of their time is not in there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.rare import Parts, called
from lowtide.ir.opcode import Opcode
from lowtide.records.late import late_function

FEW: Final = 256
"""So many elements have few vectors: in loops over more of them each instruction counts."""

MOST_WRITTEN: Final = 4
"""How often a function is written where it is computed; further ones are calls."""

_JOINT: Final = "sine_and_cosine"

LONG: Final[Mapping[Opcode, str]] = {
    Opcode.COSINE: _JOINT,
    Opcode.SINE: _JOINT,
    **{
        x: x.value
        for x in (
            *(Opcode.ACOS, Opcode.ACOSH, Opcode.ASIN, Opcode.ASINH, Opcode.ATAN2, Opcode.ATANH),
            *(Opcode.CBRT, Opcode.COSH, Opcode.ERF, Opcode.LOG_PLUS_ONE, Opcode.POWER),
            *(Opcode.SINH, Opcode.TAN),
        )
    },
}
"""Functions of some 40 lines and more, by opcode, with their names.

Sine and cosine are one, so that those of one angle share all but the end.
"""

_SINE_AND_COSINE: Final = late_function(
    "lowtide.codegen.elementwise.trigonometric", "JOINT", _JOINT
)


def written_or_called(
    opcode: Opcode, function: Callable[..., Number], numbers: tuple[Number, ...]
) -> Number:
    """Return what the function of an opcode makes of numbers of one type."""
    x, name = numbers[0], LONG.get(opcode)
    if name is None or x.target.triple.startswith("nvptx"):
        return function(*numbers)
    if x.fn.repeats.count(name) <= MOST_WRITTEN:
        return function(*numbers)
    if name == _JOINT:
        return called(name, _SINE_AND_COSINE, x, is_rare=False)[opcode is Opcode.COSINE]
    (found,) = called(name, _alone(function), *numbers, is_rare=False)
    return found


def sine_and_cosine(x: Number, *, is_short: bool) -> Parts:
    """Return both functions of an angle in f32 or f64, whose reduction they share."""
    if is_short and x.fn.repeats.count(_JOINT) > MOST_WRITTEN:
        return called(_JOINT, _SINE_AND_COSINE, x, is_rare=False)
    found: Parts = _SINE_AND_COSINE(x)
    return found


@cache
def _alone(function: Callable[..., Number]) -> Callable[..., Parts]:
    """The same function for `called`, which takes several results."""
    return lambda *numbers: (function(*numbers),)
