"""Certificates of orders: memory graphs, their orders, arenas, and what shows that none is better.

The format is that of kind "order" in docs/certificates.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.module_graphs import Call
from lowtide.certificate.flows import Cut, cut_at
from lowtide.certificate.graphs import Graph, exponent_of, graph_of
from lowtide.certificate.sequences import Written, arena_document, written
from lowtide.certificate.trees import tree_document, tree_of
from lowtide.planning.certificates import signed
from lowtide.scheduling.proof import Proof

NONE: Final = 1 << 99
"""The cost of a plan where there is none, in the field `bound`."""
_MOST: Final = 1 << 58
"""All costs together are below, so that a flow fits 64 bits."""
_FINEST: Final = 20


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """A computation: its memory graph, an order of its nodes, and why none has a lower peak.

    With a budget, the last one of a certificate may hold nodes more than once. `proof` is None
    where no bound is known.
    """

    name: str
    graph: MemoryGraph
    steps: Sequence[int]
    proof: Proof | None = None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    """Why runs beyond the first cost something: a node, and a price per byte in seconds.

    What is in memory after the node's first run, and does not have to be, is worth the price.
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

    @property
    def given_bytes(self) -> int:
        """The bytes of the arguments that may be taken over."""
        return sum(self.rows["regions"])


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
    made = _Made(computations, text, 0, arena)
    plan = made.plan(packed)
    bounds = made.bounds(len(computations))
    given = 0 if arena is None else arena.given_bytes
    proved = bounds[-1].bytes - given if len(bounds) == len(computations) else 0
    if proved <= 0:
        return signed("order", made.problem, plan, 0, [])
    return signed("order", made.problem, plan, proved, [bound.document for bound in bounds])


def budget_certificate(
    computations: Sequence[Ordered],
    text: bytes,
    budget: int,
    boundary: Boundary | None,
    packed: bool = True,
    has_plan: bool = True,
) -> dict[str, Any]:
    """Return the certificate of a plan that runs nodes of the last computation again.

    It keeps to `budget` bytes, of the arena or, where not `packed`, of the peak. Without
    `has_plan` only the bound is certified: where a step of the node of `boundary` takes more than
    the budget, that there is no plan. Raises ValueError for a budget of 0.
    """
    if budget <= 0:
        raise ValueError(f"a budget of {budget} bytes: expected at least 1")
    made = _Made(computations, text, budget)
    plan = made.plan(packed) if has_plan else {}
    callees = made.bounds(len(computations) - 1)
    if boundary is None or len(callees) < len(computations) - 1:
        return signed("order", made.problem, plan, 0, [])
    bound, last = made.least_cost(boundary, [x.bytes for x in callees])
    evidence = [*[x.document for x in callees], last]
    return signed("order", made.problem, plan, bound, evidence if bound else [])


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
        budget: int,
        arena: ProgramArena | None = None,
    ) -> None:
        self.computations, self.budget, self.arena = computations, budget, arena
        exponent = exponent_of([x.graph for x in computations])
        self.ticks_per_second = 10.0**exponent
        self.graphs: list[Graph] = [graph_of(x.graph, x.calls, exponent) for x in computations]
        self.problem = {
            "text": sha256(text).hexdigest(),
            "names": [x.name for x in computations],
            "tick": f"1e-{exponent} s",
            "graphs": [graph.document() for graph in self.graphs],
            "budget": budget,
            "arena": {} if arena is None else arena.rows,
        }

    def plan(self, packed: bool) -> dict[str, Any]:
        """Return the orders, and an arena."""
        found: list[Written] = []
        for graph, computation in zip(self.graphs, self.computations, strict=True):
            held = graph.held([x.peak for x in found])
            found.append(written(graph, [x + 1 for x in computation.steps], held))
        orders = [x.document() for x in found]
        if self.arena is not None:
            return {"orders": orders, "arena": self.arena.places}
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

    def least_cost(self, boundary: Boundary, needs: list[int]) -> tuple[int, dict[str, Any]]:
        """Return the least ticks that runs beyond the first take, and the evidence."""
        graph, node = self.graphs[-1], boundary.node + 1
        rate = 1 << _FINEST
        while rate > 1 and rate * sum(graph.ticks) > _MOST:
            rate >>= 1
        price = int(boundary.price * self.ticks_per_second * rate)
        costs = [rate * x for x in graph.ticks]
        cut: Cut = cut_at(graph, node, graph.held(needs)[node], price, costs)
        room = self.budget - cut.own
        least = max(0, -((price * room - cut.value) // rate)) if room >= 0 else NONE
        return least, {"price": price, "rate": rate, "leaf": cut.document()}
