"""Models in protobuf's wire format without the data of long tensors, which stays in the file.

Parsing a whole model would hold each weight twice: in the message, and as an array.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

Buffer: TypeAlias = "bytes | memoryview"

LONG_BYTES: Final = 4096
"""Data of more bytes is left where it is."""

OFFSET_KEY: Final = "lowtide.offset"
LENGTH_KEY: Final = "lowtide.length"
"""Entries of a tensor's external data that say where in the model's own bytes its data lies."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_RAW: Final = object()
_Fields: TypeAlias = "Mapping[int, Any]"

_TENSOR: Final[_Fields] = {9: _RAW}
_ATTRIBUTE: Final[_Fields] = {5: _TENSOR}
_NODE: Final[_Fields] = {5: _ATTRIBUTE}
_GRAPH: Final[_Fields] = {1: _NODE, 5: _TENSOR}
_MODEL: Final[_Fields] = {7: _GRAPH}
"""Fields on the way from a model to data: its graph, initializers and nodes, attributes, tensors.
Numbers are those of ONNX's schema."""


class OnnxWireError(ValueError):
    """Bytes are no message."""


def without_long_data(data: Buffer) -> bytes:
    """Return a model whose long tensors say where in `data` theirs is; raises OnnxWireError."""
    view = memoryview(data)
    return b"".join(_light(view, 0, len(view), _MODEL))


def _light(view: memoryview, start: int, end: int, fields: _Fields) -> list[bytes]:
    """The pieces of a message between two places, in order."""
    found: list[bytes] = []
    kept = at = start
    while at < end:
        tag, begin = _number(view, at, end)
        begin, after = _extent(view, begin, end, tag & 7)
        inner = fields.get(tag >> 3)
        if inner is None or tag & 7 != _LENGTH or after - begin <= LONG_BYTES:
            at = after
            if inner is None and tag < 128 and at < end and view[at] == tag:
                run = _run(tag).match(view, at, end)
                at = run.end() if run else at
            continue
        found.append(bytes(view[kept:at]))
        if inner is _RAW:
            found.append(_pointer(begin, after - begin))
        else:
            pieces = _light(view, begin, after, inner)
            length = sum([len(x) for x in pieces])
            found += [_varint(tag), _varint(length), *pieces]
        kept = at = after
    found.append(bytes(view[kept:end]))
    return found


_SHORT: Final = 64
"""Texts of fewer bytes are stepped over by runs."""


@cache
def _run(tag: int) -> re.Pattern[bytes]:
    """The pattern of one field again and again, as lists of numbers and of short texts have it.

    Forests have millions of these; stepping over them one by one takes longer than all else.
    """
    value = {
        _VARINT: rb"[\x80-\xff]{0,9}[\x00-\x7f]",
        _FIXED64: rb".{8}",
        _FIXED32: rb".{4}",
        _LENGTH: b"(?:" + b"|".join([rb"\x%02x.{%d}" % (n, n) for n in range(_SHORT)]) + b")",
    }[tag & 7]
    return re.compile(rb"(?:\x%02x" % tag + value + rb")++", re.DOTALL)


def _extent(view: memoryview, at: int, end: int, kind: int) -> tuple[int, int]:
    """Where the value of a field begins and ends."""
    if kind == _LENGTH:
        length, at = _number(view, at, end)
        after = at + length
    elif kind == _VARINT:
        _, after = _number(view, at, end)
    elif kind in (_FIXED32, _FIXED64):
        after = at + (4 if kind == _FIXED32 else 8)
    else:
        raise OnnxWireError(f"a field of kind {kind} at byte {at}")
    if after > end:
        cut = ", the file is cut off" if end == len(view) else ""
        raise OnnxWireError(
            f"a field ends at byte {after:,} and what it is in at byte {end:,}{cut}"
        )
    return at, after


def _number(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise OnnxWireError(f"a number at byte {at} does not end")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


_EXTERNAL_DATA, _DATA_LOCATION = 13, 14


def _pointer(offset: int, length: int) -> bytes:
    """The fields of a tensor that say where its data is."""
    found = b""
    for key, value in ((OFFSET_KEY, offset), (LENGTH_KEY, length)):
        entry = _text(1, key) + _text(2, str(value))
        found += _varint(_EXTERNAL_DATA << 3 | _LENGTH) + _varint(len(entry)) + entry
    return found + _varint(_DATA_LOCATION << 3 | _VARINT) + b"\x01"


def _text(field: int, value: str) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(value)) + value.encode()
