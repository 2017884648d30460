"""A bound on the simulated time of a step: no order of it beats that, whatever the memory.

The longest path is one bound. Of the device, and of each link, another: what it has to do, each
part no earlier than paths to it allow, with the path behind it still to go. Could parts be
interrupted, then the best order is known, and its end is the bound (J. R. Jackson, 1955).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from lowtide.overlap.step_graph import StepGraph
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class StepPaths:
    """Of each node the longest path to its beginning, and the one from its end, in seconds.

    Of what starts a collective, `behind` counts from the end of the transfer.
    """

    ahead: tuple[float, ...]
    behind: tuple[float, ...]


def step_bound(graph: StepGraph) -> float:
    """Return seconds that every order of a step takes at least."""
    paths = step_paths(graph)
    resources = range(-1, len(graph.slots))
    ends = [_interrupted(list(_parts(graph, paths, x))) for x in resources]
    return max(_longest(graph, paths), *ends)


def step_paths(graph: StepGraph) -> StepPaths:
    """Return the longest paths of a step."""
    ahead, behind = [0.0] * graph.node_count, [0.0] * graph.node_count
    for node in graph.topological:
        own = graph.seconds[node]
        for x in graph.after[node]:
            took = graph.transfer[node] if graph.start_of[x] == node else own
            ahead[x] = max(ahead[x], ahead[node] + took)
    for node in reversed(graph.topological):
        for x in graph.after[node]:
            if graph.link[node] < 0 or graph.start_of[x] == node:
                behind[node] = max(behind[node], took_with(graph, x) + behind[x])
    return StepPaths(tuple(ahead), tuple(behind))


def took_with(graph: StepGraph, node: int) -> float:
    """Return the time from the beginning of a node to its end, or to that of its transfer."""
    return graph.seconds[node] + graph.transfer[node]


def _longest(graph: StepGraph, paths: StepPaths) -> float:
    nodes = range(graph.node_count)
    return max([paths.ahead[x] + took_with(graph, x) + paths.behind[x] for x in nodes], default=0.0)


def _parts(
    graph: StepGraph, paths: StepPaths, resource: int
) -> Iterator[tuple[float, float, float]]:
    """Yield (earliest beginning, seconds, path behind) of what a link does, -1: the device."""
    for node in range(graph.node_count):
        took = graph.seconds[node] if resource < 0 else graph.transfer[node]
        uses = graph.link[node] == resource if resource >= 0 else True
        if resource >= 0 and resource in graph.holds[node]:
            took, uses = graph.seconds[node], True
        if uses and took:
            yield paths.ahead[node], took, paths.behind[node]


def _interrupted(parts: Sequence[tuple[float, float, float]]) -> float:
    """The end of the best order of parts that may be interrupted: the longest path behind first."""
    waiting = sorted(parts)
    ready: list[tuple[float, float]] = []
    now = end = 0.0
    place = 0
    while place < len(waiting) or ready:
        if not ready:
            now = max(now, waiting[place][0])
        while place < len(waiting) and waiting[place][0] <= now:
            _, seconds, behind = waiting[place]
            heapq.heappush(ready, (-behind, seconds))
            place += 1
        behind, seconds = heapq.heappop(ready)
        until = waiting[place][0] if place < len(waiting) else math.inf
        if now + seconds > until:
            heapq.heappush(ready, (behind, seconds - (until - now)))
            now = until
        else:
            now += seconds
            end = max(end, now - behind)
    return end
