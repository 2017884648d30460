"""Pages of LLVM's file in this process, of which little is used once it is loaded or has compiled.

They are never written to: those that are used again come from the file.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from functools import cache
from pathlib import Path
from typing import Final

from lowtide.llvm.entry_points import is_loaded

_NAME: Final = "libllvmlite"

_HEADER: Final = struct.Struct("<16sHHIQQQIHHH")
"""The header of a file in ELF with 64 bits, up to the number of its segments."""

_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_IDENTITY: Final = b"\x7fELF\x02\x01"
_LOADED: Final = 1
_WRITTEN: Final = 2
NOT_NEEDED: Final = 4
"""What `madvise` is told of pages that may go."""


def llvm_pages() -> tuple[int, int]:
    """Return the address and bytes of LLVM's code and constants.

    They are (0, 0) where it is not loaded, or where the system or the file does not say.
    """
    return _found() if is_loaded() else (0, 0)


def forget_llvm_pages() -> None:
    """Give the pages of LLVM's code and constants back to the system."""
    start, nbytes = llvm_pages()
    if nbytes:
        libc = ctypes.CDLL(None)
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        libc.madvise(start, nbytes, NOT_NEEDED)


@cache
def _found() -> tuple[int, int]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or not Path(fields[5]).name.startswith(_NAME):
                continue
            # The lines are in the order of addresses, and so this one has the file's beginning.
            return int(fields[0].partition("-")[0], 16), unwritten_bytes(Path(fields[5]))
    except OSError:
        pass
    return 0, 0


def unwritten_bytes(library: Path) -> int:
    """Return how many bytes of a library, as it lies in memory, come before those written to.

    What the loader writes, and only then protects, counts as written to. 0 where the file is no
    library in ELF with 64 bits, least byte first, whose memory begins with the file.
    """
    with library.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_IDENTITY):
            return 0
        *_, start, _, _, _, size, count = _HEADER.unpack(header)
        file.seek(start)
        table = file.read(size * count)
    if size != _SEGMENT.size or len(table) < size * count:
        return 0
    loaded = [x for x in _SEGMENT.iter_unpack(table) if x[0] == _LOADED]
    written = [x[3] for x in loaded if x[1] & _WRITTEN]
    read = [x[3] + x[5] for x in loaded if not x[1] & _WRITTEN]
    if not read or loaded[0][2:4] != (0, 0):
        return 0
    return int(min([*written, max(read)])) // mmap.PAGESIZE * mmap.PAGESIZE
