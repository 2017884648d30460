"""Parts that the families share: decorators that guard rules, and the making of constants.

The guards ask what nearly every rule has to know first: that arrays are row major and of known
sizes, and of which kind their elements are. The formula of a rule is its docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction, Opcode, Shape
from lowtide.ir.element_type import BITS
from lowtide.ir.literal import DTYPES
from lowtide.passes.matching import is_plain, is_uniform, scalar_value
from lowtide.passes.rewriting import Apply, Guard, Rewriter, Rule

Made: TypeAlias = "Instruction | Op | None"
Kinds: TypeAlias = frozenset[ElementType]

ANY: Final[Kinds] = frozenset(BITS)
PRED: Final[Kinds] = frozenset({ElementType.PRED})
INTEGERS: Final[Kinds] = frozenset([x for x in BITS if x.is_integer and x.bits >= 4])
FLOATS: Final[Kinds] = frozenset(
    {ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64}
)
"""The types with infinities and zeros of both signs; the narrower ones lack one or the other."""
COMPLEX: Final[Kinds] = frozenset({ElementType.C64, ElementType.C128})
REALS: Final = INTEGERS | FLOATS
NUMBERS: Final = REALS | COMPLEX
INEXACT: Final = FLOATS | COMPLEX
SCALARS: Final = (Opcode.BROADCAST, Opcode.CONSTANT)
"""The opcodes of what `scalar_value` knows."""
WHOLE: Final = INTEGERS | PRED
"""The types whose elements are just bits."""


def _guarded(guard: Guard, opcodes: tuple[Opcode, ...], exact: bool) -> Callable[[Apply], Rule]:
    def decorate(apply: Apply) -> Rule:
        return _rule(guard, opcodes, exact, apply, apply.__name__)

    return decorate


def _rule(guard: Guard, opcodes: tuple[Opcode, ...], exact: bool, apply: Apply, name: str) -> Rule:
    return Rule(name.replace("_", "-"), opcodes, apply, exact, guard)


@cache
def _elementwise_guard(on: Kinds, of: tuple[Opcode, ...]) -> Guard:
    def guard(x: Instruction) -> bool:
        if of and not _reads_one(x, of):
            return False
        shape = x.shape
        if shape.element_type not in on:
            return False
        for operand in x.operands:
            if operand.shape is not shape:
                return False
        return is_plain(shape)

    return guard


@cache
def _array_guard(on: Kinds, of: tuple[Opcode, ...], unless: Guard | None = None) -> Guard:
    def guard(x: Instruction) -> bool:
        if of and not _reads_one(x, of):
            return False
        if unless is not None and unless(x):
            return False
        operands = x.operands
        if not operands or operands[0].shape.element_type not in on or not is_plain(x.shape):
            return False
        return is_uniform(x)

    return guard


def _reads_one(x: Instruction, of: tuple[Opcode, ...]) -> bool:
    return any(y.opcode in of for y in x.operands)


def elementwise(
    *opcodes: Opcode, on: Kinds = ANY, of: tuple[Opcode, ...] = (), exact: bool = True
) -> Callable[[Apply], Rule]:
    """Return the decorator of rules whose operands all have the one shape of the result.

    The rule gets only plain shapes, of element types in `on`. Where `of` is given, some operand
    has one of these opcodes; that spares the calls of a rule that would not fit.
    """
    return _guarded(_elementwise_guard(on, of), opcodes, exact)


def arrays(
    *opcodes: Opcode,
    on: Kinds = ANY,
    of: tuple[Opcode, ...] = (),
    unless: Guard | None = None,
    exact: bool = True,
) -> Callable[[Apply], Rule]:
    """Return the decorator of rules on arrays: the shapes of operands and result are plain.

    `on` has the element types of operand 0 on which the rule works; `of` is as for `elementwise`.
    What `unless` holds for, which looks at opcodes and shapes only, the rule does not get.
    """
    return _guarded(_array_guard(on, of, unless), opcodes, exact)


def exact_on_integers(
    *opcodes: Opcode, inexact: Kinds = INEXACT, of: tuple[Opcode, ...] = ()
) -> Callable[[Apply], tuple[Rule, Rule]]:
    """Return the decorator of a pair of rules: an exact one on integers, another on the rest.

    The other one is called `...-inexactly`. Shapes and `of` are as for `elementwise`.
    """
    return _pair(_elementwise_guard(INTEGERS, of), _elementwise_guard(inexact, of), opcodes)


def exact_on_integer_arrays(*opcodes: Opcode) -> Callable[[Apply], tuple[Rule, Rule]]:
    """As `exact_on_integers`, with shapes as for `arrays`."""
    return _pair(_array_guard(INTEGERS, ()), _array_guard(INEXACT, ()), opcodes)


def _pair(
    exact: Guard, inexact: Guard, opcodes: tuple[Opcode, ...]
) -> Callable[[Apply], tuple[Rule, Rule]]:
    def decorate(apply: Apply) -> tuple[Rule, Rule]:
        name = apply.__name__
        return (
            _rule(exact, opcodes, True, apply, name),
            _rule(inexact, opcodes, False, apply, f"{name}_inexactly"),
        )

    return decorate


# -- constants ---------------------------------------------------------------------------------


def number(value: Any, element_type: ElementType) -> Any:
    """Return a number as a NumPy scalar of a type; integers wrap around."""
    dtype = DTYPES[element_type]
    if element_type.is_integer:
        bits = element_type.bits
        value = int(value) & ((1 << bits) - 1)
        if element_type.is_signed and value >> bits - 1:
            value -= 1 << bits
        return np.asarray(value, np.uint64 if value > 0 else np.int64).astype(dtype)[()]
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def scalar(at: Rewriter, value: Any, element_type: ElementType) -> Op:
    """Return a scalar constant."""
    return at.build.constant(np.asarray(number(value, element_type), DTYPES[element_type]))


def splat(at: Rewriter, value: Any, like: Shape) -> Op:
    """Return an array of the shape `like` whose elements are all the same number."""
    return spread(at, scalar(at, value, like.element_type), like)


def spread(at: Rewriter, value: Op, like: Shape) -> Op:
    """Return a scalar repeated to the sizes of `like`."""
    return at.build.broadcast(value, like.dimensions, ()) if like.rank else value


def folded(opcode: Opcode, *values: Any) -> Any:
    """Return what an operation makes of NumPy scalars of one type, as the evaluator rounds it."""
    from lowtide.evaluator.elementwise import FUNCTIONS  # Few programs compute with constants.
    from lowtide.evaluator.numeric import element_type_of, narrow, widen

    operands = [np.asarray(x) for x in values]
    element_type = element_type_of(operands[0])
    with np.errstate(all="ignore"):
        result = FUNCTIONS[element_type][opcode](*[widen(x) for x in operands])
        return narrow(result, element_type)[()]


def power_of_two(value: Any) -> int | None:
    """Return k where an integer is 2**k and k is positive, else None."""
    whole = int(value)
    return whole.bit_length() - 1 if whole > 1 and not whole & (whole - 1) else None


def again(
    at: Rewriter, like: Instruction, *operands: Instruction | Op, shape: Shape | None = None
) -> Op:
    """Return the operation of `like`, with its attributes and shape or another, on operands."""
    made = [x if isinstance(x, Op) else at(x) for x in operands]
    return at.build.emit(like.opcode, made, like.attributes, shape=shape or like.shape)


def constants_met(x: Instruction, at: Rewriter) -> Made:
    """Return y f (c f d) for (y f c) f d, for an operation of that kind on two constants."""
    inner, outer = x.operands
    d = scalar_value(outer)
    if d is None or inner.opcode is not x.opcode:
        return None
    c = scalar_value(inner.operands[1])
    if c is None:
        return None
    return again(at, x, inner.operands[0], splat(at, folded(x.opcode, c, d), x.shape))
