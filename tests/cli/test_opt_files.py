"""`lowtide opt --dump-to DIR` and `--dot FILE`: files beside the text."""

import re

import pytest
from tests.cli.conftest import Lowtide

from lowtide.frontend.files import read
from lowtide.ir import Module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.printer import COMPLETE, fingerprint, to_text
from lowtide.passes import Pass
from lowtide.passes.registry import passes
from lowtide.verifier import verify

TEXT = """HloModule my.module

ENTRY main {
  x = f32[64,64] parameter(0)
  n = f32[64,64] negate(x)
  a = f32[64,64] negate(n)
  b = f32[64,64] exponential(a)
  unread = f32[64,64] tanh(b)
  ROOT c = f32[64,64] multiply(b, b)
}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return path


def files(directory):
    """Return the files of a dump by name, without the number of the module in the process."""
    names = {x.name: x for x in sorted(directory.iterdir())}
    assert len({re.match(r"module_(\d{4})\.", name)[1] for name in names}) == 1
    return {re.sub(r"^module_\d{4}", "module", name): x for name, x in names.items()}


def test_dumps_have_the_names_of_xla_and_read_back(lowtide, path, tmp_path):
    out = tmp_path / "new" / "dump"
    arguments = ("--stage", "fused", "--dump-to", out, "--dump-pass-re", "algsimp|cse|fusion")
    assert lowtide("opt", path, *arguments) == 0
    found = files(out)
    prefix = "module.my_module"
    fixed = {
        f"{prefix}.before_optimizations.txt",
        f"{prefix}.after_optimizations.txt",
        f"{prefix}.after_optimizations-buffer-assignment.txt",
        f"{prefix}.after_optimizations-memory-usage-report.txt",
    }
    numbered = sorted(found.keys() - fixed)
    assert len(numbered) == 2
    assert re.fullmatch(rf"{prefix}\.\d{{4}}\.after_algsimp\.txt", numbered[0])
    assert re.fullmatch(rf"{prefix}\.\d{{4}}\.after_priority-fusion\.txt", numbered[1])
    for name in (
        *numbered,
        f"{prefix}.before_optimizations.txt",
        f"{prefix}.after_optimizations.txt",
    ):
        module = read(found[name])
        verify(module)
        assert to_text(module, COMPLETE) == found[name].read_text()
    before = read(found[f"{prefix}.before_optimizations.txt"])
    assert fingerprint(before) == fingerprint(read(path))
    after = read(found[f"{prefix}.after_optimizations.txt"])
    assert after.is_scheduled
    assignment = found[f"{prefix}.after_optimizations-buffer-assignment.txt"].read_text()
    assert assignment.startswith("BufferAssignment:\nallocation 0: ")
    assert after.entry.root.name in assignment
    usage = found[f"{prefix}.after_optimizations-memory-usage-report.txt"].read_text()
    assert "Total bytes: " in usage
    assert lowtide("explain", out, "--json") == 0


def test_a_pattern_that_no_pass_matches(lowtide, path, tmp_path):
    for pattern, said in (("algsmp", 1), ("dce", 0)):
        arguments = ("--passes", "cse,dce", "--dump-to", tmp_path / "d", "--dump-pass-re", pattern)
        assert lowtide("opt", path, *arguments) == 0
        assert lowtide.err.count(f"{pattern!r} matches the name of no pass that ran") == said


def test_modules_number_on(lowtide, path, tmp_path):
    out = tmp_path / "dump"
    for _ in range(2):
        assert lowtide("opt", path, "--dump-to", out) == 0
    numbers = sorted({int(x.name[7:11]) for x in out.iterdir()})
    assert len(numbers) == 2
    assert numbers[1] == numbers[0] + 1


def test_what_is_wrong_with_a_dump_is_said_in_one_line(lowtide, path, tmp_path):
    cases = {
        ("--dump-to", tmp_path / "d", "--dump-pass-re", "("): "'(' is no regular expression",
        ("--dump-to", path): f"--dump-to: {path} is not a directory",
        ("--dump-to", path / "d"): "not a directory",
        ("--dump-pass-re", "cse"): "--dump-pass-re needs --dump-to",
        ("--dot", path / "d"): "not a directory",
        ("--dot", "-", "--json"): "--json and --dot - exclude each other",
    }
    for arguments, expected in cases.items():
        assert lowtide("opt", path, *arguments) == 1
        assert expected in lowtide.err
        assert lowtide.err.startswith("error: ")
        assert lowtide.err.count("\n") == 1
        assert lowtide.out == ""


def test_a_directory_without_permission(lowtide, path, tmp_path, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "no"))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    assert lowtide("opt", path, "--dump-to", tmp_path / "no") == 1
    assert "no: permission denied" in lowtide.err


def cut(module: Module) -> int:
    """Leave the module without the operands of its root."""
    module.entry.root.set_operands(())
    return 1


def test_a_pass_that_breaks_a_module_is_named_with_what_came_before(
    lowtide, path, tmp_path, monkeypatch
):
    known = {**passes(), "cut": Pass("cut", cut, "", "", "")}
    monkeypatch.setattr("lowtide.passes.registry.passes", lambda: known)
    out = tmp_path / "dump"
    wrong = ("opt", path, "--passes", "dce,cut,cse", "--verify")
    assert lowtide(*wrong) == 4
    assert "pass cut left a module that is not valid" in lowtide.err
    assert "--passes-until 1 shows the module before it" in lowtide.err
    assert lowtide(*wrong[:-1]) == 4
    assert "a pass left a module that is not valid" in lowtide.err
    assert "--verify says which" in lowtide.err and not lowtide.out
    assert lowtide(*wrong, "--dump-to", out) == 4
    (before,) = out.glob("*.0002.before_cut.txt")
    assert f"{before} is the module before it" in lowtide.err
    module = read(before)
    verify(module)
    assert "tanh" not in before.read_text()
    assert not list(out.glob("*after_cut*"))


def fail(module: Module) -> int:
    """Raise what no pass should raise."""
    raise ValueError("no such thing")


def give_up(module: Module) -> int:
    """Raise what says that a pass cannot do its work."""
    raise UnsupportedOpError("too wide")


def test_a_pass_that_fails_is_named(lowtide, path, monkeypatch):
    added = {name: Pass(name, f, "", "", "") for name, f in (("fail", fail), ("give-up", give_up))}
    monkeypatch.setattr("lowtide.passes.registry.passes", lambda: {**passes(), **added})
    assert lowtide("opt", path, "--passes", "dce,fail") == 70
    assert lowtide.err.splitlines() == [
        "error: lowtide failed in pass fail of module my.module: ValueError: no such thing",
        "This is a fault in that pass, not in the input; LOWTIDE_TRACEBACK=1 shows where.",
    ]
    assert lowtide("opt", path, "--passes", "give-up") == 3
    assert lowtide.err == "error: too wide, in pass give-up of module my.module\n"


def test_passes_are_shown_with_options_and_examples(lowtide):
    assert lowtide("passes") == 0
    assert "  fast_math=false  also rules that " in lowtide.out
    assert lowtide("passes", "dce,while-unroller") == 0
    assert lowtide.out.startswith("dce  Removes ")
    assert "\n\n\nwhile-unroller  Writes out loops" in lowtide.out
    assert "count=8  the most steps of a loop" in lowtide.out
    assert lowtide.out.count("\nbecomes\n") == 2


def test_drawing(lowtide: Lowtide, path, tmp_path):
    out = tmp_path / "m.dot"
    assert lowtide("opt", path, "--stage", "fused", "--dot", out) == 0
    assert lowtide.out.startswith("HloModule")
    drawing = out.read_text()
    assert "fusion kLoop" in drawing
    assert lowtide("opt", path, "--stage", "fused", "--dot", "-") == 0
    assert lowtide.out == drawing
