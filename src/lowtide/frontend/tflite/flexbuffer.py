"""Maps in FlexBuffers' form, which custom operators have for options: numbers by their names.

A value stands where its parent says, its type and width in a byte of the parent's list of types.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

Value: TypeAlias = "float | list[float]"

_INTEGER, _UNSIGNED, _REAL, _BOOLEAN = 1, 2, 3, 26
_INDIRECT: Final = {6: "i", 7: "u", 8: "f"}
_MAP, _VECTOR = 9, 10
_TYPED: Final = {11: "i", 12: "u", 13: "f"}
_FORMS: Final = {
    "i": {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    "u": {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    "f": {2: "<e", 4: "<f", 8: "<d"},
}
_DIRECT: Final = {_INTEGER: "i", _UNSIGNED: "u", _REAL: "f", _BOOLEAN: "u"}
_MOST: Final = 1 << 12


def scalars(data: bytes) -> dict[str, float]:
    """Return the numbers in a map by their names, other values left out.

    Raises ValueError for what is no such map.
    """
    return {x: y for x, y in _values(data).items() if not isinstance(y, list)}


def vectors(data: bytes) -> dict[str, list[float]]:
    """Return the vectors of numbers in a map by their names; raises as `scalars`."""
    return {x: y for x, y in _values(data).items() if isinstance(y, list)}


def _values(data: bytes) -> dict[str, Value]:
    if len(data) < 3 or data[-2] >> 2 != _MAP or data[-1] not in (1, 2, 4, 8):
        raise ValueError("expected a map in FlexBuffers' form")
    at = len(data) - 2 - data[-1]
    place = at - int(_number(data, at, "u", data[-1]))
    return _map(data, place, 1 << (data[-2] & 3))


def _count(data: bytes, at: int, width: int) -> int:
    """How many entries a vector has, which stands in front of them."""
    count = int(_number(data, at - width, "u", width))
    if count > _MOST:
        raise ValueError(f"a vector of {count} entries")
    return count


def _map(data: bytes, at: int, width: int) -> dict[str, Value]:
    """The values of a map that begin at a place, with `width` bytes for each."""
    count = _count(data, at, width)
    keys = at - 3 * width
    keys -= int(_number(data, keys, "u", width))
    key_width = int(_number(data, at - 2 * width, "u", width))
    found = {}
    for i in range(count):
        place = keys + i * key_width
        place -= int(_number(data, place, "u", key_width))
        end = data.index(b"\0", max(place, 0))
        value = _value(data, at + i * width, width, _type(data, at, width, count, i))
        if value is not None:
            found[data[place:end].decode("utf-8", "replace")] = value
    return found


def _type(data: bytes, at: int, width: int, count: int, number: int) -> int:
    """The byte that says what an entry is; they stand behind all of them."""
    return int(_number(data, at + count * width + number, "u", 1))


def _value(data: bytes, at: int, width: int, kind: int) -> Value | None:
    form, inner = kind >> 2, 1 << (kind & 3)
    if form in _DIRECT:
        return _number(data, at, _DIRECT[form], width)
    if form not in (*_INDIRECT, *_TYPED, _VECTOR):
        return None
    place = at - int(_number(data, at, "u", width))
    if form in _INDIRECT:
        return _number(data, place, _INDIRECT[form], inner)
    count = _count(data, place, inner)
    if form in _TYPED:
        return [_number(data, place + i * inner, _TYPED[form], inner) for i in range(count)]
    found = []
    for i in range(count):
        entry = _type(data, place, inner, count, i) >> 2
        if entry not in _DIRECT:
            return None
        found.append(_number(data, place + i * inner, _DIRECT[entry], inner))
    return found


def _number(data: bytes, at: int, form: str, width: int) -> float:
    layout = _FORMS[form].get(width)
    if layout is None or not 0 <= at <= len(data) - width:
        raise ValueError("a value lies outside of the options")
    number: float = struct.unpack_from(layout, data, at)[0]
    return number
