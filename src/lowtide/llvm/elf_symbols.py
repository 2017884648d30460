"""Names in the symbol tables of object files: ELF, 64 bits, little-endian."""

from __future__ import annotations

import struct
from typing import Final

_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
"""Name, type, flags, address, offset, bytes, link, info, alignment, bytes of an entry."""

_SYMBOL: Final = struct.Struct("<IBBHQQ")
"""Name, kind, visibility, section, value, bytes."""

_SYMBOL_TABLE: Final = 2


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that an object file uses and does not define, sorted."""
    (start,) = struct.unpack_from("<Q", code, 40)
    count = int.from_bytes(code[60:62], "little")
    sections = [_SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)]
    found = set()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for name, _, _, home, _, _ in _SYMBOL.iter_unpack(code[section[4] :][: section[5]]):
            if name and home == 0:
                begin = names + name
                found.add(code[begin : code.index(b"\0", begin)].decode())
    return tuple(sorted(found))
