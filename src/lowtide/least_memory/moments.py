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
from typing import Any, final

import numpy as np

from lowtide.least_memory.kinds import Kind, runs_behind
from lowtide.least_memory.network import SINK, SOURCE, MomentNetwork
from lowtide.least_memory.values import Int64Array, ProgramValues


@final
class Moments:
    """The moments of one computation: just before, during or after an operation that runs once."""

    def __init__(self, values: ProgramValues) -> None:
        self.values = values
        count, operations = len(values.nbytes), len(values.kinds)
        self._needed = 2 + np.arange(count)
        self._later = 2 + count + np.arange(operations)
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
        nodes = 2 + count + 2 * operations
        self._network = MomentNetwork(nodes, self._lasting_rules(is_free), self._endless)

    @property
    def arcs(self) -> int:
        """How many arcs a network has that is cut."""
        return len(self._network)

    @property
    def once(self) -> list[int]:
        """Return the operations that run once."""
        return [i for i, kind in enumerate(self.values.kinds) if kind is not Kind.FREE]

    def during(self, number: int) -> int:
        """Return the least bytes in memory while an operation of kind APART runs.

        What it reads is there, together with what is stored of its result or is still needed.
        """
        values = self.values
        begins = [*self._needed[list(values.reads[number])], *self._behind(number)]
        return self._network.cut(begins, [self._later[number]])

    def after(self, number: int, without: Sequence[int] = ()) -> int:
        """Return the least bytes in memory when an operation has just run.

        Values in `without` count for nothing.
        """
        return self._network.cut(self._behind(number), [self._later[number]], without)

    def before(self, number: int) -> int:
        """Return the least bytes in memory when an operation is about to run."""
        makers = self._maker[list(self.values.reads[number])]
        return self._network.cut([self._later[number]], self._absent[makers[makers >= 0]])

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
        pairs: list[tuple[int, int]] = [(SOURCE, int(self._needed[v])) for v in values.kept]
        for number, reads in enumerate(values.reads):
            own = int(self._later[number])
            pairs += [(own, int(self._needed[v])) for v in reads]
            made = {int(self._maker[v]) for v in reads} - {-1}
            pairs += [(int(self._absent[x]), int(self._absent[number])) for x in sorted(made)]
            if is_free[number]:
                pairs.append((int(self._absent[number]), own))
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        capacity = np.concatenate([values.nbytes, np.full(len(ends), self._endless)])
        tails = np.concatenate([self._needed, ends[:, 0]])
        return tails, np.concatenate([later, ends[:, 1]]), capacity
