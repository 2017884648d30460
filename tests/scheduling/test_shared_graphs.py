"""Orders of the shared memory graphs, held against the best results known for them."""

import csv

import numpy as np
import pytest
from tests.support import SHARED, needs_shared, read_text

from lowtide.analysis.memory_profile import peak_bytes
from lowtide.frontend.graph_json import read_graph_json
from lowtide.scheduling.search import search_order

GRAPHS = SHARED / "benchmarks" / "memory_graphs"
FEW_NODES = 1000


def known_results() -> dict[str, dict[str, str]]:
    path = GRAPHS / "results.csv"
    if not path.exists():
        return {}
    with path.open() as file:
        return {row["graph"]: row for row in csv.DictReader(file) if row["kind"] == "order"}


KNOWN = known_results()


def is_large(name: str) -> bool:
    return int(KNOWN[name]["nodes"]) > FEW_NODES


@needs_shared
@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] if is_large(x) else []) for x in sorted(KNOWN)],
)
def test_no_result_is_worse_than_the_known_one(name: str) -> None:
    graph = read_graph_json(read_text(GRAPHS / f"{name}.json.xz")).graph
    found = search_order(graph)
    assert sorted(found.order.tolist()) == list(range(graph.node_count))
    assert peak_bytes(graph, found.order) == found.peak_bytes
    assert found.bound_bytes <= found.peak_bytes <= int(KNOWN[name]["best_peak"])
    assert found.bound_bytes >= int(KNOWN[name]["bound"])
    for other in found.others:
        assert peak_bytes(graph, other) == found.peak_bytes
        assert not np.array_equal(other, found.order)
