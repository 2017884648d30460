"""Pages of LLVM's file: what may be given back, and that LLVM works without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.llvm.file_pages import unwritten_bytes

SCRIPT = """
from lowtide.llvm.file_pages import forget_llvm_pages, llvm_pages
assert llvm_pages() == (0, 0), "LLVM is loaded already"
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.named_targets import named_target
from lowtide.llvm.target import host_target

def pages():
    "Bytes that are resident of the stretch, and bytes of it that were written to."
    found = dict.fromkeys(("Rss:", "Private_Dirty:"), 0)
    inside = False
    for line in open("/proc/self/smaps"):
        first, *others = line.split()
        if ":" not in first:
            begin, end = (int(x, 16) for x in first.split("-"))
            inside = start <= begin and end <= start + nbytes
        elif inside and first in found:
            found[first] += int(others[0]) * 1024
    return found["Rss:"], found["Private_Dirty:"]

text = "define i64 @twice(i64 %x) {\\n  %y = shl i64 %x, 1\\n  ret i64 %y\\n}\\n"
compiler = KernelCompiler(host_target())
start, nbytes = llvm_pages()
assert nbytes > 50_000_000
first = compiler.object_code(text)
used, written = pages()
assert used > 10_000_000 and written == 0, (used, written)
forget_llvm_pages()
assert pages() == (0, 0), pages()
assert compiler.object_code(text) == first
assert "ret" in KernelCompiler(named_target("aarch64")).assembly(text)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_pages_that_went_come_again() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_no_library_has_none(tmp_path: Path) -> None:
    path = tmp_path / "libllvmlite.so"
    for data in (b"", b"text", b"\x7fELF\x02\x01" + bytes(60), b"\x7fELF\x01\x01" + bytes(60)):
        path.write_bytes(data)
        assert unwritten_bytes(path) == 0
