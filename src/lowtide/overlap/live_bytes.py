"""Live bytes while an order is made out of a given one, by running nodes earlier than they stand.

What is left of the given order is there at any time, and stays within the limit: so there is always
a node that may run, the first one that is left.

    given    a b c d e     live at each step, of those left
    run d    a b c   e     what d makes is live while a, b and c run; what only d read is not
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import step_bytes

_GONE: Final = -(1 << 62)
"""The live bytes of steps that have run: below all others, whatever is added."""

MOST_EARLIER: Final = 4096
"""A node runs at most so many steps of the given order earlier."""


class LiveBytes:
    """The live bytes of the rest of a given order, while some of its nodes run earlier."""

    def __init__(self, graph: MemoryGraph, given: Sequence[int]) -> None:
        order = np.array(given, np.int64)
        self.given = given
        self.first = 0
        """The place in the given order of the first node that is left."""
        self.place = np.argsort(order, kind="stable").tolist()
        self._steps: npt.NDArray[np.int64] = step_bytes(graph, order).astype(np.int64)
        self._size: list[int] = graph.buffer_bytes.tolist()
        self._inner: list[int] = (graph.scratch_bytes + graph.inner_bytes).tolist()
        self._reads: list[list[int]] = [[] for _ in given]
        self._makes: list[list[int]] = [[] for _ in given]
        self._left: list[list[int]] = []
        """Of each buffer the places of readers that are left, the last one behind."""
        live_out: list[bool] = graph.live_out.tolist()
        self._now = 0
        for buffer, readers in enumerate(graph.consumers.rows()):
            places = sorted([self.place[x] for x in readers])
            self._left.append([len(given), *places] if live_out[buffer] else places)
            for x in readers:
                self._reads[x].append(buffer)
            producer = int(graph.producer[buffer])
            if producer >= 0:
                self._makes[producer].append(buffer)
            else:
                self._now += self._size[buffer]
        self._live_out = live_out

    def fits(self, node: int, limit: int) -> bool:
        """Return whether a node may run next without a step above the limit."""
        place = self.place[node]
        if place == self.first:
            return True
        made = sum([self._size[x] for x in self._makes[node]])
        if self._now + made + self._inner[node] > limit:
            return False
        if place - self.first > MOST_EARLIER:
            return False
        return not made or int(self._steps[self.first : place].max()) + made <= limit

    def run(self, node: int) -> None:
        """Run a node, all before which have run."""
        place = self.place[node]
        kept = [x for x in self._makes[node] if self._left[x] or self._live_out[x]]
        made = sum([self._size[x] for x in kept])
        self._now += made
        self._steps[self.first : place] += made
        self._steps[place] = _GONE
        for buffer in self._reads[node]:
            self._read(buffer, place)
        while self.first < len(self.given) and self._steps[self.first] < 0:
            self.first += 1

    def _read(self, buffer: int, place: int) -> None:
        """Have one reader less of a buffer; without it, its bytes may be free earlier."""
        left = self._left[buffer]
        is_last = left[-1] == place
        left.remove(place)
        if self._live_out[buffer] or not is_last:
            return
        if not left:
            self._now -= self._size[buffer]
        until = left[-1] if left else self.first - 1
        self._steps[max(until + 1, self.first) : place] -= self._size[buffer]
