"""Bytes on a ring, held against a ring that is played."""

import numpy as np
import pytest

from lowtide.cost.devices import ring_bytes


def gathered(group: int) -> int:
    """Elements that one device sends until each has the parts of all, one element a part."""
    parts = [{d} for d in range(group)]
    sent = 0
    passed = list(range(group))
    while any(len(own) < group for own in parts):
        for d in range(group):
            parts[(d + 1) % group].add(passed[d])
        passed = [passed[(d - 1) % group] for d in range(group)]
        sent += 1
    return sent


def reduced(group: int) -> int:
    """Elements that one device sends until each has one sum; of one element a part."""
    terms = np.arange(group * group).reshape(group, group)
    wanted = terms.sum(0)
    sent = 0
    for step in range(group - 1):
        before = terms.copy()
        for d in range(group):
            part = (d - step) % group
            terms[(d + 1) % group, part] += before[d, part]
        sent += 1
    assert [terms[d, (d + 1) % group] for d in range(group)] == [
        wanted[(d + 1) % group] for d in range(group)
    ]
    return sent


@pytest.mark.parametrize("group", [1, 2, 3, 8])
def test_a_ring_of_parts(group: int) -> None:
    assert ring_bytes("all-gather", group, group) == gathered(group)
    assert ring_bytes("reduce-scatter", group, group) == reduced(group)
    assert ring_bytes("all-reduce", group, group) == reduced(group) + gathered(group)


def test_dealing_sends_all_but_the_own_part_and_a_permute_all() -> None:
    assert ring_bytes("all-to-all", 12, 4) == 9
    assert ring_bytes("collective-permute", 12, 4) == 12
    assert ring_bytes("collective-broadcast", 12, 4) == 12
