"""The strategy `exact`: hard instances, and large ones."""

import csv

import numpy as np
import pytest
from tests.planning.exact.problems import check, cut_up
from tests.support import SHARED, needs_shared

from lowtide.planning.assign import assign_offsets, place
from lowtide.planning.problem import TensorUsageRecord, max_live, packing_problem
from lowtide.search.effort import Effort, SearchOptions, StopReason

CAPACITY = 1 << 20


def instance(name):
    """An instance of the MiniMalloc set; ends are not included in the file."""
    with (SHARED / "minimalloc" / f"{name}.{CAPACITY}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    records = [(int(row["size"]), int(row["lower"]), int(row["upper"]) - 1) for row in rows]
    return packing_problem([TensorUsageRecord(*record) for record in records])


@needs_shared
@pytest.mark.parametrize("name", "ABCDE")
def test_hard_instances_go_into_the_capacity(name):
    problem = instance(name)
    found = place(problem, "exact", SearchOptions(capacity=CAPACITY))
    check(problem, found.packing)
    assert found.total_size <= CAPACITY
    assert found.stopped is StopReason.DONE


@needs_shared
@pytest.mark.parametrize("name", "ABCE")
def test_hard_instances_are_packed_without_waste(name):
    found = place(instance(name), "exact")
    assert found.optimal
    assert found.total_size == max_live(instance(name))


@needs_shared
@pytest.mark.slow
def test_an_open_instance_gets_closer_to_its_bound():
    """986,112 is the most live at once; other solvers reach 1,040,384."""
    problem = instance("D")
    found = place(problem, "exact")
    check(problem, found.packing)
    assert 986_112 <= found.lower_bound <= found.total_size < 1_040_384


def test_records_alignment_gaps_and_fixed_offsets():
    records = [TensorUsageRecord(*row) for row in [(100, 0, 4), (64, 2, 6), (32, 5, 9), (7, 0, 9)]]
    found = assign_offsets(
        records, "exact", alignment=[64, 64, 32, 1], gaps={3: [(2, 6)]}, fixed={0: 64}
    )
    assert found.offsets[0] == 64
    assert found.total_size == found.lower_bound == 164
    check(found.problem, found.packing)


def test_the_deadline_is_for_all_of_it():
    problem = packing_problem(cut_up(300, 3))
    found = place(problem, "exact", SearchOptions(effort=Effort.PROOF, deadline=0.0))
    check(problem, found.packing)
    assert found.stopped is StopReason.DEADLINE


def test_many_buffers():
    random = np.random.default_rng(0)
    first = random.integers(0, 20_000, 20_000)
    length = random.integers(0, 30, 20_000)
    sizes = random.integers(1, 1_000, 20_000) * 64
    rows = zip(sizes.tolist(), first.tolist(), (first + length).tolist(), strict=True)
    problem = packing_problem([TensorUsageRecord(*row) for row in rows], 64)
    found = place(problem, "exact", SearchOptions(effort=Effort.FAST))
    check(problem, found.packing)
    assert found.total_size <= 1.01 * found.lower_bound
