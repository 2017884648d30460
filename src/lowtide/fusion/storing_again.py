"""Values computed once more where that lowers no peak: those that may as well be stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph, members_for
from lowtide.fusion.peak import Estimate
from lowtide.ir import Instruction


class ComputedAgain(NamedTuple):
    """A value that was stored, those whose clusters compute it, and about how long they take."""

    value: Instruction
    readers: Sequence[Instruction]
    seconds: float


def computed_again(graph: ClusterGraph, before: ClusterGraph) -> list[ComputedAgain]:
    """Return the values that clusters compute which read them before, what takes longest first."""
    was, found = _computing(before, before.owner), []
    for value, readers in _computing(graph, before.owner).items():
        known = {x.root for x in was.get(value, ())}
        new = [x for x in readers if x.root not in known]
        if new:
            cone = members_for(value, new[0])
            seconds = sum([graph.seconds_alone(x) for x in cone]) * len(new)
            found.append(ComputedAgain(value, [x.root for x in new], seconds))
    return sorted(found, key=lambda x: (-x.seconds, graph.order[x.value]))


def store_again(
    graph: ClusterGraph,
    estimate: Estimate,
    again: Sequence[ComputedAgain],
    before: ClusterGraph,
    most_bytes: int,
) -> int:
    """Have readers read what they compute, as far as a peak has room for; return how much.

    Not more than `most_bytes` may live at once. `before` has the clusters of a time when the values
    were stored.
    """
    memory, steps = estimate.memory, estimate.steps.copy()
    stored = 0
    for value, readers, _ in again:
        left = [graph.owner[x] for x in readers]
        at = [int(estimate.position[memory.number[x]]) for x in readers]
        where = sorted(
            [(p, x) for p, x in zip(at, left, strict=True) if value in x.members], key=_at
        )
        kept = value in graph.owner
        buffer = memory.buffers.of(value) if kept else None
        start = where[0][0] if buffer is None else int(estimate.last[buffer])
        most = most_bytes - value.shape.nbytes
        while where and steps[start : where[-1][0] + 1].max(initial=0) > most:
            where.pop()
        if len(where) > (not kept) and graph.store(value, [x for _, x in where], before):
            steps[start : where[-1][0] + 1] += value.shape.nbytes
            stored += 1
    return stored


def _at(item: tuple[int, Cluster]) -> int:
    return item[0]


def _computing(
    graph: ClusterGraph, values: Mapping[Instruction, Cluster]
) -> dict[Instruction, list[Cluster]]:
    """The clusters that compute values without storing them, by value."""
    found: dict[Instruction, list[Cluster]] = {}
    for cluster in graph.owner.values():
        for member in cluster.members:
            if member is not cluster.root and member in values:
                found.setdefault(member, []).append(cluster)
    return found
