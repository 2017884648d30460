"""Outputs that cannot be written are told of before anything is read or searched."""

import os

import pytest


@pytest.fixture
def nothing_is_read(monkeypatch):
    def read(*_args, **_kwargs):
        raise AssertionError("the command began to work")

    for place in ("cli.modules.load", "cli.programs.load_program", "cli.plan_graph.read_graph"):
        monkeypatch.setattr(f"lowtide.{place}", read)


OPTIONS = [
    ("plan", "-o"),
    ("plan", "--svg"),
    ("plan", "--html"),
    ("compile", "-o"),
    ("run", "--outputs"),
    ("run", "--trace"),
]


@pytest.mark.usefixtures("nothing_is_read")
@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_what_cannot_be_written(lowtide, small, command, option, monkeypatch):
    folder = small.parent / "folder.json"
    folder.mkdir()
    for path, words in ((folder, "is a directory"), (folder / "a" / "b", "no such file")):
        assert lowtide(command, small, option, path) == 1
        assert lowtide.err.startswith(f"error: {path}: {words}") and lowtide.err.count("\n") == 1
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder)
    assert lowtide(command, small, option, folder / "a") == 1
    assert lowtide.err == f"error: {folder / 'a'}: permission denied\n"
    assert not list(folder.iterdir())


def test_devices_can_be_written(lowtide, small):
    assert lowtide("plan", small, "-o", os.devnull) == 0
    assert lowtide("compile", small, "-o", os.devnull) == 0
