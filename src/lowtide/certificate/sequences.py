"""Writes, live ranges, reuse of memory and offsets of a sequence of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.certificate.graphs import CertifiedGraph
from lowtide.certificate.matching import largest_matching
from lowtide.planning import TensorUsageRecord, assign_offsets
from lowtide.records import dataclass

PACKING = "portfolio"
"""The strategy that packs arenas."""


@dataclass(frozen=True, slots=True)
class WrittenSequence:
    """A sequence of nodes, and what it writes, numbered from 1 in order of being written.

    `buffers`, `first` and `last` are by number less 1; a step at which something is taken over
    counts for what takes it over. `takes` are the numbers of what is taken over, or 0. `peak` is
    the largest step, in bytes.
    """

    steps: list[int]
    buffers: list[int]
    first: list[int]
    last: list[int]
    takes: list[int]
    peak: int

    def document(self) -> dict[str, Any]:
        """Return the section of a certificate."""
        return {"steps": self.steps, "takes": self.takes, "peak": self.peak}


def written(graph: CertifiedGraph, steps: Sequence[int], held: Sequence[int]) -> WrittenSequence:
    """Return what a valid sequence writes; `held` are bytes per node of the graph."""
    latest: dict[int, int] = {}
    buffers: list[int] = []
    first: list[int] = []
    last: list[int] = []
    reads: list[list[int]] = []
    for at, node in enumerate([0, *steps], -1):
        reads.append([latest[b] for b in graph.reads[node]])
        for number in reads[-1]:
            last[number] = at
        for b in graph.makes[node]:
            latest[b] = len(buffers)
            buffers.append(b)
            first.append(max(at, 0))
            last.append(max(at, 0))
    for b in graph.kept:
        last[latest[b]] = max(len(steps) - 1, 0)
    takes = _takes(graph, steps, reads[1:], buffers, first, last)
    for number in takes:
        if number:
            last[number - 1] -= 1
    peak = _peak(graph, steps, buffers, first, last, held)
    return WrittenSequence(list(steps), buffers, first, last, takes, peak)


def _takes(
    graph: CertifiedGraph,
    steps: Sequence[int],
    reads: list[list[int]],
    buffers: list[int],
    first: list[int],
    last: list[int],
) -> list[int]:
    """The number of what each one takes over, or 0: a largest matching at each step."""
    takes = [0] * len(buffers)
    made: list[dict[int, int]] = [{} for _ in steps]
    for number, at in enumerate(first):
        if graph.producers[buffers[number]]:
            made[at][buffers[number]] = number
    for at, node in enumerate(steps):
        pairs = graph.pairs.get(node)
        if not pairs:
            continue
        dying = {buffers[number]: number for number in reads[at] if last[number] == at}
        fit = [(a, b) for a, b in pairs if a in dying]
        for a, b in largest_matching(fit).items():
            takes[made[at][b]] = dying[a] + 1
    return takes


def _peak(
    graph: CertifiedGraph,
    steps: Sequence[int],
    buffers: list[int],
    first: list[int],
    last: list[int],
    held: Sequence[int],
) -> int:
    if not steps:
        return 0
    size = np.array([graph.sizes[b] for b in buffers], np.int64)
    change = np.zeros(len(steps) + 1, np.int64)
    np.add.at(change, np.array(first, np.int64), size)
    np.subtract.at(change, np.array(last, np.int64) + 1, size)
    own = np.array([held[node] for node in steps], np.int64)
    return int((np.cumsum(change)[:-1] + own).max())


def arena_document(
    graph: CertifiedGraph, found: WrittenSequence, held: Sequence[int]
) -> dict[str, Any]:
    """Return places in an arena for all that a sequence writes, then for what its steps hold.

    What takes over another one lies where that one lies.
    """
    chain = _chains(found)
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for number, owner in enumerate(chain):
        begin[owner] = min(begin.get(owner, found.first[number]), found.first[number])
        end[owner] = max(end.get(owner, found.last[number]), found.last[number])
    sizes = {owner: graph.sizes[found.buffers[owner]] for owner in begin}
    placed = [owner for owner in begin if sizes[owner] and begin[owner] <= end[owner]]
    holding = [at for at, node in enumerate(found.steps) if held[node]]
    records = [TensorUsageRecord(sizes[x], begin[x], end[x]) for x in placed]
    records += [TensorUsageRecord(held[found.steps[at]], at, at) for at in holding]
    offsets = assign_offsets(records, PACKING).offsets if records else ()
    by_owner = dict(zip(placed, offsets, strict=False))
    by_step = dict(zip(holding, offsets[len(placed) :], strict=True))
    place = [by_owner.get(owner, 0) for owner in chain]
    holds = [by_step.get(at, 0) for at in range(len(found.steps))]
    ends = [x + graph.sizes[b] for x, b in zip(place, found.buffers, strict=True)]
    ends += [x + held[node] for x, node in zip(holds, found.steps, strict=True)]
    return {"places": [[0, x] for x in (*place, *holds)], "height": max(ends, default=0)}


def _chains(found: WrittenSequence) -> list[int]:
    """Return for each one the first of those whose place it takes over, one after the other."""
    chain = list(range(len(found.buffers)))
    for number, taken in enumerate(found.takes):
        if taken:
            chain[number] = chain[taken - 1]
    return chain
