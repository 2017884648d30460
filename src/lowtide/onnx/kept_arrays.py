"""Arrays with a header of JSON as bytes, from which they are views.

First stand the bytes of the header as 8 bytes, least first, then the header, then the arrays, each
at a multiple of 64 bytes. The header says of each its name, type, sizes and place. One array under
several names is there once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lowtide.ir.element_type import BY_KEYWORD
from lowtide.ir.literal import DTYPES, ELEMENT_TYPES, Array

_LENGTH_BYTES: Final = 8
_ALIGNMENT: Final = 64


def can_be_kept(arrays: Mapping[str, Array]) -> bool:
    """Whether all of them are of types that modules have, which text and references are not."""
    return all(x.dtype in ELEMENT_TYPES for x in arrays.values())


def written(header: Any, arrays: Mapping[str, Array]) -> bytes:
    """Return what JSON can say, and arrays by name, as bytes."""
    places: list[tuple[str, str, list[int], int]] = []
    pieces: list[bytes | memoryview] = []
    begins: dict[int, int] = {}
    end = 0
    for name, x in arrays.items():
        if id(x) not in begins:
            begins[id(x)] = end + -end % _ALIGNMENT
            pieces += [bytes(begins[id(x)] - end), x.reshape(-1).view(np.uint8).data]
            end = begins[id(x)] + x.nbytes
        places.append((name, ELEMENT_TYPES[x.dtype].value, list(x.shape), begins[id(x)]))
    text = json.dumps([header, places]).encode()
    text += b" " * (-(_LENGTH_BYTES + len(text)) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *pieces])


def read(data: memoryview) -> tuple[Any, dict[str, Array]]:
    """Return header and arrays, which are views of the bytes that `written` made."""
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header, places = json.loads(bytes(data[_LENGTH_BYTES:start]))
    made: dict[tuple[Any, ...], Array] = {}
    found = {}
    for name, keyword, sizes, place in places:
        array = np.ndarray(sizes, DTYPES[BY_KEYWORD[keyword]], data, start + place)
        found[name] = made.setdefault((keyword, tuple(sizes), place), array)
    return header, found
