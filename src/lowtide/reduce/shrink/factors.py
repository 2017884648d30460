"""Sizes that depend on one another: each is a product of factors, which are shared."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import final

Variable = int
"""The number of a size."""


@final
class Sizes:
    """Variables for sizes, and which of them are equal as products.

    `equate` splits variables into factors until both sides have the same: where `a * b` and `c * d`
    are one size, as in a reshape, each of the four becomes a product of common divisors. A size of
    1 has no factors.
    """

    def __init__(self) -> None:
        self._size: list[int] = []
        self._parent: list[Variable] = []
        self._parts: dict[Variable, tuple[Variable, Variable]] = {}
        self._fixed: set[Variable] = set()

    def new(self, size: int) -> Variable:
        """Return a new variable, which is `size` now."""
        self._size.append(size)
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def size(self, variable: Variable) -> int:
        """Return what a variable is now."""
        return self._size[variable]

    def fixed(self, size: int) -> Variable:
        """Return a new variable that stays what it is."""
        variable = self.new(size)
        self._fixed.add(variable)
        return variable

    def is_fixed(self, factor: Variable) -> bool:
        """Whether a factor, one of the result of `factors`, stays what it is."""
        return factor in self._fixed

    def fix(self, variables: Iterable[Variable]) -> bool:
        """Let variables stay what they are; return whether that is news for any of them."""
        found = set(self.factors(variables)) - self._fixed
        self._fixed |= found
        return bool(found)

    def factors(self, variables: Iterable[Variable]) -> tuple[Variable, ...]:
        """Return the factors of a product, from major to minor; equal ones are the same."""
        found = []
        stack = list(variables)[::-1]
        while stack:
            factor = self._find(stack.pop())
            if factor in self._parts:
                stack += self._parts[factor][::-1]
            elif self._size[factor] != 1:
                found.append(factor)
        return tuple(found)

    def products(self) -> list[tuple[Variable, ...]]:
        """Return the different products that variables are, those of size 1 left out."""
        found = dict.fromkeys([self.factors([x]) for x in range(len(self._size))])
        return [product for product in found if product]

    def equate(self, left: Iterable[Variable], right: Iterable[Variable]) -> None:
        """Make two products, which are equal now, stay equal; from major to minor if possible."""
        stacks = list(self.factors(left))[::-1], list(self.factors(right))[::-1]
        if any(not self._size[x] for stack in stacks for x in stack):
            self.fix([*stacks[0], *stacks[1]])
            return
        while stacks[0]:
            a = self._pop(stacks[0])
            b = self._partner(a, stacks[1])
            common = gcd(self._size[a], self._size[b])
            self._join(self._take(a, common, stacks[0]), self._take(b, common, stacks[1]))

    def _pop(self, stack: list[Variable]) -> Variable:
        """Take the next factor from a stack, whose entries may have been split meanwhile."""
        first, *others = self.factors([stack.pop()])
        stack += others[::-1]
        return first

    def _partner(self, factor: Variable, stack: list[Variable]) -> Variable:
        """Take the next factor from a stack that has a divisor in common with `factor`."""
        passed: list[Variable] = []
        while True:
            other = self._pop(stack)
            if gcd(self._size[factor], self._size[other]) > 1:
                stack += passed[::-1]
                return other
            passed.append(other)

    def _take(self, factor: Variable, size: int, stack: list[Variable]) -> Variable:
        """Return a factor of a factor, and leave the rest of it on the stack."""
        if size == self._size[factor]:
            return factor
        make = self.fixed if factor in self._fixed else self.new
        part, rest = self._parts[factor] = make(size), make(self._size[factor] // size)
        stack.append(rest)
        return part

    def _join(self, a: Variable, b: Variable) -> None:
        """Make two factors one; the older one stands for both, whatever was joined first."""
        first, second = min(a, b), max(a, b)
        self._parent[second] = first
        if second in self._fixed:
            self._fixed.add(first)

    def _find(self, variable: Variable) -> Variable:
        parent = self._parent
        while parent[variable] != variable:
            parent[variable] = parent[parent[variable]]
            variable = parent[variable]
        return variable
