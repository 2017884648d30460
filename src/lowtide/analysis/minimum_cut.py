"""The minimum cut of a network: small ones in plain Python, others by a library.

To load the library takes longer than to compile most programs that ask for a cut. The sides that
are returned do not depend on which flow was found, so that both ways return the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from lowtide.records import dataclass

Arcs: TypeAlias = "Sequence[tuple[int, int, int]]"
"""Tail, head and capacity of each arc; nodes are numbers from 0 on."""

MOST_ARCS: Final = 1000
"""Networks of more arcs are cut by the library."""

MOST_WORK: Final = 20_000
"""Arcs looked at before a network is left to the library."""


@dataclass(frozen=True, slots=True)
class MinimumCut:
    """The capacity of a cut, what the source can still reach, and what can still reach the sink."""

    value: int
    source_side: frozenset[int]
    sink_side: frozenset[int]


def minimum_cut(arcs: Arcs, source: int, sink: int) -> MinimumCut:
    """Return the minimum cut of a network, with the smallest sides of source and sink."""
    if len(arcs) <= MOST_ARCS:
        found = small_cut(arcs, source, sink, MOST_WORK)
        if found is not None:
            return found
    return library_cut(arcs, source, sink)


def library_cut(arcs: Arcs, source: int, sink: int) -> MinimumCut:
    """Return the same by OR-Tools."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    # Source and sink without arcs would be on neither side.
    rows = np.array([*arcs, (source, sink, 0)], np.int64)
    solver = SimpleMaxFlow()
    solver.add_arcs_with_capacity(rows[:, 0], rows[:, 1], rows[:, 2])
    if solver.solve(source, sink) != solver.OPTIMAL:
        raise RuntimeError("the maximum flow was not found")
    sides = solver.get_source_side_min_cut(), solver.get_sink_side_min_cut()
    return MinimumCut(solver.optimal_flow(), frozenset(sides[0]), frozenset(sides[1]))


def small_cut(arcs: Arcs, source: int, sink: int, work: int) -> MinimumCut | None:
    """Return the same by shortest paths, one after the other; None where that takes more work."""
    count = 1 + max([source, sink, *[max(tail, head) for tail, head, _ in arcs]])
    heads: list[int] = []
    room: list[int] = []
    leaving: list[list[int]] = [[] for _ in range(count)]
    for tail, head, capacity in arcs:  # The arc back is the next one: its number differs in a bit.
        leaving[tail].append(len(heads))
        leaving[head].append(len(heads) + 1)
        heads += (head, tail)
        room += (capacity, 0)
    value = 0
    while work > 0:
        came_by = _reached(source, sink, leaving, heads, room)
        work -= sum([len(leaving[node]) for node in came_by])
        if sink not in came_by:
            back = [[x ^ 1 for x in those] for those in leaving]
            to_sink = _reached(sink, source, back, _tails(heads), room)
            return MinimumCut(value, frozenset(came_by), frozenset(to_sink))
        path = []
        node = sink
        while node != source:
            path.append(came_by[node])
            node = heads[came_by[node] ^ 1]
        amount = min([room[arc] for arc in path])
        value += amount
        for arc in path:
            room[arc] -= amount
            room[arc ^ 1] += amount
    return None


def _reached(
    start: int, end: int, leaving: list[list[int]], heads: list[int], room: list[int]
) -> dict[int, int]:
    """The nodes that are reached by arcs with room until the end is, with the arcs to them."""
    came_by = {start: -1}
    waiting = [start]
    for node in waiting:
        for arc in leaving[node]:
            if room[arc] and heads[arc] not in came_by:
                came_by[heads[arc]] = arc
                if heads[arc] == end:
                    return came_by
                waiting.append(heads[arc])
    return came_by


def _tails(heads: list[int]) -> list[int]:
    """The node that each arc leaves."""
    return [heads[arc ^ 1] for arc in range(len(heads))]
