"""Problems at their borders: gaps that reach an end, and several regions."""

from dataclasses import replace

import numpy as np
import pytest

from lowtide.planning.problem import TensorUsageRecord, max_live, packing_problem

RECORD = TensorUsageRecord(8, 2, 6)


@pytest.mark.parametrize("gap", [(2, 3), (3, 6), (6, 6), (1, 3), (4, 7), (5, 4)])
def test_a_gap_lies_inside_of_its_tensor(gap) -> None:
    """Behind a gap the tensor is live again, as it was before."""
    with pytest.raises(ValueError, match="the gap from"):
        packing_problem([RECORD], gaps={0: [gap]})


def test_what_is_live_around_a_gap() -> None:
    problem = packing_problem([RECORD], gaps={0: [(3, 5)]})
    rows = zip(problem.first.tolist(), problem.last.tolist(), strict=True)
    assert list(rows) == [(2, 2), (6, 6)]


def test_all_regions_hold_what_the_arena_need_not() -> None:
    problem = packing_problem([TensorUsageRecord(10, 0, 1)] * 5)
    for sizes, least in (([], 50), ([20], 30), ([20, 10], 20), ([20, 40], 0)):
        regions = replace(problem, region_bytes=np.array(sizes, np.int64))
        assert max_live(regions) == least
