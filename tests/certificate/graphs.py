"""Small memory graphs, their certificates, and what is true of those, by trying everything."""

import json
import random
from functools import cache

import numpy as np
from tests.remat.replay import ReplayError, replay

from lowtide.analysis.memory_profile import peak_bytes
from lowtide.certificate.flows import cut_at
from lowtide.certificate.graphs import graph_of, reached
from lowtide.certificate.orders import Boundary, Ordered, budget_certificate, order_certificate
from lowtide.frontend.graph_json import read_graph_json
from lowtide.ir import InputError
from lowtide.scheduling.proof import SPLIT, Case, KeptBytes, OrderRefutation

TEXT = b"HloModule m"
NONE = 1 << 99
SIZES = (0, 1, 2, 2, 3, 4, 4, 6)


def random_graph(seed, count=5, given=True):
    """A graph as in a file: scratch, control, live-outs, what is there from the start, in place."""
    draw = random.Random(seed)
    nodes = [
        {
            "name": f"n{i}",
            "opcode": "add",
            "seconds": draw.randrange(1, 9) * 1e-6,
            "scratch_bytes": draw.choice((0, 0, 0, 1, 3)),
            "control": [j for j in range(i) if draw.random() < 0.1],
        }
        for i in range(count)
    ]
    buffers = []
    for producer in range(-1 if given else 0, count):
        for _ in range(draw.choice((0, 1, 1, 1, 2) if producer >= 0 else (0, 1, 2))):
            share = min(0.8, 2 / max(1, count - producer - 1))
            readers = [c for c in range(producer + 1, count) if draw.random() < share]
            buffers.append(
                {
                    "bytes": draw.choice(SIZES),
                    "producer": producer,
                    "consumers": readers,
                    "live_out": draw.random() < 0.2 or (producer < 0 and not readers),
                    "may_reuse": [],
                }
            )
    for made in buffers:
        for number, read in enumerate(buffers):
            fits = made["bytes"] == read["bytes"] and made["producer"] in read["consumers"]
            if made["producer"] >= 0 and fits and draw.random() < 0.7:
                made["may_reuse"].append(number)
    return {"name": "g", "source": "", "notes": "", "nodes": nodes, "buffers": buffers}


def memory_graph_of(document):
    return read_graph_json(json.dumps(document)).graph


def chain(depth=4, size=6):
    """Forward and backward through layers: each keeps a value for its way back."""
    nodes, buffers = [], []
    for i in range(2 * depth):
        nodes.append(
            {"name": f"n{i}", "opcode": "dot", "seconds": 1e-6 * (i + 1), "scratch_bytes": 0}
            | {"control": []}
        )
        readers = [i + 1] * (i + 1 < 2 * depth) + [2 * depth - 1 - i] * (i < depth - 1)
        buffers.append(
            {"bytes": size + i % 2, "producer": i, "consumers": sorted({*readers})}
            | {"live_out": i == 2 * depth - 1, "may_reuse": []}
        )
    return {"name": "chain", "source": "", "notes": "", "nodes": nodes, "buffers": buffers}


def bulky():
    """A step that needs much scratch while a large value waits that is quickly made again."""
    sizes, readers, scratch = (6, 1, 1, 1), ([1, 3], [2], [3], []), (0, 0, 8, 0)
    return {
        "name": "bulky",
        "source": "",
        "notes": "",
        "nodes": [
            {"name": f"n{i}", "opcode": "x", "seconds": 1e-6, "scratch_bytes": x, "control": []}
            for i, x in enumerate(scratch)
        ],
        "buffers": [
            {"bytes": x, "producer": i, "consumers": readers[i], "live_out": i == 3}
            | {"may_reuse": []}
            for i, x in enumerate(sizes)
        ],
    }


def sequences(graph, longest):
    """All valid sequences of at most so many steps, in which each node runs."""
    data = [{*row} for row in graph.operands.rows()]
    control = [{*row} for row in graph.control.rows()]
    found, todo = [], [((), frozenset(), frozenset())]
    while todo:
        steps, ran, closed = todo.pop()
        if len(ran) == graph.node_count:
            found.append(steps)
        if len(steps) < longest:
            todo += [
                ((*steps, v), ran | {v}, closed | control[v])
                for v in range(graph.node_count)
                if v not in closed and steps[-1:] != (v,) and data[v] | control[v] <= ran
            ]
    return found


def orders(graph):
    return sequences(graph, graph.node_count)


def least_peak(graph):
    return min([peak_bytes(graph, np.array(order, np.int64)) for order in orders(graph)])


def proved(document, packed=True):
    """The certificate of the best order of a graph, with the proof that there is none better."""
    graph = memory_graph_of(document)
    least = least_peak(graph)
    order = next(x for x in orders(graph) if peak_bytes(graph, np.array(x, np.int64)) == least)
    own = graph_of(graph)
    ends = [cut_at(own, node, 0) for node in (0, own.end)]
    proof = KeptBytes(0) if max([x.own + x.value for x in ends]) >= least else None
    ordered = Ordered(document["name"], graph, order, proof or refutation(graph, least - 1))
    return order_certificate([ordered], TEXT, packed)


def refutation(graph, target):
    """The proof that no order has steps up to a target, by cases, as a search would find it."""
    own = graph_of(graph)
    held = own.held([])
    cases, todo = [], [(-1, 0, 0, ())]
    while todo:
        parent, first, second, pairs = todo.pop(0)
        cuts = [cut_at(own, v, held[v], pairs=pairs) for v in range(1, own.end + 1)]
        best = max(cuts, key=lambda cut: cut.own + cut.value)
        number = len(cases)
        if best.own + best.value > target:
            nothing = np.zeros((0, 3), np.int64)
            cases.append(Case(parent, first, second, nothing, best.node - 1))
            continue
        behind, _ = own.successors(pairs)
        after = [reached(v, behind) for v in range(own.end)]
        u, w, forced = _choice(own, held, target, pairs, after)
        rows = np.array(forced, np.int64).reshape(-1, 3)
        cases.append(Case(parent, first, second, rows, SPLIT))
        known = (*pairs, *[(x + 1, y + 1) for x, y, _ in forced])
        todo += [(number, u - 1, w - 1, (*known, (u, w))), (number, w - 1, u - 1, (*known, (w, u)))]
    return OrderRefutation(target, tuple(cases))


def _choice(own, held, target, pairs, after):
    """A pair of nodes without an order, and one (before, behind, at) that a cut forces, if any."""
    free = [
        (u, w)
        for u in range(1, own.end)
        for w in range(u + 1, own.end)
        if w not in after[u] and u not in after[w]
    ]
    for u, w in [*free, *[(w, u) for u, w in free]]:
        for v in range(1, own.end):
            cut = cut_at(own, v, held[v], pairs=(*pairs, (u, w)))
            rest = [x for x in free if {*x} != {u, w}]
            if cut.own + cut.value > target and rest:
                further = (*pairs, (w, u))
                behind, _ = own.successors(further)
                rest = [(x, y) for x, y in rest if x not in reached(y, behind)]
                rest = [(x, y) for x, y in rest if y not in reached(x, behind)]
                if rest:
                    return (*rest[0], [(w - 1, u - 1, v - 1)])
    return (*free[0], [])


def budgeted(document, budget, steps, node, price, packed=False):
    """The certificate of a sequence within a budget; `steps` is None where there is none."""
    ordered = Ordered(document["name"], memory_graph_of(document), steps or ())
    boundaries = [Boundary(node, price)]
    has_plan = steps is not None
    return budget_certificate([ordered], TEXT, budget, boundaries, packed, has_plan)


# -- the truth ---------------------------------------------------------------------------------


def graph_in(document):
    """The first graph of a certificate as in a file, made without the code under test."""
    section = document["problem"]["graphs"][0]
    buffers = [
        {"bytes": size, "producer": -1, "consumers": [], "live_out": False, "may_reuse": []}
        for size in section["bytes"]
    ]
    nodes = []
    for number, (scratch, ticks, control, reads, makes, calls) in enumerate(section["nodes"]):
        assert not calls
        nodes.append(
            {"name": str(number), "opcode": "x", "seconds": ticks * 1e-13}
            | {"scratch_bytes": scratch, "control": [x - 1 for x in control if x]}
        )
        for b in reads:
            buffers[b]["consumers"].append(number)
        for b in makes:
            assert buffers[b]["producer"] == -1
            buffers[b]["producer"] = number
    made = [b for _, _, _, _, makes, _ in section["nodes"] for b in makes]
    assert sorted([*made, *section["given"]]) == list(range(len(buffers)))
    for b in section["kept"]:
        buffers[b]["live_out"] = True
    for operand, b in section["reuses"]:
        if operand not in section["kept"]:  # what is kept is never taken over
            buffers[b]["may_reuse"].append(operand)
    return {"name": "g", "source": "", "notes": "", "nodes": nodes, "buffers": buffers}


@cache
def _least(text, budget, longest):
    graph = read_graph_json(text).graph
    if not budget:
        return least_peak(graph)
    costs = [
        sum([round(graph.seconds[v] * 1e13) for v in steps])
        for steps in sequences(graph, longest)
        if replay(graph, steps).peak_bytes <= budget
    ]
    return min(costs, default=None)


def is_true(document, longest=7):
    """Whether what a certificate of one graph claims is so; its evidence does not count.

    Sequences are tried up to `longest` steps, so what is said to be least may be less.
    """
    try:
        text = json.dumps(graph_in(document))
        graph, budget = read_graph_json(text).graph, document["problem"]["budget"]
        once = sum([round(x * 1e13) for x in graph.seconds])
        least, bound = _least(text, budget, longest), int(document["bound"])
        if document["plan"]:
            order = document["plan"]["orders"][0]
            steps = [x - 1 for x in order["steps"]]
            peak = replay(graph, steps).peak_bytes
            legal = order["peak"] >= peak and (budget or len(steps) == graph.node_count)
            if not legal or (budget and order["peak"] > budget):
                return False
    except (AssertionError, LookupError, TypeError, ValueError, InputError, ReplayError):
        return False
    if budget and least is None:
        return True
    return bound <= least - (once if budget else 0)
