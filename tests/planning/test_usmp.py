"""TVM's planners of buffers with lists of conflicts."""

import json
import sys
from ctypes import CDLL, byref, c_uint
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import CONFORMANCE, needs_shared

from lowtide.planning import (
    SearchOptions,
    StopReason,
    TensorUsageRecord,
    hill_climb,
    packing_problem,
    usmp,
)
from lowtide.planning.offsets.usmp import climbed
from lowtide.planning.pools import UNBOUNDED, PoolProblem

ALGORITHMS = ("greedy_by_size", "greedy_by_conflicts", "hill_climb")


def _cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads((CONFORMANCE / "planner_cases.json").read_text())["tvm_usmp"]
    return cases


@needs_shared
def test_conflicts_as_upstream_expects() -> None:
    for case in _cases()["conflict_tests"]:
        options: dict[str, Any] = {"pools": case.get("pool")}
        for algorithm in ALGORITHMS:
            if "expected" in case:
                with pytest.raises(ValueError, match="pool space exceeded"):
                    usmp.plan(case["sizes"], case["conflicts"], algorithm, **options)
                continue
            found = usmp.plan(case["sizes"], case["conflicts"], algorithm, **options)
            expected = case.get("workspace", {}).get(algorithm, found.workspace)
            assert found.workspace == expected, (case["name"], algorithm)
            if algorithm == "greedy_by_size":
                assert found.offsets == case.get("offsets", found.offsets)


@needs_shared
def test_the_hill_climb_reaches_what_is_live() -> None:
    for name, case in _cases()["interval_sets"].items():
        records = [TensorUsageRecord(size, first, last) for first, last, size in case["intervals"]]
        sizes = {str(number): record.size for number, record in enumerate(records)}
        conflicts = usmp.conflicts_of_records(records)
        bound = case["lower_bound"]
        found = usmp.plan(sizes, conflicts, "hill_climb", memory_pressure=bound)
        assert (found.workspace, found.stopped) == (bound, StopReason.DONE), name
        packing = climbed(packing_problem(records), SearchOptions())
        assert (packing.arena_bytes, packing.stopped) == (bound, StopReason.DONE), name


def test_a_hole_is_left_by_stacking_and_filled_by_the_hill_climb() -> None:
    sizes = {"low": 10, "middle": 20, "top": 9, "late": 5}
    conflicts = {"low": ["middle"], "middle": ["low", "top"], "top": ["middle", "late"]}
    conflicts["late"] = ["top", "low"]
    assert usmp.plan(sizes, conflicts).offsets == {"low": 20, "middle": 0, "top": 20, "late": 30}
    found = usmp.plan(sizes, conflicts, "hill_climb", memory_pressure=35)
    assert found.offsets["late"] == 0 or found.offsets["late"] >= 29


def test_what_follows_begins_at_the_alignment_of_what_is_below() -> None:
    sizes, alignment = {"a": 10, "b": 9, "c": 8}, {"a": 16, "b": 4}
    conflicts = {"a": "bc", "b": "ac", "c": "ab"}
    for algorithm in ("greedy_by_size", "hill_climb"):
        found = usmp.plan(sizes, conflicts, algorithm, alignment=alignment)
        assert found.offsets == {"a": 0, "b": 16, "c": 28}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_buffer_goes_to_the_first_pool_that_has_room(algorithm: str) -> None:
    sizes = {"a": 10, "b": 8, "c": 6}
    conflicts = {"a": "bc", "b": "ac", "c": "ab"}
    pools = {"fast": 16, "slow": None}
    found = usmp.plan(sizes, conflicts, algorithm, pools=pools)
    assert found.pools == {"a": "fast", "b": "slow", "c": "fast"}
    assert found.pool_sizes == {"fast": 16, "slow": 8}
    assert found.workspace == 24
    listed = {"c": ["slow", "fast"]}
    found = usmp.plan(sizes, conflicts, algorithm, pools=pools, pool_candidates=listed)
    assert found.pools["c"] == "slow"


def test_a_pool_that_is_full_stays_out() -> None:
    """The last buffer has no room above the first; that above the second would do."""
    sizes = {"a": 30, "b": 10, "c": 5}
    conflicts = {"a": [], "b": [], "c": ["a", "b"]}
    pools = {"small": 32, "large": None}
    assert usmp.plan(sizes, conflicts, pools=pools).pools["c"] == "large"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (({"a": 1}, {"a": ["b"]}), {}, "unknown buffer 'b'"),
        (({"a": 1}, {}, "hill_clim"), {}, "did you mean 'hill_climb'"),
        (({"a": -1}, {}), {}, "not negative"),
        (({"a": 1}, {}), {"alignment": 0}, "alignments above 0"),
        (({"a": 1}, {}), {"pool_candidates": {"a": ["x"]}}, "unknown pool 'x'"),
        (({"a": 9}, {}, "hill_climb"), {"pools": 8}, "larger pools are needed"),
    ],
)
def test_wrong_arguments(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        usmp.plan(*arguments, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_random_numbers_are_those_of_glibc() -> None:
    library, seed, random = CDLL(None), c_uint(0), hill_climb._Random(0)
    assert [random.below(2**31) for _ in range(50)] == [
        library.rand_r(byref(seed)) for _ in range(50)
    ]


@st.composite
def _conflicts(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, list[str]]]:
    names = [f"b{x}" for x in range(draw(st.integers(1, 12)))]
    sizes = {name: draw(st.integers(1, 30)) for name in names}
    lists: dict[str, list[str]] = {name: [] for name in names}
    for place, name in enumerate(names):
        for other in names[:place]:
            if draw(st.booleans()):
                lists[name].append(other)
                lists[other].append(name)
    return sizes, lists


@settings(max_examples=80, deadline=None)
@given(_conflicts(), st.sampled_from([1, 8]), st.sampled_from([None, 60]))
def test_conflicts_keep_apart(
    case: tuple[dict[str, int], dict[str, list[str]]], alignment: int, small: int | None
) -> None:
    sizes, conflicts = case
    pools = {"first": small, "second": None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hill_climb, "ROUNDS", 20)
        plans = [
            usmp.plan(sizes, conflicts, x, pools=pools, alignment=alignment) for x in ALGORITHMS
        ]
    for plan in plans:
        assert plan.pool_sizes["first"] <= (small or plan.pool_sizes["first"])
        for one, others in conflicts.items():
            for other in others:
                a, b = plan.offsets[one], plan.offsets[other]
                apart = a + sizes[one] <= b or b + sizes[other] <= a
                assert apart or plan.pools[one] != plan.pools[other]


def test_native_code_and_python_agree() -> None:
    random = np.random.default_rng(3)
    count = 40
    near = random.random((count, count)) < 0.3
    lists = [np.flatnonzero(row) for row in near]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(x) for x in lists])])
    conflicts, order = np.concatenate(lists), random.permutation(count)
    sizes = random.integers(1, 50, count)
    ones, pools = np.full(count, 4), np.array([200, UNBOUNDED])
    pool_starts, candidates = np.arange(0, 2 * count + 1, 2), np.tile(np.arange(2), count)
    problem = PoolProblem(sizes, starts, conflicts, ones, ones, pool_starts, candidates, pools)
    found = []
    for run in (hill_climb._first_fit, hill_climb._first_fit.python):
        pool, offset, mark = np.full(count, -1), np.zeros(count, np.int64), np.full(count, -1)
        run(problem, hill_climb.Placing(order.copy(), mark, pool, offset), order, 0, count)
        found.append((pool.tolist(), offset.tolist()))
    assert found[0] == found[1]
    counts = []
    for count_before in (hill_climb._count_before, hill_climb._count_before.python):
        first, second = np.zeros((2, count), np.int64)
        count_before(problem, 5, order, first, second)
        counts.append((first.tolist(), second.tolist()))
    assert counts[0] == counts[1]


def test_a_deadline_and_ctrl_c_leave_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PoolProblem(
        np.array([5, 4, 3]),
        np.array([0, 2, 4, 6]),
        np.array([1, 2, 0, 2, 0, 1]),
        np.ones(3, np.int64),
        np.ones(3, np.int64),
        np.arange(4),
        np.zeros(3, np.int64),
        np.array([UNBOUNDED]),
    )
    late = hill_climb.hill_climb(problem, 0, SearchOptions(deadline=-1))
    assert (late.stopped, late.tops(problem).tolist()) == (StopReason.DEADLINE, [12])
    enough = hill_climb.hill_climb(problem, 0, SearchOptions(capacity=12))
    assert enough.stopped is StopReason.DONE

    def interrupt(number: int, bound: int) -> None:
        raise KeyboardInterrupt

    stopped = hill_climb.hill_climb(problem, 0, SearchOptions(progress=interrupt))
    assert (stopped.stopped, stopped.tops(problem).tolist()) == (StopReason.INTERRUPT, [12])
