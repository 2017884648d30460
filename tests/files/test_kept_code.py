"""Code that is kept in a folder of the user's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, SimpleNamespace

import pytest

from lowtide.files import kept_code
from lowtide.files.kept_code import KeptCode


class _Compiler:
    """What compiles a source, and counts how often."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def __call__(self) -> CodeType:
        self.count += 1
        return compile(self.path.read_text(), str(self.path), "exec")


@pytest.fixture
def compiler(tmp_path: Path) -> _Compiler:
    """A compiler of a source of one line."""
    path = tmp_path / "one.py"
    path.write_text("NAME = 'one'\n")
    return _Compiler(path)


def test_a_source_is_compiled_once(compiler: _Compiler, tmp_path: Path) -> None:
    for _ in range(3):
        code = KeptCode(tmp_path / "kept").through(str(compiler.path), compiler)
        assert code is not None and code.co_filename == str(compiler.path)
    assert compiler.count == 1


@pytest.mark.parametrize("how", ["text", "path", "optimize", "version"])
def test_code_of_another_source_is_not_taken(
    compiler: _Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    kept = KeptCode(tmp_path / "kept")
    kept.through(str(compiler.path), compiler)
    status = compiler.path.stat()
    if how == "text":
        compiler.path.write_text("NAME = 'two'\n")
    if how == "path":
        compiler.path = compiler.path.rename(tmp_path / "two.py")
    if how == "optimize":
        monkeypatch.setattr(kept_code, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=2)))
    if how == "version":
        monkeypatch.setattr(kept_code, "MAGIC_NUMBER", b"????")
    os.utime(compiler.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    kept.through(str(compiler.path), compiler)
    assert compiler.count == 2


def test_damaged_code_is_compiled_anew(compiler: _Compiler, tmp_path: Path) -> None:
    kept = KeptCode(tmp_path / "kept")
    kept.through(str(compiler.path), compiler)
    [file] = [x for x in (tmp_path / "kept").rglob("*") if x.is_file()]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    code = kept.through(str(compiler.path), compiler)
    assert compiler.count == 2 and code is not None and sys.getsizeof(code)
