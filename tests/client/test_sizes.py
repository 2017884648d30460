"""Sizes as people write them."""

import numpy as np
import pytest

from lowtide.client.sizes import bytes_of


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [
        (0, 0),
        (123, 123),
        (np.int64(123), 123),
        ("123", 123),
        ("123B", 123),
        ("512MiB", 512 << 20),
        ("1.5GB", 1_500_000_000),
        (" 0.5 KiB ", 512),
        ("2k", 2000),
        ("1Gi", 1 << 30),
    ],
)
def test_sizes(size, nbytes):
    assert bytes_of(size) == nbytes


@pytest.mark.parametrize(
    "size", [-1, 1 << 62, "-1", "", "MiB", "1.MiB", "1iB", "1XB", "9e9", "5000P", 1.5, None, True]
)
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match="expected a size"):
        bytes_of(size)
