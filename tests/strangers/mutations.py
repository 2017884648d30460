"""Changes of the bytes of a file: of what it says, and of the numbers that it has."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from tests.strangers.messages import change_of_field

NUMBERS: Final = (0, 1, -1, 2, 7, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)
WORDS: Final = (
    b"\0", b"\xff", b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"1e999", b"NaN",
    b"../", b"/etc/passwd", b"\xed\xa0\x80", b"\n", b"\r\n", b"-", b"%s", b"99999999999999999999",
    b"\x80" * 10, b"\x0a\xff\xff\xff\xff\x07", b"[[[[[[[[", b"{{{{{{{{", b"((((((((",
)  # fmt: skip
_DIGITS: Final = re.compile(rb"\d+")
_STRING: Final = re.compile(rb'"[^"]*"|[A-Za-z_][\w.]{2,}')

Change = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def _span(rng: random.Random, data: bytes, longest: int) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.randint(0, longest))


def flip(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with one bit changed."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def cut(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes without some of them."""
    begin, end = _span(rng, data, rng.choice((1, 4, 60)))
    return data[:begin] + data[end:]


def break_off(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the first of the bytes."""
    return data[: rng.randrange(len(data) + 1)]


def repeat(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with some of them several times."""
    begin, end = _span(rng, data, 80)
    return data[:begin] + data[begin:end] * rng.choice((2, 2, 3, 50)) + data[end:]


def insert(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with a word between them, or instead of some."""
    begin, end = _span(rng, data, rng.choice((0, 0, 1, 8)))
    return data[:begin] + rng.choice(WORDS) + data[end:]


def number_of_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with another number instead of one in digits."""
    found = list(_DIGITS.finditer(data))
    if not found:
        return flip(rng, data, others)
    at = rng.choice(found)
    return data[: at.start()] + str(rng.choice(NUMBERS)).encode() + data[at.end() :]


def number_of_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with another number instead of 1, 2, 4 or 8 of them."""
    size = rng.choice((1, 2, 4, 8))
    begin = rng.randrange(len(data) + 1)
    value = (rng.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
    return data[:begin] + value + data[begin + size :]


def exchange(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with one of their words instead of another one."""
    found = list(_STRING.finditer(data))
    if len(found) < 2:
        return flip(rng, data, others)
    at = rng.choice(found)
    return data[: at.start()] + rng.choice(found)[0] + data[at.end() :]


def splice(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes with some of another input among them."""
    other = rng.choice(others)
    first, last = _span(rng, other, 200)
    begin, end = _span(rng, data, rng.choice((0, 100)))
    return data[:begin] + other[first:last] + data[end:]


CHANGES: Final[tuple[Change, ...]] = (
    flip, flip, cut, break_off, repeat, insert, insert, number_of_text, number_of_text,
    number_of_bytes, number_of_bytes, exchange, splice, change_of_field, change_of_field,
    change_of_field, change_of_field,
)  # fmt: skip


def mutated(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the bytes after 1 to 4 changes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = rng.choice(CHANGES)(rng, data, others)
    return data
