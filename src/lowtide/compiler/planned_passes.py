"""Passes that ask how modules are planned, and are told by the compiler that runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lowtide import compiler
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.ir import Module
from lowtide.passes import Pass
from lowtide.scheduling.search import search_order
from lowtide.search.effort import Effort, SearchOptions
from lowtide.transforms.memory.peak_values import Order, Planner

_FAST: Final = SearchOptions(effort=Effort.FAST)


def with_planner(passes: Iterable[Pass]) -> list[Pass]:
    """Return the passes; those that take a planner get the compiler's."""
    return [x.told({"planner": Planner(_footprint, _order)}) for x in passes]


def _footprint(module: Module) -> int:
    return compiler.explain(module, compiler.PlanOptions(search=_FAST)).ladder.arena_bytes


def _order(graph: MemoryGraph) -> Order:
    return search_order(graph, Effort.FAST).order
