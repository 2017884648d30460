import random
import signal
import threading

import numpy as np
import pytest
from benchmarks.networks import NETWORKS
from hypothesis import given, settings
from tests.support import HANG_SECONDS

from lowtide.planning import Effort, SearchOptions, StopReason, TensorUsageRecord, assign_objects
from lowtide.planning.objects import exact
from lowtide.planning.objects.exact import run_stoppable
from lowtide.planning.objects.prices import DENOMINATORS, exact_prices, heaviest_sets, slack
from lowtide.planning.objects.size_class_search import SearchLimits, SizeClassSearch
from lowtide.planning.objects.size_classes import objects_of, size_classes
from lowtide.planning.plans import DualBound

from .instances import check_plan, dearest_alone, least_total, proved, random_tensors, tensors

MIB = 2**20


def check_best(records, expected):
    plan = assign_objects(records, "exact")
    check_plan(records, plan)
    assert plan.total_size == plan.lower_bound == expected
    assert proved(records, plan.evidence) <= expected


def small(seed):
    draw = random.Random(seed)
    return random_tensors(seed, draw.randrange(1, 9), draw.choice((4, 8)), 2, draw.choice((6, 999)))


def test_equals_brute_force():
    for seed in range(300):
        records = small(seed)
        check_best(records, least_total(records))


@pytest.mark.slow
def test_equals_brute_force_2000():
    for seed in range(300, 2300):
        records = small(seed)
        check_best(records, least_total(records))


@given(tensors(most=20, largest=8))
@settings(max_examples=40, deadline=None)
def test_not_above_any_strategy(records):
    plan = assign_objects(records, "exact")
    check_plan(records, plan)
    assert plan.optimal
    for name in ("greedy_in_order", "greedy_best", "mincostflow"):
        assert plan.total_size <= assign_objects(records, name).total_size


@pytest.mark.parametrize(
    ("network", "tensors", "naive", "bound", "by_size", "best"),
    [
        ("MobileNet v1", 30, 19.248, 4.594, 4.594, 4.594),
        ("MobileNet v2", 65, 26.313, 6.604, 6.699, 6.699),
        ("Inception v3", 125, 54.749, 9.038, 10.437, 9.891),
    ],
)
def test_networks(network, tensors, naive, bound, by_size, best):
    records = NETWORKS[network]()
    assert len(records) == tensors
    greedy = assign_objects(records, "greedy_by_size")
    plan = assign_objects(records, "exact")
    check_plan(records, plan)
    found = [assign_objects(records, "naive").total_size, greedy.lower_bound]
    found += [greedy.total_size, plan.total_size]
    assert [round(x / MIB, 3) for x in found] == [naive, bound, by_size, best]
    assert proved(records, plan.evidence) == plan.total_size


def test_prices_certify_what_positional_maximums_do_not():
    plan = assign_objects(NETWORKS["MobileNet v2"](), "exact")
    assert isinstance(plan.evidence, DualBound)
    assert plan.optimal


def test_equal_input_gives_an_equal_plan():
    records = random_tensors(5, 60, 60, 5)
    assert assign_objects(records, "exact") == assign_objects(records, "exact")


def test_exact_prices_are_valid_however_wrong_the_floats_are():
    records = random_tensors(1, 40, 20, 4)
    problem = size_classes(records)
    draw = np.random.default_rng(1)
    for spread in (0.01, 1, 100):
        about = problem.size * draw.random(len(problem)) * spread
        prices = exact_prices(problem, about)
        assert prices.denominator in DENOMINATORS
        assert (prices.price >= 0).all()
        assert prices.price.any()
        room = problem.sizes * prices.denominator
        assert (heaviest_sets(problem, prices.price) <= room).all()
        in_order = [records[number] for number in problem.number]
        for size in problem.sizes.tolist():
            nbytes = size * problem.unit
            dearest = dearest_alone(in_order, prices.price.tolist(), nbytes)
            assert dearest <= size * prices.denominator
            least = size * prices.denominator - dearest
            may = problem.size <= size
            assert slack(problem, prices, size)[may].min() == least


def test_a_target_below_the_optimum_is_infeasible():
    records = random_tensors(2, 30, 20, 4)
    problem = size_classes(records)
    best = assign_objects(records, "exact").total_size // problem.unit
    zero = exact_prices(problem, np.zeros(len(problem)))
    limits = SearchLimits(work=10, literals=10**6)
    found = SizeClassSearch(problem, zero, best - 1, limits).solve()
    assert (found.chosen, found.bound) == (None, best)
    found = SizeClassSearch(problem, zero, best, limits).solve()
    assert problem.total(found.chosen) == found.bound == best


def test_objects_of_a_size_are_no_more_than_live_at_once():
    records = [
        TensorUsageRecord(4, first, last) for first, last in ((0, 3), (1, 1), (2, 5), (4, 6))
    ]
    assert objects_of(records, [4] * 4) == [0, 1, 1, 0]
    assert objects_of(records, [4, 5, 4, 4]) == [0, 1, 2, 0]


def test_a_capacity_ends_the_search():
    records = NETWORKS["Inception v3"]()
    greedy = assign_objects(records, "greedy_best").total_size
    plan = assign_objects(records, "exact", search=SearchOptions(capacity=greedy))
    assert plan.total_size == greedy
    assert not plan.optimal
    assert plan.stopped is StopReason.DONE


def test_a_deadline_leaves_a_plan_and_a_bound():
    records = NETWORKS["Inception v3"]()
    plan = assign_objects(records, "exact", search=SearchOptions(deadline=0))
    check_plan(records, plan)
    assert plan.stopped is StopReason.DEADLINE
    assert proved(records, plan.evidence) == plan.lower_bound < plan.total_size


def test_progress_is_told_and_goes_one_way():
    told = []
    search = SearchOptions(Effort.FAST, progress=lambda best, bound: told.append((best, bound)))
    plan = assign_objects(NETWORKS["Inception v3"](), "exact", search=search)
    assert told[-1] == (plan.total_size, plan.lower_bound)
    assert [best for best, _ in told] == sorted([best for best, _ in told], reverse=True)
    assert [bound for _, bound in told] == sorted([bound for _, bound in told])


def test_an_interrupt_leaves_the_best_so_far(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(exact, "run_stoppable", interrupted)
    plan = assign_objects(NETWORKS["Inception v3"](), "exact")
    assert plan.stopped is StopReason.INTERRUPT
    assert plan.total_size == assign_objects(NETWORKS["Inception v3"](), "greedy_best").total_size


def test_ctrl_c_and_deadlines_stop_a_solver():
    stopped = threading.Event()
    assert run_stoppable(lambda: stopped.wait(HANG_SECONDS), stopped.set, lambda: True)
    stopped = threading.Event()
    main = threading.main_thread().ident
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_stoppable(lambda: stopped.wait(HANG_SECONDS), stopped.set, lambda: False)
    assert stopped.is_set()
    timer.join()
