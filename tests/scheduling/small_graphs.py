"""Small random memory graphs, and their least peak by trying every state."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.frontend.graph_json import read_graph_json


@dataclass
class SmallGraph:
    """A graph as in a file: nodes (scratch bytes, nodes before), buffers as dictionaries."""

    scratch: list[int] = field(default_factory=list)
    control: list[list[int]] = field(default_factory=list)
    buffers: list[dict[str, Any]] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        nodes = [
            {"name": f"n{v}", "opcode": "add", "seconds": 1.0, "scratch_bytes": s, "control": c}
            for v, (s, c) in enumerate(zip(self.scratch, self.control, strict=True))
        ]
        return {
            "name": "small", "source": "", "notes": "", "nodes": nodes, "buffers": self.buffers,
        }  # fmt: skip

    def memory_graph(self) -> MemoryGraph:
        return read_graph_json(json.dumps(self.document())).graph


def small_graph(rnd: random.Random, least: int = 2, most: int = 14) -> SmallGraph:
    """A random graph: scratch, several results, in place, control, buffers there from the start."""
    count = rnd.randint(least, most)
    density = rnd.choice((0.6, 1.0, 1.5))
    sizes = rnd.choice(((0, 1, 2, 3, 4, 4, 8), (4, 4, 4, 8), (1, 10, 100, 100)))
    made = SmallGraph()
    for v in range(-1 if rnd.random() < 0.4 else 0, count):
        for _ in range(rnd.choice((1, 1, 1, 2, 3) if v >= 0 else (1, 2, 3))):
            behind = list(range(v + 1, count))
            wanted = min(len(behind), max(v < 0, round(density * rnd.choice((0, 1, 1, 2, 3)))))
            made.buffers.append(
                {
                    "bytes": rnd.choice(sizes),
                    "producer": v,
                    "consumers": sorted(rnd.sample(behind, wanted)),
                    "live_out": rnd.random() < 0.15,
                    "may_reuse": [],
                }
            )
    names = list(range(count))
    if rnd.random() < 0.3:
        rnd.shuffle(names)
    _allow_reuse(made, rnd)
    made.scratch = [rnd.choice((0, 0, 0, 2, 5)) for _ in range(count)]
    made.control = [[] for _ in range(count)]
    for v in range(1, count):
        if rnd.random() < 0.15:
            made.control[names[v]] = [names[rnd.randrange(v)]]
    for b in made.buffers:
        b["producer"] = names[b["producer"]] if b["producer"] >= 0 else -1
        b["consumers"] = [names[c] for c in b["consumers"]]
    return made


def _allow_reuse(made: SmallGraph, rnd: random.Random) -> None:
    for b in made.buffers:
        if b["producer"] == -1 or rnd.random() < 0.3:
            continue
        b["may_reuse"] = [
            k
            for k, a in enumerate(made.buffers)
            if b["producer"] in a["consumers"] and a["bytes"] == b["bytes"] and rnd.random() < 0.8
        ]


def matching(pairs: list[tuple[int, int, int]]) -> int:
    """The largest sum of bytes of pairs (operand, result, bytes) without a common end."""
    if not pairs:
        return 0
    a, b, nbytes = pairs[0]
    rest = pairs[1:]
    free = [p for p in rest if p[0] != a and p[1] != b]
    return max(matching(rest), nbytes + matching(free))


class Oracle:
    """The semantics of a graph file, written out over states: bit sets of nodes that have run."""

    def __init__(self, graph: SmallGraph) -> None:
        document = json.loads(json.dumps(graph.document()))
        self.nodes, self.buffers = document["nodes"], document["buffers"]
        self.count = len(self.nodes)
        self.before = [0] * self.count
        for v, node in enumerate(self.nodes):
            for u in node["control"]:
                self.before[v] |= 1 << u
        for b in self.buffers:
            for c in b["consumers"]:
                if b["producer"] >= 0:
                    self.before[c] |= 1 << b["producer"]
        self.users = [sum(1 << c for c in b["consumers"]) for b in self.buffers]

    def needed(self, b: int, state: int) -> bool:
        return self.buffers[b]["live_out"] or bool(self.users[b] & ~state)

    def step(self, state: int, node: int) -> int:
        """The bytes of the step of a node after a state."""
        total: int = self.nodes[node]["scratch_bytes"]
        after = state | 1 << node
        pairs = []
        for b, buffer in enumerate(self.buffers):
            producer = buffer["producer"]
            is_made = producer < 0 or state >> producer & 1
            if producer == node or (is_made and self.needed(b, state)):
                total += buffer["bytes"]
            if producer == node:
                pairs += [
                    (a, b, buffer["bytes"])
                    for a in buffer["may_reuse"]
                    if not self.needed(a, after)
                ]
        return total - matching(pairs)

    def least_peak(self) -> int:
        """The least peak of all orders."""
        best = {0: 0}
        for _ in range(self.count):
            behind: dict[int, int] = {}
            for state, peak in best.items():
                for node in range(self.count):
                    if state >> node & 1 or self.before[node] & ~state:
                        continue
                    after = state | 1 << node
                    higher = max(peak, self.step(state, node))
                    if higher < behind.get(after, 1 << 62):
                        behind[after] = higher
            best = behind
        return best[(1 << self.count) - 1]

    def peak(self, order: list[int]) -> int:
        """The peak of one order; the order has to be valid."""
        state = peak = 0
        for node in order:
            assert not state >> node & 1 and not self.before[node] & ~state
            peak = max(peak, self.step(state, node))
            state |= 1 << node
        assert state == (1 << self.count) - 1
        return peak
