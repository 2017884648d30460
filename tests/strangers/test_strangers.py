"""The law of readers over mutated files, for so many inputs each."""

import os
import random
import time
from pathlib import Path

import pytest
from tests.strangers.hunt import Hunt
from tests.strangers.mutations import CHANGES, mutated
from tests.strangers.readers import READERS, Reader

from lowtide.ir import InputError


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_stranger_is_read(name, tmp_path) -> None:
    for data in READERS[name].seeds():
        hunt = Hunt(name, tmp_path, random.Random(0))
        hunt.corpus = [data]
        hunt.run(seconds=60, inputs=1)
        assert not hunt.finds, list(hunt.finds)
        assert hunt.lines


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_the_law_over_mutated_files(name, tmp_path) -> None:
    hunt = Hunt(name, tmp_path, random.Random(1))
    hunt.run(seconds=600, inputs=400)
    assert not hunt.finds, list(hunt.finds)


def test_equal_seeds_give_equal_files() -> None:
    made = [mutated(random.Random(7), b"some bytes 12", [b"others"]) for _ in range(2)]
    assert made[0] == made[1]
    known = list(dict.fromkeys(CHANGES))
    changed = [x(random.Random(3), b"ab 12 cd ef", [b"xyz"]) for x in known]
    assert len(set(changed)) > len(known) // 2


def breaks(read):
    """Return what a hunt finds in a reader that is made to break the law."""

    def finds(monkeypatch, folder):
        monkeypatch.setitem(READERS, "bad", Reader(lambda: iter([b"x"]), read))
        hunt = Hunt("bad", folder, random.Random(0))
        hunt.run(seconds=60, inputs=1)
        return list(hunt.finds)

    return finds


def _foreign(data, folder):
    raise KeyError("x")


def _large(data, folder):
    (b"x" * (400 * 2**20)).count(b"y")


def _outside(data, folder):
    Path(os.devnull).read_bytes()


def _slow(data, folder):
    until = time.process_time() + 60
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(
    ("read", "find"), [(_foreign, "KeyError"), (_large, "memory"), (_outside, "opened: /dev/null")]
)
def test_each_breach_is_found(read, find, monkeypatch, tmp_path) -> None:
    (found,) = breaks(read)(monkeypatch, tmp_path)
    assert found.startswith(find)


@pytest.mark.slow
def test_an_input_that_does_not_end_is_found(monkeypatch, tmp_path) -> None:
    (found,) = breaks(_slow)(monkeypatch, tmp_path)
    assert found.startswith("slow")


def test_an_error_of_lowtide_is_no_find(monkeypatch, tmp_path) -> None:
    def refuse(data, folder):
        raise InputError("no")

    assert breaks(refuse)(monkeypatch, tmp_path) == []
