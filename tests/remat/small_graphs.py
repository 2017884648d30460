"""Small random memory graphs, and what they cost at best by trying all sequences."""

import heapq
from collections.abc import Collection
from dataclasses import replace
from random import Random

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists


def random_graph(random: Random, most: int = 7) -> MemoryGraph:
    """A graph with in place, scratch, control, live-outs and several buffers of a node."""
    count = random.randint(2, most)
    buffers = []
    for node in range(-1 if random.random() < 0.3 else 0, count):
        for _ in range(random.choice((1, 1, 1, 2))):
            later = list(range(max(0, node + 1), count))
            readers = random.sample(later, min(len(later), random.choice((0, 1, 1, 2, 2, 3))))
            out = random.random() < 0.15
            buffers.append((random.choice((0, 1, 2, 3, 4, 4, 8)), node, sorted(readers), out))
    shares = [
        (made[1], read_number, number)
        for number, made in enumerate(buffers)
        for read_number, read in enumerate(buffers)
        if made[1] in read[2] and read[0] == made[0] > 0 and not read[3] and random.random() < 0.7
    ]
    control = [[random.randrange(v)] if v and random.random() < 0.25 else [] for v in range(count)]
    operands = [
        sorted({producer for _, producer, readers, _ in buffers if v in readers and producer >= 0})
        for v in range(count)
    ]
    sizes = len(buffers)
    return MemoryGraph(
        operands=lists(operands),
        control=lists(control),
        scratch_bytes=np.array([random.choice((0, 0, 0, 2, 5)) for _ in range(count)], np.int64),
        inner_bytes=np.array([random.choice((0, 0, 0, 1)) for _ in range(count)], np.int64),
        name_rank=np.arange(count, dtype=np.int32),
        is_scalar=np.zeros(count, bool),
        is_leaf=np.zeros(count, bool),
        urgency=np.zeros(count, np.int32),
        root=count - 1,
        buffer_bytes=np.array([b[0] for b in buffers], np.int64),
        producer=np.array([b[1] for b in buffers], np.int32),
        consumers=lists([b[2] for b in buffers]),
        live_out=np.array([b[3] for b in buffers], bool),
        alias_set=np.full(sizes, -1, np.int32),
        colour=np.zeros(sizes, np.int32),
        bin=np.full(sizes, -1, np.int32),
        shares=np.array(sorted(shares), np.int32).reshape(-1, 3),
        seconds=np.array([random.choice((1, 2, 3, 5, 8)) * 1e-6 for _ in range(count)]),
    )


def with_last(graph: MemoryGraph) -> MemoryGraph:
    """The graph with a node behind all others that reads what is live to the end, like a root."""
    last = graph.node_count
    out = graph.live_out.tolist()
    made = {int(x) for x in graph.producer[graph.live_out] if x >= 0}
    consumers = [
        [*row, last] if is_out else row
        for row, is_out in zip(graph.consumers.rows(), out, strict=True)
    ]
    nothing = {
        name: np.append(getattr(graph, name), getattr(graph, name).dtype.type(0))
        for name in ("scratch_bytes", "inner_bytes", "is_scalar", "is_leaf", "urgency", "seconds")
    }
    return replace(
        graph,
        operands=lists([*graph.operands.rows(), sorted(made)]),
        control=lists([*graph.control.rows(), list(range(last))]),
        name_rank=np.arange(last + 1, dtype=np.int32),
        root=last,
        consumers=lists(consumers),
        **nothing,
    )


class Rules:
    """The rules of memory graphs as bit masks."""

    def __init__(self, graph: MemoryGraph) -> None:
        self.size = graph.buffer_bytes.tolist()
        self.seconds = graph.seconds.tolist()
        self.own = (graph.scratch_bytes + graph.inner_bytes).tolist()
        count = self.count = graph.node_count
        self.reads, self.makes = [0] * count, [0] * count
        self.before, self.closing = [0] * count, [0] * count
        self.entry = self.unread = self.results = 0
        for buffer, readers in enumerate(graph.consumers.rows()):
            producer, out = int(graph.producer[buffer]), bool(graph.live_out[buffer])
            self.results |= out << buffer
            for node in readers:
                self.reads[node] |= 1 << buffer
            if producer >= 0:
                self.makes[producer] |= 1 << buffer
            elif readers or out:
                self.entry |= 1 << buffer
            else:
                self.unread += self.size[buffer]
        for node, others in enumerate(graph.control.rows()):
            for other in others:
                self.before[node] |= 1 << other
                self.closing[other] |= 1 << node
        self.pairs = [
            [(a, b) for v, a, b in graph.shares.tolist() if v == node and not graph.live_out[a]]
            for node in range(count)
        ]

    def bytes_of(self, buffers: int) -> int:
        return sum(size for b, size in enumerate(self.size) if buffers >> b & 1)

    def taken(self, pairs: list[tuple[int, int]], dying: int) -> int:
        """The largest matching, by trying all."""
        if not pairs:
            return 0
        (a, b), rest = pairs[0], pairs[1:]
        best = self.taken(rest, dying)
        if dying >> a & 1:
            others = [p for p in rest if p[0] != a and p[1] != b]
            best = max(best, self.size[a] + self.taken(others, dying))
        return best


def least_extra(graph: MemoryGraph, budget: int, once: Collection[int] = ()) -> float | None:
    """The least extra seconds within a budget, None where no sequence fits: by Dijkstra's search.

    Nodes in `once` do not run again.

    A state is the nodes that have run and the buffers that are held. After a step, what it read or
    made may be dropped; nothing else need be.
    """
    rules = Rules(graph)
    for node in once:
        rules.closing[node] |= 1 << node
    everything = (1 << rules.count) - 1
    start = (0, rules.entry)
    cost = {start: 0.0}
    queue = [(0.0, start)]
    while queue:
        spent, state = heapq.heappop(queue)
        ran, held = state
        if spent > cost[state]:
            continue
        if ran == everything and not rules.results & ~held:
            return spent
        for node in range(rules.count):
            for after in _after(rules, node, ran, held, budget):
                again = rules.seconds[node] if ran >> node & 1 else 0.0
                found = (ran | 1 << node, after)
                if spent + again < cost.get(found, 1e9):
                    cost[found] = spent + again
                    heapq.heappush(queue, (spent + again, found))
    return None


def _after(rules: Rules, node: int, ran: int, held: int, budget: int) -> list[int]:
    """What may be held after a node has run in a state."""
    if rules.reads[node] & ~held or rules.makes[node] & held or rules.before[node] & ~ran:
        return []
    if ran >> node & 1 and rules.closing[node] & ran:
        return []
    during = held | rules.makes[node]
    total = rules.bytes_of(during) + rules.own[node] + (0 if ran else rules.unread)
    touched = rules.reads[node] | rules.makes[node]
    found = []
    dropped = touched
    while True:
        if total - rules.taken(rules.pairs[node], dropped & rules.reads[node]) <= budget:
            found.append(during & ~dropped)
        if not dropped:
            return found
        dropped = (dropped - 1) & touched
