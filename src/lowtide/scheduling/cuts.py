"""Minimum cuts at nodes: what is live at least when a node runs, and who must run before it."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.graph_tables import GraphTables, Rows
from lowtide.analysis.taken_over import Matching, matching
from lowtide.records import dataclass
from lowtide.scheduling.flow import ARCS, FAR, NODES, Network, Paths, reachable, send
from lowtide.scheduling.network import (
    DONE,
    UNDECIDED,
    ArcList,
    Moment,
    add_orders,
    clear_eased,
    collect,
    decide,
    index_arcs,
    number_undecided,
    own_bytes,
    settle,
)
from lowtide.search.kernels import Array, Record, kernel

LEAST: Final = 0
FORCED: Final = 1
PRICES: Final = 2
"""What to find at a node: the least states only, who is forced, or what a change costs."""

OUTSIDE: Final = 0
LARGEST_ONLY: Final = 1
SMALLEST: Final = 2
"""Where a node is: in no least state, in the largest one only, in the smallest and so in all."""


@dataclass(frozen=True, eq=False, slots=True)
class Probe(Record):
    """Arrays of the probes of a graph, and the finding of the last one.

    `kept_room` (per arc) and `kept_supply` (per node of the network) put a flow back. Per undecided
    node: `mark` is 1 for those to test, `rank` lists them in a given order. Per node: `known` is
    how many nodes were undecided when it was last looked at for who is forced (-1: never), `where`
    it is in the least states. `found` has room for each node twice: nodes that are forced, the
    first `ends[0]` before the node, those up to `ends[1]` behind it, or bytes per node.
    """

    moment: Moment
    matching: Matching
    arcs: ArcList
    network: Network
    paths: Paths
    kept_room: Array
    kept_supply: Array
    mark: Array
    rank: Array
    known: Array
    where: Array
    found: Array
    ends: Array


@kernel
def exclude(probe: Probe, x: int, slack: int, endless: int) -> int:
    """What keeping node x out of the state costs, or `slack` + 1 if more; the flow is put back.

    If it is not more, `paths.seen` is 1 for the nodes of a least state without x.
    """
    network = probe.network
    network.demand[x] += endless
    sent = send(network, probe.paths, slack + 1, x)
    if sent <= slack:
        reachable(network, probe.paths)
    network.demand[x] -= endless - sent
    for e in range(network.extent[ARCS]):
        network.room[e] = probe.kept_room[e]
    for y in range(network.extent[NODES]):
        network.supply[y] = probe.kept_supply[y]
    return min(sent, slack + 1)


@kernel
def rule_out(rows: Rows, x: int, probe: Probe) -> int:
    """Unmark the undecided nodes reached from node x along the order."""
    moment = probe.moment
    queue = moment.queue
    mark = probe.mark
    queue[0] = x
    tail = 1
    at = 0
    while at < tail:
        node = moment.member[queue[at]]
        at += 1
        for k in range(rows.starts[node], rows.starts[node + 1]):
            y = moment.number[rows.items[k]]
            if y >= 0 and mark[y] != 0:
                mark[y] = 0
                queue[tail] = y
                tail += 1
    return tail


@kernel
def keep(source: Array, count: int, kept: Array) -> int:
    """Copy the first words of an array."""
    for i in range(count):
        kept[i] = source[i]
    return count


@kernel
def middle(nodes: int, mark: Array, rank: Array) -> int:
    """The middle one of the marked nodes, in the order of `rank`; -1 if there is none."""
    marked = 0
    for x in range(nodes):
        marked += mark[x]
    half = (marked - 1) // 2
    for r in range(nodes):
        x = rank[r]
        if mark[x] != 0:
            if half == 0:
                return int(x)
            half -= 1
    return -1


@kernel
def force(rows: Rows, probe: Probe, slack: int, endless: int, nodes: int, listed: int) -> int:
    """List marked nodes without which the state costs more than `slack`, behind those listed.

    What is reached from a listed one along `rows` follows, and what a state lacks that does without
    another one needs no test: so the middle one is tested.
    """
    mark = probe.mark
    x = middle(nodes, mark, probe.rank)
    while x >= 0:
        mark[x] = 0
        if exclude(probe, x, slack, endless) > slack:
            probe.found[listed] = probe.moment.member[x]
            listed += 1
            rule_out(rows, x, probe)
        else:
            for y in range(nodes):
                if probe.paths.seen[y] == 0:
                    mark[y] = 0
        x = middle(nodes, mark, probe.rank)
    return listed


@kernel
def mirror(network: Network) -> int:
    """Turn the residual network around: what could flow along an arc flows along its reverse.

    Supplies and demands change places; a state becomes the set of nodes outside of it.
    """
    room = network.room
    for e in range(network.extent[ARCS]):
        other = network.mate[e]
        if e < other:
            kept = room[e]
            room[e] = room[other]
            room[other] = kept
    for x in range(network.extent[NODES]):
        kept = network.supply[x]
        network.supply[x] = network.demand[x]
        network.demand[x] = kept
    return 0


@kernel
def price(probe: Probe, nodes: int, limit: int, endless: int, turn: int) -> int:
    """Fill in what it costs to have the marked nodes on the other side, 0 for others at first."""
    for x in range(nodes):
        node = probe.moment.member[x]
        if probe.mark[x] != 0:
            probe.found[node] = exclude(probe, x, limit, endless)
        elif turn == 0:
            probe.found[node] = 0
    return 0


@kernel
def by_place(graph: GraphTables, order: Array, number: Array, rank: Array) -> int:
    """List the nodes of the network in the order given; return how many there are."""
    count = 0
    for i in range(graph.nodes):
        if number[order[i]] >= 0:
            rank[count] = number[order[i]]
            count += 1
    return count


@kernel
def locate(graph: GraphTables, moment: Moment, paths: Paths, where: Array) -> int:
    """Fill in where each node is in the least states, once no more flows."""
    side = moment.side
    for x in range(graph.nodes):
        where[x] = SMALLEST if side[x] == DONE else OUTSIDE
        if side[x] == UNDECIDED and paths.layer[moment.number[x]] == FAR:
            where[x] = SMALLEST if paths.seen[moment.number[x]] != 0 else LARGEST_ONLY
    return 0


@kernel
def mark_side(probe: Probe, nodes: int, level: int, mode: int, asked: Array) -> int:
    """Mark the nodes to test on one side: all of them, or those asked for."""
    for x in range(nodes):
        node = probe.moment.member[x]
        probe.mark[x] = 0
        if probe.where[node] == level:
            probe.mark[x] = 1 if mode == FORCED else asked[node]
    return 0


@kernel
def least_flow(graph: GraphTables, probe: Probe, node: int, nodes: int) -> int:
    """The least bytes of the states before a node, less its own; `where` receives these states."""
    moment = probe.moment
    network = probe.network
    fixed = collect(graph, node, moment, nodes, probe.arcs, network)
    clear_eased(graph, node, moment.eased)
    add_orders(graph, moment, nodes, probe.arcs, network)
    index_arcs(probe.arcs, network, probe.paths.cursor)
    flow = settle(network)
    flow += send(network, probe.paths, graph.total + 1, -1)
    reachable(network, probe.paths)
    locate(graph, moment, probe.paths, probe.where)
    return fixed + flow


@kernel
def probe_node(
    graph: GraphTables,
    probe: Probe,
    node: int,
    part: Array,
    target: int,
    floor: int,
    mode: int,
    order: Array,
) -> int:
    """Least bytes of the step of a node in any order in which `part` does not fall.

    With FORCED, `found` lists the nodes that every order with steps up to `target` has before this
    one, then those that it has behind, if the step has `floor` bytes at least. With PRICES, `order`
    is 1 for some nodes, for which `found` receives the bytes, up to `target`, that it costs to have
    them on the other side.
    """
    moment = probe.moment
    network = probe.network
    endless = graph.total + 1
    decide(graph, node, part, moment)
    own = own_bytes(graph, node, moment, probe.matching)
    nodes = number_undecided(graph, moment)
    if mode == FORCED and probe.known[node] == nodes:
        clear_eased(graph, node, moment.eased)
        return 0
    value = least_flow(graph, probe, node, nodes) + own
    probe.ends[0] = 0
    probe.ends[1] = 0
    if mode == LEAST or (mode == FORCED and (value > target or value < floor)):
        return value
    if mode == FORCED:
        by_place(graph, order, moment.number, probe.rank)
        probe.known[node] = nodes
    listed = 0
    for turn in range(2):
        if turn == 1:
            mirror(network)
        keep(network.room, network.extent[ARCS], probe.kept_room)
        keep(network.supply, network.extent[NODES], probe.kept_supply)
        mark_side(probe, nodes, OUTSIDE if turn == 1 else SMALLEST, mode, order)
        if mode == PRICES:
            price(probe, nodes, target, endless, turn)
            continue
        if turn == 0:
            listed = force(graph.before, probe, target - value, endless, nodes, listed)
        else:
            listed = force(graph.behind, probe, target - value, endless, nodes, listed)
        probe.ends[turn] = listed
    return value


def probe_of(graph: GraphTables) -> Probe:
    """Return what probes of a graph work with."""
    nodes, buffers = graph.nodes + 1, graph.buffers + 1
    size, arcs = nodes + buffers, len(graph.reads.items) + buffers + len(graph.before.items) + 1
    return Probe(
        moment=Moment(*_zeros(nodes, 3), *_zeros(size, 1), *_zeros(buffers, 2)),
        matching=matching(buffers),
        arcs=ArcList(*_zeros(arcs, 3)),
        network=Network(
            *_zeros(2, 1), *_zeros(size + 1, 1), *_zeros(2 * arcs, 3), *_zeros(size, 2)
        ),
        paths=Paths(*_zeros(size, 5)),
        kept_room=np.zeros(2 * arcs, np.int64),
        kept_supply=np.zeros(size, np.int64),
        mark=np.zeros(nodes, np.int64),
        rank=np.zeros(nodes, np.int64),
        known=np.full(nodes, -1, np.int64),
        where=np.zeros(nodes, np.int64),
        found=np.zeros(2 * nodes, np.int64),
        ends=np.zeros(2, np.int64),
    )


def _zeros(length: int, count: int) -> list[Array]:
    return [np.zeros(length, np.int64) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Forced:
    """Nodes that every order with steps up to a target has before a node, and behind it."""

    bytes: int
    before: Array
    behind: Array


class Cuts:
    """Minimum cuts of one graph, with the arrays that they work on."""

    def __init__(self, tables: GraphTables) -> None:
        self.tables = tables
        self._probe = probe_of(tables)
        self._whole = np.zeros(tables.nodes, np.int64)

    @property
    def where(self) -> Array:
        """Per node where it is in the least states of the node last looked at; one word more."""
        return self._probe.where

    def remember(self, earlier: Cuts) -> None:
        """Take over at which nodes `earlier` has looked, of a graph with fewer edges."""
        self._probe.known[:] = earlier._probe.known

    def least(self, node: int, part: Array | None = None) -> int:
        """Return the least bytes of the step of a node; `where` then has the least states.

        No order has a smaller step there in which the parts of nodes do not fall.
        """
        return self._at(node, self._whole if part is None else part, 0, 0, LEAST, self._whole)

    def forced(self, node: int, target: int, floor: int, order: Array) -> Forced:
        """Return the least bytes of the step of a node, and what a target forces around it.

        That is looked for where the step takes `floor` bytes at least. A node at which as many are
        undecided as when it was last looked at is passed over: the bytes are 0 then.
        """
        value = self._at(node, self._whole, target, floor, FORCED, order)
        first, stop = self._probe.ends.tolist() if value else (0, 0)
        found = self._probe.found
        return Forced(value, found[:first].copy(), found[first:stop].copy())

    def prices(self, node: int, asked: Array, limit: int) -> tuple[int, Array]:
        """Return the least bytes, and what each node asked for costs on the other side.

        Costs are bytes up to `limit` + 1, and 0 for nodes that are on both sides of least states,
        or comparable to the node; `where` then has the least states.
        """
        value = self._at(node, self._whole, limit, 0, PRICES, asked)
        return value, np.where(self.undecided, self._probe.found[: self.tables.nodes], 0)

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """Per node whether it is neither before nor behind the one last looked at."""
        side = self._probe.moment.side[: self.tables.nodes]
        found: npt.NDArray[np.bool_] = side == UNDECIDED
        return found

    def _at(self, node: int, part: Array, target: int, floor: int, mode: int, order: Array) -> int:
        return probe_node(self.tables, self._probe, node, part, target, floor, mode, order)
