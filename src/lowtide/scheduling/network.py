"""Kernels: the network whose minimum cut is the least that is live when a node runs.

A state is the set of nodes that have run; with a node it has all predecessors of the node. Just
before a node runs, its ancestors have run (DONE) and its descendants have not (AHEAD), as `side`
says. The network has the other nodes (UNDECIDED), and the buffers with several undecided readers.

A buffer is live in a state that has its producer and lacks one of its users. The bound on every
order is the least live bytes of such a state, with the node's own bytes, less the most that the
node can take over.
"""

from __future__ import annotations

from typing import Final

from lowtide.analysis.graph_tables import GraphTables, Rows
from lowtide.analysis.taken_over import Matching, taken_over
from lowtide.records import dataclass
from lowtide.scheduling.flow import ARCS, NODES, Network
from lowtide.scheduling.greedy import made_bytes
from lowtide.search.kernels import Array, Record, kernel

UNDECIDED: Final = 0
DONE: Final = 1
AHEAD: Final = 2


@dataclass(frozen=True, eq=False, slots=True)
class Moment(Record):
    """The graph just before a node runs.

    Per node: `side` is DONE, AHEAD or UNDECIDED, `number` counts the undecided ones from 0 (-1 for
    others), `member` lists these by number, and `queue` has those to look at. Per buffer: `left` is
    0 where the step may free it for sure, `eased` is 1 for an operand whose bytes are counted as if
    the node did not use it.
    """

    side: Array
    number: Array
    member: Array
    queue: Array
    left: Array
    eased: Array


@dataclass(frozen=True, eq=False, slots=True)
class ArcList(Record):
    """Arcs of a network in any order, without their reverses: the ends, and what each can carry."""

    tail: Array
    head: Array
    room: Array


@kernel
def spread(rows: Rows, node: int, mark: int, moment: Moment) -> int:
    """Mark all undecided nodes that are reached from a node; not the node itself."""
    side = moment.side
    queue = moment.queue
    queue[0] = node
    tail = 1
    at = 0
    while at < tail:
        x = queue[at]
        at += 1
        for k in range(rows.starts[x], rows.starts[x + 1]):
            y = rows.items[k]
            if side[y] == UNDECIDED:
                side[y] = mark
                queue[tail] = y
                tail += 1
    return tail


@kernel
def decide(graph: GraphTables, node: int, part: Array, moment: Moment) -> int:
    """Fill in `side` for the moment before a node runs.

    Nodes of a lower `part` than the node's have run, those of a higher one have not.
    """
    side = moment.side
    for x in range(graph.nodes):
        side[x] = UNDECIDED
        if part[x] < part[node]:
            side[x] = DONE
        if part[x] > part[node]:
            side[x] = AHEAD
    side[node] = AHEAD
    spread(graph.before, node, DONE, moment)
    spread(graph.behind, node, AHEAD, moment)
    return 0


@kernel
def needed_ahead(graph: GraphTables, b: int, node: int, side: Array) -> int:
    """Whether a buffer is live-out, or used behind the step of a node for sure."""
    if graph.live_out[b] != 0:
        return 1
    for k in range(graph.users.starts[b], graph.users.starts[b + 1]):
        user = graph.users.items[k]
        if side[user] == AHEAD and user != node:
            return 1
    return 0


@kernel
def own_bytes(graph: GraphTables, node: int, moment: Moment, matching: Matching) -> int:
    """What the step of a node adds to the state before it, at least.

    A pair of operand and result that shares with nothing else is left to the network: `eased` is
    set to 1 for the operand, whose bytes the network counts as if the node did not use it. Of the
    other pairs the largest matching is taken off that any state may allow.
    """
    left = moment.left
    eased = moment.eased
    pairs = graph.pairs
    begin = pairs.starts[node]
    stop = pairs.starts[node + 1]
    for i in range(begin, stop):
        a = pairs.read[i]
        left[a] = needed_ahead(graph, a, node, moment.side)
    for i in range(begin, stop):
        a = pairs.read[i]
        alone = 1 - left[a]
        for j in range(begin, stop):
            other = pairs.read[j]
            same_result = pairs.made[j] == pairs.made[i]
            if j != i and left[other] == 0 and (other == a or same_result != 0):
                alone = 0
        if alone == 1:
            eased[a] = 1
    for i in range(begin, stop):
        a = pairs.read[i]
        if eased[a] == 1:
            left[a] = 1
    total = made_bytes(graph, node) + int(graph.own_bytes[node])
    return total - taken_over(graph, node, left, 0, matching)


@kernel
def clear_eased(graph: GraphTables, node: int, eased: Array) -> int:
    """Undo what `own_bytes` marks."""
    for i in range(graph.pairs.starts[node], graph.pairs.starts[node + 1]):
        eased[graph.pairs.read[i]] = 0
    return 0


@kernel
def number_undecided(graph: GraphTables, moment: Moment) -> int:
    """Number the undecided nodes from 0; return how many there are."""
    count = 0
    for x in range(graph.nodes):
        moment.number[x] = -1
        if moment.side[x] == UNDECIDED:
            moment.number[x] = count
            moment.member[count] = x
            count += 1
    return count


@kernel
def add_arc(arcs: ArcList, count: int, tail: int, head: int, room: int) -> int:
    """Add an arc to a list of `count`; return the number of arcs."""
    arcs.tail[count] = tail
    arcs.head[count] = head
    arcs.room[count] = room
    return count + 1


@kernel
def cleared(network: Network, node: int) -> int:
    """Give a node neither supply nor demand; return the number of the next one."""
    network.supply[node] = 0
    network.demand[node] = 0
    return node + 1


@kernel
def collect(
    graph: GraphTables, node: int, moment: Moment, nodes: int, arcs: ArcList, network: Network
) -> int:
    """List arcs, fill in supplies and demands; return the bytes that are live in every state.

    `nodes` are undecided; `network.extent` receives the numbers of nodes, those of buffers
    included, and of arcs.
    """
    side = moment.side
    number = moment.number
    supply = network.supply
    demand = network.demand
    users = graph.users
    fixed = 0
    arc_count = 0
    count = 0
    endless = graph.total + 1
    for x in range(nodes):
        count = cleared(network, x)
    for b in range(graph.buffers):
        size = graph.size[b]
        producer = graph.producer[b]
        if size == 0 or (producer >= 0 and side[producer] == AHEAD):
            continue
        ahead = graph.live_out[b]
        open_uses = 0
        user = -1
        for k in range(users.starts[b], users.starts[b + 1]):
            x = users.items[k]
            if side[x] == UNDECIDED:
                open_uses += 1
                user = x
            if side[x] == AHEAD and (x != node or moment.eased[b] == 0):
                ahead = 1
        made = producer < 0 or side[producer] == DONE
        if ahead != 0:
            if made:
                fixed += size
            else:
                demand[number[producer]] += size
            continue
        if open_uses == 0:
            continue
        into = number[user]
        if open_uses > 1:
            into = count
            count = cleared(network, count)
            for k in range(users.starts[b], users.starts[b + 1]):
                x = users.items[k]
                if side[x] == UNDECIDED:
                    arc_count = add_arc(arcs, arc_count, into, number[x], endless)
        if made:
            supply[into] += size
        else:
            arc_count = add_arc(arcs, arc_count, number[producer], into, size)
    network.extent[NODES] = count
    network.extent[ARCS] = arc_count
    return fixed


@kernel
def add_orders(
    graph: GraphTables, moment: Moment, nodes: int, arcs: ArcList, network: Network
) -> int:
    """List an endless arc from each undecided node to each one before it; return all arcs."""
    before = graph.before
    endless = graph.total + 1
    count = network.extent[ARCS]
    for x in range(nodes):
        node = moment.member[x]
        for k in range(before.starts[node], before.starts[node + 1]):
            other = moment.number[before.items[k]]
            if other >= 0:
                count = add_arc(arcs, count, x, other, endless)
    network.extent[ARCS] = count
    return int(count)


@kernel
def settle(network: Network) -> int:
    """Send what nodes have to their own demand; return it."""
    sent = 0
    for x in range(network.extent[NODES]):
        both = min(network.supply[x], network.demand[x])
        network.supply[x] -= both
        network.demand[x] -= both
        sent += both
    return sent


@kernel
def index_arcs(arcs: ArcList, network: Network, cursor: Array) -> int:
    """Put arcs and their reverses into the network, sorted by the node that they leave."""
    start = network.start
    head = network.head
    room = network.room
    mate = network.mate
    count = network.extent[NODES]
    listed = network.extent[ARCS]
    for x in range(count + 1):
        start[x] = 0
    for e in range(listed):
        start[arcs.tail[e] + 1] += 1
        start[arcs.head[e] + 1] += 1
    for x in range(count):
        start[x + 1] += start[x]
        cursor[x] = start[x]
    for e in range(listed):
        x = arcs.tail[e]
        y = arcs.head[e]
        a = cursor[x]
        cursor[x] += 1
        b = cursor[y]
        cursor[y] += 1
        head[a] = y
        room[a] = arcs.room[e]
        mate[a] = b
        head[b] = x
        room[b] = 0
        mate[b] = a
    network.extent[ARCS] = 2 * listed
    return 2 * int(listed)
