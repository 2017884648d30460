"""Proofs that no order of a graph has a lower peak."""

from __future__ import annotations

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
