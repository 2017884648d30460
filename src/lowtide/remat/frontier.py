"""The frontier of memory against time: the recomputation that each amount of memory costs.

Plans are searched at fixed shares of the peak without recomputation, and no budget is asked for.
A budget then picks the cheapest plan that fits. As the budget grows the extra time never rises, and
as it shrinks the memory never grows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Sequence as Orders

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.remat.levels import LevelSearch
from lowtide.remat.measure import step_bytes
from lowtide.remat.recompute import Sequence
from lowtide.remat.tables import Int64Array, RematTables, tables_of
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort


@dataclass(frozen=True, slots=True)
class Point:
    """A sequence, the bytes of its largest step, and its seconds beyond one run of each node."""

    peak_bytes: int
    extra_seconds: float
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Frontier:
    """Points with ever fewer bytes and ever more extra seconds; the first has none.

    `was_interrupted` says that Ctrl-C ended the search.
    """

    points: tuple[Point, ...]
    was_interrupted: bool = False

    def within(self, budget: int) -> Point | None:
        """Return the cheapest point of at most `budget` bytes, None where there is none."""
        return next((point for point in self.points if point.peak_bytes <= budget), None)

    @property
    def least(self) -> Point:
        """The point of fewest bytes."""
        return self.points[-1]


def frontier(
    graph: MemoryGraph,
    orders: Orders[Int64Array],
    effort: Effort = Effort.DEFAULT,
    deadline: Deadline | None = None,
    progress: Callable[[int, float], None] | None = None,
    once: Collection[int] = (),
) -> Frontier:
    """Return the frontier found from some orders, each of which holds every node once.

    Nodes in `once` never run again. `progress` is told bytes and extra seconds of each point as it
    is found. A deadline or Ctrl-C ends the search with what it has. Raises ValueError where there
    is no order, or where the graph does not say how long its nodes run.
    """
    if not orders:
        raise ValueError("a frontier needs an order to start from")
    tables = tables_of(graph, once)
    found = _Found(tables, progress)
    found.add(min(orders, key=lambda order: int(step_bytes(tables, order).max(initial=0))))
    if graph.node_count:
        try:
            search = LevelSearch(tables, orders, effort, deadline)
            for sequence in search.sequences():
                found.add(sequence)
        except KeyboardInterrupt:
            return found.frontier(was_interrupted=True)
    return found.frontier()


class _Found:
    """The sequences found, as points."""

    def __init__(self, tables: RematTables, progress: Callable[[int, float], None] | None) -> None:
        self._tables = tables
        self._progress = progress
        self._points: list[Point] = []

    def add(self, sequence: Int64Array) -> None:
        """Add a sequence."""
        peak = int(step_bytes(self._tables, sequence).max(initial=0))
        point = Point(peak, self._tables.seconds(sequence), tuple(sequence.tolist()))
        self._points.append(point)
        if self._progress is not None:
            self._progress(point.peak_bytes, point.extra_seconds)

    def frontier(self, *, was_interrupted: bool = False) -> Frontier:
        """Return the points that no other one beats in bytes and in seconds."""
        kept: list[Point] = []
        for point in sorted(self._points, key=lambda x: (x.extra_seconds, x.peak_bytes)):
            if not kept or point.peak_bytes < kept[-1].peak_bytes:
                kept.append(point)
        return Frontier(tuple(kept), was_interrupted)
