"""The bound on every compilation, held against all compilations of small modules."""

import pytest
from tests.least_memory.drawing import drawn_module
from tests.least_memory.exhaustive import Search

from lowtide.least_memory import least_memory


@pytest.mark.parametrize("seed", range(0, 200, 25))
def test_no_compilation_needs_less(seed):
    tight = 0
    for number in range(seed, seed + 25):
        module = drawn_module(number, 2 + number % 4)
        bound, least = least_memory(module), Search(module.entry).least()
        assert bound.is_whole and bound.nbytes <= least, str(module)
        tight += bound.nbytes == least
    assert tight >= 22  # A bound of nothing would be right, too.
