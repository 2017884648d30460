"""Searches whose answers are known, held against searches that know nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.scheduling.small_graphs import small_graph

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.scheduling import exact, known_orders
from lowtide.scheduling.depth_first import depth_first_order
from lowtide.scheduling.exact import LowerOrder, lower_order
from lowtide.scheduling.proof import plain_bound


def told(found: LowerOrder | None) -> list[int] | str:
    """Return an answer as what can be compared."""
    if found is None:
        return "gave up"
    return "none" if found.order is None else [int(x) for x in found.order]


def asked(rnd: random.Random, graph: MemoryGraph) -> list[tuple[int, int]]:
    """Return peaks and amounts of work to ask for, most of them near the ends of the searches."""
    count, high = graph.node_count, peak_bytes(graph, depth_first_order(graph))
    bound = plain_bound(graph)
    peaks = [bound, (bound + high) // 2, high, high + 1]
    works = [count * x for x in (0, 1, 3, 8, 20)] + [exact.MOST_WORK]
    return [(rnd.choice(peaks), rnd.choice(works)) for _ in range(24)]


def test_what_is_known_is_what_a_search_would_tell() -> None:
    rnd, kinds = random.Random(5), set()
    for _ in range(60):
        graph = small_graph(rnd, rnd.randint(3, 11), 12).memory_graph()
        bound, questions = plain_bound(graph), asked(rnd, graph)
        fresh = []
        for peak, work in questions:
            known_orders._KNOWN.clear()
            fresh.append(told(lower_order(graph, peak, bound, work)))
        known_orders._KNOWN.clear()
        kept = [told(lower_order(graph, peak, bound, work)) for peak, work in questions]
        assert kept == fresh
        kinds.update([x if isinstance(x, str) else "order" for x in fresh])
    assert kinds == {"gave up", "none", "order"}


def test_a_graph_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    run = exact._Search.run

    def counted(search: exact._Search, *given: object) -> LowerOrder | None:
        searched.append(search.peak)
        return run(search, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(exact._Search, "run", counted)
    known_orders._KNOWN.clear()
    graphs = [small_graph(random.Random(12), 12, 12).memory_graph() for _ in range(2)]
    found = [lower_order(x, 1 << 40, 0) for x in graphs]
    assert found[0] is not None and found[1] is not None and len(searched) == 1
    assert found[0].order is not None and np.array_equal(found[0].order, found[1].order)  # type: ignore[arg-type]
    least = peak_bytes(graphs[0], found[0].order)
    assert told(lower_order(graphs[1], least, 0)) == "none"
    assert len(searched) == 1


def test_only_the_latest_are_kept() -> None:
    rnd = random.Random(3)
    for _ in range(2 * known_orders._MOST):
        lower_order(small_graph(rnd, 5, 7).memory_graph(), 1 << 40, 0)
    assert len(known_orders._KNOWN) <= known_orders._MOST
