"""Random walks among the plans of a computation, each evaluated by its difference to the last.

A plan stores some results of operations that run any number of times, and has some operations run
behind one that runs once, in its kernel. A step of the walk changes one of these choices, or undoes
a change. What is live at each place of an order is kept in an array, in which a change is a few
intervals: that of a value whose last reader is another one, or that is no longer stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from random import Random

import numpy as np

from lowtide.least_memory.kinds import Kind, runs_behind
from lowtide.least_memory.values import ProgramValues

Inner = Mapping[int, tuple[int, set[int]]]
"""By operation that calls something, the bytes that are needed then, and the values in them."""


@dataclass(frozen=True)
class Kernel:
    """What is stored that it reads, and what it stores; `around` runs once, None for none."""

    reads: frozenset[int]
    makes: frozenset[int]
    around: int | None


class Choices:
    """What may be chosen in the plans of a computation: the same for all of them."""

    def __init__(self, values: ProgramValues) -> None:
        self.values = values
        self.nbytes: list[int] = values.nbytes.tolist()
        self.maker = {v: o for o, made in enumerate(values.makes) for v in made}
        self.readers: dict[int, list[int]] = {}
        for o, reads in enumerate(values.reads):
            for v in dict.fromkeys(reads):
                self.readers.setdefault(v, []).append(o)
        self.once = [o for o, kind in enumerate(values.kinds) if kind is not Kind.FREE]
        kept = {self.maker[v] for v in values.kept if v in self.maker}
        self.free = [o for o, kind in enumerate(values.kinds) if kind is Kind.FREE]
        self.stored = frozenset(kept)
        """What is stored in any case."""
        self.behind = {o: found for o in self.once if (found := self._behind(o))}
        """By operation that runs once, what may run behind it: all its readers."""

    def reading(self, o: int) -> list[int]:
        """Return the operations that read what one makes."""
        made = self.values.makes[o]
        return list(dict.fromkeys([r for v in made for r in self.readers.get(v, ())]))

    def _behind(self, o: int) -> list[int]:
        values, readers = self.values, self.reading(o)
        joined = all(
            values.kinds[r] is Kind.FREE
            and runs_behind(values.instructions[r])
            and all(self.maker.get(v, o) == o for v in values.reads[r])
            for r in readers
        )
        return readers if joined and values.kept.isdisjoint(values.makes[o]) else []

    def drawn_order(self, random: Random) -> list[int]:
        """Return operations, each as late as its first reader lets it, ends mixed."""
        ends = [*range(len(self.values.kinds))]
        if random.random() < 0.5:
            random.shuffle(ends)
        placed: dict[int, None] = {}
        for end in ends:
            waiting = [end]
            while waiting:
                o = waiting[-1]
                read = self.values.reads[o]
                ahead = {self.maker[v] for v in read if v in self.maker} - {*placed, o}
                if not ahead or o in placed:
                    placed.setdefault(waiting.pop())
                else:
                    mixed = sorted(ahead)
                    random.shuffle(mixed)
                    waiting += mixed
        return [*placed]


class Walk:
    """One plan at a time, in one order."""

    def __init__(self, choices: Choices, random: Random) -> None:
        self.choices = choices
        self.order = choices.drawn_order(random)
        count = len(self.order)
        self.rank = {o: k for k, o in enumerate(self.order)}
        share = random.choice((0.0, 0.02, 0.2, 0.6))
        self.stored = {o for o in choices.free if random.random() < share} | choices.stored
        self.host: dict[int, int] = {}
        for o, readers in choices.behind.items():
            if random.random() < 0.5:
                self.host |= dict.fromkeys(readers, o)
        self.kernels: dict[int, Kernel] = {}
        self.needs: dict[int, frozenset[int]] = {}
        """Of a value that is not stored, what is stored that it is computed of."""
        self.made_at: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        self.spans: dict[int, tuple[int, int]] = {}
        self.live = np.zeros(count + 1, np.int64)
        """Bytes that are there before the kernel of each place."""
        self.beside = np.zeros(count, np.int64)
        """Bytes that a kernel apart makes beside what is there before."""
        self.dead = np.zeros(count, np.int64)
        """Bytes that a kernel makes and nothing reads."""
        values = choices.values
        self.given = sum([choices.nbytes[v] for v in values.given])
        self._note(values.given)
        self._settle(range(count))

    # -- steps ---------------------------------------------------------------------------------

    def flips(self) -> list[int]:
        """Return the operations about which there is something to choose."""
        return [
            *[o for o in self.choices.free if o not in self.choices.stored],
            *self.choices.behind,
        ]

    def flip(self, o: int) -> None:
        """Change whether a result is stored, or whether what may run behind an operation does."""
        readers = self.choices.behind.get(o)
        if readers is None:
            self.stored ^= {o}
            self._settle([o])
            return
        for r in readers:
            if self.host.pop(r, None) is None:
                self.host[r] = o
        self._settle([o, *readers])

    def is_at_peak(self, o: int) -> bool:
        """Whether a result, or what it would be stored instead of, is live at the peak."""
        highest = int(self.live.argmax())
        made = self.choices.values.makes[o]
        instead = [x for v in made for x in self.needs.get(v, (v,))]
        return any(self._is_live(self.spans.get(v), highest) for v in instead)

    def peak(self, inner: Inner) -> int:
        """Return what the plan needs; `inner` has what operations need that call something."""
        most = max(
            self.given,
            int((self.live[:-1] + self.beside).max(initial=0)),
            int((self.live[1:] + self.dead).max(initial=0)),
        )
        for o, (inside, own) in inner.items():
            place = self.rank[o] + 1
            counted = [
                self.choices.nbytes[v] for v in own if self._is_live(self.spans.get(v), place)
            ]
            most = max(most, inside + int(self.live[place]) - sum(counted))
        return most

    @staticmethod
    def _is_live(span: tuple[int, int] | None, place: int) -> bool:
        return span is not None and span[0] <= place < span[1]

    # -- differences ---------------------------------------------------------------------------

    def _settle(self, changed: Iterable[int]) -> None:
        """Make the kernels of operations anew, and of those behind them that this changes."""
        touched: dict[int, None] = {}
        waiting = [self.rank[o] for o in changed]
        heapify(waiting)
        queued = {*waiting}
        while waiting:
            place = heappop(waiting)
            queued.discard(place)
            o = self.order[place]
            kernel, needs = self._made(o)
            self._replace(o, kernel, touched)
            if self._told(o, needs):
                for r in self.choices.reading(o):
                    if self.rank[r] not in queued:
                        queued.add(self.rank[r])
                        heappush(waiting, self.rank[r])
        self._note(touched)

    def _made(self, o: int) -> tuple[Kernel | None, frozenset[int] | None]:
        """The kernel of an operation, if any; what its values need, if they are not stored."""
        values, nbytes = self.choices.values, self.choices.nbytes
        read: set[int] = set()
        for v in values.reads[o]:
            found = self.needs.get(v)
            if found is not None:
                read |= found
            elif nbytes[v]:
                read.add(v)
        reads = frozenset(read)
        if values.kinds[o] is not Kind.FREE:
            behind = [r for r in self.choices.behind.get(o, ()) if self.host.get(r) == o]
            if not behind:
                return Kernel(reads, frozenset(values.makes[o]), o), None
            made = [v for r in behind for v in values.makes[r]]
            more = [v for r in behind for v in values.reads[r]]
            given = [v for v in more if v not in self.choices.maker and nbytes[v]]
            return Kernel(reads.union(given), frozenset(made), o), None
        if o in self.host:
            return None, None
        if o in self.stored:
            return Kernel(reads, frozenset(values.makes[o]), None), None
        return None, reads

    def _told(self, o: int, needs: frozenset[int] | None) -> bool:
        """Take what the values of an operation need; return whether that is new."""
        is_new = False
        for v in self.choices.values.makes[o]:
            if self.needs.get(v) != needs:
                is_new = True
                if needs is None:
                    del self.needs[v]
                else:
                    self.needs[v] = needs
        return is_new

    def _replace(self, o: int, kernel: Kernel | None, touched: dict[int, None]) -> None:
        before = self.kernels.pop(o, None)
        if kernel is not None:
            self.kernels[o] = kernel
        if before == kernel:
            return
        place = self.rank[o]
        old = Kernel(frozenset(), frozenset(), None) if before is None else before
        new = Kernel(frozenset(), frozenset(), None) if kernel is None else kernel
        for v in old.reads - new.reads:
            self.readers[v].discard(place)
        for v in new.reads - old.reads:
            self.readers.setdefault(v, set()).add(place)
        for v in old.makes - new.makes:
            if self.made_at.get(v) == place:
                del self.made_at[v]
        self.made_at |= dict.fromkeys(new.makes, place)
        touched |= dict.fromkeys([*(old.reads ^ new.reads), *old.makes, *new.makes])
        if new.around is not None and self.choices.values.kinds[o] is Kind.APART:
            self.beside[place] = sum([self.choices.nbytes[v] for v in new.makes])

    def _note(self, touched: Collection[int]) -> None:
        """Move the ends of values in the array of what is live."""
        kept, given = self.choices.values.kept, self.choices.values.given
        for v in touched:
            nbytes = self.choices.nbytes[v]
            if not nbytes:
                continue
            span = self.spans.pop(v, None)
            if span is not None:
                self._add(span, -nbytes)
            first = 0 if v in given else self.made_at.get(v, -2) + 1
            if first < 0:
                continue
            last = (
                len(self.order) + 1 if v in kept else max(self.readers.get(v, ()), default=-1) + 1
            )
            self.spans[v] = first, max(first, last)
            self._add(self.spans[v], nbytes)

    def _add(self, span: tuple[int, int], nbytes: int) -> None:
        first, last = span
        if first < last:
            self.live[first:last] += nbytes
        elif first:
            self.dead[first - 1] += nbytes
