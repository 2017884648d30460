"""Long functions of numbers that a kernel of few elements has many times.

Rows and steps that are written out compute the same function at each point. A compilation then
takes as long as the text is, and its calls take hardly longer: most of their time is not in there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.elementwise.rare import Parts, called
from lowtide.ir.opcode import Opcode
from lowtide.records.late import late_function

MOST_WRITTEN: Final = 4
"""How often a function is written where it is computed; further ones are calls."""

_JOINT: Final = "sine_and_cosine"
_CIRCULAR: Final = (Opcode.SINE, Opcode.COSINE)
"""One function, so that those of one angle share all but the end."""

_SINE_AND_COSINE: Final = late_function(
    "lowtide.codegen.elementwise.trigonometric", "JOINT", _JOINT
)


def _written_or_called(
    opcode: Opcode, function: Callable[..., Number], numbers: tuple[Number, ...]
) -> Number:
    """Return what the long function of an opcode makes of numbers of one type."""
    x, is_joint = numbers[0], opcode in _CIRCULAR
    name = _JOINT if is_joint else opcode.value
    if x.target.triple.startswith("nvptx") or x.fn.repeats.count(name) <= MOST_WRITTEN:
        return function(*numbers)
    if is_joint:
        return called(name, _SINE_AND_COSINE, x, is_rare=False)[_CIRCULAR.index(opcode)]
    (found,) = called(name, _alone(function), *numbers, is_rare=False)
    return found


def _sine_and_cosine(x: Number, is_short: bool) -> Parts:
    """Return both functions of an angle in f32 or f64, whose reduction they share."""
    if is_short and x.fn.repeats.count(_JOINT) > MOST_WRITTEN:
        return called(_JOINT, _SINE_AND_COSINE, x, is_rare=False)
    found: Parts = _SINE_AND_COSINE(x)
    return found


@cache
def _alone(function: Callable[..., Number]) -> Callable[..., Parts]:
    """The same function for `called`, which takes several results."""
    return lambda *numbers: (function(*numbers),)


WRITERS: Final[Mapping[str, Callable[..., Any]]] = {
    "both": _sine_and_cosine,
    "one": _written_or_called,
}
"""What is asked for by name, and loaded with the first long function of a short array."""
