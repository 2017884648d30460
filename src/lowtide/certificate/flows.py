"""Flows that show how much has to be in memory, or to run again, after the step of a node.

The network is that of docs/certificates.md. Node `x` stands for "x runs after the step", `late + x`
for "x does not run before its end", buffer `first + b` for "b is in memory then". An endless arc
leads from each of them to what it implies. The source is what holds in any case: the descendants of
the node run after it. The sink is what does not hold. The largest flow is the least cost of any way
to cut one from the other.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.certificate.graphs import CertifiedGraph, reached
from lowtide.certificate.matching import least_cover
from lowtide.records import dataclass

ENDLESS: Final = 1 << 60
"""More than any sum of sizes, prices or costs that is looked for."""


@dataclass(frozen=True, slots=True)
class FlowCut:
    """What has to be in memory after the step of a node, with a flow that shows it.

    `own` are the bytes that the step takes in any case; `value` is the least cost of all further
    ones, and of what runs again. `cover` are buffers such that each in-place pair whose operand
    counts in `own` has one of them. Rows of `flow` are (tail, head, amount).
    """

    node: int
    own: int
    value: int
    cover: tuple[int, ...]
    flow: tuple[tuple[int, int, int], ...]

    def document(self) -> dict[str, object]:
        """Return the evidence."""
        flow = [list(row) for row in self.flow]
        return {"node": self.node, "cover": list(self.cover), "flow": flow}


@dataclass(slots=True)
class _Arcs:
    """Arcs between vertices of the certificate; -1 is the source, -2 the sink.

    `names` are what an arc is called: (tail, head) in the certificate.
    """

    ends: list[tuple[int, int]]
    names: list[tuple[int, int]]
    rooms: list[int]

    def add(self, tail: int, head: int, name: tuple[int, int], room: int) -> None:
        """Add an arc."""
        if room > 0:
            self.ends.append((tail, head))
            self.names.append(name)
            self.rooms.append(room)


_SOURCE: Final = -1
_SINK: Final = -2


def cut_at(
    graph: CertifiedGraph,
    node: int,
    held: int,
    price: int = 1,
    costs: list[int] | None = None,
    pairs: tuple[tuple[int, int], ...] = (),
) -> FlowCut:
    """Return the least that is in memory after the step of a node.

    `held` bytes are held in the step besides buffers. A byte that is not live in the step anyway
    costs `price`, running node `x` again `costs[x]`; without costs nothing runs again. `pairs` are
    further pairs of nodes of which the first one comes first. At a price of 0 only `own` counts: it
    is then what the step takes in any sequence, and there is no flow.
    """
    successors, predecessors = graph.successors(pairs)
    ahead = reached(node, successors) | {graph.end}
    behind = reached(node, predecessors) | {node, 0}
    cover = _cover(graph, node, ahead if price else set())
    covered = {*cover}
    open_ones = {a for a, b in graph.pairs.get(node, ()) if not {a, b} & covered}
    paid = ({*graph.reads[node]} | {*graph.makes[node]}) - open_ones
    own = sum([graph.sizes[b] for b in paid]) - sum([graph.sizes[b] for b in cover]) + held
    if not price:
        return FlowCut(node, own, 0, cover, ())
    arcs = _arcs(graph, ahead, behind, paid, price, costs, successors)
    value, flow = _largest_flow(arcs)
    return FlowCut(node, own, value, cover, flow)


def _arcs(
    graph: CertifiedGraph,
    ahead: set[int],
    behind: set[int],
    paid: set[int],
    price: int,
    costs: list[int] | None,
    successors: list[list[int]],
) -> _Arcs:
    """The arcs of the network that can have a flow."""
    arcs, first, late = _Arcs([], [], []), graph.first, graph.late

    def runs(x: int) -> int:
        return _SOURCE if x in ahead else x

    def is_new(x: int) -> int:
        return _SOURCE if x in ahead else _SINK if x in behind else late + x

    for b, size in enumerate(graph.sizes):
        p = graph.producers[b]
        if b in paid or not size or p in ahead:
            continue
        arcs.add(first + b, p if p else _SINK, (first + b, p), min(price * size, ENDLESS))
        begun = False
        for c in graph.users[b]:
            if c in ahead and begun:
                continue
            begun = begun or c in ahead
            arcs.add(runs(c), first + b, (c, first + b), ENDLESS)
    for x in range(1, graph.end):
        if x in ahead:
            continue
        arcs.add(x, is_new(x), (x, late + x), ENDLESS if costs is None else costs[x])
        for w in graph.followers[x]:
            if w not in ahead:
                arcs.add(x, is_new(w), (x, late + w), ENDLESS)
        if x in behind:
            continue
        arcs.add(late + x, x, (late + x, x), ENDLESS)
        for w in successors[x]:
            if w not in ahead:
                arcs.add(late + x, is_new(w), (late + x, late + w), ENDLESS)
    return arcs


def _largest_flow(arcs: _Arcs) -> tuple[int, tuple[tuple[int, int, int], ...]]:
    """Return the most that flows from source to sink, and the rows of a flow."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    if not arcs.ends:
        return 0, ()
    ends = np.array([(_SOURCE, _SINK), *arcs.ends], np.int64)
    _, number = np.unique(ends, return_inverse=True)
    tail, head = number.reshape(-1, 2).T
    solver = SimpleMaxFlow()
    solver.add_arcs_with_capacity(tail[1:], head[1:], np.array(arcs.rooms, np.int64))
    if solver.solve(int(tail[0]), int(head[0])) != solver.OPTIMAL:
        raise RuntimeError("the maximum flow was not found")
    sent = solver.flows(np.arange(len(arcs.rooms))).tolist()
    rows = [(*name, amount) for name, amount in zip(arcs.names, sent, strict=True) if amount]
    return int(solver.optimal_flow()), tuple(sorted(rows))


def _cover(graph: CertifiedGraph, node: int, ahead: set[int]) -> tuple[int, ...]:
    """Return buffers of which each pair that competes in place has one, as few bytes as can be.

    A pair that shares with no other one is left out: whether it is of use shows in the network. So
    is an operand that is needed later in any case.
    """
    needed = {b for b in graph.reads[node] if any(c in ahead for c in graph.users[b])}
    pairs = [(a, b) for a, b in graph.pairs.get(node, ()) if a not in needed]
    operands, made = dict[int, list[int]](), dict[int, list[int]]()
    for a, b in pairs:
        operands.setdefault(a, []).append(b)
        made.setdefault(b, []).append(a)
    pairs = [(a, b) for a, b in pairs if len(operands[a]) > 1 or len(made[b]) > 1]
    return tuple(sorted(least_cover(pairs)))
