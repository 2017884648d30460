"""A sequence within a cap of bytes, found in one try: not the cheapest, but at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.remat.gaps import base_of
from lowtide.remat.greedy import scratch_of
from lowtide.remat.recompute import Recompute
from lowtide.remat.tables import Int64Array, tables_of

_REACHES: Final = (60, 20, 8, 3, 1)
"""How many positions away what is computed again may be used, in turn: less holds fewer bytes."""


def quick_sequence(
    graph: MemoryGraph, order: Int64Array, cap: int, once: Collection[int] = ()
) -> Int64Array | None:
    """Return a sequence whose steps hold at most `cap` bytes, None where none is found.

    It is the order, in which what lives too long is dropped and computed again. Nodes in `once`
    never run again. Raises ValueError where the graph does not say how long its nodes run.
    """
    tables = tables_of(graph, once)
    maker = Recompute(base_of(tables, order), scratch_of(tables.problem.graph))
    for reach in _REACHES:
        plan = maker.plan(0, maker.base.nothing_dropped(), cap, reach)
        if plan is not None:
            return maker.sequence(plan.dropped, plan.reach)
    return None
