"""Why no order of a graph has a lower peak."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.planning.native import Array


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """The bound is the bytes of what is live at the end of every order, or at its start."""

    bytes: int


@dataclass(frozen=True, slots=True)
class CutBound:
    """The bound is the least step of a node in any order: a minimum cut (`witness.py`)."""

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
class Refutation:
    """The bound is one byte more than `target`, above which each order of every case has a step."""

    target: int
    cases: tuple[Case, ...]

    @property
    def bytes(self) -> int:
        """What every order needs."""
        return self.target + 1


Proof = KeptBytes | CutBound | Refutation
