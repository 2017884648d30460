"""Passes that ask how modules are planned, and are told by the compiler that runs them."""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time

from lowtide import compiler
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.ir import Module
from lowtide.passes import Pass
from lowtide.scheduling.search import search_order
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions
from lowtide.transforms.memory.peak_values import Order, Planner


class TooLateError(Exception):
    """No time is left for what a pass asks."""


def with_planner(passes: Iterable[Pass], deadline: Deadline | None = None) -> list[Pass]:
    """Return the passes; those that take a planner get the compiler's.

    Where a plan would end behind a deadline, that raises TooLateError.
    """
    planner = Planner(_Footprints(deadline or Deadline()), _order)
    return [x.told({"planner": planner}) for x in passes]


class _Footprints:
    """The bytes that modules need; each plan is taken to take as long as the longest before it."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._seconds = 0.0

    def __call__(self, module: Module) -> int:
        if not self._deadline.leaves(self._seconds):
            raise TooLateError
        begin = process_time()
        search = SearchOptions(Effort.FAST, self._deadline.part())
        report = compiler.explain(module, compiler.PlanOptions(search=search))
        self._seconds = max(self._seconds, process_time() - begin)
        return report.ladder.arena_bytes


def _order(graph: MemoryGraph) -> Order:
    return search_order(graph, Effort.FAST).order
