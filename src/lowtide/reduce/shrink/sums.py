"""Sums of sizes, as of the pieces that a concatenate joins, solved for one factor each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from math import gcd, prod
from operator import and_
from typing import Final, TypeAlias

from lowtide.records import dataclass
from lowtide.reduce.shrink.factors import Sizes, Variable

Product: TypeAlias = tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """`whole` is the sum of `pieces`."""

    whole: Variable
    pieces: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """A factor is the sum of the products `plus` less those of `minus`."""

    factor: Variable
    plus: tuple[Product, ...]
    minus: tuple[Product, ...] = ()

    def inputs(self) -> list[Variable]:
        """Return the factors that it is worked out from."""
        return [factor for product in self.plus + self.minus for factor in product]


def solve(sizes: Sizes, sums: Sequence[Sum]) -> list[Definition]:
    """Return what factors are such that all sums hold, each after those that it needs.

    What the whole and its pieces have in common cancels out; then the whole is the sum, or a piece
    is the difference, if that is one factor which is not defined otherwise. Else factors are split
    or fixed until it is, which may change the earlier ones: it starts anew.
    """
    left = sorted(dict.fromkeys(sums), key=lambda x: -sizes.size(x.whole))
    while True:
        found: dict[Variable, Definition] = {}
        failed = [entry for entry in left if not _define(sizes, found, entry)]
        if not failed:
            return _in_order(found)
        if not _make_solvable(sizes, found, failed[0]):
            left.remove(failed[0])


def _define(sizes: Sizes, found: dict[Variable, Definition], entry: Sum) -> bool:
    """Note a sum as the definition of a factor; return whether it holds then."""
    products = _without_common(sizes, entry)
    if all(sizes.is_fixed(x) for product in products for x in product):
        return True
    candidates = list(_candidates(products))
    if any(found.get(x.factor) == x for x in candidates):
        return True
    for candidate in candidates:
        factor = candidate.factor
        if factor in found or sizes.is_fixed(factor) or _needs(found, candidate, factor):
            continue
        found[factor] = candidate
        return True
    return False


def _without_common(sizes: Sizes, entry: Sum) -> list[Product]:
    """The whole and its pieces without the factors that all of them have."""
    products = [Counter(sizes.factors([x])) for x in (entry.whole, *entry.pieces)]
    common = reduce(and_, products)
    return [tuple(sorted((product - common).elements())) for product in products]


def _candidates(products: Sequence[Product]) -> Iterator[Definition]:
    whole, *pieces = products
    if len(whole) == 1:
        yield Definition(whole[0], tuple(sorted(pieces)))
    for piece in dict.fromkeys(pieces):
        if len(piece) == 1 and pieces.count(piece) == 1:
            others = tuple(sorted([x for x in pieces if x != piece]))
            yield Definition(piece[0], (whole,), others)


def _needs(found: dict[Variable, Definition], definition: Definition, factor: Variable) -> bool:
    """Whether a definition is worked out from a factor."""
    stack, seen = definition.inputs(), set()
    while stack:
        x = stack.pop()
        if x == factor:
            return True
        if x in found and x not in seen:
            seen.add(x)
            stack += found[x].inputs()
    return False


def _in_order(found: dict[Variable, Definition]) -> list[Definition]:
    ordered: dict[Variable, Definition] = {}
    for root in found:
        stack = [root]
        while stack:
            missing = [x for x in found[stack[-1]].inputs() if x in found and x not in ordered]
            if missing:
                stack += missing
            else:
                factor = stack.pop()
                ordered[factor] = found[factor]
    return list(ordered.values())


# -- sums that cannot be solved ----------------------------------------------------------------


def _make_solvable(sizes: Sizes, found: dict[Variable, Definition], entry: Sum) -> bool:
    """Change factors such that a sum may be solved; False where it holds from now on anyway."""
    return (
        _equate_with_known(sizes, found, entry) or _share_factor(sizes, entry) or _tie(sizes, entry)
    )


def _equate_with_known(sizes: Sizes, found: dict[Variable, Definition], entry: Sum) -> bool:
    """Where the whole is another sum of the same sizes already, let the pieces be the same."""
    whole, *pieces = _without_common(sizes, entry)
    known = found.get(whole[0]) if len(whole) == 1 else None
    if known is None or known.minus:
        return False

    def size(product: Product) -> int:
        return prod([sizes.size(x) for x in product])

    pairs = list(zip(sorted(pieces, key=size), sorted(known.plus, key=size), strict=False))
    if len(pieces) != len(known.plus) or any(size(a) != size(b) for a, b in pairs):
        return False
    for a, b in pairs:
        sizes.equate(a, b)
    return True


def _share_factor(sizes: Sizes, entry: Sum) -> bool:
    """Give all products the largest factor that some have and that divides the others."""
    products = [(x, sizes.factors([x])) for x in (entry.whole, *entry.pieces)]
    common = gcd(*[sizes.size(x) for x, _ in products])
    shared = [x for _, product in products for x in product if len(product) > 1]
    for factor in sorted(set(shared), key=lambda x: (-sizes.size(x), x)):
        lacking = [(x, product) for x, product in products if factor not in product]
        if not lacking or not common or common % sizes.size(factor):
            continue
        for x, product in lacking:
            rest = sizes.new(sizes.size(x) // sizes.size(factor))
            sizes.equate(product, [factor, rest])
        return True
    return False


_MOST_PARTS: Final = 32


def _tie(sizes: Sizes, entry: Sum) -> bool:
    """Make the whole and its pieces multiples of one size, if small ones, else fix them."""
    variables = (entry.whole, *entry.pieces)
    counts = [sizes.size(x) for x in variables]
    unit = gcd(*counts)
    if not all(counts) or counts[0] > _MOST_PARTS * unit:
        sizes.fix(variables)
        return False
    part = sizes.new(unit)
    for variable, count in zip(variables, counts, strict=True):
        sizes.equate([variable], [sizes.fixed(count // unit), part])
    return False
