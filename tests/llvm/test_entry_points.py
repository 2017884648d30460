"""LLVM's functions called directly, beside those that llvmlite declares."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import pytest

from lowtide.llvm import entry_points as places
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.named_targets import named_target
from lowtide.llvm.target import host_target

TEXT = """
define internal i64 @inner(i64 %x) alwaysinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @outer(ptr %from, i64 %x) {
  %z = call i64 @inner(i64 %x)
  %a = load i64, ptr %from
  %s = add i64 %a, %z
  ret i64 %s
}
"""

OTHERS_ARE_NOT_LOADED = """
import sys
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target
assert KernelCompiler(host_target()).object_code("define void @f() {\\n ret void\\n}")
found = [x for x in sys.modules if x.split(".")[0] in ("llvmlite", "zipfile", "tempfile")]
assert not found, found
"""


def _made() -> list[bytes | str]:
    host = KernelCompiler(host_target())
    far = KernelCompiler(named_target("aarch64"))
    return [
        host.object_code(TEXT),
        host.object_code(TEXT, whole=True),
        host.whole_assembly(TEXT, 2),
        far.assembly(TEXT),
    ]


def test_code_is_the_same_by_functions_that_llvmlite_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = _made()
    with monkeypatch.context() as changed:
        changed.setattr(places, "_KNOWN", ("none",))
        assert places._known_library() is None
        library = places._of_llvmlite()
        changed.setattr("lowtide.llvm.machine.entry_points", lambda: library)
        changed.setattr(places, "entry_points", lambda: library)
        changed.setattr("lowtide.llvm.machine.ready_llvm", lambda: library)
        assert _made() == first
    assert len(set(first)) == len(first)


def test_what_functions_take_is_what_llvmlite_says() -> None:
    """The kinds of arguments: addresses, texts and integers, each of as many bytes."""
    theirs = llvm.ffi.lib._lib
    for name, (result, arguments) in places._SIGNATURES.items():
        said = getattr(theirs, f"LLVMPY_{name}")
        if said.argtypes is not None:
            assert [ctypes.sizeof(x) for x in said.argtypes] == [
                ctypes.sizeof(x) for x in arguments
            ], name
        if result is not None:
            assert ctypes.sizeof(said.restype) == ctypes.sizeof(result), name


def test_versions_are_those_that_llvmlite_tells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert places.llvmlite_version() == llvmlite.__version__
    assert places.llvm_version() == llvm.llvm_version_info
    places.llvmlite_version.cache_clear()
    monkeypatch.setattr(places, "_folders", lambda: [tmp_path])
    assert places.llvmlite_version() == llvmlite.__version__, "asked of llvmlite itself"
    assert places._known_library() is None
    places.llvmlite_version.cache_clear()


def test_nothing_of_llvmlite_is_loaded() -> None:
    if places._known_library() is None:
        pytest.skip("llvmlite finds its library itself here")
    done = subprocess.run(
        [sys.executable, "-c", OTHERS_ARE_NOT_LOADED], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
