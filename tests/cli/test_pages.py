"""`--html`, `--format` and `--what-if` on the command line: what is written, what is refused."""

import json

import pytest
from tests.support import EXAMPLES

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


def test_markdown_goes_to_standard_output(lowtide):
    assert lowtide("explain", MODULE, "--format", "markdown") == 0
    assert lowtide.out.startswith("**jit\\_mlp**: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "memory_viz"], "--format memory_viz is binary; name a file with -o"),
        (["--format", "csv", "--html", "x.html"], "--format and --html are two forms"),
        (["--plan", "x", "--html", "x.html"], "--html are for our own plan"),
        (["--plan", "x", "--what-if"], "--what-if, --try and --html are for our own plan"),
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
