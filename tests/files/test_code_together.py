"""Code of modules that processes load together, in one file."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from lowtide.files import code_together
from lowtide.files.code_together import CodeTogether
from lowtide.files.module_files import find_quickly, keep_together, read_together
from lowtide.options import code_folder

NAMES = [f"m{x}" for x in range(12)]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a package `read_at_once` of some modules, on the path."""
    folder = tmp_path / "read_at_once"
    folder.mkdir()
    for name in ("__init__", *NAMES):
        (folder / f"{name}.py").write_text(f"NAME = {name!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    _found_quickly(tmp_path)
    yield folder
    for name in [x for x in sys.modules if x.split(".")[0] == "read_at_once"]:
        del sys.modules[name]


def _found_quickly(tmp_path: Path) -> None:
    root = importlib.import_module("read_at_once")
    find_quickly("read_at_once", root.__spec__, root.__path__, lambda: tmp_path / "user")


def _loaded(names: list[str]) -> list[str]:
    """What modules say that are loaded as by a process of its own."""
    for name in NAMES:
        sys.modules.pop(f"read_at_once.{name}", None)
    _found_quickly(Path(sys.modules["read_at_once"].__path__[0]).parent)
    read_together("read_at_once", "some")
    try:
        return [importlib.import_module(f"read_at_once.{x}").NAME for x in names]
    finally:
        keep_together("read_at_once")


def _kept(tmp_path: Path) -> list[bytes]:
    """The bytes of each file that is kept for the user."""
    return [x.read_bytes() for x in (tmp_path / "user").rglob("*") if x.is_file()]


def _forget_compiled(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each source that is not kept together fail to load."""
    for path in (package / "__pycache__").iterdir():
        path.unlink()
    monkeypatch.setattr(SourceFileLoader, "source_to_code", None)


def test_modules_come_from_what_is_kept_together(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _loaded(NAMES) == NAMES
    assert len(_kept(tmp_path)) == 1
    _forget_compiled(package, monkeypatch)
    assert _loaded(NAMES) == NAMES
    assert sys.modules["read_at_once.m3"].__file__ == str(package / "m3.py")


def test_what_is_read_for_another_stage_is_kept_apart(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        _found_quickly(tmp_path)
        for names, stage in ((NAMES[:2], "first"), (NAMES[2:], "second")):
            read_together("read_at_once", stage)
            for name in names:
                sys.modules.pop(f"read_at_once.{name}", None)
                importlib.import_module(f"read_at_once.{name}")
                read_together("read_at_once", stage)  # It was: nothing is kept here.
        keep_together("read_at_once")
        assert len(_kept(tmp_path)) == 2
        if (package / "__pycache__").exists():
            _forget_compiled(package, monkeypatch)


def test_a_source_that_has_changed_is_read(package: Path) -> None:
    _loaded(NAMES)
    (package / "m3.py").write_text("NAME = 'changed'\n")
    assert _loaded(["m2", "m3"]) == ["m2", "changed"]
    status = (package / "m2.py").stat()
    (package / "m2.py").write_text("NAME = 'M2'\n")
    os.utime(package / "m2.py", (status.st_atime, status.st_mtime + 2))
    assert _loaded(["m2", "m3"]) == ["M2", "changed"]


def test_a_source_of_the_same_size_and_time_is_read(package: Path) -> None:
    _loaded(NAMES)
    status = (package / "m2.py").stat()
    (package / "m2.py").write_text("NAME = 'M2'\n")
    os.utime(package / "m2.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    for path in (package / "__pycache__").iterdir():
        path.unlink()
    assert _loaded(["m2", "m3"]) == ["M2", "m3"]


def test_what_is_kept_grows_where_much_was_missed(package: Path, tmp_path: Path) -> None:
    _loaded(NAMES[:8])
    before = _kept(tmp_path)
    _loaded(NAMES[:9])
    assert _kept(tmp_path) == before  # One was missed, of nine.
    _loaded(NAMES[6:10])
    assert len(_kept(tmp_path)) == 1 and _kept(tmp_path) != before


def test_what_was_kept_and_not_loaded_stays(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _loaded(NAMES[:8])
    _loaded(NAMES[8:])
    _forget_compiled(package, monkeypatch)
    assert _loaded(NAMES) == NAMES


def test_what_is_loaded_before_or_after_is_not_kept(package: Path, tmp_path: Path) -> None:
    importlib.import_module("read_at_once.m0")
    read_together("read_at_once", "some")
    keep_together("read_at_once")
    importlib.import_module("read_at_once.m1")
    keep_together("read_at_once")
    assert not _kept(tmp_path)


@pytest.mark.parametrize("how", ["damaged", "short", "gone"])
def test_a_damaged_file_is_written_again(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    _loaded(NAMES)
    (path,) = [x for x in (tmp_path / "user").rglob("*") if x.is_file()]
    data = path.read_bytes()
    changed = {"damaged": data.replace(b"m3", b"M3"), "short": data[: len(data) // 2]}
    path.write_bytes(changed.get(how, b""))
    if how == "gone":
        path.unlink()
    assert _loaded(NAMES) == NAMES
    _forget_compiled(package, monkeypatch)
    assert _loaded(NAMES) == NAMES


def test_a_folder_that_others_may_write_to_is_not_read(package: Path, tmp_path: Path) -> None:
    _loaded(NAMES)
    (tmp_path / "user").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used as a cache"):
        assert _loaded(NAMES) == NAMES


@pytest.mark.parametrize("variable", ["LOWTIDE_CACHE", "HOME"])
def test_there_is_no_folder_without_a_home_or_a_cache(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if variable == "HOME":
        monkeypatch.setattr(Path, "home", _no_home)
    else:
        monkeypatch.setenv(variable, "off")
    assert code_folder() is None


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_nothing_is_kept_where_nothing_is_to_be(package: Path, tmp_path: Path) -> None:
    root = sys.modules["read_at_once"]
    find_quickly("read_at_once", root.__spec__, root.__path__, lambda: None)
    read_together("read_at_once", "some")
    importlib.import_module("read_at_once.m0")
    keep_together("read_at_once")
    assert not (tmp_path / "user").exists()


def test_code_of_another_folder_is_not_taken(tmp_path: Path) -> None:
    source = compile("NAME = 'there'\n", "/there/m.py", "exec")
    first = CodeTogether(tmp_path, "a place")
    first.note("m", (1, 2), source)
    first.keep()
    again = CodeTogether(tmp_path, "a place")
    assert again.code("m", (1, 2), "/here/m.py") is None
    assert CodeTogether(tmp_path, "another place").code("m", (1, 2), "/there/m.py") is None
    assert CodeTogether(tmp_path, "a place").code("m", (1, 3), "/there/m.py") is None
    assert CodeTogether(tmp_path, "a place").code("m", (1, 2), "/there/m.py") == source


def test_other_versions_of_python_keep_code_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = CodeTogether(tmp_path, "a place")
    first.note("m", (1, 2), compile("", "/m.py", "exec"))
    first.keep()
    monkeypatch.setattr(code_together, "MAGIC_NUMBER", b"next")
    assert CodeTogether(tmp_path, "a place").code("m", (1, 2), "/m.py") is None
