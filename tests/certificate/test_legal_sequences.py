"""Which sequences, and which reuse of memory, the checker accepts: all that is legal, no other."""

import random
from itertools import product

import pytest
from tests.certificate.cases import answer
from tests.certificate.graphs import TEXT, chain, memory_graph_of, random_graph
from tests.remat.replay import ReplayError, replay

from lowtide.analysis.module_graphs import GraphCall
from lowtide.certificate import REJECTED
from lowtide.certificate.checker import _Graph
from lowtide.certificate.graphs import graph_of
from lowtide.certificate.orders import Ordered, budget_certificate
from lowtide.certificate.sequences import written

NODES = 3


def some_graphs(seeds):
    """Graphs with control, of which some nodes run once only: as they are, and as certified."""
    for seed in seeds:
        draw = random.Random(seed)
        document = random_graph(seed, NODES)
        for i, node in enumerate(document["nodes"]):
            node["control"] = [j for j in range(i) if draw.random() < 0.3]
        graph = memory_graph_of(document)
        once = {v for v in range(NODES) if draw.random() < 0.2}
        made = graph_of(graph)
        for v in once:
            made.control[v + 1].append(v + 1)
        yield draw, graph, once, made


def why_not(checked, order, once=False):
    """What the checker has against an order, nothing if it is legal, and the peak that it finds."""
    try:
        checked.replay({**order, "peak": -1}, [], once)
    except ValueError as error:
        words = str(error)
        found = words.removeprefix("peak: ").partition(" is what")[0].replace(",", "")
        return ("", int(found)) if words.startswith("peak: ") else (words, 0)
    raise AssertionError("no peak is -1")


def is_legal(graph, once, steps):
    try:
        replay(graph, steps)
    except ReplayError:
        return False
    return all(steps.count(v) == 1 for v in once)


def test_all_short_sequences() -> None:
    legal = illegal = 0
    for _, graph, once, made in some_graphs(range(40)):
        checked = _Graph(made.document())
        for steps in product(range(NODES), repeat=NODES + 1):
            is_right = is_legal(graph, once, steps)
            takes = [0] * len(graph.buffer_bytes) if not is_right else None
            numbers = [v + 1 for v in steps]
            if takes is None:
                takes = written(made, numbers, made.held([])).takes
            found, peak = why_not(checked, {"steps": numbers, "takes": takes})
            assert (not found) == is_right, (steps, found)
            assert not is_right or peak == replay(graph, steps).peak_bytes
            legal, illegal = legal + is_right, illegal + (not is_right)
    assert legal > 100 and illegal > 1000


def test_what_is_taken_over_is_read_last_there_and_taken_once() -> None:
    """Whatever takes over what, legal ones never take less than the best of them."""
    legal = 0
    for draw, graph, once, made in some_graphs(range(120)):
        if not len(graph.shares):
            continue
        checked = _Graph(made.document())
        rows = [x for x in product(range(NODES), repeat=NODES + 1) if is_legal(graph, once, x)]
        for steps in draw.sample(rows, min(len(rows), 6)):
            numbers = [v + 1 for v in steps]
            best = written(made, numbers, made.held([]))
            pairs = [(a, b) for a in range(1, len(best.buffers) + 1) for b in range(a)]
            for _ in range(20):
                takes = [x if draw.random() < 0.7 else 0 for x in best.takes]
                for _ in range(draw.randrange(3)):
                    taken, at = draw.choice(pairs)
                    takes[draw.randrange(len(takes))] = draw.choice((taken, at, *best.takes))
                found, peak = why_not(checked, {"steps": numbers, "takes": takes})
                if not found:
                    legal += any(takes)
                    assert len({*takes} - {0}) == len([x for x in takes if x]), takes
                    assert peak >= best.peak, (steps, takes)
    assert legal > 100


def test_only_equal_bytes_that_the_maker_reads_are_taken_over() -> None:
    """What is kept is never taken over, whatever is said of it."""
    refused = 0
    for _, _, _, made in some_graphs(range(60)):
        document = made.document()
        for a, b in product(range(len(made.sizes)), repeat=2):
            is_read = a in made.reads[made.producers[b]]
            fits = a in made.kept or (is_read and made.sizes[a] == made.sizes[b])
            forged = {**document, "reuses": [[a, b]]}
            if fits:
                _Graph(forged)
                continue
            refused += 1
            with pytest.raises(ValueError, match="cannot take over"):
                _Graph(forged)
    assert refused > 100


def test_only_the_last_graph_may_run_nodes_twice() -> None:
    """What a callee takes longer shows in no ticks of its caller."""
    inner, outer = memory_graph_of(chain(2)), memory_graph_of(chain(2))
    call = (GraphCall(2, 0, 5, 1),)
    caller = Ordered("main", outer, [0, 1, 2, 3], None, call)
    for steps, is_right in (([0, 1, 2, 3], True), ([0, 1, 0, 2, 3], False)):
        inside = Ordered("body", inner, steps)
        made = budget_certificate([inside, caller], TEXT, 1000, [], packed=False)
        assert (answer(made).answer != REJECTED) == is_right
