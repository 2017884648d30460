"""The peak of an order of clusters, and the values that live there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_profile import lifetimes, step_bytes
from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.live_memory import LiveMemory
from lowtide.fusion.order_memory import Scheduler
from lowtide.ir import Instruction
from lowtide.records import dataclass

_LEAST_SHARE: Final = 1 / 1024
"""Values that are a smaller part of the peak are left alone."""


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """The order that a scheduler gives to clusters.

    `position` is by node, `last` the position of the last use by buffer. At most `peak_bytes` are
    live at once, and nearly as many at the positions `peaks`, most at the first.
    """

    memory: LiveMemory
    position: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    peaks: tuple[int, ...]
    peak_bytes: int


def estimated(memory: LiveMemory, scheduler: Scheduler) -> Estimate:
    """Return where most is live in the order of a scheduler."""
    order = scheduler(memory.graph)
    position, _, last = lifetimes(memory.graph, order)
    steps = step_bytes(memory.graph, order)
    return Estimate(memory, position, last, tops(steps), int(steps.max()))


def tops(steps: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Return the highest step of each stretch that is nearly as high as the highest one."""
    high = np.concatenate([[False], steps >= steps.max() * _NEARLY, [False]])
    (borders,) = np.nonzero(np.diff(high))
    tops = [int(a + steps[a:b].argmax()) for a, b in borders.reshape(-1, 2).tolist()]
    return tuple(sorted(tops, key=lambda at: (-int(steps[at]), at))[:_MOST_PEAKS])


_NEARLY: Final = 0.95
"""What part of the peak others have that would be the peak next."""

_MOST_PEAKS: Final = 32


@final
class PeakView:
    """A graph of clusters that is being changed, seen from a position `at`, where a peak was.

    `last` is kept up to date with the changes; `least` are the bytes from which on a value matters.
    """

    def __init__(self, graph: ClusterGraph, estimate: Estimate) -> None:
        self.graph = graph
        self.memory = estimate.memory
        self.position: list[int] = estimate.position.tolist()
        self.last: list[int] = estimate.last.tolist()
        self.at = estimate.peaks[0]
        self.bytes: list[int] = estimate.memory.graph.buffer_bytes.tolist()
        self.least = max(1, int(estimate.peak_bytes * _LEAST_SHARE))
        self.consumers = estimate.memory.graph.consumers.rows()
        self._taken_over: dict[int, set[int]] = {}
        """By position the buffers whose place a result may take there."""
        for node, read, _ in estimate.memory.graph.shares.tolist():
            self._taken_over.setdefault(self.position[node], set()).add(read)

    def position_of(self, value: Instruction) -> int:
        """Return when the node of a value runs; -1 for one that was not there yet."""
        number = self.memory.number.get(value)
        return -1 if number is None else self.position[number]

    def is_before(self, value: Instruction) -> bool:
        """Whether the node of a value runs at the peak at the latest."""
        return self.position_of(value) <= self.at

    def is_large(self, value: Instruction) -> bool:
        """Whether a value that a cluster stores has enough bytes to matter."""
        buffer = self.memory.buffers.of(value)
        return buffer is not None and self.bytes[buffer] >= self.least

    def is_taken_over(self, buffer: int | None, position: int) -> bool:
        """Whether what is made at a position may take the place of a buffer."""
        return buffer in self._taken_over.get(position, ())

    def is_read_late(self, buffer: int, *, at_peak: bool = False) -> bool:
        """Whether a buffer is read after the peak, or at it with nothing made in its place."""
        last = self.last[buffer]
        return last > self.at or (
            at_peak and last == self.at and not self.is_taken_over(buffer, last)
        )

    def late_readers(self, value: Instruction, *, at_peak: bool = False) -> list[Cluster]:
        """Return the clusters that read a value after the peak, or already there."""
        owner, readers = self.graph.owner, self.graph.readers.get(value, ())
        first = self.at
        if not at_peak or self.is_taken_over(self.memory.buffers.of(value), first):
            first += 1
        return [owner[x] for x in readers if self.position_of(x) >= first]

    def is_read_late_and_alone(self, buffer: int) -> bool:
        """Whether an instruction that is in no cluster reads a buffer after the peak."""
        return any(
            self.position[node] > self.at and self.memory.nodes[node] in self.graph.alone
            for node in self.consumers[buffer]
        )

    def longer(self, values: Iterable[Instruction]) -> int:
        """Return the bytes that would live at the peak, and do not, if values were read later."""
        buffers = dict.fromkeys([self.memory.buffers.of(x) for x in values])
        return sum([self.bytes[x] for x in buffers if x is not None and not self._lives(x)])

    def _lives(self, buffer: int) -> bool:
        """Whether a buffer lives at the peak beside what is made there."""
        if self.last[buffer] == self.at:
            return buffer not in self._taken_over.get(self.at, ())
        return self.last[buffer] > self.at
