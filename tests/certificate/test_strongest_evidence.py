"""The strongest evidence that the checker accepts: no order and no sequence contradicts it.

What the checker lets flow at a node is found by asking it, arc by arc, not by its rules. The
largest flow of that network is what the worst forger could claim.
"""

import random
from collections import Counter, deque

import pytest
from tests.certificate.graphs import memory_graph_of, random_graph, sequences
from tests.remat.replay import replay

from lowtide.certificate.checker import _Graph
from lowtide.certificate.flows import cut_at
from lowtide.certificate.graphs import graph_of

FAR = 10**6
"""More than any sum of sizes, prices and costs here."""


class Network:
    """What a checker lets flow at a node, and which vertices it takes for sources and sinks."""

    def __init__(self, graph, node, cover, held, price, costs):
        self.graph, self.asked = graph, (node, cover, held, price, costs)
        vertices = range(2 * graph.first + len(graph.bytes))
        self.room = {
            (tail, head): room
            for tail in vertices
            for head in vertices
            if tail != head and (room := self._room(tail, head))
        }
        self.behind = {x: [h for t, h in self.room if t == x] for x in vertices}

    def answer(self, flow):
        """What the checker makes of a flow: (own, value), or why it is none."""
        node, cover, held, price, costs = self.asked
        proof = {"node": node, "cover": cover, "flow": [list(row) for row in flow]}
        try:
            return self.graph.cut(proof, held, price, costs)
        except ValueError as error:
            return str(error)

    def _room(self, tail, head):
        """The most that the checker lets flow along an arc."""

        def fits(amount):
            return self.answer([(tail, head, amount)]) != f"flow: {tail} to {head}"

        if not fits(1) or fits(FAR):
            return FAR * fits(1)
        low, high = 1, FAR
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def ends(self):
        """The vertices between which a path counts: where it may begin, and where it may end."""
        begins, ends = {}, {}
        for start in self.behind:
            paths, todo = {start: []}, deque([start])
            while todo:
                x = todo.popleft()
                for y in self.behind[x]:
                    if y in paths:
                        continue
                    paths[y] = [*paths[x], (x, y, 1)]
                    todo.append(y)
                    found = self.answer(paths[y])
                    if type(found) is tuple and found[1] == 1:
                        begins[start] = ends[y] = None
        return begins, ends

    def largest(self):
        """A largest flow between these, by shortest augmenting paths, as rows."""
        begins, ends = self.ends()
        left, sent = dict(self.room), {}
        while path := self._augmenting(begins, ends, left):
            amount = min([left[arc] for arc in path])
            for tail, head in path:
                left[tail, head] -= amount
                left[head, tail] = left.get((head, tail), 0) + amount
            if amount >= FAR:
                break
        for arc, room in self.room.items():
            if room > left[arc]:
                sent[arc] = room - left[arc]
        return [(*arc, amount) for arc, amount in sent.items()]

    def _augmenting(self, begins, ends, left):
        came, todo = dict.fromkeys(begins), deque(begins)
        while todo:
            x = todo.popleft()
            if x in ends:
                path = []
                while came[x] is not None:
                    path.append((came[x], x))
                    x = came[x]
                return path[::-1]
            for (tail, head), room in left.items():
                if tail == x and room and head not in came:
                    came[head] = x
                    todo.append(head)
        return []


def strongest(graph, node, held, price, costs):
    """(own, value) of the largest flow at a node, for each choice of a cover."""
    chosen = sorted({b for pair in graph.pairs if graph.producers[pair[1]] == node for b in pair})
    for mask in range(1 << min(3, len(chosen))):
        cover = [b for i, b in enumerate(chosen[:3]) if mask >> i & 1]
        network = Network(graph, node, cover, held, price, costs)
        found = network.answer(network.largest())
        assert type(found) is tuple, found
        yield found


def cases(seeds, count):
    """Graphs with some nodes that run once only, as the checker has them, and their sequences."""
    for seed in seeds:
        draw = random.Random(seed)
        document = random_graph(seed, count)
        for i, node in enumerate(document["nodes"]):
            node["control"] = [j for j in range(i) if draw.random() < 0.3]
        graph = memory_graph_of(document)
        once = [v for v in range(count) if draw.random() < 0.3]
        made = graph_of(graph)
        for v in once:
            made.control[v + 1].append(v + 1)
            made.followers[v + 1].append(v + 1)
        found = [
            steps for steps in sequences(graph, count + 1) if all(steps.count(v) == 1 for v in once)
        ]
        yield seed, graph, made, [(steps, replay(graph, steps).peak_bytes) for steps in found]


@pytest.mark.parametrize("part", range(3))
def test_no_order_is_below_what_can_be_claimed(part) -> None:
    """Also where one node is taken to come before another one."""
    for seed, graph, made, rows in cases(range(part, 30, 3), 4):
        draw = random.Random(seed)
        orders = [(steps, peak) for steps, peak in rows if len(steps) == graph.node_count]
        steps, _ = draw.choice(orders)
        first, second = sorted(draw.sample(range(len(steps)), 2))
        for pair in ((), (steps[first], steps[second])):
            checked = _Graph(made.document())
            if pair:
                checked.link(pair[0] + 1, pair[1] + 1, 1)
            kept = [p for x, p in orders if not pair or x.index(pair[0]) < x.index(pair[1])]
            held, costs = checked.held([]), [FAR] * checked.first
            for node in range(1, checked.first - 1):
                for own, value in strongest(checked, node, held, 1, costs):
                    assert own + value <= min(kept), (seed, pair, node)


@pytest.mark.parametrize("part", range(3))
def test_no_sequence_is_below_what_can_be_claimed(part) -> None:
    """Of each sequence, the peak is the least budget that it keeps to."""
    for seed, graph, made, rows in cases(range(part, 24, 3), 3):
        draw = random.Random(seed)
        checked = _Graph(made.document())
        ticks = [draw.randrange(1, 9) for _ in range(graph.node_count)]
        held, costs = checked.held([]), [0, *ticks, 0]
        for node in range(1, checked.first - 1):
            price = draw.choice((1, 2, 5))
            for own, value in strongest(checked, node, held, price, costs):
                for steps, peak in rows:
                    extra = sum([ticks[v] for v in steps]) - sum(ticks)
                    assert own <= peak and extra >= value - price * (peak - own), (seed, steps)


def test_what_is_claimed_is_accepted() -> None:
    """Also the arcs that only nodes which run once have, and each one is as strong as it can be."""
    used = 0
    for seed, graph, made, _ in cases(range(80), 4):
        draw = random.Random(seed)
        checked = _Graph(made.document())
        costs = [0, *[draw.randrange(1, 9) for _ in range(graph.node_count)], 0]
        for node in range(1, made.end):
            cut = cut_at(made, node, checked.held([])[node], 5, costs)
            found = checked.cut(cut.document(), checked.held([]), 5, costs)
            assert found == (cut.own, cut.value), (seed, node)
            sent = Counter[int]()
            for tail, head, amount in cut.flow:
                if head == tail + made.late:
                    sent[tail] += amount
            used += any(amount > costs[tail] for tail, amount in sent.items())
    assert used
