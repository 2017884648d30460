"""Arithmetic on LLVM values that reads as arithmetic: `(x * x + 1.0).sqrt()`.

A `Number` is a value, or a vector of values, of a floating point type, an integer type or i1.
Python numbers beside one become constants of its type. Nothing here is contracted or reassociated:
what is written is what is computed, and `fma` is written where it is meant.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from lowtide.codegen.value import vector_type
from lowtide.llvm.callee import external, suffix
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

Operand: TypeAlias = "Number | float"
"""A number, or a constant of the type of the number beside it."""

FLOATS: Final = ("float", "double")

INTEGER_OF: Final = {"float": "i32", "double": "i64", "half": "i16", "bfloat": "i16"}
FLOAT_OF: Final = {"i32": "float", "i64": "double"}

_TRUTHS: Final = {"true": -1, "false": 0}

_HOLDS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    x: getattr(operator, x) for x in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""Comparisons of integers by the end of their names."""


class Number:
    """A value of an LLVM type; `lanes` is 0 for a single one. Never changed once made."""

    __slots__ = ("element", "fn", "lanes", "name", "target")

    def __init__(self, fn: Function, target: Target, element: str, lanes: int, name: str) -> None:
        self.fn = fn
        self.target = target
        self.element = element
        self.lanes = lanes
        self.name = name

    # -- types ---------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        """The LLVM type."""
        return vector_type(self.element, self.lanes)

    @property
    def is_float(self) -> bool:
        """Whether it is float or double."""
        return self.element in FLOATS

    @property
    def is_double(self) -> bool:
        """Whether it is a double."""
        return self.element == "double"

    @property
    def is_constant(self) -> bool:
        """Whether it is known while compiling."""
        return not self.name.startswith("%")

    @property
    def known(self) -> int | None:
        """The integer, with its sign, that a constant has in each lane; None of all else."""
        text = self.name.removeprefix(f"splat ({self.element} ").removesuffix(")")
        if text in _TRUTHS:
            return _TRUTHS[text]
        is_known = self.element.startswith("i") and text.removeprefix("-").isdecimal()
        return _wrapped(int(text), self.width) if is_known else None

    @property
    def width(self) -> int:
        """The bits of an integer, or of the integer with the bits of a floating point number."""
        return int(INTEGER_OF.get(self.element, self.element)[1:])

    def named(self, element: str, name: str) -> Number:
        """Return a value of another element type and as many lanes, already written."""
        return Number(self.fn, self.target, element, self.lanes, name)

    def constant(self, value: float, element: str = "") -> Number:
        """Return a constant of this type, or of an element type, in each lane."""
        element = element or self.element
        return self.named(element, constant_text(element, value, self.lanes))

    def like(self, value: Operand) -> Number:
        """Return the operand as a number of this type."""
        return value if isinstance(value, Number) else self.constant(value)

    # -- arithmetic ----------------------------------------------------------------------------

    def op(self, name: str, other: Operand) -> Number:
        """Return the result of an instruction of two operands of this type."""
        return self.named(
            self.element, self.fn.op(f"{name} {self.type} {self.name}, {self.like(other).name}")
        )

    def intrinsic(self, name: str, *others: Operand) -> Number:
        """Return the result of an intrinsic overloaded on this type alone."""
        values = [self.name, *[self.like(x).name for x in others]]
        return self.named(self.element, self.fn.intrinsic(name, self.type, *values))

    def __add__(self, other: Operand) -> Number:
        return self.op("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Operand) -> Number:
        return self.op("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Operand) -> Number:
        return self.op("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Operand) -> Number:
        return self.op("fdiv", other)

    def __radd__(self, other: float) -> Number:
        return self.constant(other) + self

    def __rsub__(self, other: float) -> Number:
        return self.constant(other) - self

    def __rmul__(self, other: float) -> Number:
        return self * other

    def __rtruediv__(self, other: float) -> Number:
        return self.constant(other) / self

    def __neg__(self) -> Number:
        if not self.is_float:
            return 0 - self
        return self.named(self.element, self.fn.op(f"fneg {self.type} {self.name}"))

    def __and__(self, other: Operand) -> Number:
        return self.op("and", other)

    def __or__(self, other: Operand) -> Number:
        if (bits := self.known) is not None and (others := self.like(other).known) is not None:
            return self.constant(bits | others)
        return self.op("or", other)

    def __xor__(self, other: Operand) -> Number:
        return self.op("xor", other)

    def __invert__(self) -> Number:
        return self.op("xor", 1 if self.element == "i1" else -1)

    def __lshift__(self, other: Operand) -> Number:
        return self.op("shl", other)

    def __rshift__(self, other: Operand) -> Number:
        """Return the bits moved down, zeros from above."""
        return self.op("lshr", other)

    def ashr(self, other: Operand) -> Number:
        """Return the bits moved down, the sign copied."""
        return self.op("ashr", other)

    # -- comparison and choice -----------------------------------------------------------------

    def compare(self, predicate: str, other: Operand) -> Number:
        """Return an i1 by a predicate of fcmp or icmp; a constant, of integers that are."""
        given = self.like(other)
        if (a := self.known) is not None and (b := given.known) is not None:
            if predicate.startswith("u"):
                a, b = (x & ((1 << self.width) - 1) for x in (a, b))
            return self.constant(_HOLDS[predicate[-2:]](a, b), "i1")
        name = "fcmp" if self.is_float else "icmp"
        text = f"{name} {predicate} {self.type} {self.name}, {given.name}"
        return self.named("i1", self.fn.op(text))

    def __lt__(self, other: Operand) -> Number:
        return self.compare("olt" if self.is_float else "slt", other)

    def __le__(self, other: Operand) -> Number:
        return self.compare("ole" if self.is_float else "sle", other)

    def __gt__(self, other: Operand) -> Number:
        return self.compare("ogt" if self.is_float else "sgt", other)

    def __ge__(self, other: Operand) -> Number:
        return self.compare("oge" if self.is_float else "sge", other)

    def equals(self, other: Operand) -> Number:
        """Return whether it equals another; NaN equals nothing."""
        return self.compare("oeq" if self.is_float else "eq", other)

    def differs(self, other: Operand) -> Number:
        """Return whether it differs from another; NaN differs from all."""
        return self.compare("une" if self.is_float else "ne", other)

    def is_nan(self) -> Number:
        """Return whether it is NaN."""
        return self.compare("uno", self)

    def select(self, yes: Number, no: Operand) -> Number:
        """Return `yes` where this i1 holds, else `no`."""
        other = yes.like(no)
        if (holds := self.known) is not None:
            return yes if holds else other
        text = f"select {self.type} {self.name}, {yes.type} {yes.name}, {yes.type} {other.name}"
        return yes.named(yes.element, self.fn.op(text))

    def where(self, condition: Number, value: Operand) -> Number:
        """Return `value` where the condition holds, else this."""
        return condition.select(self.like(value), self)

    # -- functions of floating point numbers ---------------------------------------------------

    def abs(self) -> Number:
        """Return the magnitude."""
        return self.intrinsic("fabs")

    def copysign(self, other: Operand) -> Number:
        """Return the magnitude with the sign of another."""
        return self.intrinsic("copysign", other)

    def sqrt(self) -> Number:
        """Return the square root, correctly rounded."""
        return self.intrinsic("sqrt")

    def rint(self) -> Number:
        """Return the nearest integer, ties to even."""
        return self.intrinsic("roundeven")

    def at_most(self, bound: float) -> Number:
        """Return the lesser one of this and a constant; NaN stays."""
        return self.where(self > bound, bound)

    def at_least(self, bound: float) -> Number:
        """Return the greater one of this and a constant; NaN stays."""
        return self.where(self < bound, bound)

    # -- conversion ----------------------------------------------------------------------------

    def cast(self, instruction: str, element: str) -> Number:
        """Return this converted by an instruction: "sext", "fptrunc", "bitcast", "uitofp"."""
        if element == self.element:
            return self
        to = vector_type(element, self.lanes)
        self.fn.has_halves |= self.element == "half"
        found = self.named(element, self.fn.op(f"{instruction} {self.type} {self.name} to {to}"))
        return _of_its_own(found) if instruction == "trunc" and self.width == 64 else found

    def bits(self) -> Number:
        """Return the bits of a floating point number as an integer."""
        return self.cast("bitcast", INTEGER_OF[self.element])

    def from_bits(self) -> Number:
        """Return the floating point number with these bits."""
        return self.cast("bitcast", FLOAT_OF[self.element])

    def extended(self) -> Number:
        """Return a float as a double; a double as it is."""
        return self.cast("fpext", "double")

    def shortened(self) -> Number:
        """Return a double rounded to float; a float as it is."""
        return self.cast("fptrunc", "float")

    def saturated(self, element: str, signed: bool) -> Number:
        """Return a floating point number truncated and clamped to an integer type; 0 for NaN.

        Of vectors the bounds are tested here: LLVM 22 takes lanes apart for that.
        """
        if self.lanes:
            return self._saturated_lanes(element, signed)
        to = vector_type(element, self.lanes)
        name = f"llvm.fpto{'si' if signed else 'ui'}.sat.{suffix(to)}.{suffix(self.type)}"
        return self.named(element, self.fn.call(external(name, to, self.type), [self.name]))

    def _saturated_lanes(self, element: str, signed: bool) -> Number:
        bits = int(element[1:])
        limit, least = 1 << (bits - signed), -(1 << (bits - 1)) if signed else 0
        is_large = self >= float(limit)
        inside = self.where(self.is_nan(), 0.0).where(self < float(least), float(least))
        found = inside.where(is_large, 0.0).cast("fptosi" if signed else "fptoui", element)
        return found.where(is_large, limit - 1)


def fma(a: Number, b: Operand, c: Operand) -> Number:
    """Return a * b + c, rounded once."""
    return a.intrinsic("fma", b, c)


def horner(x: Number, coefficients: Sequence[float]) -> Number:
    """Return the polynomial in x; the coefficient of the highest power comes first."""
    result = fma(x, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        result = fma(result, x, coefficient)
    return result


def exact_sum(a: Number, b: Number) -> tuple[Number, Number]:
    """Return a + b and its rounding error. Source: D. E. Knuth (1969), TAOCP 2, 4.2.2."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def any_lane(condition: Number) -> str:
    """Return an i1: whether the condition holds in some lane."""
    if not condition.lanes:
        return condition.name
    name = f"llvm.vector.reduce.or.{suffix(condition.type)}"
    return condition.fn.call(external(name, "i1", condition.type), [condition.name])


def by_registers(lanes: int, function: Callable[..., Number], *operands: Number) -> Number:
    """Return a function of vectors of `lanes` applied to values or vectors of any length.

    They are cut into such vectors, the last ones filled with lanes of any value.
    """
    first = operands[0]
    if first.lanes == lanes:
        return function(*operands)
    if not first.lanes:
        done = function(*[_broadcast(x, lanes) for x in operands])
        return first.named(
            done.element, first.fn.op(f"extractelement {done.type} {done.name}, i64 0")
        )
    parts = []
    for start in range(0, first.lanes, lanes):
        picks = [i if i < first.lanes else -1 for i in range(start, start + lanes)]
        parts.append(function(*[_picked(x, picks) for x in operands]))
    return first.named(parts[0].element, _joined(parts, first.lanes))


def _broadcast(x: Number, lanes: int) -> Number:
    return Number(x.fn, x.target, x.element, lanes, x.fn.splat(x.element, x.name, lanes))


def _picked(x: Number, picks: Sequence[int]) -> Number:
    name = x.fn.shuffle(x.type, x.name, "poison", picks)
    return Number(x.fn, x.target, x.element, len(picks), name)


def _joined(parts: Sequence[Number], lanes: int) -> str:
    """The first lanes of vectors of equal length, one behind the other."""
    parts = list(parts)
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(parts[-1])
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            name = a.fn.shuffle(a.type, a.name, b.name, range(2 * a.lanes))
            joined.append(Number(a.fn, a.target, a.element, 2 * a.lanes, name))
        parts = joined
    (whole,) = parts
    if whole.lanes == lanes:
        return whole.name
    return whole.fn.shuffle(whole.type, whole.name, "poison", range(lanes))


def constant_text(element: str, value: float, lanes: int = 0) -> str:
    """Return a constant in IR, in each lane of a vector; a float is rounded to its type."""
    text = _scalar_text(element, value)
    return f"splat ({element} {text})" if lanes else text


def _scalar_text(element: str, value: float) -> str:
    if element == "i1":
        return "true" if value else "false"
    if element not in FLOATS:
        width = int(element[1:])
        return str(_wrapped(int(value), width))
    if element == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def _wrapped(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _of_its_own(x: Number) -> Number:
    """Return a vector of integers of which LLVM does not see that it was cut from wider ones.

    LLVM 22 ends the process over two of these that are compared: it compares the wider ones, and
    has no vector of bits for the result. With AVX-512 it has one, but for bytes.
    """
    if not x.lanes or (x.target.has("avx512f") and x.element == "i32"):
        return x
    zero = x.fn.hidden(0)
    if x.element != "i32":
        zero = x.fn.op(f"trunc i32 {zero} to {x.element}")
    return x | x.named(x.element, x.fn.splat(x.element, zero, x.lanes))
