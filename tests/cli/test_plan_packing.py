"""`lowtide plan` on packing problems: CSV files, strategies, capacity, files, and pictures."""

import io
import json
import lzma
import signal
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from tests.support import EXAMPLES, SHARED, needs_shared

from lowtide.packing.named import MOST_EXACT
from lowtide.planning import OffsetStrategy, StopReason, offset_strategies, packing_problem
from lowtide.planning.plans import arena_packing

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
KEYS = {
    "schema", "problem", "buffers", "strategy", "height", "lower_bound", "optimal", "evidence",
    "stopped", "live_bytes", "certified_bound", "capacity", "feasible", "attempts", "simplified",
    "caveats", "offsets", "seconds",
}  # fmt: skip


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.csv"
    path.write_text(EXAMPLE)
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def with_strategies(monkeypatch, **places):
    """Let strategies of these names place buffers by these functions."""
    added = {
        name: OffsetStrategy(name, place, "for tests", "tests", frozenset({"fixed", "alignment"}))
        for name, place in places.items()
    }
    known = {**offset_strategies(), **added}
    monkeypatch.setattr("lowtide.planning.registry._OFFSETS", ())  # All are looked up.
    for module in ("registry", "assign"):
        monkeypatch.setattr(f"lowtide.planning.{module}.offset_strategies", lambda: known)
    for module in ("named", "compare"):
        monkeypatch.setattr(f"lowtide.packing.{module}.offset_strategies", lambda: known)


def end_to_end(problem, search):
    return arena_packing(problem, np.cumsum(problem.nbytes) - problem.nbytes)


# -- results -----------------------------------------------------------------------------------


def test_json(lowtide, example):
    assert lowtide("plan", example, "--json") == 0
    document = json.loads(lowtide.out)
    assert set(document) == KEYS
    assert document["schema"] == "lowtide.packing/1"
    assert (document["height"], document["lower_bound"], document["optimal"]) == (12, 12, True)
    assert len(document["offsets"]) == document["buffers"] == 5
    assert max(document["offsets"]) == 8
    assert document["evidence"]
    assert document["stopped"] == "done"
    again = dict(document)
    assert lowtide("plan", example, "--json") == 0
    assert {**json.loads(lowtide.out), "seconds": 0} == {**again, "seconds": 0}


def test_screen(lowtide, example):
    assert lowtide("plan", example, "--limit", 2) == 0
    lines = lowtide.out.splitlines()
    assert lines[0] == f"{example}   5 buffers"
    assert lines[1] == "needs 12 bytes; no offsets need less"
    assert lines[3] == "  live 12  =  bound 12  =  height 12     optimal"
    assert lines[-1] == "and 3 more; --json lists all offsets"
    assert lowtide.err == ""


@pytest.mark.parametrize("name", ["p.csv.xz", "p.txt", "-"])
def test_where_problems_are_read_from(lowtide, tmp_path, monkeypatch, name):
    data = EXAMPLE.encode()
    if name.endswith(".xz"):
        data = lzma.compress(data)
    path = tmp_path / name
    if name == "-":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    else:
        path.write_bytes(data)
    assert lowtide("plan", name if name == "-" else path, "--json") == 0
    assert json.loads(lowtide.out)["height"] == 12


def test_a_solution_is_right(lowtide, tmp_path):
    text = (
        "name,lower,upper,size,alignment,gaps,offset\n"
        "a,0,9,40,,3-6,64\nb,2,8,24,16,,\nc,3,6,60,8,,\nd,0,9,0,,,\n"
    ).replace("name", "id")
    problem, solution = written(tmp_path / "p.csv", text), tmp_path / "solution.csv"
    assert lowtide("plan", problem, "-o", solution) == 0
    lines = solution.read_text().splitlines()
    assert lines[0] == text.splitlines()[0]
    assert lines[1] == "a,0,9,40,,3-6,64"
    assert lowtide("verify", solution) == 0
    assert lowtide.out.startswith("plan is right: 4 values, 9 steps, ")
    assert lowtide("plan", solution, "--json") == 0
    answer = json.loads(lowtide.out)
    assert answer["offsets"] == [int(line.split(",")[-1]) for line in lines[1:]]
    assert answer["optimal"]


def test_a_certificate(lowtide, example, tmp_path):
    path = tmp_path / "certificate.json"
    assert lowtide("plan", example, "-o", path) == 0
    assert json.loads(path.read_text())["schema"] == "lowtide.certificate/2"
    assert lowtide("verify", path) == 0
    assert "valid and optimal" in lowtide.out


def test_alignment(lowtide, example):
    assert lowtide("plan", example, "--json", "--alignment", 64) == 0
    document = json.loads(lowtide.out)
    assert {x % 64 for x in document["offsets"]} == {0}
    assert document["height"] == 132
    for name in ("usmp_by_size", "objects:greedy_by_size"):
        assert lowtide("plan", example, "--json", "--alignment", 64, "--strategy", name) == 0
        assert {x % 64 for x in json.loads(lowtide.out)["offsets"]} == {0}


def test_every_strategy_packs_and_is_checked(lowtide, example):
    assert lowtide("planners", "--json") == 0
    planners = json.loads(lowtide.out)["planners"]
    for planner in planners:
        assert planner["sentence"]
        assert planner["source"]
        if planner["kind"] == "graphs":
            module, function = planner["name"].rsplit(".", 1)
            assert callable(getattr(import_module(f"lowtide.{module}"), function))
            continue
        name = f"{planner['kind']}:{planner['name']}"
        assert lowtide("plan", example, "--json", "--strategy", name) == 0
        document = json.loads(lowtide.out)
        assert document["height"] >= document["lower_bound"] >= 12
        assert document["strategy"] == name
        if planner["kind"] == "objects":
            assert sum(document["object_sizes"]) == document["height"]


def test_planners_on_the_screen(lowtide):
    assert lowtide("planners") == 0
    lines = lowtide.out.splitlines()
    assert max([len(line) for line in lines]) <= 100
    assert "  portfolio" in lines
    assert "  planning.nnvm.plan" in lines


def test_a_strategy_that_is_not_known(lowtide, example):
    for name, message in [
        ("greedy_by_sise", "did you mean 'greedy_by_size'?"),
        ("objects:skyline", "unknown strategy for objects 'skyline'"),
        ("arenas:skyline", "no kind of strategies 'arenas'; there are: offsets, objects"),
    ]:
        assert lowtide("plan", example, "--strategy", name) == 1
        assert message in lowtide.err
        assert lowtide.out == ""


def test_a_wrong_plan_is_found(lowtide, example, monkeypatch):
    with_strategies(monkeypatch, wrong=lambda p, s: arena_packing(p, np.zeros(len(p), np.int64)))
    assert lowtide("plan", example, "--strategy", "wrong") == 4
    assert "wrong made a plan that is wrong: overlap: b1" in lowtide.err
    assert lowtide("plan", example, "--compare") == 4


# -- the capacity ------------------------------------------------------------------------------


def test_a_capacity_that_is_too_small(lowtide, example, tmp_path):
    solution = tmp_path / "solution.csv"
    assert lowtide("plan", example, "--capacity", "11B", "-o", solution, "--json") == 2
    assert json.loads(lowtide.out)["feasible"] is False
    assert (
        "no packing of at most 11 bytes exists: 12 are live at step 0 (b1, b3, b5)" in lowtide.err
    )
    assert not solution.exists()
    assert lowtide("plan", example, "--capacity", 12, "-o", solution, "--json") == 0
    assert json.loads(lowtide.out)["feasible"] is True
    assert solution.exists()


def test_a_capacity_that_is_not_reached_is_not_called_impossible(lowtide, example, monkeypatch):
    with_strategies(monkeypatch, tall=end_to_end)
    assert lowtide("plan", example, "--capacity", 12, "--strategy", "tall", "--json") == 2
    document = json.loads(lowtide.out)
    assert (document["feasible"], document["height"]) == (None, 20)
    assert "was found, and none is ruled out" in lowtide.err
    assert "no smaller than 12 is proved needed" in lowtide.err


def test_what_is_fixed_bounds_the_arena(lowtide, tmp_path):
    text = "id,lower,upper,size,offset\na,0,3,4,96\nb,0,3,4,\n"
    problem = written(tmp_path / "p.csv", text)
    assert lowtide("plan", problem, "--json", "--capacity", 99) == 2
    document = json.loads(lowtide.out)
    assert (document["height"], document["lower_bound"], document["optimal"]) == (100, 100, True)
    assert "a has to lie at 96" in lowtide.err


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("12", 12), ("1.5KB", 1500), ("2 KiB", 2048), ("1MiB", 1 << 20), ("0.1GB", 10**8)],
)
def test_sizes(lowtide, example, text, nbytes):
    assert lowtide("plan", example, "--json", "--capacity", text) == 0
    assert json.loads(lowtide.out)["capacity"] == nbytes


@pytest.mark.parametrize("text", ["-1", "1XB", "MiB", "1iB", "9999PB", "1e3", "²"])
def test_sizes_that_are_none(lowtide, example, text):
    assert lowtide("plan", example, "--capacity", text) == 1
    assert "Invalid value for '--capacity'" in lowtide.err


# -- limits ------------------------------------------------------------------------------------


def test_an_interrupted_search_gives_what_it_has(lowtide, example, monkeypatch, tmp_path):
    def interrupted(problem, *rest):
        raise KeyboardInterrupt

    def late(problem, search):
        return replace(end_to_end(problem, search), stopped=StopReason.INTERRUPT)

    solution = tmp_path / "solution.csv"
    with_strategies(monkeypatch, portfolio=end_to_end, exact=interrupted, late=late)
    monkeypatch.setattr("lowtide.planning.exact.pack.exact", interrupted)
    for arguments in ((), ("--strategy", "late")):
        assert lowtide("plan", example, "-o", solution, "--json", *arguments) == 130
        document = json.loads(lowtide.out)
        assert (document["stopped"], document["height"]) == ("interrupt", 20)
        assert document["caveats"][-1].startswith("Ctrl-C ended the search")
        assert solution.exists()
        solution.unlink()
    assert lowtide("plan", example, "--strategy", "exact") == 130
    assert lowtide.out == ""


def test_the_exact_search_follows_where_the_quick_one_leaves_a_gap(lowtide, example, monkeypatch):
    with_strategies(monkeypatch, portfolio=end_to_end)
    assert lowtide("plan", example, "--json") == 0
    document = json.loads(lowtide.out)
    assert [x["strategy"] for x in document["attempts"]] == ["portfolio", "exact"]
    assert (document["strategy"], document["height"]) == ("offsets:exact", 12)
    assert lowtide("plan", example, "--json", "--capacity", 20) == 0
    assert len(json.loads(lowtide.out)["attempts"]) == 1


def test_very_many_buffers_are_left_to_the_quick_strategy(lowtide, monkeypatch, tmp_path):
    with_strategies(monkeypatch, portfolio=end_to_end)
    rows = [f"{i},{i},{i + 1},8" for i in range(MOST_EXACT + 1)]
    problem = written(tmp_path / "p.csv", "id,lower,upper,size\n" + "\n".join(rows))
    assert lowtide("plan", problem, "--limit", 1) == 0
    assert f"more than {MOST_EXACT:,} buffers" in lowtide.out


def test_compare(lowtide, example, monkeypatch):
    def slow(problem, search):
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert left > 0
        signal.raise_signal(signal.SIGALRM)

    with_strategies(monkeypatch, slow=slow)
    assert lowtide("plan", example, "--compare", "--json", "--deadline", 1800) == 0
    document = json.loads(lowtide.out)
    rows = {f"{x['kind']}:{x['name']}": x for x in document["strategies"]}
    assert rows["offsets:slow"]["fault"] == "no plan in 1800 s"
    assert "another run may give another plan" in document["caveats"][0]
    assert rows["objects:naive"]["bytes"] == 20
    assert rows["objects:naive"]["simplified"] == ["in order of first step"]
    assert rows["offsets:exact"]["ratio"] == 1.0
    assert lowtide("plan", example, "--compare", "--deadline", 1800) == 0
    lines = lowtide.out.splitlines()
    assert max([len(line) for line in lines]) <= 100
    assert "  * in order of first step" in lines
    assert "Each strategy had 1800 s" in lines[-1]
    assert lowtide("plan", example, "--compare", "--deadline", 1800, "--capacity", 11) == 2


def test_compare_where_something_is_not_known_to_most(lowtide, tmp_path):
    text = "id,lower,upper,size,gaps,offset\na,0,9,4,3-6,\nb,3,6,4,,0\n"
    problem = written(tmp_path / "p.csv", text)
    assert lowtide("plan", problem, "--compare", "--json") == 0
    rows = {x["name"]: x for x in json.loads(lowtide.out)["strategies"] if x["kind"] == "objects"}
    assert rows["greedy_by_size"]["fault"] == "takes no fixed offsets"
    problem = written(tmp_path / "p.csv", text.replace(",,0", ",,"))
    assert lowtide("plan", problem, "--compare", "--json") == 0
    rows = {x["name"]: x for x in json.loads(lowtide.out)["strategies"] if x["kind"] == "objects"}
    assert rows["greedy_by_size"]["bytes"] == 8
    assert rows["greedy_by_size"]["simplified"] == ["gaps filled"]


# -- usage and bad input -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--effort", "most"], "no effort 'most'; there are: fast, default, proof"),
        (["-o", "plan.txt"], "a packing is written as .csv, its certificate as .json"),
        (["--packing", "exact"], "--packing, --assigner and --target are for modules"),
        (["--compare", "--svg", "x.svg"], "--compare writes a table only"),
        (["--alignment", "0"], "Invalid value for '--alignment'"),
    ],
)
def test_usage(lowtide, example, options, message):
    assert lowtide("plan", example, *options) == 1
    assert message in lowtide.err
    assert lowtide.out == ""


def test_bad_input_is_one_error_and_leaves_no_file(lowtide, tmp_path):
    problem = written(tmp_path / "p.csv", "id,lower,upper,size\na,4,4,8\n")
    solution = tmp_path / "solution.csv"
    assert lowtide("plan", problem, "-o", solution, "--svg", tmp_path / "x.svg") == 1
    assert lowtide.err.startswith(f"error: {problem}: 2:5: column 'upper': ")
    assert len(lowtide.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [problem]


def test_names_that_a_terminal_takes_for_commands(lowtide, tmp_path):
    problem = written(tmp_path / "p.csv", "id,lower,upper,size\n\x1b[2J,0,4,8\n")
    assert lowtide("plan", problem, "--capacity", 4) == 2
    assert "\x1b" not in lowtide.out + lowtide.err
    assert "are live at step 0 (?[2J)" in lowtide.err


def test_strategies_that_place_not_all(lowtide, example, monkeypatch):
    with_strategies(monkeypatch, short=lambda *_: arena_packing(packing_problem([]), []))
    assert lowtide("plan", example, "--strategy", "short") == 1
    assert lowtide.err == "error: short has placed 0 of 5 buffers\n"


def test_alignments_without_a_common_multiple(lowtide, tmp_path):
    rows = "a,0,3,5,2147483647\nb,0,3,7,2147483649\n"
    problem = written(tmp_path / "p.csv", f"id,lower,upper,size,alignment\n{rows}")
    assert lowtide("plan", problem, "--strategy", "objects:naive") == 1
    assert "takes no alignments whose common multiple is 4,611,686,018,427,387,903" in lowtide.err
    assert lowtide("plan", problem, "--strategy", "offsets:first_fit") == 0


def test_a_plan_of_very_many_bytes_can_be_verified(lowtide, tmp_path):
    rows = f"a,0,3,{2**62 - 99}\nb,0,3,7\n"
    problem = written(tmp_path / "p.csv", f"id,lower,upper,size\n{rows}")
    assert lowtide("plan", problem, "-o", tmp_path / "q.csv") == 0
    assert lowtide("verify", tmp_path / "q.csv") == 0


# -- pictures, and modules ---------------------------------------------------------------------


def test_pictures(lowtide, example, tmp_path):
    svg, html = tmp_path / "x.svg", tmp_path / "x.html"
    assert lowtide("plan", example, "--svg", svg, "--html", html) == 0
    titles = [x.text for x in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert [x.splitlines()[0] for x in titles[1:]] == ["b1", "b2", "b3", "b4", "b5"]
    assert "b5" in html.read_text()


def test_a_deadline_is_a_caveat_of_a_plan(lowtide):
    module = EXAMPLES / "lstm.hlo.xz"
    caveats = []
    for options in ([], ["--deadline", 1e6], ["--deadline", 0]):
        assert lowtide("plan", module, "--packing", "exact", "--json", *options) == 0
        caveats.append(json.loads(lowtide.out)["caveats"])
    added = "a deadline ended the search: another run may give another plan"
    assert caveats[1] == caveats[0]
    assert caveats[2] == [added, *caveats[0]]


def test_pictures_of_a_module(lowtide, tmp_path):
    svg = tmp_path / "x.svg"
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "--svg", svg) == 0
    titles = [x.text for x in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert any("live at steps" in x and ".py:" in x for x in titles)
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "--svg", svg, "--assigner", "xla") == 0
    assert lowtide("plan", EXAMPLES / "lstm.hlo.xz", "--svg", svg, "--assigner", "xla1.14") == 1
    assert "does not say when values are live, so it cannot be drawn" in lowtide.err


def test_the_live_ranges_of_a_module_as_a_problem(lowtide, tmp_path):
    path, solution = EXAMPLES / "llama_1b.hlo.xz", tmp_path / "solution.csv"
    assert lowtide("plan", path, "--json") == 0
    ladder = json.loads(lowtide.out)["ladder"]
    assert lowtide("plan", path, "--strategy", "offsets:exact", "--json", "-o", solution) == 0
    document = json.loads(lowtide.out)
    assert document["height"] == ladder["arena_bytes"]
    assert document["live_bytes"] == ladder["live_bytes"]
    assert lowtide("verify", solution) == 0
    assert lowtide("plan", path, "--strategy", "objects:greedy_by_size", "--json") == 0
    assert json.loads(lowtide.out)["simplified"][0] == "regions left empty"
    assert lowtide("plan", path, "--strategy", "skyline", "--capacity", "1MB") == 2
    assert f"bytes exists: {ladder['live_bytes']:,} are live at step" in lowtide.err
    assert lowtide("plan", path, "--capacity", "1MB") == 1
    assert "--capacity is for packings" in lowtide.err


@needs_shared
def test_the_hard_instances(lowtide, tmp_path):
    solution = tmp_path / "solution.csv"
    path = SHARED / "minimalloc" / "A.1048576.csv"
    assert lowtide("plan", path, "--capacity", "1MiB", "-o", solution) == 0
    assert lowtide("verify", solution, "--capacity", 1 << 20) == 0


def test_limits_of_a_search_that_a_module_does_not_have_are_refused(lowtide, small):
    assert lowtide("plan", small, "--deadline", 1, "--packing", "exact") == 0
    for effort in ("fast", "default", "proof"):
        assert lowtide("plan", small, "--effort", effort) == 0
        assert lowtide("explain", small, "--effort", effort) == 0
    assert lowtide("explain", small, "--effort", "most") == 1
    assert "no effort 'most'; there are: fast, default, proof" in lowtide.err
