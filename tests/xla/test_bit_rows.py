"""Bit matrices against plain ones."""

import numpy as np
import pytest

from lowtide.xla.analysis.bit_rows import packed, set_bits, transposed


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 100])
def test_transpose_is_that_of_the_plain_matrix(count):
    plain = np.random.default_rng(count).integers(0, 2, (count, count), np.uint8)
    rows = packed([sum(int(bit) << j for j, bit in enumerate(row)) for row in plain])
    assert rows.shape == (count, (count + 7) // 8)
    turned = np.unpackbits(transposed(rows), axis=1, bitorder="little")[:, :count]
    assert (turned == plain.T).all()


def test_set_bits_are_ascending_numbers():
    assert set_bits(0).tolist() == []
    assert set_bits((1 << 200) | (1 << 9) | 1).tolist() == [0, 9, 200]
