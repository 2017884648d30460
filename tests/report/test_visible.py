"""Names from files of strangers do not command a terminal, whatever shows them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import console
from lowtide.cli.main import main
from lowtide.report.drawing import Paint, visible

WICKED = "a\x1b[2J\x1b]0;x\x07\u202eb\x9b8m"
TEXT = f"""
HloModule m

ENTRY main {{
  x = f32[1000] parameter(0)
  ROOT y = f32[1000] add(x, x), metadata={{op_name="{WICKED}" source_file="{WICKED}" source_line=3}}
}}
"""


def test_colours_stay_and_commands_go() -> None:
    assert visible(Paint(color=True)("bad", "x")) == "\x1b[1;31mx\x1b[0m"
    assert visible("a\tb\nä 漢 █…") == "a\tb\nä 漢 █…"
    assert visible("\x1b[8m\x1b[31mhidden\x1b[2J") == "?[8m?[31mhidden?[2J"
    assert visible("\u202e\u2066\u200f\r\x00\x9b") == "??????"


@pytest.mark.parametrize("command", ["explain", "plan", "run", "compile"])
def test_screens_obey_no_name(command: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "wicked.hlo"
    path.write_text(TEXT)
    assert main([command, str(path)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "\u202e" not in shown.out + shown.err


def test_reports_printed_in_python_obey_no_name() -> None:
    shown = str(lowtide.explain(lowtide.parse_hlo(TEXT)))
    assert "\x1b" not in shown and "\x07" not in shown


@pytest.mark.parametrize("looks", [True, False])
def test_texts_for_programs_are_exact_unless_somebody_looks(looks: bool, monkeypatch) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: looks
    monkeypatch.setattr("sys.stdout", stream)
    console.write_exact(WICKED)
    assert stream.getvalue() == (visible(WICKED) if looks else WICKED) + "\n"
