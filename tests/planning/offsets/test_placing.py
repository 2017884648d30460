"""Strategies that place one buffer after another: expected numbers, and validity of all plans."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import CONFORMANCE, needs_shared

from lowtide.checking.packing import PackingRow, check_packing, height
from lowtide.planning import (
    Effort,
    PackingProblem,
    SearchOptions,
    TensorUsageRecord,
    hill_climb,
    packing_problem,
)
from lowtide.planning.offsets.objects_in_sequence import objects_to_offsets
from lowtide.planning.problem import FREE, max_live
from lowtide.planning.registry import OffsetStrategy

FILES = ("objects_in_sequence", "greedy_by_size", "skyline", "tflite_arena", "xla", "usmp")


def _strategies() -> dict[str, OffsetStrategy]:
    modules = [import_module(f"lowtide.planning.offsets.{file}") for file in FILES]
    return {strategy.name: strategy for module in modules for strategy in module.STRATEGIES}


STRATEGIES = _strategies()


def _cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads((CONFORMANCE / "planner_cases.json").read_text())["tflite"]
    return cases


def _place(name: str, problem: PackingProblem) -> tuple[list[int], int]:
    packing = STRATEGIES[name].place(problem, SearchOptions())
    return packing.offset.tolist(), packing.arena_bytes


def _records(rows: list[list[int]]) -> list[TensorUsageRecord]:
    return [TensorUsageRecord(*row) for row in rows]


@needs_shared
def test_greedy_by_size_as_the_original_has_it() -> None:
    cases = _cases()
    wanted = [
        (x["records"], int(name.partition("align")[2] or 1), expected)
        for x in cases["sets"].values()
        for name, expected in x["offsets"].items()
    ]
    wanted += [(x["records"], x["align"], x["offsets_GREEDY_BY_SIZE"]) for x in cases["golden_cpp"]]
    for records, alignment, expected in wanted:
        problem = packing_problem(_records(records), alignment)
        found = _place("greedy_by_size", problem)
        assert found == (expected["offsets"], expected["total_size"]), records


@needs_shared
def test_objects_to_offsets_as_the_original_has_it() -> None:
    for case in _cases()["objects_to_offsets"]:
        offsets, total = objects_to_offsets(case["object_ids"], case["object_sizes"])
        assert (list(offsets), total) == (case["offsets"], case["total_size"])


@needs_shared
def test_objects_in_sequence_adds_up_the_objects() -> None:
    names = {"NAIVE": "naive", "EQUALITY": "equality", "GREEDY_BY_BREADTH": "greedy_by_breadth"}
    names |= {"GREEDY_BY_SIZE": "greedy_by_size", "MINCOSTFLOW": "mincostflow"}
    for case in _cases()["sets"].values():
        problem = packing_problem(_records(case["records"]))
        for original, name in names.items():
            expected = case["expected"][original]
            found = _place(f"objects_in_sequence{{{name}}}", problem)
            assert found[1] == sum(expected["object_sizes"]), name
            offsets, _ = objects_to_offsets(expected["object_ids"], expected["object_sizes"])
            assert found[0] == list(offsets)


def test_objects_begin_at_multiples_of_the_alignments_of_all_in_them() -> None:
    assert objects_to_offsets([0, 1, 1, 2], [10, 20, 5], [1, 4, 6, 1]) == ((0, 12, 12, 32), 37)
    with pytest.raises(ValueError, match="tensor 1 lies in object 2 of 2"):
        objects_to_offsets([0, 2], [1, 1])
    with pytest.raises(ValueError, match=r"object 0 has the extents \(1, 2\)"):
        objects_to_offsets([0], [(1, 2)])


GAPS = [(8, 0, 9), (4, 0, 4), (8, 0, 9), (2, 0, 4), (8, 0, 9), (2, 5, 9)]
"""From step 5 on, gaps of 4 and of 2 bytes between three of 8 where two are over."""


def test_first_fit_takes_the_lowest_gap_and_greedy_by_size_the_smallest() -> None:
    fixed = {0: 0, 1: 8, 2: 12, 3: 20, 4: 22}
    problem = packing_problem(_records([list(x) for x in GAPS]), fixed=fixed)
    assert _place("first_fit", problem)[0][-1] == 8
    assert _place("greedy_by_size", problem)[0][-1] == 20


def test_skyline_fills_no_holes_and_takes_what_can_lie_lowest_first() -> None:
    records = _records([[10, 0, 9], [4, 0, 2], [4, 3, 9], [5, 0, 1], [2, 2, 2]])
    assert _place("skyline", packing_problem(records)) == ([0, 10, 10, 14, 14], 19)


def test_xla_by_size_then_by_time() -> None:
    records = _records([[10, 0, 9], [30, 0, 1], [20, 1, 2]])
    assert _place("xla_spatial", packing_problem(records))[0] == [50, 0, 30]
    assert _place("xla_temporal", packing_problem(records))[0] == [0, 10, 40]
    assert _place("xla_choose_best", packing_problem(records))[0] == [50, 0, 30]


def test_usmp_takes_the_last_of_equal_buffers_first() -> None:
    problem = packing_problem(_records([[10, 0, 1], [10, 0, 1], [10, 1, 2]]))
    assert _place("usmp_by_size", problem)[0] == [20, 10, 0]


@pytest.fixture(scope="module", autouse=True)
def _short_climbs() -> Iterator[None]:
    """The number of rounds changes nothing about validity."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hill_climb, "ROUNDS", 25)
        patch.setattr(hill_climb, "CLIMBS", dict.fromkeys(Effort, 2))
        yield


Row = tuple[int, int, int]

SIZES = st.integers(0, 20) | st.sampled_from([0, 64, 100, 4096])
ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(SIZES, st.integers(-5, 30), st.integers(0, 12)), max_size=25
)
ALIGNMENTS = st.lists(st.sampled_from([1, 1, 2, 3, 16, 64]), min_size=25, max_size=25)


def _problem(rows: list[Row], alignments: list[int], apart: bool = False) -> PackingProblem:
    """Buffers with size, first step and duration; `apart` adds gaps and a fixed offset."""
    records = [TensorUsageRecord(size, first, first + time) for size, first, time in rows]
    gaps, fixed = {}, {}
    if apart and rows:
        fixed = {0: 192}
        long = [x for x, row in enumerate(rows) if row[2] > 3]
        gaps = {x: [(records[x].first_task + 2, records[x].last_task - 1)] for x in long[::2]}
    return packing_problem(records, alignments[: len(rows)], gaps=gaps, fixed=fixed)


def _check(name: str, problem: PackingProblem) -> None:
    packing = STRATEGIES[name].place(problem, SearchOptions())
    lines = zip(problem.item.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    rows = [
        PackingRow(str(item), first, last + 1, int(problem.nbytes[item]))
        for item, first, last in lines
    ]
    offsets = packing.offset[problem.item].tolist()
    assert check_packing(rows, offsets) == ()
    assert packing.arena_bytes == height(rows, offsets)
    assert packing.arena_bytes >= max_live(problem)
    assert not (packing.offset % problem.alignment).any()
    fixed = problem.fixed_offset >= 0
    assert (packing.offset[fixed] == problem.fixed_offset[fixed]).all()


QUICK = [name for name in STRATEGIES if "exact" not in name]


@settings(max_examples=200, deadline=None)
@given(ROWS, ALIGNMENTS)
def test_plans_are_valid(rows: list[Row], alignments: list[int]) -> None:
    problem = _problem(rows, alignments)
    for name in QUICK:
        _check(name, problem)


@settings(max_examples=100, deadline=None)
@given(ROWS, ALIGNMENTS)
def test_plans_with_gaps_and_fixed_offsets_are_valid(
    rows: list[Row], alignments: list[int]
) -> None:
    problem = _problem(rows, alignments, apart=True)
    fixed = ["fixed"] if problem.has_fixed else []
    able = [x for x, strategy in STRATEGIES.items() if {"gaps", *fixed} <= strategy.takes]
    assert {"greedy_by_size", "first_fit"} <= set(able)
    for name in able:
        _check(name, problem)


@settings(max_examples=100, deadline=None)
@given(ROWS, ALIGNMENTS)
def test_xla_plans_with_gaps_are_valid(rows: list[Row], alignments: list[int]) -> None:
    problem = replace(_problem(rows, alignments, apart=True), fixed_offset=np.full(len(rows), FREE))
    for name in ("xla_spatial", "xla_temporal"):
        _check(name, problem)


@settings(max_examples=20, deadline=None)
@given(ROWS, ALIGNMENTS)
def test_plans_of_exact_objects_are_valid(rows: list[Row], alignments: list[int]) -> None:
    for name in set(STRATEGIES) - set(QUICK):
        _check(name, _problem(rows, alignments))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=5000, deadline=None, database=None)
@given(rows=ROWS, alignments=ALIGNMENTS)
def test_plans_are_valid_often(name: str, rows: list[Row], alignments: list[int]) -> None:
    _check(name, _problem(rows, alignments))


@pytest.mark.parametrize("name", [x for x in STRATEGIES if not x.startswith("objects")])
def test_two_thousand_buffers(name: str) -> None:
    random = np.random.default_rng(7)
    first = np.sort(random.integers(0, 4000, 2000))
    last = first + random.integers(0, 200, 2000)
    columns = random.integers(1, 10**6, 2000).tolist(), first.tolist(), last.tolist()
    _check(name, packing_problem(_records([list(x) for x in zip(*columns, strict=True)]), 64))
