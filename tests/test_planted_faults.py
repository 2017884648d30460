"""Planted faults: each fits its file once and names tests that are there; the script resumes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.planted_faults import (
    CAUGHT,
    EQUIVALENT,
    FAULTS,
    ROOT,
    SURVIVED,
    Fault,
    Outcome,
    Results,
    digest_of,
    document,
    faults,
    merged,
    write,
)

LEAST = 150
CORE = ("aliasing", "bounds", "budgets", "checker", "packing")
"""Layers that say how much memory there is, what proves it, and who may lie over whom."""


def fits(fault: Fault) -> bool:
    """Whether a fault changes one place of its file, which is Python then, and names tests."""
    text = (ROOT / fault.path).read_text()
    planted = fault.planted(text)
    if planted is None or planted == text:
        return False
    compile(planted, fault.path, "exec")
    return bool(fault.tests) and all((ROOT / x.partition("::")[0]).exists() for x in fault.tests)


def test_a_fault_fits_one_place() -> None:
    assert [x.name for x in faults() if not fits(x)] == []
    known = faults()[0]
    assert not fits(replace(known, find="no such text")) and not fits(replace(known, tests=()))


def test_there_are_enough_of_them_in_all_layers() -> None:
    known = faults()
    assert len({x.name for x in known}) == len(known) >= LEAST
    assert sum([x.layer in CORE for x in known]) * 3 >= len(known)
    assert {x.layer for x in known} == {path.stem for path in FAULTS.glob("*.toml")}


def test_outcomes_are_kept_for_what_they_depend_on(tmp_path: Path) -> None:
    fault = faults()[0]
    results = Results(tmp_path / "x.jsonl")
    results.add(digest_of(fault), Outcome(CAUGHT, "a.py::b", 1.5))
    again = Results(tmp_path / "x.jsonl")
    assert again.known == {digest_of(fault): Outcome(CAUGHT, "a.py::b", 1.5)}
    for other in (replace(fault, put="pass"), replace(fault, tests=("tests/ir",))):
        assert digest_of(other) not in again.known


def test_the_table_names_what_survives() -> None:
    first, second, third = faults()[:3]
    rows = [
        (first, Outcome(CAUGHT, "room/test_x.py::test_y")),
        (second, Outcome(SURVIVED)),
        (replace(third, equivalent="it says the same"), Outcome(EQUIVALENT)),
    ]
    text = document(rows)
    assert "Of 3 faults, the tests catch 1; 1 are equivalent" in text.replace("\n", " ")
    assert f"| {first.name} | {first.file} | room/test_x.py test_y |" in text
    assert f"| {second.name} | {second.file} | survived |" in text
    assert "equivalent: it says the same" in text


def test_rows_of_what_is_not_planted_anew_stay(tmp_path: Path) -> None:
    known = faults()
    layer = known[0].layer
    page = tmp_path / "page.md"
    every = [(x, Outcome(CAUGHT, "room/test_x.py::test_y")) for x in known]
    page.write_text(document(every, places=dict.fromkeys([x.layer for x in known], "a machine")))
    anew = [(x, Outcome(SURVIVED)) for x in known if x.layer == layer]
    rows, places = merged(page.read_text(), anew, known)
    assert [x for x, _ in rows] == known
    assert {outcome.state for x, outcome in rows if x.layer == layer} == {SURVIVED}
    assert [x for x in rows if x[0].layer != layer] == [x for x in every if x[0].layer != layer]
    assert "a machine" not in places[layer]
    write(page, anew[:1], known)
    rows, places = merged(page.read_text(), [], known)
    assert [outcome.state for _, outcome in rows].count(SURVIVED) == 1
    assert places[layer].startswith("a machine and ")
    assert f"| {layer} | {len(anew)} | {len(anew) - 1} | 0 | 1 |" in page.read_text()


def test_rows_of_faults_that_are_gone_go(tmp_path: Path) -> None:
    known = faults()
    page = tmp_path / "page.md"
    write(page, [(known[0], Outcome(CAUGHT, "a.py::b")), (known[1], Outcome(SURVIVED))], known)
    assert [x.name for x, _ in merged(page.read_text(), [], known[1:])[0]] == [known[1].name]
    assert f"{len(known) - 2} more" in page.read_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--list"], 0, "checker"),
        (["--only", "no-such-fault"], 2, "no fault no-such-fault"),
        (["--layer", "no-such-layer"], 2, "no layer no-such-layer"),
    ],
)
def test_the_command(options: list[str], status: int, words: str) -> None:
    command = [sys.executable, "benchmarks/planted_faults.py", *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == status and words in found.stdout + found.stderr
