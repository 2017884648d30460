"""Minimum cuts of small networks in plain Python are those of the library."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.analysis.minimum_cut import library_cut, minimum_cut, small_cut

SOURCE, SINK = 0, 1


def drawn_arcs(seed: int) -> list[tuple[int, int, int]]:
    """Return the arcs of a random network, of which some are parallel and some of capacity 0."""
    random = Random(seed)
    nodes = range(random.randint(2, 12))
    drawn = [(random.choice(nodes), random.choice(nodes)) for _ in range(random.randint(1, 40))]
    arcs = [(tail, head, random.randint(0, 9)) for tail, head in drawn]
    return [(SOURCE, nodes[-1], 5), *arcs, (nodes[0], SINK, 3)]


@pytest.mark.parametrize("seed", range(200))
def test_both_ways_find_the_same_cut(seed: int) -> None:
    arcs = drawn_arcs(seed)
    assert small_cut(arcs, SOURCE, SINK, 10_000) == library_cut(arcs, SOURCE, SINK)


def test_of_several_cuts_the_sides_are_the_smallest_ones() -> None:
    found = minimum_cut([(SOURCE, 2, 4), (2, 3, 4), (3, SINK, 4)], SOURCE, SINK)
    assert found.value == 4
    assert found.source_side == {SOURCE}
    assert found.sink_side == {SINK}


def test_what_takes_too_much_work_is_left_to_the_library() -> None:
    arcs = [(SOURCE, 2, 4), (2, SINK, 3)]
    assert small_cut(arcs, SOURCE, SINK, work=1) is None
    assert minimum_cut(arcs * 2_000, SOURCE, SINK).value == 6_000


def test_source_and_sink_without_arcs_are_on_their_sides() -> None:
    for arcs, source, sink in (([(0, 1, 5)], 0, 2), ([(0, 1, 5)], 2, 1), ([], 0, 1)):
        small = small_cut(arcs, source, sink, 100)
        assert small == library_cut(arcs, source, sink)
        assert source in small.source_side and sink in small.sink_side
