"""Points of memory against time of a scheduled module, at shares that no budget decides about.

The computations that the entry runs are brought to fixed shares of what they need by themselves.
The entry has a frontier for each of these shares. A point is a choice of sequences, with an
estimate of the bytes that it needs and the time that it takes beyond one run of everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.budgeting.graphs import BudgetGraph, BudgetGraphs, Int64Array
from lowtide.ir import Computation
from lowtide.records import dataclass
from lowtide.remat.frontier import Frontier, Point, frontier
from lowtide.remat.measure import step_bytes
from lowtide.remat.tables import tables_of
from lowtide.remat.transfers import Step, Transfer
from lowtide.remat.xla import xla_sequence
from lowtide.scheduling.module_scheduler import SCHEDULERS
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

SHARES: Final = (1.0, 0.75, 0.5, 0.35, 0.25, 0.0)
"""To which shares of what they need inside their callers computations are brought."""

_LEAST_SHARE: Final = 0.02
"""A computation that needs less than this share of the module's peak is left as it is."""

Sequence = tuple[int, ...]
Program = tuple[Step, ...]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SequenceChoice:
    """Sequences of a module: what they need by its graphs, in bytes, and their extra seconds.

    Sequences are of instructions, by number, and of transfers of values; computations that run as
    they did are not in them.
    """

    nbytes: int
    extra_seconds: float
    sequences: Mapping[Computation, Program]

    @property
    def has_transfers(self) -> bool:
        """Whether values are stored in the host's memory."""
        steps = itertools.chain.from_iterable(self.sequences.values())
        return any(isinstance(step, Transfer) for step in steps)


def choices(
    graphs: BudgetGraphs,
    effort: Effort,
    deadline: Deadline | None = None,
    progress: Progress | None = None,
) -> tuple[SequenceChoice, ...]:
    """Return choices with ever more extra seconds and ever fewer bytes.

    The deadline ends the search with what it has. The order of the schedule by itself is none of
    them.
    """
    deadline = deadline or Deadline()
    search = ChoiceSearch(graphs, effort, deadline, progress or (lambda text: None))
    with deadline.until_interrupted():
        search.run()
    return tuple(search.choices())


@dataclass(frozen=True, slots=True)
class HeldBodies:
    """Needs of the computations of a module in bytes, with their seconds and their sequences."""

    peaks: tuple[int, ...]
    totals: Mapping[Computation, float]
    sequences: Mapping[Computation, Sequence]


class ChoiceSearch:
    """Searches choices of a module; what its graphs need and take as they are is `plain`."""

    def __init__(
        self, graphs: BudgetGraphs, effort: Effort, deadline: Deadline, progress: Progress
    ) -> None:
        self.graphs = graphs
        self.effort = effort
        self.deadline = deadline
        self.progress = progress
        self.plain = plain_needs(graphs)
        self.peak = self.plain.peaks[-1] - graphs.entry.state_bytes
        self.found: list[SequenceChoice] = []
        self.frontiers: dict[tuple[int, tuple[int, ...]], Frontier] = {}
        self.lows = self._lows()

    def run(self) -> None:
        """Search the entry with what it runs at each share."""
        seen: set[tuple[int, ...]] = set()
        for share in SHARES:
            held = self.held(share)
            if held.peaks in seen or (seen and self.deadline.passed):
                continue
            seen.add(held.peaks)
            self._add_entry(held)

    def choices(self) -> list[SequenceChoice]:
        """The choices that no other one beats, cheapest first."""
        kept: list[SequenceChoice] = []
        least = self.peak
        for choice in sorted(self.found, key=lambda x: (x.extra_seconds, x.nbytes)):
            if choice.nbytes < least:
                least = choice.nbytes
                kept.append(choice)
        return kept

    def held(self, share: float) -> HeldBodies:
        """All computations but the entry at a share of what they need inside their callers."""
        peaks: list[int] = []
        totals: dict[Computation, float] = {}
        sequences: dict[Computation, Sequence] = {}
        for number, graph in enumerate(self.graphs.graphs[:-1]):
            memory = graph.holding(peaks, totals)
            point = self.point(number, graph, memory, share)
            if point is None:
                peaks.append(peak_bytes(memory, graph.order))
                totals[graph.computation] = float(memory.seconds.sum())
                continue
            sequence, peak = _program(graph, memory, point)
            peaks.append(peak)
            totals[graph.computation] = float(memory.seconds[list(sequence)].sum())
            sequences[graph.computation] = sequence
        return HeldBodies(tuple(peaks), totals, sequences)

    def point(
        self, number: int, graph: BudgetGraph, memory: MemoryGraph, share: float
    ) -> Point | None:
        """The cheapest sequence of a computation at a share; None where it stays as it is."""
        cap = self._cap(number, share)
        if cap is None:
            return None
        found = self._frontier(number, graph, memory)
        point = found.within(cap) or found.least
        return point if point.extra_seconds > 0 else None

    def _cap(self, number: int, share: float) -> int | None:
        """The bytes that a computation may need at a share; None where it stays as it is."""
        if share >= 1 or not self.is_large(number):
            return None
        own = self.lows[number]
        return own + int((self.plain.peaks[number] - own) * share)

    def is_large(self, number: int) -> bool:
        """Whether a computation needs enough beside what is its callers' to be changed at all."""
        return self.plain.peaks[number] - self.lows[number] >= self.peak * _LEAST_SHARE

    def _lows(self) -> list[int]:
        """Per computation the bytes that belong to its callers."""
        lows = [graph.state_bytes for graph in self.graphs.graphs]
        for graph in self.graphs.graphs:
            for call in graph.found.calls:
                lows[call.callee] = max(lows[call.callee], call.less)
        return [min(low, peak) for low, peak in zip(lows, self.plain.peaks, strict=True)]

    def _add_entry(self, held: HeldBodies) -> None:
        graph = self.graphs.entry
        memory = graph.holding(held.peaks, held.totals)
        found = self._frontier(len(held.peaks), graph, memory)
        self.found += [self.choice_of(held, memory, point) for point in found.points]

    def choice_of(self, held: HeldBodies, memory: MemoryGraph, point: Point) -> SequenceChoice:
        """A sequence of the entry, with those of what it runs."""
        graph = self.graphs.entry
        sequence, peak = _program(graph, memory, point)
        total = float(memory.seconds[list(sequence)].sum())
        sequences: dict[Computation, Program] = dict(held.sequences)
        if point.sequence != graph.found.order:
            sequences[graph.computation] = sequence
        base = float(self.plain.totals[graph.computation])
        return SequenceChoice(peak - graph.state_bytes, max(0.0, total - base), sequences)

    def _frontier(self, number: int, graph: BudgetGraph, memory: MemoryGraph) -> Frontier:
        key = number, tuple(memory.inner_bytes.tolist())
        if key not in self.frontiers:
            self.progress(f"recomputation in {graph.computation.name}")
            self.frontiers[key] = frontier(
                memory,
                orders_of(graph, memory),
                _effort(self.effort, memory),
                self.deadline,
                None,
                graph.once,
            )
            if self.frontiers[key].was_interrupted and not self.deadline.was_interrupted:
                raise KeyboardInterrupt
        return self.frontiers[key]


def _effort(effort: Effort, memory: MemoryGraph) -> Effort:
    """How far to search in a graph: in a large one, by default, as in a fast search."""
    is_large = memory.node_count > _LARGE
    return Effort.FAST if effort is Effort.DEFAULT and is_large else effort


_LARGE: Final = 2_000


def _program(graph: BudgetGraph, memory: MemoryGraph, point: Point) -> tuple[Sequence, int]:
    """The instructions that a point runs, and the bytes of its largest step when these run."""
    program = graph.program(point.sequence)
    nodes = graph.nodes(program)
    if nodes == point.sequence:
        return program, point.peak_bytes
    steps = step_bytes(tables_of(memory, graph.once), np.array(nodes, np.int64))
    return program, int(steps.max(initial=0))


def orders_of(graph: BudgetGraph, memory: MemoryGraph) -> list[Int64Array]:
    """Return the orders from which sequences of a graph are searched."""
    return [graph.order, *[scheduler(memory) for scheduler in SCHEDULERS.values()]]


def plain_needs(graphs: BudgetGraphs) -> HeldBodies:
    """What all computations need in the order of the schedule."""
    peaks: list[int] = []
    for graph in graphs.graphs:
        peaks.append(peak_bytes(graph.holding(peaks, graphs.totals), graph.order))
    return HeldBodies(tuple(peaks), graphs.totals, {})


def plain_seconds(graphs: BudgetGraphs) -> float:
    """Return the seconds of one run of the module as it is."""
    return graphs.totals[graphs.entry.computation]


def xla_choice(
    graphs: BudgetGraphs, budget: int, deadline: Deadline | None = None
) -> tuple[Sequence, float]:
    """Return the entry's sequence by XLA's algorithm for a budget, and its extra seconds.

    From the deadline on, it runs what is left once, in its order.
    """
    plain, entry = plain_needs(graphs), graphs.entry
    memory = entry.holding(plain.peaks[:-1], plain.totals)
    room = budget + entry.state_bytes
    found = xla_sequence(memory, entry.order, room, once=entry.once, deadline=deadline)
    program = entry.program(found.tolist())
    seconds = float(memory.seconds[list(program)].sum())
    return program, max(0.0, seconds - plain.totals[entry.computation])
