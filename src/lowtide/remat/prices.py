"""Least cuts of one network at many prices, and the price that proves most for a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Final

from lowtide.records import dataclass
from lowtide.remat.network import Networks, Price, RematCut, RematNetwork

_ROUNDS: Final = 40
_FIRST_SHARE: Final = 0.01
"""The first price tried is that at which a full budget is worth this share of all times."""
_FACTOR: Final = 8.0
_NEAR: Final = 3.0
_TRIES: Final = 6


@dataclass
class CutLines:
    """What is known of a network: the value of least cuts by price."""

    network: RematNetwork
    cuts: dict[Price, RematCut] = field(default_factory=dict)

    def cut(self, price: Price) -> RematCut:
        """Return a least cut at a price, and remember it."""
        if price not in self.cuts:
            self.cuts[price] = self.network.cut(price)
        return self.cuts[price]

    def ticks(self, price: Price, budget: int) -> int:
        """Return what a price proves for a budget; the cut at that price is known."""
        return self.cuts[price].value - price.of(budget - self.network.fixed_bytes)

    @cached_property
    def needed(self) -> int:
        """Bytes that the first step of the node takes, whatever runs again."""
        return self.network.fixed_bytes + self.network.least_held()

    def best(self, budget: int) -> Price:
        """Return the price that proves most for a budget, of those tried."""
        return max(self.cuts, key=lambda price: self.ticks(price, budget))

    def refine(
        self, networks: Networks, budget: int, late: Callable[[], bool], near: Price | None = None
    ) -> None:
        """Find the best price for a budget (Eisner and Severance 1976), until `late` says so.

        It is sought from the one that it is thought to be `near`.

        The value of the least cut is concave in the price: where the lines of a cut that holds too
        much and of one that fits meet is the next price, until no cut is below both.
        """
        room = budget - self.network.fixed_bytes
        if near is None:
            low, high = self._bracket(networks, room, late)
        else:
            low, high = self._bracket_near(near, networks, room, late)
        for _ in range(_ROUNDS):
            if low is None or high is None or low.held_bytes == high.held_bytes or late():
                return
            price = (high.ticks - low.ticks) / (low.held_bytes - high.held_bytes)
            if price <= 0:
                return
            cut = self.cut(networks.price(price))
            if cut in (low, high) or cut.value >= low.ticks + price * low.held_bytes - 2:
                return
            low, high = (low, cut) if cut.held_bytes <= room else (cut, high)

    def _bracket_near(
        self, near: Price, networks: Networks, room: int, late: Callable[[], bool]
    ) -> tuple[RematCut | None, RematCut | None]:
        """The same, from a price up, or down to 0, where only what has to run again does."""
        cut = self.cut(near)
        if cut.held_bytes > room:
            others = [near.value * _NEAR**power for power in range(1, _TRIES)]
        else:
            others = [near.value / _NEAR, near.value / _NEAR**2, 0.0]
        for other in others:
            if late():
                break
            before, cut = cut, self.cut(networks.price(other))
            if (cut.held_bytes > room) != (before.held_bytes > room):
                return (before, cut) if cut.held_bytes <= room else (cut, before)
        return (cut, None) if cut.held_bytes > room else (None, cut)

    def _bracket(
        self, networks: Networks, room: int, late: Callable[[], bool]
    ) -> tuple[RematCut | None, RematCut | None]:
        """A cut that holds more than `room` bytes and one that does not, by prices tried.

        One price at least is tried, however late it is.
        """
        price = float(networks.tables.cost.sum()) * _FIRST_SHARE / max(1, room)
        low = self.cut(networks.price(price * _FACTOR**-_TRIES))
        if low.held_bytes <= room:
            return None, low
        for power in range(_TRIES):
            if late():
                break
            cut = self.cut(networks.price(price * _FACTOR**power))
            if cut.held_bytes <= room:
                return low, cut
            low = cut
        return low, None
