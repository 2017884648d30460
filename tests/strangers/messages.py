"""Changes of single fields of messages in protobuf's wire format, whose lengths stay right.

A change of bytes mostly breaks the length of something around it, and is refused at once. These
reach what is behind.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

Field = tuple[int, int, int | bytes]
"""The number of a field, its wire type, and its value: bytes but for wire type 0."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS: Final = {_FIXED64: 8, _FIXED32: 4}
_DEEPEST: Final = 40
_NUMBERS: Final = (0, 1, 2, 3, 5, 8, 127, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def fields_of(data: bytes) -> list[Field] | None:
    """Return the fields of a message, None for bytes that are none."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            found.append((number, kind, value))
        elif kind in (_BYTES, *_WIDTHS):
            size = _WIDTHS.get(kind, 0)
            if kind == _BYTES:
                size, at = _varint(data, at)
            if at < 0 or at + size > len(data):
                return None
            found.append((number, kind, data[at : at + size]))
            at += size
        else:
            return None
        if at < 0 or not number:
            return None
    return found


def written(fields: Sequence[Field]) -> bytes:
    """Return a message of fields."""
    parts = []
    for number, kind, value in fields:
        parts.append(_encoded(number << 3 | kind))
        if isinstance(value, int):
            parts.append(_encoded(value))
        else:
            parts += [_encoded(len(value)), value] if kind == _BYTES else [value]
    return b"".join(parts)


def change_of_field(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a message in which one field, at any depth, is another one, twice there, or gone."""
    return _changed(rng, data, data, _DEEPEST)


def _changed(rng: random.Random, data: bytes, whole: bytes, depth: int) -> bytes:
    fields = fields_of(data)
    if not fields:
        return data + rng.randbytes(rng.randrange(3))
    place = rng.randrange(len(fields))
    number, kind, value = fields[place]
    is_inner = isinstance(value, bytes) and kind == _BYTES and bool(fields_of(value))
    if is_inner and depth and rng.randrange(6):
        fields[place] = number, kind, _changed(rng, value, whole, depth - 1)
        return written(fields)
    change = rng.randrange(6)
    if change == 0:
        del fields[place]
    elif change == 1:
        fields += [fields[place]] * rng.choice((1, 1, 2, 40))
    elif change == 2:
        fields[place] = rng.choice(fields)[0], kind, value
    elif change == 3 and len(fields) > 1:
        other = rng.randrange(len(fields))
        fields[place], fields[other] = fields[other], fields[place]
    else:
        fields[place] = number, kind, _other_value(rng, kind, value, whole)
    return written(fields)


def _other_value(rng: random.Random, kind: int, value: int | bytes, whole: bytes) -> int | bytes:
    if isinstance(value, int):
        return rng.choice((*_NUMBERS, value + 1, max(value - 1, 0), value ^ 1)) % 2**64
    if kind != _BYTES:
        return rng.randbytes(len(value))
    begin = rng.randrange(len(whole) + 1)
    part = whole[begin : begin + rng.choice((0, 1, 8, 60))]
    return rng.choice((b"", value * 2, value[:-1], part, b"\xff" + value, value[::-1]))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where the next byte is, -1 where there is no number."""
    value = shift = 0
    while 0 <= at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value % 2**64, at
    return 0, -1


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
