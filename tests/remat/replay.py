"""The cost of a sequence, worked out from the rules alone, forwards and with sets.

It shares no code with the searches. The rules are those of memory graphs. A node that runs again
writes new instances of its buffers, and a consumer reads the latest instance. An instance is live
from its write to its last reader; the last one of a live-out buffer, to the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass


class ReplayError(ValueError):
    """A sequence breaks a rule: `step` is where, counted from 0."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(f"step {step}: {message}")
        self.step = step


@dataclass(frozen=True, slots=True)
class Replay:
    """The largest step of a sequence, the first at which it is reached, and its extra seconds."""

    peak_bytes: int
    peak_step: int
    extra_seconds: float


@dataclass(slots=True)
class _Instance:
    """A buffer as written at step `start`, needed until step `end`, included."""

    buffer: int
    start: int
    end: int


def replay(graph: MemoryGraph, sequence: Sequence[int]) -> Replay:
    """Return the peak of a sequence in bytes and its seconds beyond one run of each node.

    Raises ReplayError for a node that never runs, runs before what it reads or waits for, or runs
    again after a node that lists it in control.
    """
    _check_runs(graph, sequence)
    instances, operands = _instances(graph, sequence)
    size = graph.buffer_bytes.tolist()
    change = [0] * (len(sequence) + 1)
    for x in instances:
        change[x.start] += size[x.buffer]
        change[x.end + 1] -= size[x.buffer]
    pairs = _pairs(graph)
    held, peak, where = 0, 0, 0
    own = (graph.scratch_bytes + graph.inner_bytes).tolist()
    live_out = graph.live_out.tolist()
    for step, node in enumerate(sequence):
        held += change[step]
        dying = {x.buffer for x in operands[step] if x.end == step and not live_out[x.buffer]}
        here = held + own[node] - _taken(pairs.get(node, []), dying, size)
        if here > peak:
            peak, where = here, step
    seconds = graph.seconds.tolist()
    runs = Counter(sequence)
    extra = math.fsum([(runs[x] - 1) * seconds[x] for x in sorted(runs)])
    return Replay(peak, where, extra)


def _check_runs(graph: MemoryGraph, sequence: Sequence[int]) -> None:
    control = graph.control.rows()
    ran: set[int] = set()
    closed: set[int] = set()
    for step, node in enumerate(sequence):
        if not 0 <= node < graph.node_count:
            raise ReplayError(f"there is no node {node}", step)
        missing = [x for x in control[node] if x not in ran]
        if missing:
            raise ReplayError(f"node {node} runs before node {missing[0]}", step)
        if node in closed:
            raise ReplayError(f"node {node} runs again after one that waits for it", step)
        ran.add(node)
        closed.update(control[node])
    absent = graph.node_count - len(ran)
    if absent:
        raise ReplayError(f"{absent} nodes never run", len(sequence))


def _instances(
    graph: MemoryGraph, sequence: Sequence[int]
) -> tuple[list[_Instance], list[list[_Instance]]]:
    """All instances, and per step those that its node reads."""
    reads: list[list[int]] = [[] for _ in range(graph.node_count)]
    makes: list[list[int]] = [[] for _ in range(graph.node_count)]
    for buffer, consumers in enumerate(graph.consumers.rows()):
        for node in consumers:
            reads[node].append(buffer)
    latest: dict[int, _Instance] = {}
    for buffer, node in enumerate(graph.producer.tolist()):
        if node < 0:
            latest[buffer] = _Instance(buffer, 0, 0)
        else:
            makes[node].append(buffer)
    found = list(latest.values())
    operands: list[list[_Instance]] = []
    for step, node in enumerate(sequence):
        missing = [x for x in reads[node] if x not in latest]
        if missing:
            raise ReplayError(f"node {node} reads buffer {missing[0]} before it is written", step)
        operands.append([latest[x] for x in reads[node]])
        for x in operands[-1]:
            x.end = step
        for buffer in makes[node]:
            latest[buffer] = _Instance(buffer, step, step)
            found.append(latest[buffer])
    for buffer, instance in latest.items():
        if graph.live_out[buffer]:
            instance.end = len(sequence) - 1
    return found, operands


def _pairs(graph: MemoryGraph) -> dict[int, list[tuple[int, int]]]:
    pairs: dict[int, list[tuple[int, int]]] = {}
    for node, read, made in graph.shares.tolist():
        pairs.setdefault(node, []).append((read, made))
    return pairs


def _taken(pairs: list[tuple[int, int]], dying: set[int], size: list[int]) -> int:
    """Bytes that the largest matching takes over: sets of operands that can be taken, by size."""
    reachable: set[frozenset[int]] = {frozenset()}
    for made in sorted({made for _, made in pairs}):
        options = [read for read, other in pairs if other == made and read in dying]
        reachable |= {
            taken | {read} for taken in reachable for read in options if read not in taken
        }
    return max([sum([size[x] for x in taken]) for taken in reachable])
