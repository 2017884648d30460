"""The finder of this package's modules beside Python's own."""

from __future__ import annotations

import importlib
import os
import py_compile
import shutil
import subprocess
import sys
import warnings
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import pytest

import lowtide
from lowtide.files import module_files
from lowtide.files.module_files import QuickFinder, QuickLoader, find_quickly

ENDING = f".{sys.implementation.cache_tag}.pyc"


def _nowhere() -> Path:
    raise AssertionError("compiled files are Python's own")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a package `found_quickly` with a module and a package of two, on the path."""
    folder = tmp_path / "found_quickly"
    (folder / "inner" / "deeper").mkdir(parents=True)
    for name in ("__init__", "one", "inner/__init__", "inner/two"):
        (folder / f"{name}.py").write_text(f"from __future__ import annotations\nNAME = {name!r}\n")
    (folder / "inner" / "deeper" / "three.py").write_text("NAME = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    root = importlib.import_module("found_quickly")
    find_quickly("found_quickly", root.__spec__, root.__path__, _nowhere)
    yield folder
    for name in [x for x in sys.modules if x.split(".")[0] == "found_quickly"]:
        del sys.modules[name]


@pytest.fixture
def kept(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which code of `package` is kept, Python being told to write none."""
    root, folder = sys.modules["found_quickly"], tmp_path / "user" / "modules"
    find_quickly("found_quickly", root.__spec__, root.__path__, lambda: folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return folder


def _files(folder: Path) -> list[Path]:
    return sorted(x for x in folder.rglob("*") if x.is_file())


def _anew(name: str) -> object:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def test_each_module_is_where_python_finds_it() -> None:
    folder = Path(lowtide.__path__[0])
    finder = QuickFinder("lowtide", ENDING, _nowhere)
    count = 0
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        inner = parts[:-1] if parts[-1] == "__init__" else parts
        name, around = ".".join(inner), [str(folder.parent.joinpath(*inner[:-1]))]
        if len(inner) == 1:
            continue
        ours, theirs = finder.find_spec(name, around), PathFinder.find_spec(name, around)
        assert ours is not None and theirs is not None, name
        for field in ("name", "origin", "cached", "has_location", "parent"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
        assert ours.submodule_search_locations == theirs.submodule_search_locations
        count += 1
    assert count > 300


def test_modules_are_loaded_from_compiled_files_of_pythons_own(package: Path) -> None:
    first = _anew("found_quickly.inner.two")
    compiled = package / "inner" / "__pycache__" / f"two{ENDING}"
    assert first.NAME == "inner/two" and first.__cached__ == str(compiled)
    assert isinstance(first.__loader__, QuickLoader) and compiled.exists()
    compiled.write_bytes(compiled.read_bytes().replace(b"inner/two", b"INNER/TWO"))
    assert _anew("found_quickly.inner.two").NAME == "INNER/TWO"


def test_code_says_where_its_source_is_now(package: Path) -> None:
    compiled = package / "__pycache__" / f"one{ENDING}"
    (package / "one.py").write_text("def f():\n    pass\n")
    py_compile.compile(str(package / "one.py"), str(compiled), dfile="elsewhere/one.py")
    before = compiled.read_bytes()
    assert b"elsewhere" in before
    assert _anew("found_quickly.one").f.__code__.co_filename == str(package / "one.py")
    assert compiled.read_bytes() == before


@pytest.mark.parametrize("how", ["size", "time", "magic", "flags", "gone", "short"])
def test_a_compiled_file_that_is_not_for_the_source_is_not_used(package: Path, how: str) -> None:
    _anew("found_quickly.one")
    source, compiled = package / "one.py", package / "__pycache__" / f"one{ENDING}"
    data = compiled.read_bytes().replace(b"one", b"ONE")
    status = source.stat()
    if how == "size":
        source.write_text(source.read_text() + "\n")
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif how == "time":
        os.utime(source, (status.st_atime, status.st_mtime + 2))
    changed = {"magic": b"????" + data[4:], "flags": data[:4] + b"\x04" + data[5:]}
    compiled.write_bytes(changed.get(how, data))
    if how == "gone":
        compiled.unlink()
    elif how == "short":
        compiled.write_bytes(data[:7])
    assert _anew("found_quickly.one").NAME == "one"


def test_what_is_no_source_file_is_left_to_python(package: Path) -> None:
    assert importlib.import_module("found_quickly.inner.deeper.three").NAME == 3
    finder = QuickFinder("found_quickly", ENDING, _nowhere)
    around = [str(package)]
    (package / "folder.py").mkdir()
    for name in ("found_quickly.none", "found_quickly.folder", "found_quicklier.one", "one"):
        assert finder.find_spec(name, around) is None
    assert finder.find_spec("found_quickly.one", None) is None
    assert finder.find_spec("found_quickly.one", [*around, *around]) is None
    assert finder.find_spec("found_quickly.one", around) is not None


def test_compiled_files_in_another_place_are_pythons_affair(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = sys.modules["found_quickly"]
    before = len(sys.meta_path)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    find_quickly("found_quickly", root.__spec__, root.__path__, _nowhere)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    find_quickly("found_quickly", root.__spec__, [*root.__path__, "more"], _nowhere)
    find_quickly("found_quickly", None, root.__path__, _nowhere)
    assert len(sys.meta_path) == before
    assert type(root.__spec__.loader) is SourceFileLoader
    assert sys.meta_path[before - 1] is PathFinder


def test_a_package_that_is_loaded_again_has_one_finder(package: Path) -> None:
    root = sys.modules["found_quickly"]
    before = list(sys.meta_path)
    anew = type("QuickFinder", (), {"package": "found_quickly"})()
    other = type("QuickFinder", (), {"package": "other"})()
    sys.meta_path[:0] = [anew, other]
    find_quickly("found_quickly", root.__spec__, root.__path__, _nowhere)
    assert len(sys.meta_path) == len(before) + 1 and other in sys.meta_path


def test_finders_that_were_there_are_asked_first(package: Path) -> None:
    asked = []

    class Watch:
        def find_spec(self, name: str, *given: object) -> None:
            asked.append(name)

    sys.meta_path.insert(0, Watch())
    root = sys.modules["found_quickly"]
    find_quickly("found_quickly", root.__spec__, root.__path__, _nowhere)
    assert isinstance(_anew("found_quickly.one").__loader__, QuickLoader)
    assert asked == ["found_quickly.one"]


@pytest.mark.parametrize("name", ["inner/two", "", ".inner", "a\0b", "\ud800", "one.py"])
def test_what_is_no_name_of_a_module_is_not_found(package: Path, name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"found_quickly.{name}")


def test_a_package_comes_before_a_module_of_its_name(package: Path) -> None:
    (package / "inner.py").write_text("NAME = 'module'\n")
    assert _anew("found_quickly.inner").NAME == "inner/__init__"


def test_the_package_is_found_so() -> None:
    code = "import lowtide.ir.module as m; print(type(m.__loader__).__name__)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "QuickLoader"


def test_code_is_kept_for_the_user_where_python_may_not_write_it(
    package: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _anew("found_quickly.inner.two").NAME == "inner/two"
    assert _files(kept) and not (package / "inner" / "__pycache__").exists()
    monkeypatch.setattr(SourceFileLoader, "source_to_code", None)
    again = _anew("found_quickly.inner.two")
    assert again.NAME == "inner/two" and again.__file__ == str(package / "inner" / "two.py")


def test_a_folder_of_somebody_else_is_such_a_place(
    package: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(module_files, "access", lambda path, mode: path != str(package))
    assert _anew("found_quickly.one").NAME == "one" and _files(kept)


def test_what_is_compiled_beside_the_source_is_taken_first(package: Path, kept: Path) -> None:
    compiled = package / "__pycache__" / f"one{ENDING}"
    py_compile.compile(str(package / "one.py"), str(compiled))
    assert _anew("found_quickly.one").NAME == "one" and not _files(kept)


def test_kept_code_is_of_the_source_as_it_is_now(package: Path, kept: Path) -> None:
    source = package / "one.py"
    assert _anew("found_quickly.one").NAME == "one"
    status = source.stat()
    source.write_text(source.read_text().replace("one", "two"))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _anew("found_quickly.one").NAME == "two"


def test_a_folder_that_others_may_write_to_keeps_no_code(package: Path, kept: Path) -> None:
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used as a cache"):
        assert _anew("found_quickly.one").NAME == "one"
    assert not _files(kept)


def test_no_code_is_kept_where_nothing_is_to_be(package: Path, kept: Path) -> None:
    root = sys.modules["found_quickly"]
    find_quickly("found_quickly", root.__spec__, root.__path__, lambda: None)
    assert _anew("found_quickly.one").NAME == "one" and not kept.exists()


def test_warnings_that_are_errors_end_no_import(
    package: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _anew("found_quickly.one").NAME == "one"


def _tree(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the package without compiled files, and the environment of a process with it."""
    tree = tmp_path / "tree"
    shutil.copytree(lowtide.__path__[0], tree / "lowtide", ignore=shutil.ignore_patterns("*.pyc"))
    given = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return tree, {**os.environ, **given, "XDG_CACHE_HOME": str(tmp_path / "user")}


def _told(code: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_each_module_may_be_the_first_without_a_compiled_file(tmp_path: Path) -> None:
    _, environment = _tree(tmp_path)
    for code in (
        *("from lowtide import Options", "import lowtide.options", "import lowtide.files.writing"),
        *("import lowtide.files.object_cache", "import lowtide.files.kept_code"),
        "import lowtide.ir.module",
    ):
        assert _told(f"{code}; import lowtide.api; print(1)", environment) == "1\n"


def test_what_it_takes_to_keep_code_is_known(tmp_path: Path) -> None:
    code = (
        "import sys, lowtide; before = set(sys.modules); import lowtide.files.kept_code; "
        "import lowtide.options; new = set(sys.modules) - before; "
        "print(*sorted(x for x in new if x.startswith('lowtide')))"
    )
    assert set(_told(code, dict(os.environ)).split()) == module_files._TO_KEEP


def test_a_process_that_may_write_no_code_compiles_the_package_once(tmp_path: Path) -> None:
    code = (
        "import sys; from importlib.machinery import SourceFileLoader as L; made = []; "
        "old = L.source_to_code; "
        "L.source_to_code = lambda self, *x, **y: [made.append(self.name), old(self, *x, **y)][1]; "
        "import lowtide.ir.module; print(len([x for x in made if x.startswith('lowtide')]))"
    )
    tree, environment = _tree(tmp_path)
    counts = [int(_told(code, environment)) for _ in range(2)]
    assert counts[0] > 30 > 10 > counts[1]
    assert not list(tree.rglob("*.pyc"))
