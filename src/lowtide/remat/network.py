"""A network whose cuts are the ways to hold values after a node or to run them again.

Take any sequence, and in it the step in which node `v` runs for the first time. Let Y be the nodes
that run after it. The descendants of `v` are in Y. Each ancestor in Y has run before, so it costs
its time once more, and so does `v`. What a node in Y reads is made by a node in Y or is in memory
when the step ends, and so is what lives to the end.

Let K be the buffers in memory when the step ends. They are live during the step, together with all
that `v` reads and makes. What is taken over dies in the step: it is not in K, and it makes up for
what takes it over. With

  fixed = bytes made by v + bytes read by v that nothing may take over + scratch of v,
  H = the buffers of K that are not counted in `fixed`,

the step holds at least fixed + bytes(H), so bytes(H) <= budget - fixed. Whatever the price `l` of a
byte is, each sequence within the budget has

  extra cost >= cost(Y, v and its ancestors only) + l (bytes(H) - (budget - fixed))
             >= cut(l) - l (budget - fixed),

where cut(l) is the least cost + l bytes(H) over all choices of Y. A node that `v` or an ancestor of
`v` lists in control may not run again: it is not in Y.

The network has a vertex per node and per buffer. A vertex on the side of the source is a node in Y,
or a buffer that such a node reads. The arcs:

  from                     to                       capacity
  a node                   a buffer that it reads   unbounded
  a buffer                 its producer             l times its bytes; none where counted in `fixed`
  `v` and each ancestor    the sink                 its cost

Descendants of `v` are the source, which also reads what lives to the end. Nodes that may not run
again, and the producer of what is there from the start, are the sink.

A parametric cut of this kind is in G. Gallo, M. Grigoriadis, R. Tarjan, "A Fast Parametric Maximum
Flow Algorithm", 1989.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowtide.records import dataclass
from lowtide.remat.tables import Int64Array, Problem, RematTables
from lowtide.search.kernels import Array, kernel

UNBOUNDED: Final = 1 << 60

ANCESTOR: Final = 1
DESCENDANT: Final = 2


@kernel
def relations(problem: Problem, order: Array, place: int, kind: Array) -> int:
    """Mark the node at `place` of an order, and its ancestors, with 1; its descendants with 2.

    `kind` is 0 for other nodes.
    """
    graph = problem.graph
    reads = graph.reads
    waits = problem.waits
    for v in range(graph.nodes):
        kind[v] = 0
    kind[order[place]] = ANCESTOR
    for i in range(place, -1, -1):
        v = order[i]
        if kind[v] == 0:
            continue
        for j in range(waits.starts[v], waits.starts[v + 1]):
            kind[waits.items[j]] = ANCESTOR
        for j in range(reads.starts[v], reads.starts[v + 1]):
            p = graph.producer[reads.items[j]]
            if p >= 0:
                kind[p] = ANCESTOR
    start = order[place]
    for i in range(place + 1, graph.nodes):
        v = order[i]
        for j in range(waits.starts[v], waits.starts[v + 1]):
            if waits.items[j] == start or kind[waits.items[j]] == DESCENDANT:
                kind[v] = DESCENDANT
        for j in range(reads.starts[v], reads.starts[v + 1]):
            p = graph.producer[reads.items[j]]
            if p < 0:
                continue
            if p == start or kind[p] == DESCENDANT:
                kind[v] = DESCENDANT
    return 0


@dataclass(frozen=True, slots=True)
class Price:
    """Ticks per byte: `numerator / 2**shift`."""

    numerator: int
    shift: int

    @property
    def value(self) -> float:
        """The price as a number."""
        return self.numerator * 2.0**-self.shift

    def times(self, sizes: Int64Array) -> Int64Array:
        """Return the ticks of each size, rounded down, and at most `UNBOUNDED`."""
        product: Int64Array = sizes * self.numerator
        if self.shift >= 0:
            product >>= min(self.shift, 63)
            return np.minimum(product, UNBOUNDED)
        up = min(-self.shift, 60)
        product = np.minimum(product, UNBOUNDED >> up)
        return product << up

    def of(self, size: int) -> int:
        """Return the ticks of a size, rounded up, exactly."""
        product = size * self.numerator
        return -(-product >> self.shift) if self.shift >= 0 else product << -self.shift


@dataclass(frozen=True, slots=True)
class RematCut:
    """A least cut: its value, of that the ticks of running again, and the bytes held."""

    value: int
    ticks: int
    held_bytes: int


Flags = npt.NDArray[np.bool_]

READ: Final = 0
HELD: Final = 1
RUN: Final = 2


@dataclass(frozen=True, eq=False, slots=True)
class Arcs:
    """Arcs of a network.

    They have a kind, the node or buffer that they are of, the buffer that a reader reads, the ends
    after contraction, and as capacity ticks and bytes that have a price.
    """

    kind: Int64Array
    name: Int64Array
    other: Int64Array
    tail: Int64Array
    head: Int64Array
    ticks: Int64Array
    sizes: Int64Array


@dataclass(frozen=True, eq=False, slots=True)
class Flow:
    """A flow of the network at a price, of `value` ticks from source to sink.

    `reads` has rows (node, buffer, ticks) from readers that are not descendants, `held` rows
    (buffer, ticks) from a buffer to its producer, `runs` rows (node, ticks) from a node to the
    sink. What `held` has beyond `reads` comes from the source.
    """

    value: int
    reads: Int64Array
    held: Int64Array
    runs: Int64Array


class RematNetwork:
    """The network of one node; arcs that no cut can have are left out.

    `arcs` numbers those that are left among all: reads, then held buffers, then runs. The node and
    those that run before it take `seconds_before`, those that run behind it `seconds_behind`.
    """

    def __init__(
        self,
        node: int,
        fixed_bytes: int,
        fixed_buffers: Int64Array,
        source: int,
        arcs: Arcs,
        seconds: tuple[float, float],
    ) -> None:
        self.node = node
        self.seconds_before, self.seconds_behind = seconds
        self.fixed_buffers = fixed_buffers
        self.fixed_bytes = fixed_bytes
        self._source = source
        self._arcs = arcs

    def cut(self, price: Price) -> RematCut:
        """Return a least cut at a price."""
        solver = self._solved(price)
        if solver is None:
            return RematCut(0, 0, 0)
        arcs = self._arcs
        cut = self._cut_arcs(solver)
        ticks, held = int(arcs.ticks[cut].sum()), int(arcs.sizes[cut].sum())
        return RematCut(int(solver.optimal_flow()), ticks, held)

    def held(self, price: Price) -> Int64Array:
        """Return the buffers that a least cut at a price holds."""
        arcs, solver = self._arcs, self._solved(price)
        if solver is None:
            return np.unique(self.fixed_buffers)
        cut = self._cut_arcs(solver) & (arcs.kind == HELD)
        return np.unique(np.concatenate([arcs.name[cut], self.fixed_buffers]))

    def least_held(self) -> int:
        """Return the fewest bytes that are held beyond `fixed_bytes`, whatever runs again."""
        arcs = self._arcs
        solver = self._with_capacity(np.where(arcs.kind == READ, UNBOUNDED, arcs.sizes))
        return 0 if solver is None else int(solver.optimal_flow())

    def decided(self, buffer: int, *, is_held: bool) -> RematNetwork:
        """Return the network of sequences that hold a buffer at the end of the step, or do not.

        One that is held has no price: its bytes are in `fixed_bytes`. Else holding it costs more
        than running everything again.
        """
        arcs = self._arcs
        chosen = (arcs.kind == HELD) & (arcs.name == buffer)
        nbytes = int(arcs.sizes[chosen].sum()) if is_held else 0
        all_runs = int(arcs.ticks[arcs.kind == RUN].sum())
        ticks = np.where(chosen, 0 if is_held else 1 + all_runs, arcs.ticks)
        return RematNetwork(
            self.node,
            self.fixed_bytes + nbytes,
            self.fixed_buffers,
            self._source,
            replace(arcs, ticks=ticks, sizes=np.where(chosen, 0, arcs.sizes)),
            (self.seconds_before, self.seconds_behind),
        )

    def largest_open(self, buffers: Int64Array) -> int | None:
        """Return the largest of some buffers that have a price and can be made again, if any."""
        arcs = self._arcs
        open_ones = (arcs.kind == HELD) & (arcs.sizes > 0) & (arcs.head != self._source + 1)
        sizes = np.where(open_ones & np.isin(arcs.name, buffers), arcs.sizes, 0)
        return int(arcs.name[sizes.argmax()]) if sizes.any() else None

    def flow(self, price: Price) -> Flow:
        """Return a largest flow at a price."""
        solver = self._solved(price)
        arcs = self._arcs
        amount = np.zeros(len(arcs.tail), np.int64)
        if solver is not None:
            amount[:] = solver.flows(np.arange(len(amount)))
        moved = np.flatnonzero(amount)
        kinds = [moved[arcs.kind[moved] == kind] for kind in (READ, HELD, RUN)]
        rows = [np.stack([arcs.name[x], arcs.other[x], amount[x]], axis=1) for x in kinds]
        inner = rows[0][arcs.tail[kinds[0]] != self._source]
        value = 0 if solver is None else int(solver.optimal_flow())
        return Flow(value, inner, rows[1][:, [0, 2]], rows[2][:, [0, 2]])

    def _cut_arcs(self, solver: Any) -> Flags:
        """Which arcs lead from the side of the source to that of the sink."""
        side = np.zeros(self._source + 2, np.bool_)
        side[solver.get_source_side_min_cut()] = True
        cut: Flags = side[self._arcs.tail] & ~side[self._arcs.head]
        return cut

    def _solved(self, price: Price) -> Any:
        return self._with_capacity(self._arcs.ticks + price.times(self._arcs.sizes))

    def _with_capacity(self, capacity: Int64Array) -> Any:
        """The largest flow by arcs of some capacities, None where there are no arcs."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        if not len(capacity):  # A solver that was not run has no flow, but says some number.
            return None
        solver = SimpleMaxFlow()
        solver.add_arcs_with_capacity(self._arcs.tail, self._arcs.head, capacity)
        if solver.solve(self._source, self._source + 1) != solver.OPTIMAL:
            raise RuntimeError("the maximum flow was not found")
        return solver


class Networks:
    """Makes the networks of nodes of one graph; `order` holds each node once."""

    def __init__(self, tables: RematTables, order: Int64Array) -> None:
        self.tables = tables
        self.order = order
        self.position = np.empty(len(order), np.int64)
        self.position[order] = np.arange(len(order))
        graph = tables.graph
        self._source = tables.node_count + tables.buffer_count
        counted = np.flatnonzero(graph.buffer_bytes > 0)
        buffer, reader = graph.consumers.row_numbers(), graph.consumers.items
        kept = graph.buffer_bytes[buffer] > 0
        self._read_tail = reader[kept].astype(np.int64)
        self._read_head = buffer[kept].astype(np.int64) + tables.node_count
        self._held = counted
        producer = graph.producer[counted].astype(np.int64)
        self._held_head = np.where(producer < 0, self._source + 1, producer)
        self._bits = min(20, 60 - int(graph.buffer_bytes.max(initial=1)).bit_length())
        self._most = UNBOUNDED / max(1, int(graph.buffer_bytes.sum()))

    def price(self, value: float) -> Price:
        """Return a price of about `value`; all buffers together cost at most `UNBOUNDED` at it.

        So no flow has more than 62 bits.
        """
        mantissa, exponent = np.frexp(min(value, self._most))
        return Price(int(mantissa * (1 << self._bits)), int(self._bits - exponent))

    def kinds(self, node: int) -> Int64Array:
        """Return per node whether it is an `ANCESTOR` of a node, itself one, or a `DESCENDANT`."""
        kind = np.zeros(self.tables.node_count, np.int64)
        relations(self.tables.problem, self.order, int(self.position[node]), kind)
        return kind

    def of(self, node: int) -> RematNetwork:
        """Return the network of a node."""
        return self._network(node, self.kinds(node))

    def case(self, node: int, ran: Flags, waiting: Flags) -> RematNetwork:
        """Return the network of a node in sequences of which more is known.

        When it runs first, the nodes in `ran` have run, and those in `waiting`, but for itself,
        have not. No node that comes before it or is in `ran` may be in `waiting`.
        """
        kind = self.kinds(node)
        kind[ran] = ANCESTOR
        kind[waiting] = DESCENDANT
        kind[node] = ANCESTOR
        return self._network(node, kind)

    def window(self, node: int, within: Flags) -> RematNetwork:
        """Return the network of what runs between the first run of a node and some later step.

        The descendants in `within` run there for sure. What nothing can make again, and others read
        later, is held, too (`windows.py`).
        """
        kind = self.kinds(node)
        graph, count = self.tables.graph, self.tables.node_count
        vertex = np.arange(self._source + 2)
        vertex[:count][within] = self._source
        vertex[self._closed(kind)] = self._source + 1
        read_later = graph.live_out.astype(np.bool_)
        reader, buffer = self._read_tail, self._read_head - count
        read_later[buffer[kind[reader] == DESCENDANT]] = True
        producer = graph.producer.astype(np.int64)
        is_there = (producer < 0) | (vertex[producer] == self._source + 1)
        vertex[np.flatnonzero(read_later & is_there) + count] = self._source
        return self._made(node, kind, vertex)

    def _network(self, node: int, kind: Int64Array) -> RematNetwork:
        source = self._source
        vertex = np.arange(source + 2)
        vertex[: self.tables.node_count][kind == DESCENDANT] = source
        vertex[self._closed(kind)] = source + 1
        live_out = np.flatnonzero(self.tables.graph.live_out)
        vertex[live_out + self.tables.node_count] = source
        return self._made(node, kind, vertex)

    def _made(self, node: int, kind: Int64Array, vertex: Int64Array) -> RematNetwork:
        """The network of a node whose vertices are contracted to the source and the sink."""
        tables = self.tables
        graph = tables.graph
        source, sink = self._source, self._source + 1
        at_source = vertex[self._read_tail] == source
        vertex[self._read_head[at_source]] = source
        fixed = self._fixed(node)
        size = np.where(fixed[self._held], 0, graph.buffer_bytes[self._held])
        own = tables.problem.graph.own_bytes[node]
        runs = np.flatnonzero((kind == ANCESTOR) & (vertex[: tables.node_count] != sink))
        return RematNetwork(
            node=node,
            fixed_bytes=int(graph.buffer_bytes[fixed].sum() + own),
            fixed_buffers=np.flatnonzero(graph.producer == node),
            source=source,
            arcs=self._arcs(vertex, size, runs),
            seconds=(
                float(graph.seconds[kind == ANCESTOR].sum()),
                float(graph.seconds[kind == DESCENDANT].sum()),
            ),
        )

    def _arcs(self, vertex: Int64Array, size: Int64Array, runs: Int64Array) -> Arcs:
        """The arcs with `size` for held buffers, between vertices as they are contracted."""
        count, sink = self.tables.node_count, self._source + 1
        reads, held = len(self._read_tail), len(self._held)
        kind = np.repeat([READ, HELD, RUN], [reads, held, len(runs)])
        tail = vertex[np.concatenate([self._read_tail, self._held + count, runs])]
        head = vertex[np.concatenate([self._read_head, self._held_head, 0 * runs + sink])]
        ticks = np.zeros(len(kind), np.int64)
        ticks[:reads] = UNBOUNDED
        ticks[reads + held :] = self.tables.cost[runs]
        sizes = np.zeros(len(kind), np.int64)
        sizes[reads : reads + held] = size
        name = np.concatenate([self._read_tail, self._held, runs])
        other = np.concatenate([self._read_head - count, 0 * self._held, 0 * runs])
        used = (
            (tail != head) & (head != self._source) & (tail != sink) & ((ticks > 0) | (sizes > 0))
        )
        return Arcs(*[x[used] for x in (kind, name, other, tail, head, ticks, sizes)])

    def _closed(self, kind: Int64Array) -> Int64Array:
        """Nodes that may not run after the first run of the node that `kind` is about."""
        tables = self.tables
        control = tables.graph.control
        after = kind[control.row_numbers()] == ANCESTOR
        ran = np.flatnonzero((tables.problem.once > 0) & (kind == ANCESTOR))
        closed: Int64Array = np.concatenate([control.items[after].astype(np.int64), ran])
        return closed

    def _fixed(self, node: int) -> Flags:
        """Which buffers are live in the step of a node whatever is held."""
        graph = self.tables.graph
        fixed: Flags = graph.producer == node
        reads = self.tables.problem.graph.reads
        fixed[reads.items[reads.starts[node] : reads.starts[node + 1]]] = True
        takers = graph.shares[graph.shares[:, 0] == node, 1]
        fixed[takers] = False
        return fixed
