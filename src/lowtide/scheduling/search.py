"""Orders of least peak, with a proven bound.

The peak is lowered and the bound is raised in turns until they meet. First come greedy orders,
divided and ordered again at minimum cuts; then cuts at the highest steps; then branch and bound on
the order of pairs of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.graph_tables import tables_of
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.scheduling.proof import Proof, renamed
from lowtide.scheduling.series import Part, parts
from lowtide.scheduling.settling import settled
from lowtide.scheduling.solver import LIMITS, Solver, SolverLimits
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, StopReason
from lowtide.search.kernels import Array

MOST_OTHERS: Final = 4


@dataclass(frozen=True, eq=False, slots=True)
class SearchResult:
    """An order of all nodes, its peak in bytes, and what every order needs at least.

    `others` are further orders of the same peak. `stopped` says why the search ended.
    """

    order: Array
    peak_bytes: int
    bound_bytes: int
    proof: Proof
    others: tuple[Array, ...]
    stopped: StopReason

    @property
    def is_optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.peak_bytes == self.bound_bytes


def search_order(
    graph: MemoryGraph,
    effort: Effort = Effort.DEFAULT,
    deadline: Deadline | None = None,
    progress: Callable[[int, int], None] | None = None,
    most_words: int | None = None,
) -> SearchResult:
    """Return an order of small peak and a proven bound, both in bytes.

    The effort limits the work, so that equal graphs get equal results; a deadline or, once there is
    an order, KeyboardInterrupt ends it earlier, with the best so far. `progress` is told peak and
    bound whenever one of them moves. `most_words` limits the probes of branch and bound further
    than the effort does (`SolverLimits.words`). Raises ValueError for a graph whose nodes wait for
    each other.
    """
    tables = tables_of(graph)
    start = settled(tables, np.arange(tables.nodes))
    if start is None:
        raise ValueError("nodes of the graph wait for each other")
    limits = LIMITS[effort]
    if most_words is not None:
        limits = replace(limits, words=min(limits.words, most_words))
    search = _Search(parts(tables, start), limits, deadline, progress or (lambda peak, bound: None))
    stopped = search.run()
    return search.result(stopped)


class _Search:
    """One solver for each distinct part; the part of the highest peak counts."""

    def __init__(
        self,
        pieces: list[Part],
        limits: SolverLimits,
        deadline: Deadline | None,
        progress: Callable[[int, int], None],
    ) -> None:
        self.pieces, self.deadline, self.progress = pieces, deadline, progress
        self.solvers: dict[bytes, Solver] = {}
        self.of_piece: list[Solver] = []
        for piece in pieces:
            key = piece.tables.key()
            if key not in self.solvers:
                self.solvers[key] = Solver(piece.tables, limits, self._passed, self._tell)
            self.of_piece.append(self.solvers[key])

    def run(self) -> StopReason:
        """Lower the highest part again and again; say why that ended."""
        try:
            for solver in self.solvers.values():
                solver.begin()
            rows = list(zip(self.pieces, self.of_piece, strict=True))
            rows.sort(key=lambda row: -(row[0].carried + row[1].peak))
            for piece, solver in rows:
                solver.run(self.bound - piece.carried)
        except KeyboardInterrupt:
            if not self._has_begun:
                raise
            return StopReason.INTERRUPT
        if self._passed():
            return StopReason.DEADLINE
        return StopReason.DONE if self.peak == self.bound else StopReason.LIMIT

    @property
    def _has_begun(self) -> bool:
        """Whether there is an order of each part."""
        return all(solver.has_begun for solver in self.of_piece)

    @property
    def peak(self) -> int:
        """The highest peak of a part."""
        rows = zip(self.pieces, self.of_piece, strict=True)
        return max([piece.carried + solver.peak for piece, solver in rows])

    @property
    def bound(self) -> int:
        """The highest bound of a part."""
        return max([self._bound_of(row) for row in range(len(self.pieces))])

    def result(self, stopped: StopReason) -> SearchResult:
        """The best order of each part, one behind the other."""
        rows = range(len(self.pieces))
        found = [
            np.concatenate([self._order(row, other) for row in rows])
            for other in range(MOST_OTHERS + 1)
        ]
        best, *others = {order.tobytes(): order for order in found}.values()
        highest = next(row for row in rows if self._bound_of(row) == self.bound)
        piece = self.pieces[highest]
        proof = renamed(self.of_piece[highest].proof, piece.nodes, piece.carried)
        return SearchResult(best, self.peak, self.bound, proof, tuple(others), stopped)

    def _bound_of(self, row: int) -> int:
        return self.pieces[row].carried + self.of_piece[row].bound

    def _order(self, number: int, other: int) -> Array:
        piece, solver = self.pieces[number], self.of_piece[number]
        return piece.nodes[solver.orders[other % len(solver.orders)]]

    def _passed(self) -> bool:
        return self.deadline is not None and self.deadline.passed

    def _tell(self) -> None:
        if self._has_begun:
            self.progress(self.peak, self.bound)
