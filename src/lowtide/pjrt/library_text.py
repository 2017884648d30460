"""The machine code of LLVM in this process, of which little is used once programs are compiled."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Final

from lowtide.runtime.cpu.pages import drop

_NAME: Final = "libllvmlite"
_PACKAGE: Final = "llvmlite.binding.ffi"


def llvm_text() -> tuple[int, int]:
    """Return the address and bytes of LLVM's code, which is never written to.

    They are (0, 0) where it is not loaded, or where the system does not say.
    """
    return _text() if _PACKAGE in sys.modules else (0, 0)


@cache
def _text() -> tuple[int, int]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return 0, 0
    for line in lines:
        fields = line.split()
        if fields[1] == "r-xp" and Path(fields[-1]).name.startswith(_NAME):
            start, end = (int(x, 16) for x in fields[0].split("-"))
            return start, end - start
    return 0, 0


def forget_llvm_text() -> None:
    """Give the pages of LLVM's code back; those that are used again come from the file."""
    start, nbytes = llvm_text()
    if nbytes:
        drop(start, nbytes)
