"""Errors of the system while a command writes: one line that names the file or the stage."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL
from tests.support import HANG_SECONDS

from lowtide.files import writing

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")

WRITING = [
    ("plan", "-o", "x.json"),
    ("plan", "--svg", "x.svg"),
    ("plan", "--html", "x.html"),
    ("plan", "-o", "x.certificate.json"),
    ("compile", "-o", "x.exe"),
    ("compile", "--dump-to", "x"),
    ("run", "--outputs", "x.npz"),
    ("run", "--trace", "x.json"),
    ("opt", "--dot", "x.dot"),
    ("opt", "--dump-to", "x"),
    ("reduce", "-o", "x.hlo"),
]

NUMBERS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("command", "option", "name"), WRITING)
def test_each_file_is_named_and_none_is_half(
    lowtide, small, monkeypatch, command, option, name, number
):
    path = small.parent / name

    def replace(source, target):
        raise OSError(number, os.strerror(number), source, None, target)

    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "replace", replace)
        assert lowtide(command, small, option, path) == 1
    assert lowtide.err.startswith(f"error: {path}"), lowtide.err
    assert lowtide.err.endswith(f": {os.strerror(number).lower()}\n")
    assert lowtide.err.count("\n") == 1
    assert not [x for x in small.parent.rglob("*") if x.is_file() and x != small]


def without_dumps():
    return [x for x in WRITING if x[1] != "--dump-to"]


@needs_full
@pytest.mark.parametrize(("command", "option", "name"), without_dumps())
def test_a_full_device_is_named(lowtide, small, command, option, name):
    link = small.parent / name
    link.symlink_to(FULL)
    assert lowtide(command, small, option, link) == 1
    assert lowtide.err == f"error: {link}: no space left on device\n"


COMMANDS = [
    ("explain",),
    ("explain", "--json"),
    ("plan",),
    ("compile",),
    ("run",),
    ("opt",),
    ("reduce",),
    ("passes",),
    ("ops",),
    ("planners",),
    ("--help",),
    ("explain", "--help"),
    ("--version",),
]


def process(arguments, small, **options):
    takes_module = arguments[0] in ("explain", "plan", "compile", "run", "opt", "reduce")
    module = [str(small)] if takes_module and "--help" not in arguments else []
    command = [sys.executable, "-m", "lowtide", *arguments, *module]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@needs_full
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_standard_output_is_one_line(small, arguments):
    with FULL.open("w") as full, process(arguments, small, stdout=full) as running:
        _, said = running.communicate(timeout=HANG_SECONDS)
    assert running.returncode == 1
    assert said.startswith("error: ") and said.count("\n") == 1, said
    assert "no space left on device" in said
    assert "standard output" in said or "`lowtide" in said


@needs_full
def test_where_nothing_can_be_said_the_status_does(small):
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "lowtide", "explain", str(small.with_name("none"))]
        assert subprocess.run(command, stderr=full, stdout=full, check=False).returncode == 1


@pytest.mark.parametrize("arguments", [("opt",), ("explain", "--json"), ("ops",)], ids=" ".join)
def test_a_closed_pipe_is_no_news(small, arguments):
    reading, write_end = os.pipe()
    os.close(reading)
    with os.fdopen(write_end, "w") as closed, process(arguments, small, stdout=closed) as running:
        _, said = running.communicate(timeout=HANG_SECONDS)
    assert (running.returncode, said) == (141, "")


def opened_by_both(pipe, running):
    """A pipe to write to, once the other process reads; a plain `open` waits for ever for a dead
    one."""
    while running.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        time.sleep(0.01)
    raise AssertionError(f"ended with {running.returncode}: {running.stderr.read()}")


@pytest.mark.parametrize("arguments", [("run", "--repeat", "1000000000"), ("explain",)])
def test_interrupted_processes_say_where_in_one_line(tmp_path, arguments):
    """Reading waits for a pipe that nobody writes to; running goes on for hours."""
    small = tmp_path / "small.hlo"
    os.mkfifo(small)
    with process(arguments, small, stdout=subprocess.PIPE) as running:
        holding = opened_by_both(small, running)
        if arguments != ("explain",):
            os.write(holding, SMALL.encode())
            os.close(holding)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=HANG_SECONDS)
        if arguments == ("explain",):
            os.close(holding)
    works = [f"reading {small}"]
    if arguments != ("explain",):
        works += ["compiling small", "running small"]
    places = [*[f"while {x}" for x in works], f"in `lowtide {arguments[0]}`"]
    assert (running.returncode, out) == (130, "")
    assert said in [f"error: interrupted {x}\n" for x in places]  # A busy machine is not as far.


def test_memory_that_ends_is_told_of_with_the_stage(lowtide, small, monkeypatch):
    def fail(*_args, **_kwargs):
        raise MemoryError

    monkeypatch.setattr("lowtide.cli.modules.read_input", fail)
    assert lowtide("explain", small) == 1
    assert lowtide.err == f"error: out of memory while reading {small}\n"


def test_an_unreadable_input_is_named(lowtide, tmp_path, monkeypatch):
    for command in ("explain", "plan", "compile", "run", "opt", "bench", "reduce", "verify"):
        path = tmp_path / "folder.json"
        path.mkdir(exist_ok=True)
        inner = path / "x.hlo"
        assert lowtide(command, inner) == 1
        assert lowtide.err.startswith(f"error: {inner}: "), lowtide.err
        assert lowtide.err.endswith("no such file or directory\n")
    denied = tmp_path / "denied.npz"
    denied.mkdir()
    small = tmp_path / "small.hlo"
    small.write_text(SMALL)
    assert lowtide("run", small, "--inputs", denied) == 1
    assert lowtide.err == f"error: {denied}: cannot be read: is a directory\n"
