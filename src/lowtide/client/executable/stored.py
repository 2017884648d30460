"""The bytes of an executable: what they hold, and how they are taken apart again."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any, Final

from lowtide.client.errors import UntrustedProgramError
from lowtide.files.signing import MAKER_BYTES, SIGNATURE_BYTES, UNSIGNED, SigningKey
from lowtide.ir.errors import InputError
from lowtide.records import dataclass
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.serial import deserialize, serialize

MARK: Final = b"lowtide executable "
"""What executables of all versions begin with."""

MAGIC: Final = MARK + b"4\n"
"""What the bytes of an executable begin with. Then there are the maker and the signature of all
that follows: a SHA-256 of the rest, the length of the header, the header, and the program."""

_SIGNATURE_END: Final = len(MAGIC) + MAKER_BYTES + SIGNATURE_BYTES
_SUM_END: Final = _SIGNATURE_END + 32

HOW_TO_TRUST: Final = "--trust, or trust=True in Python, takes it all the same"


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """What an executable is stored as."""

    program: NativeProgram
    text: str
    memory: Any
    base: str


def read_program(path: Path, key: SigningKey | None) -> StoredProgram:
    """Return the program in a file as `open_program` does; errors name the file."""
    try:
        with path.open("rb") as file:
            data, owner = file.read(), os.fstat(file.fileno()).st_uid
        return open_program(data, key)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    except UntrustedProgramError as error:
        whose = "" if owner == os.getuid() else f" (the file is of user {owner})"
        raise UntrustedProgramError(f"{error.message}{whose}", file=str(path)) from None
    except InputError as error:
        raise InputError(error.message, file=str(path)) from None


def open_program(data: bytes, key: SigningKey | None) -> StoredProgram:
    """Return the program that bytes hold, which have to be signed with a key unless it is None.

    Nothing of it is read before the signature is known to be right. Raises UntrustedProgramError
    where it is not, and InputError for what is damaged, of another version, or for a processor that
    can do more than this one.
    """
    if not data.startswith(MAGIC):
        raise InputError(_no_program(data))
    view = memoryview(data)
    if _sum(view[_SUM_END:]) != data[_SIGNATURE_END:_SUM_END]:
        raise InputError("is a damaged executable: its checksum is wrong")
    if key is not None:
        _check_maker(view, key)
    try:
        (length,) = struct.unpack_from("<Q", data, _SUM_END)
        start = _SUM_END + 8
        header = json.loads(data[start : start + length])
        text, memory, base = str(header["text"]), header["memory"], str(header["base"])
        int(memory["ladder"]["arena_bytes"])
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        raise InputError("is a damaged executable: its header cannot be read") from None
    program = deserialize(view[start + length :])
    program.check_host()
    return StoredProgram(program, text, memory, base)


def _no_program(data: bytes) -> str:
    """Why bytes are no program of this version, in words."""
    end = data.find(b"\n", 0, len(MAGIC) + 8)
    if not data.startswith(MARK) or not data[len(MARK) : end].isdigit():
        return "is no executable of lowtide"
    return (
        f"is an executable of version {data[len(MARK) : end].decode()}, this lowtide reads version "
        f"{MAGIC[len(MARK) : -1].decode()}: compile the module again"
    )


def _check_maker(view: memoryview, key: SigningKey) -> None:
    signature = bytes(view[len(MAGIC) : _SIGNATURE_END])
    if key.made(signature, view[_SIGNATURE_END:]):
        return
    if not key.secret:
        why = f"who compiled it cannot be told, since this user has no key ({key.obstacle})"
    elif signature == UNSIGNED:
        why = "it does not say who compiled it"
    elif signature[:MAKER_BYTES] == key.maker:
        why = "it was changed after this user compiled it"
    else:
        why = "this user did not compile it here"
    raise UntrustedProgramError(
        f"is native code, which may do anything once it runs, and {why}; {HOW_TO_TRUST}"
    )


def stored_bytes(stored: StoredProgram, key: SigningKey) -> bytes:
    """Return a program as bytes, for `open_program`; with one key equal ones give equal bytes."""
    known = {"text": stored.text, "memory": stored.memory, "base": stored.base}
    header = json.dumps(known).encode()
    rest = b"".join([struct.pack("<Q", len(header)), header, serialize(stored.program)])
    signed = _sum(rest) + rest
    return b"".join([MAGIC, key.signature(signed), signed])


def _sum(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def opened(data: bytes | None) -> StoredProgram | None:
    """Return what a cache has, which sees to it that it is ours; None for nothing, or damaged."""
    if data is None:
        return None
    try:
        return open_program(data, None)
    except InputError:
        return None
