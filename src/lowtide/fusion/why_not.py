"""The reasons for which two instructions of a computation are not one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.legality import alone, joined
from lowtide.fusion.priority_queue import refusal
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.ir import Instruction


class Way(Enum):
    """A way in which two instructions could have become one kernel, as a text for `{of}`."""

    ALONE = "{of} is a kernel by itself"
    WHERE_READ = "{of} is not computed where it is read"
    SIDE_BY_SIDE = "the two do not run side by side in one kernel"


class WhyNot(NamedTuple):
    """A way that was not taken, the instruction that it is about, and why."""

    way: Way
    of: Instruction | None
    refusal: FusionRefusal

    def text(self) -> str:
        """Return all of it as one sentence without a full stop."""
        of = "" if self.of is None else self.of.name
        return f"{self.way.value.format(of=of)}: {self.refusal.text()}"


def clusters_with(graph: ClusterGraph, instruction: Instruction) -> list[Cluster]:
    """Return the clusters that compute an instruction, in the order of their results."""
    found = [x for x in graph.owner.values() if instruction in x.members]
    return sorted(found, key=lambda x: x.position)


def why_opaque(graph: ClusterGraph, instruction: Instruction) -> WhyNot | None:
    """Return why an instruction is no part of a cluster, None where it is one."""
    if instruction not in graph.alone:
        return None
    reason = alone(instruction) or FusionRefusal(RefusalKind.OPAQUE, instruction.opcode.value)
    return WhyNot(Way.ALONE, instruction, reason)


def why_not(
    graph: ClusterGraph, ones: Sequence[Cluster], others: Sequence[Cluster]
) -> list[WhyNot]:
    """Return why none of some clusters is computed in one of others, which are not the same."""
    for producers, consumers in ((ones, others), (others, ones)):
        pair = _reading(producers, consumers)
        if pair is not None:
            root = pair[0].root
            return [WhyNot(Way.WHERE_READ, root, x) for x in _refusals(graph, *pair)]
    return [WhyNot(Way.WHERE_READ, *_far(graph, ones, others))]


def _reading(
    producers: Sequence[Cluster], consumers: Sequence[Cluster]
) -> tuple[Cluster, Cluster] | None:
    """A cluster and one that reads it."""
    pairs = ((x, y) for x in producers for y in consumers if x.root in y.inputs)
    return next(pairs, None)


def _refusals(graph: ClusterGraph, producer: Cluster, reader: Cluster) -> Iterator[FusionRefusal]:
    """Yield why a cluster is not computed in one that reads it: for its own or another's sake."""
    own = joined(producer, reader, graph.target)
    if isinstance(own, FusionRefusal):
        yield own
        return
    found = refusal(graph, producer)
    if found is None:
        yield FusionRefusal(RefusalKind.STORED)
        return
    for other in graph.reading(producer.root):
        if joined(producer, other, graph.target) == found:
            yield FusionRefusal(RefusalKind.ANOTHER_READER, by=other.root)
            break
    yield found


def _far(
    graph: ClusterGraph, ones: Sequence[Cluster], others: Sequence[Cluster]
) -> tuple[Instruction, FusionRefusal]:
    """What lies between clusters of which none reads another one directly."""
    for producers, consumers in ((ones, others), (others, ones)):
        roots = {x.root: x.root for x in producers}
        for consumer in consumers:
            between = _between(graph, roots, consumer)
            if between is not None:
                return next(iter(roots)), FusionRefusal(RefusalKind.FAR, by=between)
    return ones[0].root, FusionRefusal(RefusalKind.NOT_READ)


def _between(
    graph: ClusterGraph, roots: Mapping[Instruction, Instruction], consumer: Cluster
) -> Instruction | None:
    """The value next to a cluster through which it depends on some roots, None if it does not."""
    for start in consumer.inputs:
        seen = {start}
        stack = [start]
        while stack:
            value = stack.pop()
            if value in roots:
                return start
            owner = graph.owner.get(value)
            read = value.operands if owner is None else tuple(owner.inputs)
            stack += [x for x in read if x not in seen]
            seen.update(read)
    return None
