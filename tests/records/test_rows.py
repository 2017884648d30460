"""Records as rows: what comes back is what was written, and what was never written is refused."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, TypeAlias

import pytest

from lowtide.records import dataclass
from lowtide.records.rows import RowForm, RowForms


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Spot:
    colour: Colour
    at: tuple[int, ...]
    size: float
    is_round: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    spots: tuple[Spot, ...]
    pair: tuple[int, str]
    best: Spot | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    parts: tuple[Branch, ...]
    code: complex


Branch: TypeAlias = Leaf | Fork

CODE = RowForm(lambda x: [x.real, x.imag], lambda row: complex(*row))
FORMS = RowForms({complex: CODE}, {Leaf: "leaf", Fork: "fork"})
SPOT = Spot(Colour.BLUE, (3, 4), 0.5, True)
TREE = Fork((Leaf("a", (SPOT,), (1, "b"), SPOT), Fork((), 2j), Leaf("", (), (0, ""))), 1 + 0j)


def test_a_record_comes_back_through_json() -> None:
    form = FORMS.of(Branch)
    row = form.write(TREE)
    assert form.read(json.loads(json.dumps(row))) == TREE
    assert row[0] == "fork" and row[1][0] == [
        *("leaf", "a"),
        [["blue", [3, 4], 0.5, True]],
        [1, "b"],
        ["blue", [3, 4], 0.5, True],
    ]


@pytest.mark.parametrize(
    "row",
    [
        ["green", [], 0.0, False],
        ["red", [], 0.0],
        ["red", [], 0.0, False, 1],
        ["red", [True], 0.0, False],
        ["red", [1.0], 0.0, False],
        ["red", "12", 0.0, False],
        ["red", [], "0", False],
        ["red", [], True, False],
        ["red", [], 0.0, 1],
        ["red", [], 0.0, None],
        {"colour": "red"},
        "red!",
        None,
    ],
)
def test_what_was_never_written_is_refused(row: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        FORMS.of(Spot).read(row)


def test_a_word_that_stands_for_no_record_is_refused() -> None:
    for row in (["twig"], [], "leaf", ["leaf", "a", [], [1, "b"]], [["leaf"], "a"]):
        with pytest.raises((ValueError, TypeError)):
            FORMS.of(Branch).read(row)


def test_a_type_without_a_form_is_refused() -> None:
    for kind in (list[int], dict, Leaf | Fork | None):
        with pytest.raises(TypeError, match="no row is known"):
            FORMS.of(kind)
    with pytest.raises(TypeError, match="no row is known"):
        RowForms({}).of(Fork).write(TREE)
