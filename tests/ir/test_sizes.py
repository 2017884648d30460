"""Sizes as people write them."""

import numpy as np
import pytest

from lowtide import Options, compile, jit, parse_hlo
from lowtide.cli.arguments import size_in_bytes
from lowtide.ir.sizes import SizeError, bytes_of


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
        ("1 MiB", 1 << 20),
        ("0.1GiB", 107_374_182),
        ("0.0B", 0),
        ("1.0", 1),
        ("0.001kB", 1),
    ],
)
def test_sizes(size, nbytes):
    assert bytes_of(size) == nbytes


NONE = [-1, 1 << 62, "-1", "-1MB", "", "MiB", "1.MiB", "1iB", "1XB", "5000P", "1e3MB", "NaN", "inf"]
NONE += ["9e9", "1" * 30, "1" * 50, "0.5B", "1.5", "0.0001kB", 1.5, float("nan"), None, True]


@pytest.mark.parametrize("size", NONE)
def test_what_is_no_size(size):
    with pytest.raises(SizeError, match=r"such as 512MiB, 1\.5GB or 123, found") as raised:
        bytes_of(size)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("size", [-1, 1 << 62, "-1", "0.5B", "1.5", "NaN", 1.5, True, "MiB"])
def test_every_way_to_give_a_budget_says_the_same(size):
    with pytest.raises(SizeError, match="found"):
        compile("no file", memory=size)
    with pytest.raises(SizeError, match="found"):
        Options(memory=size)
    with pytest.raises(SizeError, match="found"):
        jit(lambda x: x, memory=size)


@pytest.mark.parametrize("size", [1 << 20, np.int64(1 << 20), "1MiB", " 1 MiB ", "1048576"])
def test_every_way_to_give_a_budget_takes_numbers_and_text(size):
    module = parse_hlo("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }")
    for made in (compile(module, memory=size, cache=False), compile(module, size, cache=False)):
        assert made.memory["budget"]["bytes"] == 1 << 20
    assert Options(memory=size).memory == 1 << 20
    assert size_in_bytes(str(size)) == 1 << 20


def test_numbers_of_numpy_are_numbers():
    assert type(Options(memory=np.int64(123)).memory) is int


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_deadline_is_seconds(seconds):
    with pytest.raises(ValueError, match="deadline is seconds"):
        Options(deadline=seconds)


@pytest.mark.parametrize("count", [-1, 4097, 10**20])
def test_more_threads_than_any_machine_has_cores_are_refused(count):
    with pytest.raises(ValueError, match="at most 4,096; found"):
        Options(threads=count)
