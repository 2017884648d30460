"""Small sizes for factors, such that sums and inequalities hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, final

from lowtide.records import dataclass
from lowtide.reduce.shrink.factors import Sizes, Variable
from lowtide.reduce.shrink.sums import Product, Sum, solve


@dataclass(frozen=True, slots=True)
class AtMost:
    """`scale * small + offset` is at most `big`."""

    small: Variable
    big: Variable
    scale: int = 1
    offset: int = 0


def small_size(size: int) -> int:
    """Return a size that grows with the logarithm of `size`, and is `size` up to 3."""
    return size if size <= 3 else 2 + size.bit_length() // 2


_MOST_ROUNDS: Final = 1000


@final
class Choice:
    """What each factor becomes; never more than it is now."""

    def __init__(self, sizes: Sizes, sums: Sequence[Sum], bounds: Sequence[AtMost]) -> None:
        self._sizes = sizes
        self._definitions = {x.factor: x for x in solve(sizes, sums)}
        self._chosen: dict[Variable, int] = {}
        self._value: dict[Variable, int] = {}
        self._bounds = list(
            dict.fromkeys(
                [
                    (sizes.factors([x.small]), sizes.factors([x.big]), x.scale, x.offset)
                    for x in bounds
                ]
            )
        )
        self._values()
        self._lower_what_is_too_large()
        for _ in range(_MOST_ROUNDS):
            self._values()
            if not self._raise_what_is_too_small():
                return
        raise ValueError("the sizes do not settle")

    def of(self, variable: Variable) -> int:
        """Return what a variable becomes."""
        return self._product(self._sizes.factors([variable]))

    def _product(self, factors: Product) -> int:
        return prod([self._of(x) for x in factors])

    def _of(self, factor: Variable) -> int:
        if factor in self._value:
            return self._value[factor]
        size = self._sizes.size(factor)
        if self._sizes.is_fixed(factor):
            return size
        return self._chosen.get(factor, small_size(size))

    def _values(self) -> None:
        """Work out what sums come to; a difference is 1 at least, where a bound corrects it."""
        self._value = {}
        for x in self._definitions.values():
            plus, minus = [sum(map(self._product, products)) for products in (x.plus, x.minus)]
            self._value[x.factor] = max(1, plus - minus)

    def _lower_what_is_too_large(self) -> None:
        """Lower factors, to 1 even, of which each product stays as large as a size alone would be.

        A size that many reshapes cut in pieces would be a power of 2 or 3 otherwise.
        """
        holders: dict[Variable, list[Product]] = {}
        for product in self._sizes.products():
            for factor in set(product):
                holders.setdefault(factor, []).append(product)
        largest = {x: max(map(self._product, found)) for x, found in holders.items()}
        for factor in sorted(holders, key=lambda x: (-largest[x], x)):
            if self._sizes.is_fixed(factor) or factor in self._definitions:
                continue
            for value in range(1, self._of(factor)):
                before = self._chosen.get(factor, small_size(self._sizes.size(factor)))
                self._chosen[factor] = value
                if all(map(self._is_large_enough, holders[factor])):
                    break
                self._chosen[factor] = before

    def _is_large_enough(self, product: Product) -> bool:
        size = prod([self._sizes.size(x) for x in product])
        return self._product(product) >= small_size(size)

    def _raise_what_is_too_small(self) -> bool:
        raised = False
        for x in self._definitions.values():
            plus, minus = [sum(map(self._product, products)) for products in (x.plus, x.minus)]
            if plus <= minus:
                raised |= self._raise(x.plus[0], minus + 1, plus)
        for small, big, scale, offset in self._bounds:
            need = scale * self._product(small) + offset
            have = self._product(big)
            if need > have:
                raised |= self._raise(big, need, have)
        return raised

    def _raise(self, big: Product, need: int, have: int) -> bool:
        """Let the factor of `big` grow that is furthest from what it is now."""
        stack, free = list(big), []
        while stack:
            factor = stack.pop()
            if factor in self._definitions:
                stack += [x for product in self._definitions[factor].plus for x in product]
            elif not self._sizes.is_fixed(factor) and self._of(factor) < self._sizes.size(factor):
                free.append(factor)
        if not free:
            return False
        factor = max(free, key=lambda x: (self._sizes.size(x) / self._of(x), -x))
        wanted = max(self._of(factor) + 1, -(-self._of(factor) * need // max(have, 1)))
        self._chosen[factor] = min(self._sizes.size(factor), wanted)
        return True
