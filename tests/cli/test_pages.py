"""`--html`, `--format` and `--what-if` on the command line: what is written, what is refused."""

import json

import pytest
from tests.autopsy.plans import WASTEFUL, planned
from tests.report.test_plan_page import data_of
from tests.support import EXAMPLES

from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

MODULE = EXAMPLES / "mlp.hlo.xz"


def test_explain_writes_a_page_beside_the_screen(lowtide, tmp_path):
    page = tmp_path / "page.html"
    assert lowtide("explain", MODULE, "--html", page) == 0
    assert lowtide.out.startswith("jit_mlp ")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert lowtide("explain", MODULE, "--html", page, "--json", "--what-if") == 0
    assert "changes" in json.loads(lowtide.out)["what_if"]


def test_diff_writes_both_plans(lowtide, tmp_path):
    page = tmp_path / "page.html"
    other = EXAMPLES / "mnist_cnn.hlo.xz"
    assert lowtide("diff", MODULE, other, "--html", page, "--effort", "fast") == 0
    plain = lowtide.out
    assert "jit_mlp and jit_cnn_step" in page.read_text()
    assert lowtide("diff", MODULE, other, "--effort", "fast") == 0
    assert lowtide.out == plain


def test_a_plan_is_drawn_beside_our_own(lowtide, tmp_path):
    made = planned(WASTEFUL)
    module, plan = tmp_path / "m.hlo", tmp_path / "plan.txt"
    module.write_text(str(made.module))
    plan.write_text(buffer_assignment_text(made.module, made.assignment))
    page = tmp_path / "page.html"
    assert lowtide("explain", module, "--plan", plan, "--no-compile", "--html", page) == 0
    theirs, ours = data_of(page.read_text())["plans"]
    assert theirs["title"] == "wasteful, the plan" and ours["title"].endswith("by lowtide")
    assert max(theirs["live"]) > 2 * max(ours["live"]) > 0
    for drawn in (theirs, ours):
        assert max(drawn["live"]) <= drawn["arena"]
        held = [0] * len(drawn["steps"])
        for first, last, nbytes in zip(drawn["first"], drawn["last"], drawn["bytes"], strict=True):
            for step in range(first, last + 1):
                held[step] += nbytes
        assert held == drawn["live"]


def test_the_plan_in_a_dump_directory_is_drawn(lowtide, tmp_path):
    made = planned(WASTEFUL)
    name = "module_0001.jit_f.cpu_after_optimizations"
    (tmp_path / f"{name}.txt").write_text(str(made.module))
    text = buffer_assignment_text(made.module, made.assignment)
    (tmp_path / f"{name}-buffer-assignment.txt").write_text(text)
    page = tmp_path / "page.html"
    assert lowtide("explain", tmp_path, "--no-compile", "--html", page) == 0
    assert len(data_of(page.read_text())["plans"]) == 2
    assert lowtide("diff", tmp_path, EXAMPLES / "mlp.hlo.xz", "--html", page) == 0
    theirs, _ = data_of(page.read_text())["plans"]
    assert max(theirs["live"]) > 16384
    assert lowtide("explain", tmp_path, "--what-if") == 0
    assert "XLA's own plan is left aside" in lowtide.err


def test_a_report_cannot_be_drawn(lowtide, tmp_path):
    assert lowtide("explain", MODULE, "--json") == 0
    (tmp_path / "r.json").write_text(lowtide.out)
    page = tmp_path / "page.html"
    assert lowtide("diff", tmp_path / "r.json", MODULE, "--html", page) == 1
    assert "holds no plan that could be drawn; give the module" in lowtide.err
    assert not page.exists()


def test_markdown_goes_to_standard_output(lowtide):
    assert lowtide("explain", MODULE, "--format", "markdown") == 0
    assert lowtide.out.startswith("**jit\\_mlp**: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "memory_viz"], "--format memory_viz is binary; name a file with -o"),
        (["--format", "csv", "--html", "x.html"], "--format and --html are two forms"),
        (["--plan", "x", "--what-if"], "--what-if and --try change the program"),
        (["--plan", "x", "--try", "donate:x"], "leave out --plan, whose report says what would"),
        (["--format", "memoryviz"], "no 'memoryviz'; did you mean 'memory_viz'?"),
    ],
)
def test_what_does_not_go_together(lowtide, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lowtide("explain", MODULE, *options) == 1
    assert message in lowtide.err and lowtide.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_told_first(lowtide, tmp_path):
    assert lowtide("explain", MODULE, "--html", tmp_path / "no" / "page.html") == 1
    assert lowtide.err.startswith("error: ") and lowtide.err.count("\n") == 1
