"""Heap simulation by names: all that XLA's tests expect, orders, fallbacks, wrong events."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning.heap.best_fit import GapPlacer
from lowtide.planning.heap.intervals import Interval
from lowtide.planning.heap.simulate import ALGORITHMS, HeapBuffer, simulate

Events = list[list[Any]]


def _cases(kind: str) -> list[dict[str, Any]]:
    cases: dict[str, Any] = json.loads((CONFORMANCE / "planner_cases.json").read_text())
    found: list[dict[str, Any]] = cases["xla_heap"][kind]
    return found


@needs_shared
@pytest.mark.parametrize("kind", ["no_fragmentation", "global_decreasing", "constrained"])
def test_as_upstream_expects(kind: str) -> None:
    for case in _cases(kind):
        found = simulate(case["events"], kind, **case.get("params", {}))
        expected = {x: case[x] for x in ("heap_size", "offsets", "sizes", "heaps") if x in case}
        assert {x: getattr(found, x) for x in expected} == expected, case.get("name")
        assert found.num_heaps == case.get("num_heaps", found.num_heaps), case.get("name")


@needs_shared
def test_preferred_offset_as_upstream_expects() -> None:
    placer = GapPlacer(1)
    for number, case in enumerate(_cases("chunk_candidate")):
        interval = [Interval(number, case["size"], case["start"], case["end"], number)]
        offset = placer.find(interval, case["preferred"])
        placer.put(interval, offset)
        assert (offset, placer.nbytes) == (case["offset"], case["heap"]), case["buf"]


EVENTS: Events = [
    ["A", "first", 10],
    ["A", "second", 30],
    ["F", "first", 10],
    ["A", "third", 20],
    ["F", "second", 30],
    ["F", "third", 20],
]


def test_ties_are_broken_by_the_order_in_which_buffers_come() -> None:
    events: Events = [["A", x, 8] for x in ("z", "a", "m")]
    events += [["F", x, 8] for x in ("z", "a", "m")]
    assert simulate(events, "xla_spatial").offsets == {"z": 0, "a": 8, "m": 16}


def test_a_custom_order_is_a_key_or_a_list() -> None:
    smallest: dict[str, Any] = {"algorithm": "xla_custom", "order": lambda x: x.size}
    assert simulate(EVENTS, **smallest).offsets == {"first": 0, "third": 0, "second": 20}
    listed = simulate(EVENTS, "kCustom", order=["second", "third", "first"])
    assert listed.offsets == {"second": 0, "third": 30, "first": 30}


def test_the_key_of_an_order_sees_the_whole_place() -> None:
    events = [*EVENTS[:-1], ["S", "fourth", "third", 25], *EVENTS[-1:], ["F", "fourth", 25]]
    seen: list[HeapBuffer] = []
    simulate(events, "xla_custom", order=lambda x: len(seen) if seen.append(x) else 0)
    assert seen[-1] == HeapBuffer("third", 20, 3, 6, 3, 7, 25)


def test_phase_windows() -> None:
    events: Events = [["A", "a", 1], ["A", "b", 9], ["F", "b", 9], ["A", "c", 5], ["F", "c", 5]]
    events += [["F", "a", 1]]
    assert simulate(events, "xla_phase_window").offsets == {"a": 0, "b": 1, "c": 1}
    assert simulate(events, "xla_phase_window_end").offsets == {"b": 0, "c": 0, "a": 9}


def test_the_area_counts_steps_once_and_not_the_gaps() -> None:
    events: Events = [["A", "a", 6], ["F", "a", 6], ["A", "b", 4], *[["A", "x", 1], ["F", "x", 1]]]
    events += [["F", "b", 4], ["S", "c", "a", 6], ["F", "c", 6]]
    found = simulate(events, "kSpatialTemporal")
    assert found.offsets == {"a": 0, "c": 0, "b": 0, "x": 4}


def test_a_fallback_takes_over_above_the_limit() -> None:
    tight = simulate(EVENTS, "xla_spatial", limit=49, fallback="xla_fast_merge")
    assert tight.offsets == simulate(EVENTS, "xla_fast_merge").offsets
    wide = simulate(EVENTS, "xla_spatial", limit=50, fallback="xla_fast_merge")
    assert wide.offsets == simulate(EVENTS, "xla_spatial").offsets
    assert tight.offsets != wide.offsets


def test_fragmentation_is_what_exceeds_the_bytes_that_live() -> None:
    found = simulate(EVENTS, "xla_temporal", alignment=64)
    assert (found.heap_size, found.most_live, found.fragmentation) == (84, 50, 34)
    assert simulate(EVENTS, "no_fragmentation").heap_size == 50


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_every_algorithm_places_every_buffer(sizes: list[int], random: Any) -> None:
    events: Events = [["A", f"b{x}", n] for x, n in enumerate(sizes)]
    for buffer, nbytes in enumerate(sizes):
        at = random.randrange(events.index(["A", f"b{buffer}", nbytes]) + 1, len(events) + 1)
        events.insert(at, ["F", f"b{buffer}", nbytes])
    for name in set(ALGORITHMS) - {"xla_custom", "no_fragmentation"}:
        found = simulate(events, name, alignment=4)
        assert sorted(found.offsets) == sorted(f"b{x}" for x in range(len(sizes)))
        assert found.heap_size >= simulate(events, "no_fragmentation").heap_size


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (["A", "first", 10], "first is allocated twice"),
        (["F", "other", 1], "other is freed but not allocated"),
        (["F", "first", 10], "first is freed but not allocated"),
        (["F", "second", 31], "second has 30 bytes"),
        (["S", "x", "y", 1], "x shares with y, which is not there"),
        (["A", "x"], "expected 3 fields: A, buffer, bytes"),
        (["S", "x", 1], "expected 4 fields"),
        (["A", "x", -1], "expected a number of bytes, not -1"),
        (["A", "x", "1"], "expected a number of bytes, not '1'"),
        (["B", "x", 1], "expected A, F or S first"),
        ([], "expected A, F or S first"),
    ],
)
def test_the_error_for_a_wrong_event_names_it(event: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^event 4, .*: {message}"):
        simulate([*EVENTS[:4], event])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "xla_spacial"}, "did you mean 'xla_spatial'"),
        ({"algorithm": "lazy_best_fit", "limit": 9}, "lazy_best_fit knows no limit"),
        ({"algorithm": "xla_custom"}, "an order goes with xla_custom"),
        ({"order": ["first"]}, "an order goes with xla_custom"),
        ({"algorithm": "xla_custom", "order": ["first"]}, r"the order lacks the buffers \[1, 2\]"),
        ({"algorithm": "xla_custom", "order": ["x"]}, "the order has 'x', which is no buffer"),
        ({"alignment": 0}, "alignment 0"),
        ({"limit": -2}, "limit -2"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(EVENTS, **options)
