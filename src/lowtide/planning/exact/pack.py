"""The exact search: heights from the bound up and from the best packing down, until they meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from lowtide.planning.exact.attempt import Attempt
from lowtide.planning.exact.bounds import live_bound, resting_bound
from lowtide.planning.exact.disjunctions import Disjunctions, Entry
from lowtide.planning.exact.instance import instance_of
from lowtide.planning.exact.items import NOBODY, Items, Space, items_of
from lowtide.planning.exact.outcome import Budget, Outcome, StoppedError
from lowtide.planning.exact.reduce import ReducedLayout, reduced
from lowtide.planning.exact.refute import RefutationTree
from lowtide.planning.plans import Packing, Refutation
from lowtide.planning.problem import FREE, Int64Array, PackingProblem
from lowtide.records import dataclass
from lowtide.search.effort import Effort, SearchOptions, StopReason

_TINY: Final = 14
"""So many items are searched in Python, before anything is compiled."""

_TINY_NODES: Final = 3_000
"""Nodes of that search."""

_FIRST_LIMIT: Final = 2
"""Nodes of the first search, by item."""

_AT_BOUND: Final = 3
"""Rounds with the bound alone, before heights in between are tried."""

_GROWTH: Final = 1.6
"""How much more nodes each round has."""

_MOST_ATTEMPTS: Final = 8
"""So many heights are remembered with what was learned about them."""

_MOST_ENTRIES: Final = 5_000_000
"""Entries of sections of the largest problem that is searched."""

_PROOF_NODES: Final = {Effort.FAST: 2_000, Effort.DEFAULT: 20_000, Effort.PROOF: 400_000}
"""Nodes of the search for a proof that others can check."""

_PROOF_EXTENT: Final = 20_000
"""Entries of sections of the largest problem that such a proof is looked for."""

_PROOF_ENTRIES: Final = 100_000
"""Most entries of such a proof."""


@dataclass(slots=True)
class _State:
    """The best packing and the proven bound, as addresses; both move towards each other."""

    addresses: Int64Array
    height: int
    bound: int


class ExactSearch:
    """A search that begins with some packing, and can be stopped at any time.

    `packing()` is the best one so far, with what is proved.
    """

    def __init__(self, problem: PackingProblem, start: Packing, options: SearchOptions) -> None:
        self.problem, self.options, self.start = problem, options, start
        self.space = Space.of(problem)
        self.items: Items = items_of(problem, self.space)
        self.budget = Budget(options)
        items = self.items
        real = items.numbers != NOBODY
        addresses = np.where(items.fixed == FREE, 0, items.fixed)
        placed = self.space.addresses(start.region, start.offset)
        addresses[real] = placed[items.numbers[real]]
        height = int((addresses + items.size).max(initial=0))
        bound = max(self.space.arena, live_bound(items))
        self.state = _State(addresses, height, bound)
        self.granule = items.granule
        self.refutation: Refutation | None = None
        self._too_hard: set[int] = set()
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._report()

    def run(self) -> StopReason:
        """Search until height and bound meet, or something else ends it; say what."""
        try:
            self._search()
        except StoppedError as stopped:
            return stopped.reason
        except KeyboardInterrupt:
            return StopReason.INTERRUPT
        with suppress(StoppedError, KeyboardInterrupt):
            self._prove()
        return StopReason.DONE

    def packing(self, stopped: StopReason) -> Packing:
        """Return the best packing."""
        items, state = self.items, self.state
        offset = np.where(self.problem.fixed_offset == FREE, 0, self.problem.fixed_offset)
        region = self.problem.region_of.copy()
        real = items.numbers != NOBODY
        numbers = items.numbers[real]
        region[numbers], offset[numbers] = self.space.places(state.addresses[real])
        arena = region < 0
        top = int((offset + self.problem.nbytes)[arena].max(initial=0))
        bound = max(0, state.bound - self.space.arena)
        return Packing(region, offset, top, bound, self.refutation, stopped)

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to search for."""
        state, capacity = self.state, self.options.capacity
        if state.height <= state.bound:
            return True
        if capacity is None:
            return False
        capacity += self.space.arena
        return state.height <= capacity or state.bound > capacity

    def _report(self) -> None:
        if self.options.progress is not None:
            base, state = self.space.arena, self.state
            self.options.progress(state.height - base, max(0, state.bound - base))

    def _raise_bound(self, bound: int) -> None:
        if bound > self.state.bound:
            self.state.bound = min(bound, self.state.height)
            self._report()

    def _search(self) -> None:
        if self.settled:
            return
        everything = np.arange(len(self.items))
        if (self.items.fixed != FREE).any() and self._entries(everything) <= _MOST_ENTRIES:
            self._raise_bound(resting_bound(instance_of(self.items, everything)))
        limit, rounds = float(_FIRST_LIMIT * len(self.items)), 0
        while not self.settled:
            self._round(int(limit), rounds >= _AT_BOUND)
            limit *= _GROWTH
            rounds += 1

    def _round(self, limit: int, between: bool) -> None:
        """Try the bound, then heights between it and the best packing, halving what is open."""
        goal = self.options.capacity
        refuted = self._try(self.state.bound, limit) is Outcome.REFUTED
        if goal is not None and not self.settled:
            self._try(goal + self.space.arena, limit)
            return
        low = self.state.bound
        least = 1 if refuted else low // 256
        while (between or refuted) and not self.settled and self.state.height - low > least:
            middle = (low + self.state.height) // 2 // self.granule * self.granule
            if middle <= low:
                break
            outcome = self._try(middle, limit)
            low = self.state.bound if outcome is Outcome.REFUTED else low
            low = middle if outcome is Outcome.OPEN else low

    def _try(self, height: int, limit: int) -> Outcome:
        """Search for a packing of a height; take it, or the higher bound."""
        parts = reduced(self.items, self.state.addresses, height)
        if not len(parts.core):
            self._take(parts.core, parts.core, parts.easy, height)
            return Outcome.FITS
        if self._entries(parts.core) > _MOST_ENTRIES:
            raise StoppedError(StopReason.LIMIT)
        outcome, addresses = self._searched(parts.core, height, limit)
        if outcome is Outcome.FITS:
            assert addresses is not None
            self._take(parts.core, addresses, parts.easy, height)
            assert self.state.height <= height
        elif outcome is Outcome.REFUTED:
            self._raise_bound((height // self.granule + 1) * self.granule)
        return outcome

    def _entries(self, chosen: Int64Array) -> int:
        """Return about how many pairs of an item and a section there are, at most."""
        items = self.items
        wanted = np.zeros(len(items), bool)
        wanted[chosen] = True
        begins = np.unique(items.first[wanted[items.item]])
        first = np.searchsorted(begins, items.lower[chosen])
        return int((np.searchsorted(begins, items.upper[chosen], side="right") - first).sum())

    def _searched(
        self, core: Int64Array, height: int, limit: int
    ) -> tuple[Outcome, Int64Array | None]:
        if len(core) <= _TINY and height not in self._too_hard:
            tree = RefutationTree(
                instance_of(self.items, core), self._lives(core), height, _TINY_NODES
            )
            outcome = tree.search()
            if outcome is not Outcome.OPEN:
                return outcome, np.array(tree.addresses, np.int64)
            self._too_hard.add(height)
        if len(self.space.bases):
            addresses = self._in_the_arena(core, height, limit)
            if addresses is not None:
                return Outcome.FITS, addresses
        attempt = self._attempt(core, height, 0)
        return attempt.run(limit, self.budget), attempt.addresses

    def _in_the_arena(self, core: Int64Array, height: int, limit: int) -> Int64Array | None:
        """Search for new addresses of what lies in the arena; what is in the regions stays."""
        base, addresses = self.space.arena, self.state.addresses[core]
        moving = addresses >= base
        attempt = self._attempt(core[moving], height, base)
        if attempt.run(limit, self.budget) is not Outcome.FITS:
            return None
        assert attempt.addresses is not None
        addresses[moving] = attempt.addresses + base
        return addresses

    def _attempt(self, chosen: Int64Array, height: int, base: int) -> Attempt:
        """Return the attempt to place some items from `base` up, which has learned already."""
        attempt = self._attempts.get((height, base))
        if attempt is None or not np.array_equal(attempt.instance.chosen, chosen):
            held = self.items.fixed != FREE
            fixed = np.where(held, self.items.fixed - base, FREE)
            attempt = Attempt(instance_of(self.items, chosen, fixed), height - base)
            if len(self._attempts) >= _MOST_ATTEMPTS:
                self._attempts.clear()
            self._attempts[height, base] = attempt
        return attempt

    def _take(
        self, moved: Int64Array, addresses: Int64Array, easy: Int64Array, height: int
    ) -> None:
        layout = ReducedLayout(self.items, self.state.addresses)
        layout.addresses[moved] = addresses
        layout.settle(moved, easy, height)
        self.state.addresses = layout.addresses
        self.state.height = int((layout.addresses + self.items.size).max(initial=0))
        self._report()

    def _lives(self, chosen: Int64Array) -> list[tuple[tuple[int, int], ...]]:
        """Return for each of some items when it is live, in the steps of the problem."""
        rows: dict[int, list[tuple[int, int]]] = {int(i): [] for i in self.items.numbers[chosen]}
        problem = self.problem
        for row in np.flatnonzero(np.isin(problem.item, self.items.numbers[chosen])).tolist():
            pair = (int(problem.first[row]), int(problem.last[row]))
            rows[int(problem.item[row])].append(pair)
        return [tuple(sorted(rows[int(i)])) for i in self.items.numbers[chosen]]

    def _prove(self) -> None:
        """Look for a proof of a bound above what is live at once."""
        if self.state.bound <= live_bound(self.items) or len(self.space.bases):
            return
        height = (self.state.bound - 1) // self.granule * self.granule
        core = reduced(self.items, self.state.addresses, height).core
        if self._entries(core) > _PROOF_EXTENT:
            return
        nodes = _PROOF_NODES[self.options.effort]
        instance = instance_of(self.items, core)
        units = [self._unit(step) for step in instance.steps.tolist()]
        search = Disjunctions(instance, self._lives(core), units, height, nodes)
        if search.search(self.budget.check) and len(search.tree) <= _PROOF_ENTRIES:
            self.refutation = Refutation(height, tuple(self._named(search.tree, core)))

    def _unit(self, step: int) -> int:
        """Return what divides the places of all that is live at a step of the problem."""
        problem = self.problem
        here = problem.item[(problem.first <= step) & (problem.last >= step)]
        here = here[problem.nbytes[here] > 0]
        return int(np.gcd.reduce(problem.alignment[here]))

    def _named(self, tree: list[Entry], core: Int64Array) -> Iterator[Entry]:
        """Yield the entries of a tree with the numbers of buffers for those of items."""
        numbers: list[int] = self.items.numbers[core].tolist()
        for entry in tree:
            yield entry if isinstance(entry, int) else (numbers[entry[0]], numbers[entry[1]])


def exact(problem: PackingProblem, start: Packing, options: SearchOptions) -> Packing:
    """Return the lowest packing that is found from one to start with, and a proven bound."""
    search = ExactSearch(problem, start, options)
    return search.packing(search.run())
