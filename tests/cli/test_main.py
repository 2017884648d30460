"""The command line as a whole: help, exit statuses, and one clear message per error."""

import io
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, edited
from tests.support import HANG_SECONDS

import lowtide as package
from lowtide.cli import console
from lowtide.cli import main as main_module
from lowtide.cli.exit_codes import ExitCode, UsageError, VerificationError, exit_code
from lowtide.client.errors import OverMemoryError, SanitizerError
from lowtide.frontend.hlo_proto.writer import write_hlo_module_proto
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import (
    HloProtoError,
    HloTextError,
    InputError,
    InvalidModuleError,
    LowtideError,
    UnsupportedOpError,
)

COMMANDS = ("explain", "plan", "compile", "run", "bench", "opt", "shard", "partition", "ops")
ROOT = Path(__file__).parents[2]
LINES_OF_A_SCREEN = 38


def test_version(lowtide):
    assert lowtide("--version") == 0
    version = re.escape(package.__version__)
    assert re.fullmatch(rf"lowtide {version} \(sources [0-9a-f]{{12}}\)\n", lowtide.out)


def test_help_of_everything(lowtide):
    assert lowtide() == 0
    overview = lowtide.out
    assert lowtide("--help") == 0
    assert lowtide.out == overview
    for command in COMMANDS:
        assert f"  {command} " in overview
        assert lowtide(command, "-h") == 0
        lines = lowtide.out.splitlines()
        assert lines[0].startswith(f"Usage: lowtide {command}")
        assert len(lines) <= LINES_OF_A_SCREEN
        assert max([len(line) for line in lines]) <= 100
    assert "..." not in overview.replace("[ARGS]...", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'. See 'lowtide --help'."),
        (["explain"], "Missing argument 'MODULE'. See 'lowtide explain --help'."),
        (["explain", "x", "--jsn"], "No such option: --jsn"),
        (["explain", "x", "--limit", "0"], "Invalid value for '--limit'"),
        (["explain", "x", "--limit", "a"], "Invalid value for '--limit'"),
        (["run", "x", "--threads", "5000"], "Invalid value for '--threads'"),
        (["plan", "problem.csv"], "problem.csv: no such file or directory"),
        (["plan", "graph.json.xz"], "graph.json.xz: no such file or directory"),
        (["explain", "nope.hlo"], "nope.hlo: no such file or directory"),
    ],
)
def test_usage_errors(lowtide, arguments, message):
    assert lowtide(*arguments) == 1
    assert lowtide.out == ""
    assert lowtide.err.startswith("error: ")
    assert message in lowtide.err
    assert "Traceback" not in lowtide.err


@pytest.mark.parametrize("command", ["explain", "plan", "compile", "run", "bench", "opt"])
def test_a_typo_is_shown_with_its_place(lowtide, small, command):
    path = edited(small, "negate(y)", "negat(y)")
    assert lowtide(command, path) == 1
    first, line, caret = lowtide.err.rstrip("\n").split("\n")
    assert first == f"error: {path}:8:24: unknown opcode 'negat'; did you mean 'negate'?"
    assert line[caret.index("^") :].startswith("negat(y)")
    assert lowtide.out == ""


@pytest.mark.parametrize("command", ["explain", "plan", "compile", "run", "bench", "opt"])
def test_every_command_verifies(lowtide, small, command):
    path = edited(small, "doubled = f32[2,3]{1,0}", "doubled = f32[2,4]{1,0}")
    assert lowtide(command, path) == 1
    first, line, caret = lowtide.err.rstrip("\n").split("\n")
    assert first.startswith(f"error: {path}:7:3: doubled: add: ")
    assert line[caret.index("^") :].startswith("doubled =")


@pytest.mark.parametrize(
    "field",
    [
        "input_output_alias={ {0}: (1, {}, may-alias) }",
        "input_output_alias={ {}: (3, {}, may-alias) }",
        "input_output_alias={ {2}: (0, {}, may-alias) }",
        "buffer_donor={ (3, {}) }",
        "entry_computation_layout={(f32[4])->f32[4]}",
    ],
)
def test_what_the_first_line_says_is_shown_with_its_place(lowtide, tmp_path, field):
    path = tmp_path / "a.hlo"
    path.write_text(
        f"""// {field}
HloModule m, {field}
ENTRY e {{
  p = (f32[4], s32[2]) parameter(0)
  q = f32[8] parameter(1)
  x = f32[4] get-tuple-element(p), index=0
  ROOT r = (f32[4], f32[8]) tuple(x, q)
}}
"""
    )
    assert lowtide("explain", path) == 1
    first, line, caret = lowtide.err.rstrip("\n").split("\n")
    assert first.startswith(f"error: {path}:2:14: {field.partition('=')[0]}")
    assert line[caret.index("^") :].startswith(field)


def test_verification_names_the_file_where_there_is_no_line(lowtide, small):
    alias = "input_output_alias={ {0}: (1, {}, may-alias) }"
    module = parse_hlo(edited(small, "HloModule small,", f"HloModule small, {alias},").read_text())
    path = small.with_suffix(".pb")
    path.write_bytes(write_hlo_module_proto(module))
    assert lowtide("explain", path) == 1
    assert lowtide.err.startswith(f"error: {path}: input_output_alias: ")


def test_the_line_shown_is_that_of_the_computation_meant(lowtide, tmp_path):
    path = tmp_path / "a.hlo"
    path.write_text(
        """HloModule m
f {
  p = f32[4] parameter(0)
  ROOT r = f32[4] negate(p)
}
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] call(p), to_apply=f
  ROOT r = f32[5] add(c, p)
}
"""
    )
    assert lowtide("explain", path) == 1
    first, line, _ = lowtide.err.rstrip("\n").split("\n")
    assert first.startswith(f"error: {path}:9:8: ")
    assert line.strip() == "ROOT r = f32[5] add(c, p)"


@pytest.mark.parametrize("between", ["", "  n = f32[4] negate(a)\n  k = f32[4] negate(n)\n"])
def test_the_second_root_is_shown_with_its_place(lowtide, tmp_path, between):
    path = tmp_path / "a.hlo"
    path.write_text(
        f"""HloModule m
ENTRY e {{
  p = f32[4] parameter(0)
  ROOT a = f32[4] negate(p)
{between}  ROOT b = f32[4] negate(p)
  ROOT c = f32[4] negate(p)
}}
"""
    )
    assert lowtide("explain", path) == 1
    line = 5 + between.count("\n")
    assert lowtide.err.startswith(f"error: {path}:{line}:8: one computation has only one ROOT")


@pytest.mark.parametrize("command", ["explain", "plan", "opt"])
@pytest.mark.parametrize("compress", [bytes, lzma.compress])
def test_standard_input(lowtide, monkeypatch, command, compress):
    data = compress(SMALL.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert lowtide(command, "-") == 0
    assert "small" in lowtide.out.splitlines()[0]


def test_bad_standard_input_has_a_name(lowtide, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"HloModule m\nfoo")))
    assert lowtide("explain", "-") == 1
    assert lowtide.err.startswith("error: <stdin>:2:")


def test_directories_tell_what_was_read(lowtide, small):
    assert lowtide("explain", small.parent) == 0
    assert lowtide.err == f"reading {small}\n"
    edited(small, "x", "x")
    assert lowtide("explain", small.parent) == 0
    assert "other modules in this directory" in lowtide.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), 1),
        (HloTextError("x", line=1, column=1), 1),
        (HloProtoError("x"), 1),
        (InvalidModuleError("x"), 1),
        (UsageError("x"), 1),
        (LowtideError("x"), 1),
        (FileNotFoundError("x"), 1),
        (MemoryError(), 1),
        (UnsupportedOpError("x"), 3),
        (OverMemoryError("x"), 2),
        (SanitizerError("x"), 4),
        (VerificationError("x"), 4),
        (KeyboardInterrupt(), 130),
        (ValueError("x"), 70),
    ],
)
def test_exit_status_of_each_error(error, code):
    assert exit_code(error) == code


def raising(error):
    def load(path, **_):
        raise error

    return load


def test_faults_of_lowtide_are_called_that(lowtide, monkeypatch):
    monkeypatch.setattr("lowtide.cli.modules.load", raising(ValueError("odd")))
    assert lowtide("explain", "x") == ExitCode.INTERNAL_ERROR
    assert "lowtide failed: ValueError: odd" in lowtide.err
    assert "Traceback" not in lowtide.err
    monkeypatch.setenv("LOWTIDE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="odd"):
        lowtide("explain", "x")


def test_interrupt_is_one_line(lowtide, monkeypatch):
    monkeypatch.setattr("lowtide.cli.modules.load", raising(KeyboardInterrupt()))
    assert lowtide("explain", "x") == 130
    assert (lowtide.out, lowtide.err) == ("", "error: interrupted in `lowtide explain`\n")


def test_other_exits_keep_their_status(lowtide, monkeypatch, capsys):
    monkeypatch.setattr("lowtide.cli.modules.load", raising(SystemExit(3)))
    with pytest.raises(SystemExit) as found:
        lowtide("explain", "x")
    assert (found.value.code, capsys.readouterr().err) == (3, "")


def test_an_interrupt_while_the_command_line_is_imported(monkeypatch, capsys):
    from lowtide import __main__

    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == "lowtide.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "lowtide.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert __main__.main() == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted in `lowtide`\n"


@pytest.mark.parametrize("command", ["plan", "explain", "compile", "run"])
@pytest.mark.parametrize("seconds", ["inf", "1e400", "nan", "-1"])
def test_a_deadline_is_a_number_of_seconds(lowtide, small, command, seconds):
    assert lowtide(command, small, "--deadline", seconds) == ExitCode.BAD_INPUT
    assert lowtide.err.startswith("error: Invalid value for '--deadline': ")
    assert (lowtide.out, lowtide.err.count("\n")) == ("", 1)


def test_out_of_memory(lowtide, monkeypatch):
    monkeypatch.setattr("lowtide.cli.modules.load", raising(MemoryError()))
    assert lowtide("run", "x") == 1
    assert lowtide.err == "error: out of memory in `lowtide run`\n"


# -- in a process of its own -------------------------------------------------------------------


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_broken_pipe_is_quiet(small):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lowtide", "opt", str(small)]
    found = subprocess.run(
        command, env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, timeout=HANG_SECONDS
    )
    os.close(writing)
    assert (found.returncode, found.stderr) == (ExitCode.BROKEN_PIPE, b"")


def test_a_terminal_that_knows_ascii_only(small):
    found = subprocess.run(
        [sys.executable, "-m", "lowtide", "explain", str(small)],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"###" in found.stdout
    assert found.stdout.isascii()


def test_nothing_is_collected_when_the_process_ends():
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0));"
        "import lowtide.cli.main"
    )
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True)
    assert (found.returncode, found.stdout) == (0, b"True\n")


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from lowtide.cli.main import main; status = main(['--help']);"
        "heavy = {'numpy', 'ml_dtypes', 'rich', 'google.protobuf', 'jax', 'lowtide.ir'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or status)"
    )
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True)
    assert (found.returncode, found.stderr) == (0, b"")


# -- what is written ---------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "color"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_on_a_terminal_only(monkeypatch, small, environment, color):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("lowtide.cli.progress._PATIENCE_SECONDS", HANG_SECONDS)
    main_module.main(["explain", str(small)])
    assert ("\x1b[" in sys.stdout.getvalue()) == color
    main_module.main(["explain", "nope"])
    assert ("\x1b[" in sys.stderr.getvalue()) == color


def test_progress_shows_only_what_takes_long(monkeypatch):
    from lowtide.cli import progress

    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", HANG_SECONDS)
    with progress.progress("thinking"):
        pass
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.001)
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.001)
    with progress.progress("thinking"):
        while "thinking" not in sys.stderr.getvalue():
            pass
    assert sys.stderr.getvalue().endswith("\r\x1b[K")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(progress, "Thread", None)  # No line is begun that cannot go again.
    with progress.progress("thinking"):
        pass


def test_files_appear_complete_or_not_at_all(tmp_path):
    path = tmp_path / "out.json"
    console.write_file(path, lambda stream: stream.write(b"first\n"))

    def fail(stream):
        stream.write(b"half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        console.write_file(path, fail)
    assert path.read_text() == "first\n"
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_pipe_stays_a_pipe_and_a_link_a_link(tmp_path):
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    console.write_file(pipe, lambda stream: stream.write(b"some"))
    assert os.read(reader, 9) == b"some"
    os.close(reader)
    assert pipe.is_fifo()
    link.symlink_to(target)
    console.write_file(link, lambda stream: stream.write(b"more"))
    assert link.is_symlink()
    assert target.read_bytes() == b"more"


def test_a_pipe_without_a_path_can_be_written(monkeypatch):
    """Its real path is none, and may lie where nobody may write."""
    reading, writing = os.pipe()
    path = Path(f"/dev/fd/{writing}")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda asked, mode: asked == path)
        console.check_outputs(path)
    console.write_file(path, lambda stream: stream.write(b"some"))
    assert os.read(reading, 9) == b"some"
    os.close(reading)
    os.close(writing)


def test_what_cannot_be_written_is_named_as_the_user_named_it(lowtide, small, tmp_path):
    for path in (tmp_path, tmp_path / "none" / "x.json"):
        assert lowtide("plan", small, "-o", path) == 1
        assert lowtide.err.startswith(f"error: {path}: ")


def test_a_closed_stdout_is_an_error(lowtide, small, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    status = main_module.main(["explain", str(small)])
    monkeypatch.undo()
    assert status == 1


def test_two_arguments_for_one_output_contradict_each_other(lowtide, tmp_path):
    module = tmp_path / "m.hlo"
    module.write_text(
        "HloModule m, input_output_alias={ {}: (0, {}, must-alias), {}: (1, {}, must-alias) }\n"
        "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT z = f32[4] add(x, y) }\n"
    )
    assert lowtide("explain", module) == 1
    assert "output [] and parameter 1: the output is aliased twice" in lowtide.err
