"""Indices as affine expressions of loop variables: addresses are known before code is written."""

from __future__ import annotations

from typing import Final, TypeAlias

from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Variable:
    """A number from 0 to `extent` - 1 that is known when a kernel runs.

    `name` is an LLVM value of type i64. Of a lane variable it is that in lane 0, and lane i has i
    more. Of a number that differs from lane to lane otherwise, `vector` is the value of type
    <lanes x i64>. `level` is the depth of the loops in which it is known. Variables compare by
    identity; `number` orders them.
    """

    number: int
    name: str
    extent: int
    level: int
    is_lane: bool = False
    vector: str = ""

    @property
    def varies(self) -> bool:
        """Whether lanes may differ."""
        return self.is_lane or bool(self.vector)


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of `terms`, variables times coefficients other than 0, and `constant`.

    `low` and `high` bound what it can be, both included.
    """

    terms: tuple[tuple[Variable, int], ...]
    constant: int
    low: int
    high: int

    @property
    def level(self) -> int:
        """The depth of loops in which it is known."""
        return max([variable.level for variable, _ in self.terms], default=0)

    @property
    def varies(self) -> bool:
        """Whether lanes may differ."""
        return any(variable.varies for variable, _ in self.terms)

    @property
    def lane_step(self) -> int | None:
        """By how much each lane is more than the one before, None where that is not known."""
        if any(variable.vector for variable, _ in self.terms):
            return None
        return sum([factor for variable, factor in self.terms if variable.is_lane])

    def __add__(self, other: Affine | int) -> Affine:
        """Return the sum."""
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other, self.low + other, self.high + other)
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        sums = dict(self.terms)
        for variable, factor in other.terms:
            sums[variable] = sums.get(variable, 0) + factor
        constant = self.constant + other.constant
        return _bounded(sums, constant, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Affine) -> Affine:
        """Return the difference."""
        return self + other * -1

    def __mul__(self, factor: int) -> Affine:
        """Return the product with a number."""
        if factor == 1:
            return self
        if factor == 0:
            return constant(0)
        ends = self.low * factor, self.high * factor
        terms = tuple([(variable, x * factor) for variable, x in self.terms])
        return Affine(terms, self.constant * factor, min(ends), max(ends))

    def within(self, low: int, high: int) -> Affine:
        """Return the same, with bounds that the caller knows."""
        return Affine(self.terms, self.constant, max(low, self.low), min(high, self.high))

    def split(self, divisor: int) -> tuple[Affine, Affine] | None:
        """Return quotient and remainder, None where they are not affine; it is not negative."""
        if divisor == 1:
            return self, ZERO
        multiples = [(v, x // divisor) for v, x in self.terms if x % divisor == 0]
        rest = {v: x for v, x in self.terms if x % divisor}
        remainder = _bounded(rest, self.constant, None, None)
        if not multiples:
            remainder = remainder.within(self.low, self.high)
        whole = remainder.low // divisor
        if remainder.high // divisor != whole:
            return None
        quotient = _bounded(dict(multiples), whole, self.low // divisor, self.high // divisor)
        return quotient, remainder + -whole * divisor


Index: TypeAlias = "tuple[Affine, ...]"
"""An index in an array: one along each dimension."""


def constant(number: int) -> Affine:
    """Return a number."""
    return Affine((), number, number, number)


ZERO: Final = constant(0)


def of(variable: Variable) -> Affine:
    """Return a variable by itself; one that can only be 0 is 0."""
    if variable.extent == 1 and not variable.is_lane:
        return ZERO
    return Affine(((variable, 1),), 0, 0, variable.extent - 1)


def row(number: int, rows: int) -> Affine:
    """Return a number below `rows` as a variable, which tells how an index depends on it."""
    return Affine(((Variable(-1 - number, str(number), rows, 0), 1),), 0, 0, rows - 1)


def _bounded(
    factors: dict[Variable, int], number: int, low: int | None, high: int | None
) -> Affine:
    """The sum, with the closer of the given bounds and those of its terms."""
    terms = tuple(sorted([x for x in factors.items() if x[1]], key=lambda item: item[0].number))
    least = number + sum([min(0, x) * (v.extent - 1) for v, x in terms])
    most = number + sum([max(0, x) * (v.extent - 1) for v, x in terms])
    return Affine(
        terms,
        number,
        least if low is None else max(low, least),
        most if high is None else min(high, most),
    )


def linear(index: tuple[Affine, ...], sizes: tuple[int, ...]) -> Affine:
    """Return the number of an element in row-major order."""
    total = ZERO
    for position, size in zip(index, sizes, strict=True):
        total = total * size + position
    return total
