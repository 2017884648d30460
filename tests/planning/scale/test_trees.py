"""Trees in arrays answer as lists do, in compiled code and in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning.scale import trees


def variants(kernel):
    return [pytest.param(kernel, id="compiled"), pytest.param(kernel.python, id="python")]


@pytest.mark.parametrize("next_at_most", variants(trees.next_at_most))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_first_small_leaf_is_found_after_some_are_cleared(next_at_most, data):
    values = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=40))
    tree = trees.tree_of(np.array(values, np.int64))
    for place in data.draw(st.sets(st.integers(0, len(values) - 1))):
        trees.clear_leaf(tree, place)
        values[place] = trees.HUGE
    for limit in range(21):
        begin = data.draw(st.integers(0, len(values)))
        end = data.draw(st.integers(0, len(values)))
        small = [place for place in range(begin, end) if values[place] <= limit]
        assert next_at_most(tree, begin, end, limit) == (small[0] if small else -1)


@pytest.mark.parametrize("python", [False, True])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_least_of_a_range_is_found_after_additions_to_ranges(python, data):
    add, place_of_least = trees.add_to_range, trees.place_of_least
    if python:
        add, place_of_least = add.python, place_of_least.python
    values = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=1, max_size=40)), np.int64)
    tree = trees.range_tree_of(values)
    ends = st.integers(0, len(values))
    for _ in range(8):
        begin, end = sorted(data.draw(st.tuples(ends, ends).filter(lambda x: x[0] != x[1])))
        value = data.draw(st.integers(-9, 9))
        values[begin:end] += value
        assert add(tree, begin, end, value) == values.min()
        begin, end = sorted(data.draw(st.tuples(ends, ends).filter(lambda x: x[0] != x[1])))
        found = place_of_least(tree, begin, end)
        assert begin <= found < end
        assert values[found] == values[begin:end].min()


@pytest.mark.parametrize("first_at_least", variants(trees.first_at_least))
def test_the_first_that_is_large_enough(first_at_least):
    values = np.array([1, 3, 3, 7], np.int64)
    assert [first_at_least(values, 0, 4, x) for x in (0, 1, 2, 3, 4, 8)] == [0, 0, 1, 1, 3, 4]
    assert first_at_least(values, 2, 3, 1) == 2
