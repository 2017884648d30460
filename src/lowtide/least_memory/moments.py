"""The least that is in memory at a moment of any compilation, as a minimum cut.

At a moment some operations have run and others will. What will be read then is in memory, or is
computed of what is. A value v has two nodes: `needed` (v is read later, or computed then) and
`later` (v is computed later); needed and not later is stored, which is cut at its bytes. An
operation that runs once has one node for both `later` and the question of whether it has run; one
that may run any number of times has a further node, `absent`: a value that it needs is not there
yet. Arcs without a limit say what follows:

    later(v)  -> needed(u)   of each u that v is made of
    absent(u) -> absent(v)   of each v that is made of u
    absent(v) -> later(v)    what is not there yet is computed later

On the side of the source is what holds. The cut is a bound for every order, every choice of what to
store, and every number of times that an operation of kind FREE runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from lowtide.least_memory.kinds import Kind, runs_behind
from lowtide.least_memory.network import SINK, SOURCE, MomentNetwork
from lowtide.least_memory.never_stored import contracted, standing_for
from lowtide.least_memory.values import Int64Array, ProgramValues
from lowtide.records import dataclass

_FIRST: Final = 2
"""The node of the first value."""


class When(StrEnum):
    """Which moment of an operation is meant."""

    BEFORE = "before"
    """It is about to run."""
    DURING = "during"
    """It runs, and overwrites nothing that it reads."""
    AFTER = "after"
    """It has just run."""
    INSIDE = "inside"
    """A computation that it calls runs."""
    END = "end"
    """All operations have run."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is in memory at least at a moment, and the flow that shows it.

    `stored` are the values that a minimum cut stores. Rows of `flow` are (tail, head, amount): node
    v says that value v is needed; behind these come, per operation, "is computed later", then again
    per operation "is absent" (for one that runs once that is the former node), then the sink.
    """

    nbytes: int
    stored: tuple[int, ...]
    flow: tuple[tuple[int, int, int], ...]


@final
class Moments:
    """The moments of one computation: just before, during or after an operation that runs once."""

    def __init__(self, values: ProgramValues) -> None:
        self.values = values
        count, operations = len(values.nbytes), len(values.kinds)
        self._needed = _FIRST + np.arange(count)
        self._later = _FIRST + count + np.arange(operations)
        is_free = np.array([x is Kind.FREE for x in values.kinds], np.bool_)
        self._absent = np.where(is_free, self._later + operations, self._later)
        self._endless = int(values.nbytes.sum()) + 1
        self._maker = np.full(count, -1, np.int64)
        for number, makes in enumerate(values.makes):
            self._maker[list(makes)] = number
        self._readers: list[list[int]] = [[] for _ in range(count)]
        for number, reads in enumerate(values.reads):
            for v in reads:
                self._readers[v].append(number)
        self._is_free = is_free
        self._nodes = _FIRST + count + 2 * operations
        self._rules = self._lasting_rules(is_free)

    @property
    def arcs(self) -> int:
        """How many arcs a network has that is cut."""
        return len(self._rules[0])

    @cached_property
    def _network(self) -> MomentNetwork:
        return MomentNetwork(self._nodes, self._rules, self._endless)

    @cached_property
    def _contracted(self) -> tuple[MomentNetwork, Int64Array]:
        """The network without values that need not be stored, and the numbers of nodes in it."""
        nodes = self._needed, self._later
        stands = standing_for(self.values, self._is_free, *nodes, self._nodes)
        arcs, number = contracted(self._rules, stands, self._endless)
        return MomentNetwork(int(number.max()) + 1, arcs, self._endless), number

    @property
    def once(self) -> list[int]:
        """Return the operations that run once."""
        return [i for i, kind in enumerate(self.values.kinds) if kind is not Kind.FREE]

    def least(self, number: int, when: When, without: Sequence[int] = ()) -> int:
        """Return the least bytes in memory at a moment of an operation, a maximum flow.

        Values in `without` count for nothing.
        """
        if len(without):
            return self._network.cut(*self._ends(number, when), without)
        network, numbers = self._contracted
        begins, ends = [numbers[x] for x in self._ends(number, when)]
        return network.cut(begins[begins >= 0], ends[ends >= 0])

    def cut(self, number: int, when: When, without: Sequence[int] = ()) -> Cut:
        """Return the same with what shows it."""
        network = self._network
        solver = network.solved(*self._ends(number, when), without)
        tails, heads, capacity = network.tails, network.heads, network.capacity
        holds = np.zeros(_FIRST + len(self._needed) + 2 * len(self._later), np.bool_)
        holds[solver.get_source_side_min_cut()] = True
        count = len(self._needed)
        stored = holds[tails[:count]] & ~holds[heads[:count]] & (capacity[:count] > 0)
        stored[list(without)] = False
        sent = solver.flows(np.arange(len(tails)))
        head = np.where(heads == SINK, len(holds), heads) - _FIRST
        shown = np.flatnonzero((sent > 0) & (tails != SOURCE))
        rows = np.stack([tails[shown] - _FIRST, head[shown], sent[shown]], axis=1)
        flow = sorted([(a, b, amount) for a, b, amount in rows.tolist()])
        return Cut(int(solver.optimal_flow()), tuple(np.flatnonzero(stored).tolist()), tuple(flow))

    def end(self) -> int:
        """Return the bytes of what is in memory at the end."""
        return int(self.values.nbytes[list(self.values.kept)].sum())

    def _behind(self, number: int) -> list[int]:
        """The nodes that say of the readers of an operation that their results are not there yet.

        They are the nearest ones that do not run behind it, in its kernel.
        """
        found, seen = [], {number}
        waiting = [number]
        while waiting:
            for v in self.values.makes[waiting.pop()]:
                for reader in self._readers[v]:
                    if reader in seen:
                        continue
                    seen.add(reader)
                    if runs_behind(self.values.instructions[reader]):
                        waiting.append(reader)
                    else:
                        found.append(int(self._absent[reader]))
        return found

    def _lasting_rules(self, is_free: Any) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The arcs that all moments have: tails, heads, capacities. Those of values come first."""
        values = self.values
        later = np.append(self._later, SINK)[self._maker]  # Number -1 is the last one.
        needed, absent, maker = self._needed.tolist(), self._absent.tolist(), self._maker.tolist()
        free: list[bool] = is_free.tolist()
        pairs: list[tuple[int, int]] = [(SOURCE, needed[v]) for v in values.kept]
        for number, (own, reads) in enumerate(zip(self._later.tolist(), values.reads, strict=True)):
            pairs += [(own, needed[v]) for v in reads]
            made = {maker[v] for v in reads} - {-1}
            pairs += [(absent[x], absent[number]) for x in sorted(made)]
            if free[number]:
                pairs.append((absent[number], own))
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        capacity = np.concatenate([values.nbytes, np.full(len(ends), self._endless)])
        tails = np.concatenate([self._needed, ends[:, 0]])
        return tails, np.concatenate([later, ends[:, 1]]), capacity

    def _ends(self, number: int, when: When) -> tuple[list[int], list[int]]:
        """The nodes that hold at a moment, and those that do not, beside those of all moments."""
        reads, own = list(self.values.reads[number]), int(self._later[number])
        if when is When.BEFORE:
            makers = self._maker[reads]
            return [own], self._absent[makers[makers >= 0]].tolist()
        begins = self._needed[reads].tolist() if when is When.DURING else []
        return [*begins, *self._behind(number)], [own]
