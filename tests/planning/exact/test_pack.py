"""The exact search against brute force, what it proves, and what stops it."""

import _thread
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.exact.problems import (
    by_size,
    check,
    cut_up,
    first_fit,
    lives,
    optimum,
    problems,
)

from lowtide.certificate.checker import check as check_certificate
from lowtide.planning.certificates import certificate_text, offsets_certificate
from lowtide.planning.exact import pack
from lowtide.planning.exact.pack import exact
from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import (
    ARENA,
    FREE,
    PackingProblem,
    TensorUsageRecord,
    max_live,
    packing_problem,
)
from lowtide.search.effort import Effort, SearchOptions, StopReason


def agrees(problem):
    packing = exact(problem, by_size(problem), SearchOptions())
    check(problem, packing)
    assert packing.stopped is StopReason.DONE
    assert packing.arena_bytes == packing.bound == optimum(problem)
    return packing


@settings(max_examples=300, deadline=None)
@given(problems())
def test_as_good_as_brute_force(problem):
    agrees(problem)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(problems(most=7))
def test_as_good_as_brute_force_many(problem):
    agrees(problem)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_compiled_searches_as_good_as_brute_force(problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "_TINY", 0)
        agrees(problem)


@settings(max_examples=150, deadline=None)
@given(problems(alignments=(1,)))
def test_the_checker_calls_it_optimal(problem):
    packing = agrees(problem)
    text = certificate_text(offsets_certificate(problem, packing))
    assert check_certificate(text.encode()).answer == "valid and optimal"


def in_regions(problem, capacities, offset, region):
    return PackingProblem(
        problem.nbytes,
        problem.alignment,
        problem.item,
        problem.first,
        problem.last,
        np.array(offset, np.int64),
        np.array(region, np.int64),
        np.array(capacities, np.int64),
    )


@st.composite
def region_problems(draw):
    """Up to four buffers and two regions; perhaps one buffer has to lie in a region."""
    problem = draw(problems(most=4, fixed=False, gaps=False))
    capacities = draw(st.lists(st.integers(1, 20), min_size=1, max_size=2))
    offset, region = [FREE] * len(problem), [ARENA] * len(problem)
    if problem.nbytes[0] <= capacities[0] and draw(st.booleans()):
        room = (capacities[0] - int(problem.nbytes[0])) // int(problem.alignment[0])
        offset[0], region[0] = draw(st.integers(0, room)) * int(problem.alignment[0]), 0
    return in_regions(problem, capacities, offset, region)


def only(problem, chosen):
    """The problem of some buffers, by themselves in one arena."""
    rows = lives(problem)
    records = [TensorUsageRecord(int(problem.nbytes[i]), *rows[i][0]) for i in chosen]
    fixed = {k: int(problem.fixed_offset[i]) for k, i in enumerate(chosen)}
    fixed = {k: offset for k, offset in fixed.items() if offset != FREE}
    return packing_problem(records, problem.alignment[chosen].tolist(), fixed=fixed)


def optimum_with_regions(problem):
    """The smallest arena over all ways to share the buffers out."""
    count = len(problem.region_bytes)
    best = []
    for where in product(range(-1, count), repeat=len(problem)):
        held = problem.fixed_offset != FREE
        if (np.array(where)[held] != problem.region_of[held]).any():
            continue
        heights = []
        for place in range(-1, count):
            chosen = [i for i, region in enumerate(where) if region == place]
            heights.append(optimum(only(problem, chosen)) if chosen else 0)
        if all(x <= y for x, y in zip(heights[1:], problem.region_bytes, strict=True)):
            best.append(heights[0])
    return min(best)


def all_in_the_arena(problem):
    """Free buffers end to end in the arena."""
    offset, top = problem.fixed_offset.copy(), 0
    for i in np.flatnonzero(offset == FREE).tolist():
        alignment = int(problem.alignment[i])
        offset[i] = -(-top // alignment) * alignment
        top = int(offset[i] + problem.nbytes[i])
    return Packing(problem.region_of, offset, top)


@settings(max_examples=60, deadline=None)
@given(region_problems())
def test_regions_as_good_as_brute_force(problem):
    packing = exact(problem, all_in_the_arena(problem), SearchOptions())
    assert packing.arena_bytes == packing.bound == optimum_with_regions(problem)
    for place in range(-1, len(problem.region_bytes)):
        chosen = np.flatnonzero(packing.region == place).tolist()
        offsets = packing.offset[chosen]
        part = arena_packing(only(problem, chosen), offsets)
        check(only(problem, chosen), part)
        assert part.arena_bytes <= (*problem.region_bytes.tolist(), packing.arena_bytes)[place]


def test_a_published_example():
    """Figure of the MiniMalloc paper: five buffers in 12 bytes; ends are not included there."""
    rows = [(0, 3, 4), (3, 9, 4), (0, 9, 4), (9, 21, 4), (0, 21, 4)]
    problem = packing_problem([TensorUsageRecord(size, a, b - 1) for a, b, size in rows])
    packing = exact(problem, arena_packing(problem, [0, 4, 8, 12, 16]), SearchOptions())
    check(problem, packing)
    assert packing.arena_bytes == packing.bound == 12


@pytest.mark.parametrize("seed", range(4))
def test_rectangles_cut_from_a_rectangle_go_back_in(seed):
    problem = packing_problem(cut_up(120, seed))
    packing = exact(problem, by_size(problem), SearchOptions())
    check(problem, packing)
    assert packing.arena_bytes == packing.bound == 1 << 20


def hard(count=90, seed=0):
    """Many buffers at once, with sizes that share no divisor: not settled soon."""
    random = np.random.default_rng(seed)
    first = random.integers(0, 30, count)
    length = random.integers(1, 12, count)
    sizes = random.integers(1, 10_000, count)
    rows = zip(sizes.tolist(), first.tolist(), (first + length).tolist(), strict=True)
    return packing_problem([TensorUsageRecord(*row) for row in rows])


def test_equal_effort_gives_equal_plans():
    problem = hard()
    options = SearchOptions(effort=Effort.FAST)
    a, b = (exact(problem, by_size(problem), options) for _ in range(2))
    assert (a.offset == b.offset).all()
    assert (a.bound, a.stopped) == (b.bound, b.stopped)


def test_progress_only_improves():
    said = []
    problem = hard(seed=1)
    options = SearchOptions(effort=Effort.FAST, progress=lambda *x: said.append(x))
    packing = exact(problem, by_size(problem), options)
    heights, bounds = zip(*said, strict=True)
    assert list(heights) == sorted(heights, reverse=True)
    assert list(bounds) == sorted(bounds)
    assert said[-1] == (packing.arena_bytes, packing.bound)
    assert len(set(said)) == len(said) > 1


def test_a_deadline_ends_it_with_a_valid_plan():
    problem = hard(seed=2)
    start = by_size(problem)
    packing = exact(problem, start, SearchOptions(effort=Effort.PROOF, deadline=0.05))
    check(problem, packing)
    assert packing.stopped in (StopReason.DEADLINE, StopReason.DONE)
    assert max_live(problem) <= packing.bound <= packing.arena_bytes <= start.arena_bytes
    late = exact(problem, start, SearchOptions(deadline=0.0))
    assert late.stopped is StopReason.DEADLINE
    assert late.arena_bytes == start.arena_bytes


def test_an_interrupt_ends_it_with_the_best_so_far():
    problem = hard(seed=3)
    start = by_size(problem)

    def interrupt(height, bound):
        if height < start.arena_bytes:
            _thread.interrupt_main()

    packing = exact(problem, start, SearchOptions(effort=Effort.PROOF, progress=interrupt))
    check(problem, packing)
    assert packing.stopped is StopReason.INTERRUPT
    assert packing.arena_bytes < start.arena_bytes


def test_a_capacity_is_enough():
    problem = hard(seed=4)
    start = by_size(problem)
    capacity = (start.arena_bytes + max_live(problem)) // 2
    packing = exact(problem, start, SearchOptions(capacity=capacity))
    check(problem, packing)
    assert packing.arena_bytes <= capacity
    assert packing.stopped is StopReason.DONE


def test_a_capacity_is_proved_too_small():
    """Three at a time, and no two pairs share a border: 3 units live, 4 needed."""
    records = [
        TensorUsageRecord(*row)
        for row in [(2, 0, 1), (1, 0, 0), (1, 1, 2), (2, 2, 3), (1, 3, 3), (1, 0, 3)]
    ]
    problem = packing_problem(records)
    best = optimum(problem)
    packing = exact(problem, by_size(problem), SearchOptions(capacity=best - 1))
    assert packing.bound > best - 1
    assert packing.stopped is StopReason.DONE


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(-3, 3))
def test_no_capacity_is_called_too_small_wrongly(problem, more):
    best = optimum(problem)
    capacity = max(0, best + more)
    packing = exact(problem, by_size(problem), SearchOptions(capacity=capacity))
    check(problem, packing)
    assert packing.bound <= best
    assert (packing.arena_bytes <= capacity) == (best <= capacity)
    assert (packing.bound > capacity) == (best > capacity)


def test_nothing_and_empty_buffers():
    nothing = packing_problem([])
    assert exact(nothing, arena_packing(nothing, []), SearchOptions()).arena_bytes == 0
    empty = packing_problem([TensorUsageRecord(0, 0, 3), TensorUsageRecord(0, 1, 2)], 8)
    packing = exact(empty, arena_packing(empty, [0, 0]), SearchOptions())
    assert (packing.arena_bytes, packing.bound) == (0, 0)


def test_all_orders_of_the_records_do():
    records = [TensorUsageRecord(*row) for row in [(3, 0, 1), (2, 1, 2), (3, 2, 3), (1, 0, 3)]]
    for order in permutations(range(4)):
        problem = packing_problem([records[i] for i in order])
        start = arena_packing(problem, first_fit(problem, order))
        assert exact(problem, start, SearchOptions()).arena_bytes == 6
