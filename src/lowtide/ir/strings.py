"""Strings in HLO text: C escapes, quoting, and names."""

from __future__ import annotations

import re
from typing import Final

from lowtide.records.late import late_pattern

_ESCAPES: Final = {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("'"): "\\'",
    ord("\\"): "\\\\",
}
_PLAIN: Final = late_pattern(r"[ -!#-&(-\[\]-~]*")
"""Text which needs no escape: printable ASCII but for both quotes and the backslash."""


def escape(text: str) -> str:
    """Return `text` with C escapes; bytes outside of ASCII as three octal digits."""
    if _PLAIN.fullmatch(text):
        return text
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte in _ESCAPES:
            parts.append(_ESCAPES[byte])
        elif 32 <= byte < 127:
            parts.append(chr(byte))
        else:
            parts.append(f"\\{byte:03o}")
    return "".join(parts)


def quote(text: str) -> str:
    """Return `text` as an HLO string literal in double quotes."""
    return f'"{escape(text)}"'


def quote_readable(text: str) -> str:
    """Return `text` in double quotes as it is, or with C escapes where it could not be read back.

    So XLA prints names in origins and in metadata that are meant for people.
    """
    return f'"{text}"' if text.isprintable() and not _CLOSING.search(text) else quote(text)


_CLOSING: Final = late_pattern(r'["\\]')
_SIMPLE: Final = {
    "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11,
    "\\": 92, "?": 63, "'": 39, '"': 34,
}  # fmt: skip
_ESCAPE: Final = late_pattern(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)


def unescape(text: str) -> str:
    """Return `text` with C escapes resolved; bytes which are not UTF-8 become surrogate escapes.

    Raises ValueError on an escape that C does not have.
    """
    if "\\" not in text:
        return text
    out = bytearray()
    position = 0
    while (start := text.find("\\", position)) >= 0:
        out += text[position:start].encode("utf-8", "surrogateescape")
        match = _ESCAPE.match(text, start)
        if match is None:
            raise ValueError("a backslash at the end of a string")
        out += _escaped_bytes(match)
        position = match.end()
    out += text[position:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


def _escaped_bytes(match: re.Match[str]) -> bytes:
    octal, hexadecimal, short, long, simple = match.groups()
    if simple is not None:
        if simple not in _SIMPLE:
            raise ValueError(f"unknown escape \\{simple}")
        return bytes([_SIMPLE[simple]])
    if short is not None or long is not None:
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(f"\\{match[0][1:]} is not a character")
        return chr(code).encode()
    value = int(octal, 8) if octal is not None else int(hexadecimal, 16)
    if value > 255:
        raise ValueError(f"escape {match[0]} is over a byte")
    return bytes([value])


_DICTIONARY_PART: Final = late_pattern(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)


def dictionary_end(text: str, start: int = 0) -> int:
    """Return the offset behind the dictionary in braces at `start`, -1 where it is not closed.

    Braces inside of double quotes do not count.
    """
    depth = 0
    for match in _DICTIONARY_PART.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.end()
        elif not match[1]:
            return -1
    return -1
