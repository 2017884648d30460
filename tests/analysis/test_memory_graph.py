"""Rows of memory graphs: few stay lists, many are arrays, and both say the same."""

import random

import pytest

from lowtide.analysis import memory_graph
from lowtide.analysis.memory_graph import lists


def drawn(seed):
    """Up to a dozen rows of numbers below their count, some of them given as keys."""
    rnd = random.Random(seed)
    count = rnd.randint(1, 12)
    rows = [[rnd.randrange(count) for _ in range(rnd.randint(0, 4))] for _ in range(count)]
    return [dict.fromkeys(row) if rnd.random() < 0.3 else row for row in rows]


@pytest.mark.parametrize("seed", range(20))
def test_few_rows_are_read_as_many_are(seed, monkeypatch):
    rows = drawn(seed)
    few = lists(rows)
    monkeypatch.setattr(memory_graph, "_FEW_ROWS", 0)
    many = lists(rows)
    assert few.rows() == many.rows() == [list(row) for row in rows]
    assert few.transposed(len(rows)) == many.transposed(len(rows))
    for name in ("starts", "items"):
        one, other = getattr(few, name), getattr(many, name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    assert few.row_numbers().tolist() == many.row_numbers().tolist()


def test_rows_do_not_change_with_what_they_were_made_of():
    rows = [[0, 1], []]
    made = lists(rows)
    rows[1].append(7)
    assert made.rows() == [[0, 1], []]
    assert made.items.tolist() == [0, 1]


def test_rows_are_transposed_for_each_count():
    made = lists([[0, 1], [1]])
    assert made.transposed(2) == [[0], [0, 1]]
    assert made.transposed(3) == [[0], [0, 1], []]
    assert made.transposed(2) == [[0], [0, 1]]
