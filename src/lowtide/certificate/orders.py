"""Certificates of orders: memory graphs, their orders, arenas, and what shows that none is better.

The format is that of kind "order" in docs/certificates.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.module_graphs import GraphCall
from lowtide.certificate.flows import FlowCut, cut_at
from lowtide.certificate.graphs import FINEST, CertifiedGraph, exponent_of, graphs_of, tick_name
from lowtide.certificate.sequences import WrittenSequence, arena_document, written
from lowtide.certificate.trees import tree_document, tree_of
from lowtide.planning.certificates import signed
from lowtide.records import dataclass
from lowtide.scheduling.proof import Proof

NONE: Final = 1 << 99
"""The cost of a plan where there is none, in the field `bound`."""
_MOST: Final = 1 << 58
"""All costs together are below, and all bytes at their price, so that a flow fits 64 bits."""
_FINEST: Final = 20
_NO_ROWS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """A computation: its memory graph, an order of its nodes, and why none has a lower peak.

    With a budget, the last one of a certificate may hold nodes more than once. `proof` is None
    where no bound is known. `calls` say which computations nodes run, and how often where `graph`
    has seconds; these are without those of what nodes run.
    """

    name: str
    graph: MemoryGraph
    steps: Sequence[int]
    proof: Proof | None = None
    calls: tuple[GraphCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    """Why runs beyond the first cost something: a node, and a price per byte in seconds.

    What is in memory after the node's first run, and does not have to be, is worth the price, which
    is infinite where no plan fits.
    """

    node: int
    price: float


@dataclass(frozen=True, slots=True)
class ProgramArena:
    """Where the values of a program lie that has its callees written out, as sections of JSON.

    `rows` has them with sizes and live stretches, and the sizes of what they may take over;
    `places` says where they are.
    """

    rows: dict[str, Any]
    places: dict[str, Any]


def order_certificate(
    computations: Sequence[Ordered],
    text: bytes,
    packed: bool = True,
    arena: ProgramArena | None = None,
) -> dict[str, Any]:
    """Return the certificate of some orders, callees before their callers.

    `text` is the scheduled module, or the file of the graph, of which the certificate has the
    digest. What is certified is the size of the arena of the program, where it is given; else,
    where `packed`, of one for the last computation; else its peak.
    """
    made = _Made(computations, text, rows={} if arena is None else arena.rows)
    plan = made.plan(packed, arena)
    bounds = made.bounds(len(computations))
    proved = bounds[-1].bytes - made.given_bytes if len(bounds) == len(computations) else 0
    if proved <= 0:
        return signed("order", made.problem, plan, 0, [])
    return signed("order", made.problem, plan, proved, [bound.document for bound in bounds])


def budget_certificate(
    computations: Sequence[Ordered],
    text: bytes,
    budget: int,
    boundaries: Sequence[Boundary],
    packed: bool = True,
    has_plan: bool = True,
) -> dict[str, Any]:
    """Return the certificate of a plan that runs nodes of the last computation again.

    It keeps to `budget` bytes, of the arena or, where not `packed`, of the peak. There is a
    boundary for each computation, or none at all: then nothing is proved. Without `has_plan` only
    the bound is certified: where a step of the node of the last boundary takes more than the
    budget, that there is no plan. Raises ValueError for a budget of 0.
    """
    made = _Made(computations, text, _checked(budget))
    plan = made.plan(packed) if has_plan else {}
    bound, evidence = made.least_cost(boundaries) if boundaries else (0, [])
    return signed("order", made.problem, plan, bound, evidence if bound else [])


def program_budget_certificate(
    computations: Sequence[Ordered],
    text: bytes,
    budget: int,
    boundaries: Sequence[Boundary],
    program: dict[str, Any],
    given_bytes: int = 0,
    exponent: int = FINEST,
) -> dict[str, Any]:
    """Return the certificate of a program in which nodes of some computations run again.

    It keeps to `budget` bytes beyond the `given_bytes` that the last computation has before.
    `program` has the sections of `order_sections` in the same ticks, of 10 to the minus `exponent`
    seconds; it is empty where there is no plan. Computations have no steps. A program may take less
    than is proved of these graphs where it needs fewer copies than they have: then nothing is said.
    Raises ValueError as `budget_certificate` does.
    """
    made = _Made(computations, text, _checked(budget), arena_of_given(given_bytes), exponent)
    bound, evidence = made.least_cost(boundaries) if boundaries else (0, [])
    if program:
        ticks = sum([row[1] for row in program["problem"]["graphs"][-1]["nodes"]])
        bound = bound if bound <= max(0, ticks - sum(made.graphs[-1].ticks)) else 0
    return signed("order", made.problem, program, bound, evidence if bound else [])


def _checked(budget: int) -> int:
    if budget <= 0:
        raise ValueError(f"a budget of {budget} bytes: expected at least 1")
    return budget


def order_sections(
    computations: Sequence[Ordered], text: bytes, arena: ProgramArena, exponent: int
) -> dict[str, Any]:
    """Return a program as the plan of a certificate with a budget has it, in given ticks."""
    made = _Made(computations, text, 0, arena.rows, exponent)
    return {"problem": made.problem, "plan": made.plan(packed=False, arena=arena)}


def arena_of_given(given_bytes: int) -> dict[str, Any]:
    """Return the section `arena` of a problem that has bytes before, and no arena of its own."""
    return {"buffers": [], "regions": [given_bytes]} if given_bytes else {}


@dataclass(frozen=True, slots=True)
class _Bound:
    bytes: int
    document: dict[str, Any]


class _Made:
    """The parts of a certificate."""

    def __init__(
        self,
        computations: Sequence[Ordered],
        text: bytes,
        budget: int = 0,
        rows: Mapping[str, Any] = _NO_ROWS,
        exponent: int | None = None,
    ) -> None:
        self.computations = computations
        self.given_bytes = sum(rows.get("regions", ()))
        self.room = budget + self.given_bytes
        timed = [(x.graph, x.calls) for x in computations]
        exponent = exponent_of(timed) if exponent is None else exponent
        self.ticks_per_second = 10.0**exponent
        self.graphs: list[CertifiedGraph] = graphs_of(timed, exponent)
        self.problem = {
            "text": sha256(text).hexdigest(),
            "names": [x.name for x in computations],
            "tick": tick_name(exponent),
            "graphs": [graph.document() for graph in self.graphs],
            "budget": budget,
            "arena": dict(rows),
        }

    def plan(self, packed: bool, arena: ProgramArena | None = None) -> dict[str, Any]:
        """Return the orders, and an arena."""
        found: list[WrittenSequence] = []
        for graph, computation in zip(self.graphs, self.computations, strict=True):
            held = graph.held([x.peak for x in found])
            found.append(written(graph, [x + 1 for x in computation.steps], held))
        orders = [x.document() for x in found]
        if arena is not None:
            return {"orders": orders, "arena": arena.places}
        if not packed:
            return {"orders": orders, "arena": {}}
        held = self.graphs[-1].held([x.peak for x in found])
        return {"orders": orders, "arena": arena_document(self.graphs[-1], found[-1], held)}

    def bounds(self, count: int) -> list[_Bound]:
        """Return what the first computations need, up to the first without a proof."""
        found: list[_Bound] = []
        for graph, computation in list(zip(self.graphs, self.computations, strict=True))[:count]:
            if computation.proof is None:
                break
            held = graph.held([x.bytes for x in found])
            proved, tree = tree_of(graph, computation.proof, held)
            found.append(_Bound(proved, {"bound": proved, "tree": tree_document(tree)}))
        return found

    def least_cost(self, boundaries: Sequence[Boundary]) -> tuple[int, list[dict[str, Any]]]:
        """Return the least ticks that runs beyond the first take, and the evidence."""
        needs: list[int] = []
        lines: list[_Line] = []
        for graph, boundary in zip(self.graphs, boundaries, strict=True):
            lines.append(self._line(graph, boundary, graph.held(needs)))
            needs.append(lines[-1].needed)
        last = len(lines) - 1
        runs, room, least = {last: 1}, {last: self.room}, 0
        for number in range(last, -1, -1):
            line, graph = lines[number], self.graphs[number]
            if not line.fits(room[number]):
                return NONE, [x.document() for x in lines]
            least += runs[number] * line.ticks(room[number])
            for node, row in enumerate(graph.calls):
                own = graph.scratch[node] + sum([graph.sizes[b] for b in graph.reads[node]])
                for callee, less, times in row:
                    runs[callee] = runs.get(callee, 0) + runs[number] * times
                    room[callee] = max(room.get(callee, 0), room[number] - own + less)
        return least, [line.document() for line in lines]

    def _line(self, graph: CertifiedGraph, boundary: Boundary, held: list[int]) -> _Line:
        """The cut at a boundary."""
        node, rate = boundary.node + 1, 1 << _FINEST
        if math.isinf(boundary.price):
            return _Line(1, 0, cut_at(graph, node, held[node], 1, [0] * len(graph.ticks)))
        price = boundary.price * self.ticks_per_second
        while rate > 1 and rate * max(sum(graph.ticks), price * sum(graph.sizes)) > _MOST:
            rate >>= 1
        price = min(int(price * rate), _MOST // max(1, sum(graph.sizes)))
        costs = [rate * x for x in graph.ticks]
        return _Line(price, rate, cut_at(graph, node, held[node], price, costs))


@dataclass(frozen=True, slots=True)
class _Line:
    """What a cut at `price / rate` ticks per byte proves, by the bytes that there are.

    At a rate of 0 what runs again costs nothing: then it proves whether anything fits.
    """

    price: int
    rate: int
    cut: FlowCut

    @property
    def needed(self) -> int:
        """Bytes that the step takes at least, whatever runs again."""
        return self.cut.own + (0 if self.rate else self.cut.value)

    def fits(self, room: int) -> bool:
        """Return whether something may fit into `room` bytes."""
        return self.needed <= room

    def ticks(self, room: int) -> int:
        """Return the least ticks of runs beyond the first within `room` bytes."""
        if not self.rate:
            return 0
        return max(0, -((self.price * (room - self.cut.own) - self.cut.value) // self.rate))

    def document(self) -> dict[str, Any]:
        """Return the evidence."""
        return {"price": self.price, "rate": self.rate, "leaf": self.cut.document()}
