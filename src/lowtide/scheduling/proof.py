"""Proofs that no order of a graph has a lower peak; one of them needs no search."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.search.kernels import Array


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """The bound is the bytes of what is live at the end of every order, or at its start."""

    bytes: int


@dataclass(frozen=True, slots=True)
class CutBound:
    """The bound is the least step of a node in any order: a minimum cut (`cuts.py`)."""

    bytes: int
    node: int


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A part of all orders, in which no peak is at most the target.

    Its orders are those of case `parent` (-1: all) in which node `first` runs before `second`.
    Each row (before, behind, at) of `forced` says that with `behind` before `before`, what is known
    by then lets the step of node `at` exceed the target: so `before` runs before `behind`. In the
    end the step of node `closed_at` exceeds the target; where that is -1, nodes wait for each
    other; where it is -2, the case is split in two, by later cases.
    """

    parent: int
    first: int
    second: int
    forced: Array
    closed_at: int


SPLIT = -2
CYCLE = -1


@dataclass(frozen=True, slots=True)
class OrderRefutation:
    """The bound is one byte more than `target`, above which each order of every case has a step."""

    target: int
    cases: tuple[Case, ...]

    @property
    def bytes(self) -> int:
        """What every order needs."""
        return self.target + 1


@dataclass(frozen=True, slots=True)
class Exhausted:
    """All sets of nodes that an order below `bytes` could have run were looked at.

    A certificate needs another proof of the same bytes: this one is for small graphs, in a hurry.
    """

    bytes: int


Proof = KeptBytes | CutBound | OrderRefutation | Exhausted


def renamed(proof: Proof, names: Array, carried: int = 0) -> Proof:
    """Return a proof for a graph in which node `i` is `names[i]` and each step has `carried` more.

    `carried` are bytes.
    """
    if isinstance(proof, KeptBytes):
        return KeptBytes(proof.bytes + carried)
    if isinstance(proof, CutBound):
        return CutBound(proof.bytes + carried, int(names[proof.node]))
    if isinstance(proof, Exhausted):
        return Exhausted(proof.bytes + carried)
    cases = [
        Case(
            case.parent,
            _name(case.first, names),
            _name(case.second, names),
            names[case.forced],
            _name(case.closed_at, names),
        )
        for case in proof.cases
    ]
    return OrderRefutation(proof.target + carried, tuple(cases))


def _name(node: int, names: Array) -> int:
    return int(names[node]) if node >= 0 else node


def plain_bound(graph: MemoryGraph) -> int:
    """Return bytes that the peak of no order is below."""
    return plain_proof(graph).bytes


def plain_proof(graph: MemoryGraph) -> KeptBytes | CutBound:
    """Return the last step or the largest single one, whichever needs more.

    The step of a node has what it reads and makes, less what its results may take over; the last
    step has what is kept.
    """
    count = graph.node_count
    size = graph.buffer_bytes
    kept = KeptBytes(int(size[graph.live_out].sum()))
    if not count:
        return kept
    need = _few_needs(graph) if count <= _FEW else _needs(graph).tolist()
    most = max(need)
    return kept if kept.bytes >= most else CutBound(most, need.index(most))


_FEW: Final = 64
"""Of so few nodes the steps are worked out one by one: to call NumPy takes longer."""


def _few_needs(graph: MemoryGraph) -> list[int]:
    """The bytes that the step of each node has, of few nodes."""
    size, producer = graph.buffer_bytes.tolist(), graph.producer.tolist()
    need: list[int] = (graph.scratch_bytes + graph.inner_bytes).tolist()
    for nbytes, node, readers in zip(size, producer, graph.consumers.rows(), strict=True):
        if nbytes:
            for reader in readers:
                need[reader] += nbytes
            if node >= 0:
                need[node] += nbytes
    for taking in {made for _, _, made in graph.shares.tolist()}:
        need[producer[taking]] -= size[taking]
    return need


def _needs(graph: MemoryGraph) -> Array:
    """The bytes that the step of each node has."""
    size = graph.buffer_bytes
    need: Array = graph.scratch_bytes + graph.inner_bytes
    np.add.at(need, graph.consumers.items, size[graph.consumers.row_numbers()])
    made = graph.producer >= 0
    np.add.at(need, graph.producer[made], size[made])
    taking = np.flatnonzero(np.bincount(graph.shares[:, 2], minlength=len(size)))
    np.subtract.at(need, graph.producer[taking], size[taking])
    return need
