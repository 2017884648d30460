"""What makes a problem: records of any whole numbers, and one error for what cannot be."""

import random

import numpy as np
import pytest

from lowtide.planning import TensorUsageRecord, assign_objects, assign_offsets, packing_problem

RECORDS = [(5, 0, 1), (7, 1, 2)]


def test_whole_numbers_of_numpy_do():
    sizes = [TensorUsageRecord(np.int64(5), np.int32(0), 1), (np.uint8(7), 1, 2)]
    assert assign_offsets(sizes, "first_fit", alignment=np.int64(8)).offsets == (8, 0)
    assert assign_offsets(sizes, "first_fit", alignment=np.array([4, 8])).offsets == (8, 0)
    assert assign_objects(sizes).object_sizes == (7, 5)
    assert type(assign_objects(sizes).object_sizes[0]) is int


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([(1.5, 0, 1)], {}, "record 0: expected size, first task and last task in whole numbers"),
        ([(5, 0, 1), ("5", 0, 1)], {}, "record 1: expected size"),
        ([(5, 0.5, 1)], {}, "record 0: expected size"),
        ([(5, 0)], {}, r"record 0: expected .*, found \(5, 0\)"),
        ([{"size": 5, "first_task": 0, "last_task": 1}], {}, "record 0: expected .*, found {"),
        ([(5, 0, 2**63)], {}, "record 0: a task is not within 2\\^62 of 0"),
        ([((1, 2), 0, 1)], {}, "record 0: size \\(1, 2\\) has several extents"),
        (RECORDS, {"alignment": 4.0}, "expected whole numbers as alignment, found 4.0"),
        (RECORDS, {"alignment": [4]}, "one for all records or one for each"),
        ([(5, 0, 1)] * 8, {"alignment": 2**61}, "all tensors together have to be smaller than"),
        (RECORDS, {"fixed": {0: 2**62}}, "all tensors together have to be smaller than"),
        (RECORDS, {"fixed": {0: 2**63}}, "all tensors together have to be smaller than"),
        (RECORDS, {"fixed": {2: 0}}, "record 2, of 2 from 0 on"),
        (RECORDS, {"fixed": {-1: 0}}, "record -1, of 2 from 0 on"),
        (RECORDS, {"gaps": {7: [(1, 1)]}}, "record 7, of 2 from 0 on"),
        (RECORDS, {"fixed": {1: 4, 0: 0}}, "records 0 and 1 have to lie over one another at task"),
    ],
)
def test_what_is_no_problem(records, options, message):
    with pytest.raises(ValueError, match=message):
        assign_offsets(records, **options)


@pytest.mark.parametrize("record", [(1.5, 0, 1), ("5", 0, 1), (5, 0.5, 1), (5, 0), (5, 0, 2**62)])
def test_what_is_no_tensor_of_an_object(record):
    with pytest.raises(ValueError, match="record 0: "):
        assign_objects([record])


@pytest.mark.parametrize("seed", range(60))
def test_what_is_fixed_must_lie_apart(seed):
    """Refused just where two that are live together share a byte; gaps and nothing share none."""
    rng = random.Random(seed)
    records, gaps, fixed, live = [], {}, {}, []
    for number in range(rng.randrange(2, 9)):
        first = rng.randrange(12)
        last = first + rng.randrange(5)
        records.append((rng.randrange(5), first, last))
        live.append(set(range(first, last + 1)))
        if last - first > 1 and rng.random() < 0.4:
            gaps[number] = [(first + 1, last - 1)]
            live[-1] = {first, last}
        if rng.random() < 0.8:
            fixed[number] = rng.randrange(25)
    together = [
        (a, b)
        for a in fixed
        for b in fixed
        if a < b and live[a] & live[b] and records[a][0] and records[b][0]
        if fixed[a] < fixed[b] + records[b][0] and fixed[b] < fixed[a] + records[a][0]
    ]
    if not together:
        assert packing_problem(records, fixed=fixed, gaps=gaps).has_fixed == bool(fixed)
        return
    with pytest.raises(ValueError, match="have to lie over one another") as error:
        packing_problem(records, fixed=fixed, gaps=gaps)
    assert any(f"records {a} and {b} have" in str(error.value) for a, b in together)
