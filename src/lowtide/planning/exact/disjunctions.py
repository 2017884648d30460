"""A proof that a height does not do, from the choice of the lower one of two buffers; plain Python.

Of two items that are live at once, one lies below the other. Each such choice raises two figures
along chains: the least offset of the upper item (its head), and the least bytes on top of the lower
one (its tail). Where a step has no room for what is live there, given heads and tails, the choices
made so far are refuted (Carlier 1982, "The one-machine sequencing problem").

A choice that a refutation does not need is left out of it, and with it the other half of the tree.
Of equal items, those of lower number lie lower.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from lowtide.planning.exact.instance import Instance
from lowtide.planning.problem import FREE
from lowtide.records import dataclass

_NODES_BETWEEN_CHECKS: Final = 32

Pair = tuple[int, int]
"""Two items, the lower one first."""
Entry = Pair | int
Closed = tuple[list[Entry], frozenset[Pair]]
"""A refuted part of the tree, and the choices above it that it needs."""


@dataclass(frozen=True, eq=False, slots=True)
class _State:
    """Choices, and what follows.

    Per item: what was chosen to lie right above and right below it, all that lies above (a bit
    mask), head and tail, and what made them so: the item below, or above, or -1. `pair` is the last
    choice.
    """

    upper: list[tuple[int, ...]]
    lower: list[tuple[int, ...]]
    above: list[int]
    head: list[int]
    tail: list[int]
    raised_by: list[int]
    weighed_by: list[int]
    pair: Pair

    def copy(self, pair: Pair) -> _State:
        """Return a state of its own."""
        return _State(
            self.upper.copy(), self.lower.copy(), self.above.copy(), self.head.copy(),
            self.tail.copy(), self.raised_by.copy(), self.weighed_by.copy(), pair,
        )  # fmt: skip

    def reasons(self, items: Sequence[int]) -> Iterator[Pair]:
        """Yield the choices that made heads and tails of items what they are."""
        for i in items:
            at = i
            while (below := self.raised_by[at]) >= 0:
                yield below, at
                at = below
            at = i
            while (top := self.weighed_by[at]) >= 0:
                yield at, top
                at = top


@dataclass(slots=True)
class _Frame:
    """A node of which the first choice is being refuted or, after `done`, the second one."""

    state: _State
    pair: Pair
    done: Closed | None = None


class Disjunctions:
    """The search for a proof that an instance has no packing of at most `height`.

    `lives` says per item when it is live: equally for those that are live at the same time. At each
    step of the instance, the places of all that is live are multiples of an entry of `units`.
    `tree` is the proof: in preorder, pairs of items of which one lies below the other, followed by
    the cases that they do so as given and the other way round, and steps without room.
    """

    def __init__(
        self,
        instance: Instance,
        lives: Sequence[Hashable],
        units: Sequence[int],
        height: int,
        most_nodes: int,
    ) -> None:
        self.units = units
        self.height, self.nodes = height, most_nodes
        self.size: list[int] = instance.size.tolist()
        self.alignment: list[int] = instance.alignment.tolist()
        self.fixed: list[int] = instance.fixed.tolist()
        self.steps: list[int] = instance.steps.tolist()
        bounds = pairwise(instance.cover_starts.tolist())
        self.cover = [sorted(instance.cover[a:b].tolist()) for a, b in bounds]
        self.pairs = sorted({(i, j) for here in self.cover for i in here for j in here if i < j})
        self.step_of = {
            (i, j): step
            for step, here in zip(self.steps, self.cover, strict=True)
            for i in here
            for j in here
        }
        self.kinds: list[Hashable] = [
            (self.size[i], self.alignment[i], life) if self.fixed[i] == FREE else i
            for i, life in enumerate(lives)
        ]
        self.suspects = list(range(len(self.steps)))
        self.tree: list[Entry] = []

    def search(self, check: Callable[[], None] | None = None) -> bool:
        """Return whether there is a proof; too few nodes may not find it.

        `check` is called now and then, and may raise an exception to end the search.
        """
        count = len(self.size)
        base = [max(0, place) for place in self.fixed]
        alone: list[tuple[int, ...]] = [()] * count
        nobody = [-1] * count
        state = _State(alone, alone, [0] * count, base, [0] * count, nobody, nobody, (-1, -1))
        stack: list[_Frame] = []
        while self.nodes > 0:
            self.nodes -= 1
            if check is not None and self.nodes % _NODES_BETWEEN_CHECKS == 0:
                check()
            closed = self._closed(state)
            if closed is None:
                pair = self._choice(state)
                if pair is None:
                    return False
                stack.append(_Frame(state, pair))
                state = self._with(state, pair)
                continue
            again = self._back(stack, closed)
            if again is None:
                return True
            state = again
        return False

    def _back(self, stack: list[_Frame], closed: Closed) -> _State | None:
        """Give a refutation to the nodes above; return the next state, None once all is refuted."""
        while stack:
            frame = stack[-1]
            low, high = frame.pair
            chosen = (low, high) if frame.done is None else (high, low)
            entries, needed = closed
            if chosen not in needed:
                stack.pop()
            elif frame.done is None:
                frame.done = closed
                return self._with(frame.state, (high, low))
            else:
                stack.pop()
                before, also = frame.done
                tree: list[Entry] = [frame.pair, *before, *entries]
                closed = tree, (needed | also) - {(low, high), (high, low)}
        self.tree = closed[0]
        return None

    def _with(self, state: _State, pair: Pair) -> _State:
        """Return the state with one more choice."""
        low, high = pair
        found = state.copy(pair)
        found.upper[low] += (high,)
        found.lower[high] += (low,)
        mask = state.above[high] | 1 << high
        for i in range(len(self.size)):
            if i == low or state.above[i] >> low & 1:
                found.above[i] |= mask
        self._raise(found, low, high)
        self._weigh(found, low, high)
        return found

    def _raise(self, state: _State, low: int, high: int) -> None:
        todo = [(low, high)]
        for i, j in todo:
            unit = self.alignment[j]
            head = -(-(state.head[i] + self.size[i]) // unit) * unit
            if head > state.head[j]:
                state.head[j], state.raised_by[j] = head, i
                todo += [(j, k) for k in state.upper[j]]

    def _weigh(self, state: _State, low: int, high: int) -> None:
        todo = [(low, high)]
        for i, j in todo:
            tail = state.tail[j] + self.size[j]
            if tail > state.tail[i]:
                state.tail[i], state.weighed_by[i] = tail, j
                todo += [(k, i) for k in state.lower[i]]

    def _closed(self, state: _State) -> Closed | None:
        """Return the refutation of a state by one step, if there is one."""
        low, high = state.pair
        if low > high and self.kinds[low] == self.kinds[high]:
            return [self.step_of[low, high]], frozenset({state.pair})
        for i, place in enumerate(self.fixed):
            if place != FREE and state.head[i] > place:
                return [self.step_of[i, i]], frozenset(state.reasons([i]))
        for position, step in enumerate(self.suspects):
            crowd = self._crowd(state, self.cover[step], self.units[step])
            if crowd:
                self.suspects.insert(0, self.suspects.pop(position))
                return [self.steps[step]], frozenset(state.reasons(crowd))
        return None

    def _crowd(self, state: _State, here: list[int], unit: int) -> list[int]:
        """Return items of a step that have no room together, given their heads and tails."""
        by_head = sorted(here, key=lambda i: -state.head[i])
        for tail in sorted({state.tail[i] for i in here}):
            need = slack = 0
            inside: list[int] = []
            for i in by_head:
                if state.tail[i] < tail:
                    continue
                inside.append(i)
                rounded = -(-self.size[i] // unit) * unit
                need += rounded
                slack = max(slack, rounded - self.size[i])
                if state.head[i] + need - slack + tail > self.height:
                    return inside
        return []

    def _choice(self, state: _State) -> Pair | None:
        """Return the pair of which both orders leave least room, the worse one first."""
        best: Pair | None = None
        least = (-1, -1)
        for i, j in self.pairs:
            if state.above[i] >> j & 1 or state.above[j] >> i & 1:
                continue
            below = state.head[i] + self.size[i] + self.size[j] + state.tail[j]
            above = state.head[j] + self.size[j] + self.size[i] + state.tail[i]
            key = (min(below, above, self.height + 1), max(below, above))
            if key > least:
                least, best = key, (i, j) if below >= above else (j, i)
        return best
