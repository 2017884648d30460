"""Names from files of strangers do not command a terminal, whatever shows them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import console
from lowtide.cli.main import main
from lowtide.frontend.hlo_proto import write_hlo_module_proto
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


# -- files ---------------------------------------------------------------------------------------

COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

ESCAPED = re.compile(r"\\u(00(0[0-8bcef]|1|7f|[89])|061c|20(0[ef]|2[a-e]|6[6-9]))", re.IGNORECASE)

FILES = [
    ("plan", "--svg", "x.svg"),
    ("plan", "--html", "x.html"),
    ("plan", "--budget=1GiB", "--html", "x.html"),
    ("plan", "-o", "x.json"),
    ("plan", "-o", "x.txt"),
    ("plan", "-o", "x.certificate.json"),
    ("run", "--trace", "x.json"),
    ("opt", "--dot", "x.dot"),
    ("opt", "--dump-to", "x"),
    ("compile", "--dump-to", "x"),
    ("reduce", "-o", "x.hlo"),
]


def wicked_proto(path: Path) -> Path:
    """The module as protobuf, with names of the same kind: text has none."""
    plain = "Q" * len(WICKED.encode())
    text = TEXT.replace("HloModule m", f"HloModule m{plain}").replace("main", f"main{plain}")
    text = re.sub(r"\b([xy])\b", rf"\1{plain}", text)
    data = write_hlo_module_proto(lowtide.parse_hlo(text))
    assert data.count(plain.encode()) >= 4
    path.write_bytes(data.replace(plain.encode(), WICKED.encode()))
    return path


def strings_in(value: object) -> Iterator[str]:
    """All strings of a JSON document, as a program gets them."""
    if isinstance(value, dict):
        for key, x in value.items():
            yield key
            yield from strings_in(x)
    elif isinstance(value, list):
        for x in value:
            yield from strings_in(x)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("form", ["text", "proto"])
@pytest.mark.parametrize("command", FILES, ids=" ".join)
def test_files_obey_no_name(command, form, tmp_path: Path, capsys) -> None:
    path = tmp_path / "wicked.hlo"
    path.write_text(TEXT)
    if form == "proto":
        path = wicked_proto(tmp_path / "wicked.pb")
    *options, name = command
    folder = tmp_path / "out"
    folder.mkdir()
    status = main([options[0], str(path), *options[1:], str(folder / name)])
    shown = capsys.readouterr()
    assert not COMMANDS.search(shown.err + shown.out), (shown.err, shown.out)
    if form == "proto" and status == 1:
        assert "name" in shown.err  # Such a module is refused.
        return
    assert status == 0, shown.err
    written = [x for x in folder.rglob("*") if x.is_file()]
    assert written
    for file in written:
        text = file.read_text()
        assert not COMMANDS.search(text), (file.name, COMMANDS.search(text))
        if file.name in ("x.json", "x.html") and options[0] == "run":
            found = [x for x in strings_in(json.loads(text)) if COMMANDS.search(x)]
            assert not found
        if file.suffix == ".html":
            assert not ESCAPED.search(text)


@pytest.mark.parametrize("looks", [True, False])
def test_texts_for_programs_are_exact_unless_somebody_looks(looks: bool, monkeypatch) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: looks
    monkeypatch.setattr("sys.stdout", stream)
    console.write_exact(WICKED)
    assert stream.getvalue() == (visible(WICKED) if looks else WICKED) + "\n"
