"""Searches for orders of least peak that came to their end, or gave up, of the latest graphs.

A plan asks for the same graphs again: for what is fused, for the order, for its bound.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.scheduling.exact import LowerOrder
from lowtide.search.kernels import Array

Key: TypeAlias = "tuple[object, ...]"
"""What only equal graphs with equal bounds have in common."""


@dataclass(frozen=True, eq=False, slots=True)
class KnownSearch:
    """What a search found, in bytes.

    It `ended`, which takes so much `work`: no order has a peak below `least`, which is that of
    `order` if there is one. Or it gave up after so much, an order below `least` being asked for.
    """

    least: int
    work: int
    ended: bool
    order: Array | None = None

    def answers(self, peak: int, work: int) -> bool:
        """Return whether a search for an order below a peak would tell just the same.

        What a plan is does not depend on what else a process has planned.
        """
        if not self.ended:
            return peak == self.least and work <= self.work
        return work >= self.work and (peak <= self.least or self.order is not None)

    def answer(self, peak: int) -> LowerOrder | None:
        """Return what that search would: None where it would give up."""
        if not self.ended:
            return None
        return LowerOrder(None if peak <= self.least else self.order)


def key_of(graph: MemoryGraph, bound: int) -> Key:
    """Return what only equal graphs have in common, as far as their peaks go, and a bound."""
    arrays = (
        *(graph.buffer_bytes, graph.producer, graph.live_out, graph.shares),
        *(graph.scratch_bytes, graph.inner_bytes),
    )
    lists = (graph.operands, graph.control, graph.consumers)
    rows = [tuple(map(tuple, x.rows())) for x in lists]
    return (bound, *[x.tobytes() for x in arrays], *rows)


def known(key: Key) -> KnownSearch | None:
    """Return what is known of a graph, None for nothing; it is the latest then."""
    found = _KNOWN.get(key)
    if found is not None:
        _KNOWN.move_to_end(key)
    return found


def keep(key: Key, found: KnownSearch) -> None:
    """Keep what a search found in place of what was known of the graph."""
    if found.order is not None:
        found.order.setflags(write=False)
    _KNOWN[key] = found
    if len(_KNOWN) > _MOST:
        _KNOWN.popitem(last=False)


_KNOWN: Final[OrderedDict[Key, KnownSearch]] = OrderedDict()
_MOST: Final = 32
"""So many searches are remembered, the latest."""
