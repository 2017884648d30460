"""The order of XLA's latency hiding scheduler, on graphs small enough to know it."""

from benchmarks.latency_hiding import AsyncGraph, latency_hiding_order

# 0 starts, 1 is its second half, 2 and 3 compute beside it, 4 reads all.
BESIDE = AsyncGraph(
    seconds=(0.0, 0.0, 3.0, 3.0, 1.0),
    latency=(5.0, 0.0, 0.0, 0.0, 0.0),
    start_of=(-1, 0, -1, -1, -1),
    before=((), (0,), (), (), (1, 2, 3)),
    freed=(0, 0, 0, 0, 0),
)


def test_what_computes_stands_between_a_start_and_its_second_half() -> None:
    order = latency_hiding_order(BESIDE)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order[0] == 0
    assert order[-2:] == [1, 4]


def test_at_most_one_transfer_is_open_at_once() -> None:
    graph = AsyncGraph(
        seconds=(0.0, 0.0, 0.0, 0.0, 1.0),
        latency=(5.0, 5.0, 0.0, 0.0, 0.0),
        start_of=(-1, -1, 0, 1, -1),
        before=((), (), (0,), (1,), (2, 3)),
        freed=(0, 0, 0, 0, 0),
    )
    order = latency_hiding_order(graph)
    open_count = most = 0
    for node in order:
        open_count += (graph.latency[node] > 0) - (graph.start_of[node] >= 0)
        most = max(most, open_count)
    assert most == 1
