"""The simulated step: a device runs an order, and its links send meanwhile.

device   [ matmul ][ start ][ matmul   ][ done, waits ][ add ]
link               [ all-reduce              ]
"""

from __future__ import annotations

from collections import deque

from lowtide.overlap.step_graph import Order, StepGraph
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """When the nodes of an order ran, in seconds from the beginning of the step.

    `begin` and `end` are of the device; of what starts a collective, of its transfer. `waiting` is
    how long the device waited for transfers, those inside of nodes included.
    """

    seconds: float
    begin: tuple[float, ...]
    end: tuple[float, ...]
    waiting: float


class StepClock:
    """The time of a device and its links, while nodes are run one by one."""

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.now = 0.0
        self.free = [0.0] * len(graph.slots)
        """When each link ends what it was given."""
        self.begin = [0.0] * graph.node_count
        self.end = [0.0] * graph.node_count
        self.waiting = 0.0
        self._sending: list[deque[float]] = [deque() for _ in graph.slots]

    def queued(self, link: int) -> int:
        """Return how many transfers were given to a link and have not ended."""
        sending = self._sending[link]
        while sending and sending[0] <= self.now:
            sending.popleft()
        return len(sending)

    def begins(self, node: int) -> float:
        """Return when a node would begin, if it ran next."""
        graph = self.graph
        start = graph.start_of[node]
        if start >= 0:
            return max(self.now, self.end[start])
        return max([self.now, *[self.free[x] for x in graph.holds[node]]])

    def run(self, node: int) -> None:
        """Run a node next."""
        if self.graph.link[node] >= 0:
            self._send(node)
            return
        begin = self.begins(node)
        self.waiting += begin - self.now + self.graph.inside[node][1]
        self.begin[node] = begin
        self.now = self.end[node] = begin + self.graph.seconds[node]
        for x in self.graph.holds[node]:
            self.free[x] = self.now

    def _send(self, node: int) -> None:
        link = self.graph.link[node]
        if self.queued(link) >= self.graph.slots[link]:
            oldest = self._sending[link].popleft()
            self.waiting += oldest - self.now
            self.now = oldest
        self.begin[node] = max(self.now, self.free[link])
        self.end[node] = self.free[link] = self.begin[node] + self.graph.transfer[node]
        self._sending[link].append(self.end[node])

    def result(self) -> SimulatedStep:
        """Return the step, which ends with the last transfer."""
        end = max([self.now, *self.free])
        waiting = self.waiting + end - self.now
        return SimulatedStep(end, tuple(self.begin), tuple(self.end), waiting)


def simulated(graph: StepGraph, order: Order) -> SimulatedStep:
    """Return when each node of an order runs."""
    clock = StepClock(graph)
    for node in order:
        clock.run(node)
    return clock.result()
