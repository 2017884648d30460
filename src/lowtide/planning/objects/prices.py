"""Prices of tensors which prove that objects cannot be smaller together.

Prices are valid if, for each size, tensors that are not larger and never live together have prices
of at most that size in all. They are the dual of the linear program that covers the tensors with
sets of tensors that never live together, where a set costs the size of its largest: see
`exact.py`. All that is said here of prices holds exactly: they are integers, in units of 1 /
`denominator`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.planning.objects.size_classes import SizeClasses
from lowtide.planning.plans import DualBound
from lowtide.planning.problem import MOST_BYTES, Int64Array
from lowtide.records import dataclass
from lowtide.search.kernels import Array, kernel

DENOMINATORS: Final = (1, 2, 6, 60, 2**20)
"""What prices are tried to be multiples of one over: those of a vertex are simple fractions."""

REPAIRS: Final = 200
"""How many sets of tensors that cost too much are made cheaper one by one."""


@dataclass(frozen=True, eq=False, slots=True)
class Prices:
    """Valid prices per tensor: `price[i] / denominator` units."""

    price: Int64Array
    denominator: int

    @property
    def bound(self) -> int:
        """Units that all objects together have at least."""
        return -(-int(self.price.sum()) // self.denominator)


def dual_bound(problem: SizeClasses, prices: Prices, records: int) -> DualBound:
    """Return the prices in bytes, of all records in order."""
    price = np.zeros(records, np.int64)
    price[problem.number] = prices.price
    return DualBound(tuple([x * problem.unit for x in price.tolist()]), prices.denominator)


def exact_prices(problem: SizeClasses, about: npt.NDArray[np.float64]) -> Prices:
    """Return valid prices near the given ones, in units, with a bound as high as was found."""
    best = Prices(np.zeros(len(problem), np.int64), 1)
    most = MOST_BYTES // max(1, int(problem.size.sum()))
    for denominator in [x for x in DENOMINATORS if x <= most]:
        rounded = np.rint(np.maximum(about, 0) * denominator).astype(np.int64)
        rounded = np.minimum(rounded, problem.size * denominator)
        found = Prices(_made_valid(problem, rounded, denominator), denominator)
        if found.bound > best.bound:
            best = found
        if best.bound >= about.sum():
            break
    return best


def heaviest_sets(problem: SizeClasses, price: Int64Array) -> Int64Array:
    """Return per size the highest price of tensors, not larger, that never live together."""
    heaviest = np.zeros(len(problem.sizes), np.int64)
    best = np.zeros(len(problem) + 1, np.int64)
    heaviest_of_each(
        len(problem),
        len(problem.sizes),
        problem.sizes,
        problem.before,
        problem.size,
        price,
        best,
        heaviest,
    )
    return heaviest


def slack(problem: SizeClasses, prices: Prices, size: int) -> Int64Array:
    """Return per tensor by how much an object of `size` that has it costs more than its tensors do.

    It is in units of 1 / denominator, the least for any other tensors in there. Tensors larger than
    `size` have a number that means nothing.
    """
    n = len(problem)
    forward = np.zeros(n + 1, np.int64)
    backward = np.zeros(n + 1, np.int64)
    heaviest_set(n, size, problem.before, problem.size, prices.price, forward)
    order = problem.by_first
    heaviest_set(n, size, problem.after[order], problem.size[order], prices.price[order], backward)
    through = forward[problem.before] + prices.price + backward[problem.after]
    return size * prices.denominator - through


def _made_valid(problem: SizeClasses, price: Int64Array, denominator: int) -> Int64Array:
    """Lower prices until they are valid: first where they are not, then all alike."""
    room = problem.sizes * denominator
    for _ in range(REPAIRS):
        excess = heaviest_sets(problem, price) - room
        wrong = np.flatnonzero(excess > 0)
        if not len(wrong):
            return price
        size = int(problem.sizes[wrong[0]])
        _lower(price, _heaviest_members(problem, price, size), int(excess[wrong[0]]))
    heaviest = heaviest_sets(problem, price).tolist()
    over = max(zip(heaviest, room.tolist(), strict=True), key=lambda pair: pair[0] / pair[1])
    if over[0] <= over[1]:
        return price
    return np.array([x * over[1] // over[0] for x in price.tolist()], np.int64)


def _lower(price: Int64Array, members: list[int], excess: int) -> None:
    """Take the excess off the prices of members, from the highest first."""
    for member in sorted(members, key=lambda x: -int(price[x])):
        taken = min(excess, int(price[member]))
        price[member] -= taken
        excess -= taken


def _heaviest_members(problem: SizeClasses, price: Int64Array, size: int) -> list[int]:
    n = len(problem)
    best = np.zeros(n + 1, np.int64)
    heaviest_set(n, size, problem.before, problem.size, price, best)
    members: list[int] = []
    at = n
    while at > 0:
        if best[at] == best[at - 1]:
            at -= 1
        else:
            members.append(at - 1)
            at = int(problem.before[at - 1])
    return members


@kernel
def heaviest_set(n: int, limit: int, before: Array, size: Array, price: Array, best: Array) -> int:
    """Return the highest price of tensors, none above the limit, that never live together.

    `best[k]` becomes that of the first k tensors; `before[k]` of them are over when k begins.
    """
    best[0] = 0
    for k in range(n):
        best[k + 1] = best[k]
        if size[k] <= limit:
            best[k + 1] = max(best[k], price[k] + best[before[k]])
    return int(best[n])


@kernel
def heaviest_of_each(
    n: int,
    count: int,
    sizes: Array,
    before: Array,
    size: Array,
    price: Array,
    best: Array,
    heaviest: Array,
) -> int:
    """Set `heaviest` to the price of the heaviest set for each of the sizes."""
    for at in range(count):
        heaviest[at] = heaviest_set(n, sizes[at], before, size, price, best)
    return count
