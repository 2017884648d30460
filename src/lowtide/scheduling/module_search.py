"""Searches for orders and bounds of many graphs, where equal graphs are searched once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.analysis.graph_tables import GraphTables, tables_of
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes, step_bytes
from lowtide.records import dataclass
from lowtide.scheduling.exact import MOST_WORK, lower_order
from lowtide.scheduling.proof import CutBound, Exhausted, Proof, plain_proof
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, StopReason
from lowtide.search.kernels import Array, in_python

if TYPE_CHECKING:
    from lowtide.scheduling.search import SearchResult

_CUTS: Final = 16
"""The highest steps of a given order at which minimum cuts are tried before all orders are."""

_SMALL: Final = 256
"""Cuts in graphs of up to so many nodes take less time in Python than to compile them."""

_TINY: Final = 64
_TINY_WORK: Final = 1_000_000
"""Of so small a graph, to look at more sets of nodes takes less than to compile a search."""

_LEAST_WORDS: Final = 5_000_000
_WORDS_PER_NODE: Final = 15_000


@dataclass(frozen=True, eq=False, slots=True)
class OrderBound:
    """A bound on every order of a graph in bytes, and its proof; `peak_bytes` is that of one order.

    `lower` are orders of lower peaks, where some were found, best first.
    """

    peak_bytes: int
    proof: Proof
    lower: tuple[Array, ...] = ()

    @property
    def bytes(self) -> int:
        """The bound."""
        return self.proof.bytes


class Searches:
    """Searches at one effort; a deadline ends them earlier. Without `proves` bounds are plain."""

    def __init__(
        self,
        effort: Effort = Effort.DEFAULT,
        deadline: Deadline | None = None,
        *,
        proves: bool = True,
    ) -> None:
        self.effort, self.deadline, self.proves = effort, deadline or Deadline(), proves
        self._found: dict[bytes, SearchResult] = {}

    def search(self, graph: MemoryGraph) -> SearchResult:
        """Return the result of `search_order`; raises what that raises."""
        key = tables_of(graph).key()
        found = self._found.get(key)
        if found is None:
            from lowtide.scheduling.search import search_order  # Most small graphs need none.

            found = search_order(graph, self.effort, self.deadline, None, self._most_words(graph))
            self._found[key] = found
            if found.stopped is StopReason.INTERRUPT:
                raise KeyboardInterrupt
        return found

    def _most_words(self, graph: MemoryGraph) -> int | None:
        """How many words probes may read: a module is to be planned in about 1 ms per node."""
        if self.effort is Effort.PROOF:
            return None
        return _LEAST_WORDS + _WORDS_PER_NODE * graph.node_count

    def bound(self, graph: MemoryGraph, order: Array) -> OrderBound:
        """Return what every order of a graph needs, given one.

        No other one is sought where cuts at its highest steps show that none is better, where few
        sets of nodes are to be looked at to know the best one, and from the deadline on.
        """
        peak = peak_bytes(graph, order)
        proof: Proof = plain_proof(graph)
        if proof.bytes >= peak or not self.proves or self.deadline.passed:
            return OrderBound(peak, proof)
        tables = tables_of(graph)
        if tables.key() not in self._found:
            proof = _highest_cuts(graph, tables, order, proof, self.deadline)
            if proof.bytes >= peak or self.deadline.passed:
                return OrderBound(peak, proof)
            work = _TINY_WORK if tables.nodes <= _TINY else MOST_WORK
            least = lower_order(graph, peak, proof.bytes, work, self.deadline)
            if least is not None and least.order is None:
                return OrderBound(peak, Exhausted(peak))
            if least is not None and least.order is not None:
                return OrderBound(peak, Exhausted(peak_bytes(graph, least.order)), (least.order,))
            if self.deadline.passed:
                return OrderBound(peak, proof)
        found = self.search(graph)
        proof = max(proof, found.proof, key=lambda x: x.bytes)
        if found.peak_bytes >= peak:
            return OrderBound(peak, proof)
        return OrderBound(peak, proof, (found.order, *found.others))


def _highest_cuts(
    graph: MemoryGraph, tables: GraphTables, order: Array, proof: Proof, deadline: Deadline
) -> Proof:
    """The best of a proof and of minimum cuts at the highest steps of an order.

    Small graphs are not worth compiling anything.
    """
    steps = step_bytes(graph, order)
    with in_python() if tables.nodes <= _SMALL else nullcontext():
        from lowtide.scheduling.cuts import Cuts

        cuts = Cuts(tables)
        for place in np.argsort(-steps, kind="stable")[:_CUTS].tolist():
            if steps[place] <= proof.bytes or deadline.passed:
                break
            node = int(order[place])
            value = int(cuts.least(node))
            if value > proof.bytes:
                proof = CutBound(value, node)
    return proof
