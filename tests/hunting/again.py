"""Finds of a hunt judged anew: which of them still show what they once did."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.hunting.families.options import Chosen
from tests.hunting.family import HuntedCase
from tests.hunting.judges import Conditions
from tests.hunting.state import HuntState
from tests.hunting.worker import JudgeWorker

_RECORDS: Final[dict[str, Any]] = {"Chosen": Chosen, "Conditions": Conditions}
"""What the conditions of a case may be, besides a number, by the name of the class."""

_MARK: Final = "// "
"""Begins the lines before the text of a find: what it shows, in words, under which conditions."""


def judge_again(name: str, state: HuntState, say: Callable[[str], None] = print) -> None:
    """Judge the first find of each row of a family's table, and save which rows have an end.

    A row has one where that case does not show the same any more.
    """
    worker = JudgeWorker(name)
    try:
        for signature, kept in state.first.items():
            path = state.folder / "finds" / f"{kept}.txt"
            if not path.exists():
                say(f"lost   {signature}: there is no {path}")
                continue
            shows, case = read_find(path)
            found = {x.signature for x in worker.judge(case).findings}
            (state.ended.discard if shows in found else state.ended.add)(signature)
            say(f"{'still' if shows in found else 'ended'}  {signature}")
    finally:
        worker.close()
        state.save()


def read_find(path: Path) -> tuple[str, HuntedCase]:
    """Return the signature and the case of a find that `HuntState.write_find` wrote."""
    lines = path.read_text().splitlines(keepends=True)
    shows, _, conditions = [x.removeprefix(_MARK).rstrip("\n") for x in lines[:3]]
    return shows, HuntedCase("".join(lines[3:]), _conditions(conditions))


def _conditions(text: str) -> Any:
    """The conditions that a text shows: a literal, or a record of literals."""
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Call):
        return ast.literal_eval(tree)
    assert isinstance(tree.func, ast.Name)
    values = {x.arg: ast.literal_eval(x.value) for x in tree.keywords if x.arg is not None}
    return _RECORDS[tree.func.id](**values)
