"""The checker as a file of its own: what it imports, its size, and what it does with any input."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.certificate.cases import compact, in_regions, refuted, signed, stacked

from lowtide.certificate import REJECTED, check, checker

FILE = Path(checker.__file__)
SOURCE = FILE.read_text()


def run(*arguments, data=b""):
    """Run the file without site packages, environment, or anything else of this process."""
    command = [sys.executable, "-I", "-S", str(FILE), *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def test_it_is_short() -> None:
    assert len(SOURCE.splitlines()) <= 400


def test_it_imports_the_standard_library_only() -> None:
    names = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module)
    assert names
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
    assert "import_module" not in SOURCE
    assert "__import__" not in SOURCE


@pytest.mark.parametrize(
    ("make", "status", "answer"),
    [
        (stacked, 0, "valid and optimal: 9 bytes, and no plan is smaller\n"),
        (in_regions, 0, "valid and optimal: 8 bytes, and no plan is smaller\n"),
        (refuted, 0, "valid and optimal: "),
        (
            lambda: signed({**stacked(), "evidence": {}, "bound": 0}),
            2,
            "valid, bound not certified: 9 bytes; 0 bytes are needed\n",
        ),
        (
            lambda: {**stacked(), "sha256": "0" * 64},
            4,
            "rejected: sha256: not that of the content\n",
        ),
        (lambda: 3, 4, "rejected: expected an object with the fields schema kind problem plan"),
    ],
)
def test_its_answer_and_exit_status(tmp_path, make, status, answer) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(compact(make()))
    done = run(path)
    assert done.stdout.decode().startswith(answer)
    assert (done.returncode, done.stderr) == (status, b"")


def test_standard_input() -> None:
    assert run("-", data=compact(stacked())).returncode == 0


def test_no_certificate_at_all(tmp_path) -> None:
    for arguments in ([], [tmp_path / "missing"], [tmp_path]):
        done = run(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith(b"usage: checker.py CERTIFICATE")
        assert b"Traceback" not in done.stderr


STRANGE = {
    "nothing": b"",
    "no JSON": b"HloModule m",
    "no text": b"\xff\xfe{}",
    "a byte order mark": b"\xef\xbb\xbf" + compact(stacked()),
    "zeros": b"\0" * 100,
    "a number": b"1",
    "a list of the fields": b'["bound", "evidence", "kind", "plan", "problem", "schema", "sha256"]',
    "null": b"null",
    "an empty object": b"{}",
    "a name twice": compact(stacked()).replace(b'"bound":9', b'"bound":8,"bound":9'),
    "two certificates": compact(stacked()) * 2,
    "something behind": compact(stacked()) + b" x",
    "spaces": compact(stacked()).replace(b'"bound":', b'"bound": '),
    "a space in front": b" " + compact(stacked()),
    "a million spaces": b"{" + b" " * 10**6 + compact(stacked())[1:],
    "two line feeds": compact(stacked()) + b"\n\n",
    "a number with a sign": compact(stacked()).replace(b'"height":9', b'"height":-9'),
    "a flag": compact(stacked()).replace(b'"bound":9', b'"bound":true'),
    "an escape": compact(stacked()).replace(b'"bound"', b'"\\u0062ound"'),
    "a million digits": compact(stacked()).replace(b'"bound":9', b'"bound":9' + b"0" * 10**6),
    "a number with an exponent": compact(stacked()).replace(b'"bound":9', b'"bound":9e0'),
    "lists in lists": b"[" * 10**5 + b"]" * 10**5,
    "deep evidence": compact(stacked()).replace(
        b'"tree":[2]', b'"tree":' + b"[" * 900 + b"]" * 900
    ),
    "open lists": b"[" * 10**6,
    "objects in objects": b'{"x":' * 10**5 + b"1" + b"}" * 10**5,
    "half a surrogate": compact(signed({**stacked(), "kind": "\ud800"})),
    "a name for a terminal": compact({**stacked(), "\x1b[2J": 1}),
    "a long name": compact({**stacked(), "x" * 10**6: 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_strange_input_is_rejected(name) -> None:
    verdict = check(STRANGE[name])
    assert verdict.answer == REJECTED
    assert verdict.detail.isascii()
    assert verdict.detail.isprintable()
    assert len(verdict.detail) < 300


def test_what_would_take_too_long_is_rejected() -> None:
    count = 20_000
    document = stacked()
    document["problem"]["buffers"] = [[1, 1, [], [[0, 0]]] for _ in range(count)]
    document["plan"] = {"places": [[0, i] for i in range(count)], "height": count}
    document["evidence"] = {"height": 0, "tree": [0] * 20_000}
    assert check(compact(signed(document))).detail == "evidence: too long to check"


def test_all_that_is_read_is_covered_by_the_digest() -> None:
    document = json.loads(compact(stacked()))
    for section in ("problem", "plan", "evidence"):
        assert check(compact({**document, section: {}})).answer == REJECTED
