"""The bytes of an executable: what they hold, and how they are taken apart again."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lowtide.ir.errors import InputError
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.serial import deserialize, serialize

MAGIC: Final = b"lowtide executable 3\n"
"""What the bytes of an executable begin with: then a SHA-256 of the length of the header and the
header, these two, and the program, which has a sum of its own."""

_SUM_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """What an executable is stored as."""

    program: NativeProgram
    text: str
    memory: Any
    base: str


def read_program(path: Path) -> StoredProgram:
    """Return the program in a file; raises InputError, which names the file."""
    try:
        return open_program(path.read_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    except InputError as error:
        raise InputError(error.message, file=str(path)) from None


def open_program(data: bytes) -> StoredProgram:
    """Return what bytes hold; raises InputError for damaged ones, and for another processor."""
    if not data.startswith(MAGIC):
        raise InputError("is no executable of this version of lowtide")
    begin = len(MAGIC) + _SUM_BYTES
    start = begin + 8
    try:
        (length,) = struct.unpack_from("<Q", data, begin)
        if _sum(data[begin : start + length]) != data[len(MAGIC) : begin]:
            raise ValueError
        header = json.loads(data[start : start + length])
        text, memory, base = str(header["text"]), header["memory"], str(header["base"])
        int(memory["ladder"]["arena_bytes"])
    except (struct.error, ValueError, KeyError, TypeError):
        raise InputError("is a damaged executable: its header cannot be read") from None
    program = deserialize(memoryview(data)[start + length :])
    program.check_host()
    return StoredProgram(program, text, memory, base)


def stored_bytes(stored: StoredProgram) -> bytes:
    """Return a program as bytes, for `open_program`; equal programs give equal bytes."""
    known = {"text": stored.text, "memory": stored.memory, "base": stored.base}
    header = json.dumps(known).encode()
    counted = struct.pack("<Q", len(header)) + header
    return b"".join([MAGIC, _sum(counted), counted, serialize(stored.program)])


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
