"""Sizes as people write them."""

import numpy as np
import pytest

from lowtide import Options, compile, jit, parse_hlo
from lowtide.cli.arguments import size_in_bytes
from lowtide.ir.sizes import MemoryShare, SizeError, budget_of, bytes_of


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


@pytest.mark.parametrize(
    ("text", "nbytes", "shown"),
    [
        ("80%", 800, "80%"),
        (" 80% ", 800, "80%"),
        ("080.00%", 800, "80%"),
        ("62.55%", 625, "62.55%"),
        ("0.05%", 0, "0.05%"),
        ("100%", 1000, "100%"),
        ("100.0%", 1000, "100%"),
    ],
)
def test_shares(text, nbytes, shown):
    share = budget_of(text)
    assert isinstance(share, MemoryShare)
    assert (share.of(1000), str(share)) == (nbytes, shown)
    assert budget_of(shown) == share == budget_of(share)
    assert Options(memory=text) == Options(memory=share)


def test_a_share_is_exact_of_any_size():
    assert budget_of("99.999999999999999999%").of(10**18) == 10**18 - 1
    assert budget_of("100%").of((1 << 62) - 1) == (1 << 62) - 1


@pytest.mark.parametrize("text", ["0%", "0.000%", "100.1%", "120%", "1" * 40 + "%"])
def test_a_share_is_a_part_of_the_whole(text):
    with pytest.raises(SizeError, match=r"above 0% and at most 100% .*such as 80%, found"):
        budget_of(text)


@pytest.mark.parametrize("text", ["%", "-5%", "80%%", "1e1%", "80MiB%", "nan%", "8 0%", "80 %"])
def test_what_is_no_share(text):
    with pytest.raises(SizeError, match=r"a share such as 80%, or a size such as 512MiB, .*found"):
        budget_of(text)


def test_a_share_without_its_space_is_offered():
    with pytest.raises(SizeError, match="found '80 %'; write '80%'"):
        Options(memory="80 %")


def test_where_a_size_alone_is_meant_a_share_is_none():
    with pytest.raises(SizeError, match=r"a size such as 512MiB, 1\.5GB or 123, found '80%'"):
        bytes_of("80%")


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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", 1.5, "threads is a whole number; found 1.5"),
        ("threads", "2", "threads is a whole number; found '2'"),
        ("deadline", "soon", "deadline is a number; found 'soon'"),
        ("memory_priority", None, "memory_priority is a number; found None"),
        ("cache", "off", "cache is True or False; found 'off'"),
        ("cache", None, "cache is True or False; found None"),
        ("isolate", 2.5, "isolate is True or False; found 2.5"),
        ("threads", np.array([1, 2]), "threads is a whole number; found array"),
        ("deadline", np.array([1.0, 2.0]), "deadline is a number; found array"),
        ("huge_pages", "no", "huge_pages is True or False; found 'no'"),
        ("target", None, "target is a name; found None"),
        ("effort", 2, "effort is a name; found 2"),
    ],
)
def test_options_of_another_kind_are_refused(name, value, message):
    with pytest.raises(TypeError, match=message):
        Options(**{name: value})


def test_options_may_be_numbers_of_numpy():
    found = Options(threads=np.int32(2), cache=np.bool_(False), deadline=np.float32(2))
    assert found.threads == 2 and not found.cache and found.deadline == 2
    assert hash(found) == hash(Options(threads=np.array(2), cache=False, deadline=2.0))
