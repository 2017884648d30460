"""Plain values in the format of Python's pickle, protocol 2, for programs that read no other."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack


def pickled(value: object) -> bytes:
    """Return dictionaries, lists, pairs, text, booleans and whole numbers as a pickle.

    Raises TypeError for anything else.
    """
    return b"\x80\x02" + b"".join(_pieces(value)) + b"."


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the instructions that put a value on the reader's stack."""
    if isinstance(value, bool):
        yield b"\x88" if value else b"\x89"
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        yield b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)
    elif isinstance(value, str):
        data = value.encode("utf-8", "replace")
        yield b"X" + pack("<I", len(data)) + data
    elif isinstance(value, dict):
        yield b"}("
        for key, item in value.items():
            yield from _pieces(key)
            yield from _pieces(item)
        yield b"u"
    elif isinstance(value, list):
        yield b"]("
        for item in value:
            yield from _pieces(item)
        yield b"e"
    elif isinstance(value, tuple) and len(value) == 2:
        for item in value:
            yield from _pieces(item)
        yield b"\x86"
    else:
        raise TypeError(f"cannot pickle a {type(value).__name__}")
