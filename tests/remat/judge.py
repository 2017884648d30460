"""Orders and recomputation as constraint programs, which OR-Tools solves: a judge of our searches.

Orders are those of B. Steiner, M. Elhoushi, J. Kahn, J. Hegarty, "MODeL: Memory Optimizations for
Deep Learning" (2023): each buffer is held from its node to its last reader. What runs again is that
of B. Bartan, H. Li, H. Teague, C. Lott, B. Dilkina, "Moccasin: Efficient Tensor Rematerialization
for Neural Networks" (2023): a node runs a few times, each time its buffers are held for a while,
and each reader finds one of these times. It has the optimum of P. Jain and others, "Checkmate:
Breaking the Memory Wall with Optimal Tensor Rematerialization" (2020), with fewer variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from lowtide.analysis.memory_graph import MemoryGraph

TICKS = 1e9
"""Seconds are counted in nanoseconds."""


class Verdict(NamedTuple):
    """What the judge found, and what it proved that nothing is below: bytes, or seconds.

    `found` is None where it found nothing in its time.
    """

    found: float | None
    proved: float


class _Judge:
    """The model that both have in common: nodes that run at places, buffers that are held."""

    def __init__(self, graph: MemoryGraph, runs: int) -> None:
        self.graph, self.runs = graph, runs
        self.model = cp_model.CpModel()
        self.places = runs * graph.node_count
        self.intervals: list[Any] = []
        self.demands: list[int] = []
        self.start: list[list[Any]] = []
        self.does: list[list[Any]] = []
        for v in range(graph.node_count):
            self._node(v)
        steps = [
            self.model.new_optional_fixed_size_interval_var(at, 1, does, "")
            for starts, flags in zip(self.start, self.does, strict=True)
            for at, does in zip(starts, flags, strict=True)
        ]
        self.model.add_no_overlap(steps)
        for node, interval in enumerate(steps):
            own = int(graph.scratch_bytes[node // runs] + graph.inner_bytes[node // runs])
            if own:
                self.intervals.append(interval)
                self.demands.append(own)
        for buffer, readers in enumerate(graph.consumers.rows()):
            self._buffer(buffer, [int(x) for x in readers])
        for v, others in enumerate(graph.control.rows()):
            for at, does in [x for other in others for x in self._runs_of(int(other))]:
                self.model.add(at < self.start[v][0]).only_enforce_if(does)

    def _node(self, v: int) -> None:
        model = self.model
        starts = [model.new_int_var(0, self.places - 1, "") for _ in range(self.runs)]
        flags = [model.new_constant(1), *[model.new_bool_var("") for _ in starts[1:]]]
        for (a, b), does in zip(pairwise(starts), flags[1:], strict=True):
            model.add(a < b).only_enforce_if(does)
        self.start.append(starts)
        self.does.append(flags)

    def _buffer(self, buffer: int, readers: Sequence[int]) -> None:
        """Have a buffer held from a run of its node as long as readers find it there."""
        model, producer = self.model, int(self.graph.producer[buffer])
        made = [(0, model.new_constant(1))] if producer < 0 else self._runs_of(producer)
        held = []
        for at, does in made:
            end = model.new_int_var(0, self.places, "")
            length = model.new_int_var(0 if producer < 0 else 1, self.places, "")
            held.append((at, end, does))
            self.intervals.append(model.new_optional_interval_var(at, length, end, does, ""))
            self.demands.append(int(self.graph.buffer_bytes[buffer]))
        for reader in readers:
            for at, does in self._runs_of(reader):
                self._one_of(held, at, does)
        if self.graph.live_out[buffer]:
            self._one_of(held, self.places - 1, model.new_constant(1))

    def _one_of(self, held: Sequence[tuple[Any, Any, Any]], at: Any, does: Any) -> None:
        """At a place, where something runs there, one of the times that a buffer is held."""
        model, found = self.model, []
        for first, end, made in held:
            is_it = model.new_bool_var("")
            model.add_implication(is_it, made)
            if not isinstance(first, int):
                model.add(first <= at).only_enforce_if(is_it)
            model.add(end >= at + 1).only_enforce_if(is_it)
            found.append(is_it)
        model.add_bool_or([*found, does.negated()])

    def _runs_of(self, v: int) -> list[tuple[Any, Any]]:
        return [*zip(self.start[v], self.does[v], strict=True)]

    def solve(self, work: float) -> tuple[cp_model.CpSolver, bool]:
        """Solve for so much deterministic time, which no clock changes."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = work
        status = solver.solve(self.model)
        return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def least_peak(graph: MemoryGraph, work: float, order: Sequence[int] = ()) -> Verdict:
    """Return the least peak of all orders, in bytes; `order` is one to begin with.

    The graph has no buffers that take over others.
    """
    judge = _Judge(graph, 1)
    most = int(graph.buffer_bytes.sum() + (graph.scratch_bytes + graph.inner_bytes).sum())
    peak = judge.model.new_int_var(0, most, "")
    judge.model.add_cumulative(judge.intervals, judge.demands, peak)
    judge.model.minimize(peak)
    for place, v in enumerate(order):
        judge.model.add_hint(judge.start[v][0], place)
    solver, is_found = judge.solve(work)
    return Verdict(solver.objective_value if is_found else None, solver.best_objective_bound)


def least_extra(graph: MemoryGraph, budget: int, work: float, runs: int = 2) -> Verdict:
    """Return the least extra seconds within a budget where each node runs a few times at most."""
    judge = _Judge(graph, runs)
    judge.model.add_cumulative(judge.intervals, judge.demands, budget)
    ticks = [round(x * TICKS) for x in graph.seconds.tolist()]
    again = [n * does for n, flags in zip(ticks, judge.does, strict=True) for does in flags[1:]]
    judge.model.minimize(sum(again))
    solver, is_found = judge.solve(work)
    found = solver.objective_value / TICKS if is_found else None
    return Verdict(found, solver.best_objective_bound / TICKS)
