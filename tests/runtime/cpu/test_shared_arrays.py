"""Arrays that are to be overwritten share no byte with any other argument."""

from itertools import permutations

import numpy as np
import pytest

from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import array_shape
from lowtide.runtime.cpu.arguments import Argument, SharedMemoryError, check_disjoint

WHOLE = np.zeros(100, np.uint8)
PARTS = {
    "whole": WHOLE,
    "first": WHOLE[10:20],
    "second": WHOLE[50:60],
    "other": np.zeros(8, np.uint8),
}


def is_refused(names: list[str], consumed: list[str]) -> bool:
    shapes = [array_shape(ElementType.U8, PARTS[x].shape) for x in names]
    arguments = [Argument(x, shape, -1) for x, shape in zip(names, shapes, strict=True)]
    numbers = [names.index(x) for x in consumed]
    try:
        check_disjoint(arguments, [PARTS[x] for x in names], numbers)
    except SharedMemoryError:
        return True
    return False


@pytest.mark.parametrize("names", list(permutations(PARTS)))
def test_one_within_another_hides_none_behind_it(names) -> None:
    given = list(names)
    assert is_refused(given, ["second"]) and is_refused(given, ["whole"])
    assert not is_refused(given, ["other"]) and not is_refused(given, [])


def test_neighbours_share_nothing() -> None:
    PARTS["next"] = WHOLE[20:50]
    assert not is_refused(["first", "next", "second"], ["next"])
    del PARTS["next"]
