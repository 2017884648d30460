"""The known name that somebody may have meant."""

from __future__ import annotations

import pytest

from lowtide.ir import Opcode
from lowtide.ir.attributes import DotAlgorithm
from lowtide.suggestions import nearest, nearest_name

OPCODES = [x.value for x in Opcode]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ad", "add"),
        ("Add", "add"),
        ("ADD", "add"),
        ("sub", "subtract"),
        ("div", "divide"),
        ("exp", "exponential"),
        ("max", "maximum"),
        ("min", "minimum"),
        ("neg", "negate"),
        ("concat", "concatenate"),
        ("all-red", "all-reduce"),
        ("reduce-win", "reduce-window"),
        ("redcue", "reduce"),
        ("pram", "parameter"),
        ("tupel", "tuple"),
        ("transpos", "transpose"),
        ("got-tuple-element", "get-tuple-element"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_opcodes_that_were_meant(written: str, meant: str, order: int) -> None:
    assert nearest_name(written, OPCODES[::order]) == meant


@pytest.mark.parametrize("written", ["", "a", "xyz", "\0", "qqqqqqqq" * 1000])
def test_nothing_is_near(written: str) -> None:
    assert nearest_name(written, OPCODES) == "" == nearest(written, OPCODES)


def test_each_name_is_nearest_to_itself() -> None:
    assert [nearest_name(x, OPCODES) for x in OPCODES] == OPCODES


def test_equally_near_names_go_by_the_alphabet() -> None:
    for names in (["ab", "ac"], ["ac", "ab"]):
        assert nearest_name("ax", names, like=0.5) == "ab"


def test_no_names_have_no_nearest() -> None:
    assert nearest("x", []) == ""


def test_a_name_of_a_table_of_words_is_told_as_its_word() -> None:
    assert nearest("dot_f32_f32_f23", DotAlgorithm) == "; did you mean 'dot_f32_f32_f32'?"
