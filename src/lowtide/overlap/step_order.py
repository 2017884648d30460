"""The search for the order of the shortest simulated step whose live bytes stay within a limit.

Nodes are ranked by the longest path behind them, by the given order, and then by how late they may
begin in the best order so far (a forward and a backward pass in turn: Li and Willis, 1992), with
noise of fixed seeds. The search ends at the bound, or after so many nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.overlap.clock import SimulatedStep, simulated
from lowtide.overlap.list_order import ListRule, list_order
from lowtide.overlap.step_bound import step_bound, step_paths, took_with
from lowtide.overlap.step_graph import StepGraph
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline

NODES: Final = 20_000
"""How many nodes all orders that are tried may have together."""

_QUEUES: Final = (2, 1, 8)
_NOISE: Final = 0.2
_ENOUGH: Final = 1.0005
"""A step of so many times its bound is not worth a search."""


@dataclass(frozen=True, slots=True)
class StepOrder:
    """An order, its simulated step, the bound on every order, and how many orders were tried."""

    order: tuple[int, ...]
    step: SimulatedStep
    bound: float
    tried: int


def shortest_order(
    graph: StepGraph,
    memory: MemoryGraph,
    given: Sequence[int],
    limit: int,
    deadline: Deadline | None = None,
) -> StepOrder:
    """Return the best order found that takes at most the limit in bytes, or the given one."""
    bound = step_bound(graph)
    best = StepOrder(tuple(given), simulated(graph, given), bound, 0)
    if not any(graph.transfer):
        return best
    tried = 0
    ranks = _Ranks(graph, given)
    most = max(6, NODES // graph.node_count)
    while tried < most and best.step.seconds > bound * _ENOUGH:
        if deadline is not None and deadline.passed:
            break
        rank, queued = ranks.of(tried, best)
        order = list_order(graph, memory, given, ListRule(rank, queued, limit))
        tried += 1
        step = simulated(graph, order)
        if step.seconds < best.step.seconds and _fits(memory, order, limit):
            best = StepOrder(tuple(order), step, bound, tried)
    return StepOrder(best.order, best.step, bound, tried)


def _fits(memory: MemoryGraph, order: Sequence[int], limit: int) -> bool:
    return peak_bytes(memory, np.array(order, np.int64)) <= limit


class _Ranks:
    """The ranks to try, one after the other."""

    def __init__(self, graph: StepGraph, given: Sequence[int]) -> None:
        self._graph = graph
        paths = step_paths(graph)
        took = [took_with(graph, x) for x in range(graph.node_count)]
        self._behind = [-(a + b) for a, b in zip(paths.behind, took, strict=True)]
        self._given = np.argsort(np.array(given), kind="stable").tolist()
        self._random = Random(0)
        self._first = list(self._plain())

    def of(self, number: int, best: StepOrder) -> tuple[Sequence[float], int]:
        """Return the ranks and the queue of a try, given the best order so far."""
        if number < len(self._first):
            return self._first[number]
        late = latest(self._graph, best)
        if number % 3 == 0:
            return late, _QUEUES[number // 3 % len(_QUEUES)]
        if number % 3 == 1:
            return self._noisy(late), 2
        return self._noisy(self._behind), 2

    def _plain(self) -> Iterator[tuple[Sequence[float], int]]:
        for queued in _QUEUES:
            yield self._behind, queued
            yield self._given, queued

    def _noisy(self, rank: Sequence[float]) -> list[float]:
        spread = _NOISE * (max(rank) - min(rank)) / 4
        return [x + self._random.uniform(-spread, spread) for x in rank]


def latest(graph: StepGraph, found: StepOrder) -> list[float]:
    """Return when each node of an order has to begin, all in its order, for as short a step."""
    begin = [found.step.seconds] * graph.node_count
    now = found.step.seconds
    free = [now] * len(graph.slots)
    for node in reversed(found.order):
        link = graph.link[node]
        if link >= 0:
            ends = [begin[x] for x in graph.after[node] if graph.start_of[x] == node]
            free[link] = begin[node] = min([free[link], *ends]) - graph.transfer[node]
            continue
        after = [begin[x] for x in graph.after[node]]
        now = min([now, *after, *[free[x] for x in graph.holds[node]]])
        now = begin[node] = now - graph.seconds[node]
        for x in graph.holds[node]:
            free[x] = now
    return begin
