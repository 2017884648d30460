"""Attributes of typed calls: the text of MLIR's dictionary as arrays, strings and dictionaries.

{scale = 1.500000e+00 : f32, name = "a", axes = dense<[0, 2]> : tensor<2xi64>}
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array

AttributeValue: TypeAlias = "Array | bytes | dict[str, AttributeValue]"
"""A scalar (an array without dimensions), an array of one dimension, a string, a dictionary."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<number> -?0x[0-9A-Fa-f]+ | -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)? )
    | (?P<type> (?:tensor|complex)<[^>]*>+ )
    | (?P<word> [A-Za-z_][\w.$-]* )
    | (?P<sign> [{}\[\]<>(),:=] )
    )""",
    re.VERBOSE | re.DOTALL,
)

_ESCAPE: Final = re.compile(rb'\\([0-9A-Fa-f]{2}|[\\"nt])')
_PLAIN: Final = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}

_TENSOR: Final = re.compile(r"tensor<((?:\d+x)*)(\w+|complex<\w+>)>")
_DEPTH: Final = 16
"""How deep dictionaries may be nested."""


def read_attributes(text: str) -> dict[str, AttributeValue]:
    """Return what a dictionary of attributes says; "" stands for an empty one.

    Raises UnsupportedOpError for text of another form.
    """
    if not text.strip():
        return {}
    reader = _Reader(text)
    found = reader.dictionary(0)
    reader.end()
    return found


class _Reader:
    """Reads tokens one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def refused(self, expected: str) -> UnsupportedOpError:
        """Return the error that something else was expected here."""
        found = self._text[self._position : self._position + 20] or "the end"
        return UnsupportedOpError(
            f"attributes of the call, at character {self._position}: expected {expected}, "
            f"found {found}"
        )

    def _match(self, kind: str, text: str = "") -> str | None:
        """Take the next token if it is of a kind, and says `text` if that is given."""
        found = _TOKEN.match(self._text, self._position)
        if found is None or found.lastgroup != kind or (text and found[kind] != text):
            return None
        self._position = found.end()
        return found[kind]

    def _sign(self, text: str) -> None:
        if self._match("sign", text) is None:
            raise self.refused(repr(text))

    def end(self) -> None:
        """Raise unless this is the end of the text."""
        if self._text[self._position :].strip():
            raise self.refused("the end")

    def dictionary(self, depth: int) -> dict[str, AttributeValue]:
        """Read a dictionary in braces."""
        if depth > _DEPTH:
            raise self.refused(f"at most {_DEPTH} nested dictionaries")
        self._sign("{")
        found: dict[str, AttributeValue] = {}
        if self._match("sign", "}"):
            return found
        while True:
            name = self._match("word") or self._string_or_none("a name")
            self._sign("=")
            found[name] = self._value(depth)
            if self._match("sign", "}"):
                return found
            self._sign(",")

    def _string_or_none(self, expected: str) -> str:
        text = self._match("string")
        if text is None:
            raise self.refused(expected)
        return _bytes(text).decode()

    def _value(self, depth: int) -> AttributeValue:
        text = self._match("string")
        if text is not None:
            return _bytes(text)
        for word in ("true", "false"):
            if self._match("word", word):
                return np.array(word == "true")
        if self._match("word", "dense"):
            return self._dense()
        if self._match("word", "array"):
            return self._array()
        number = self._match("number")
        if number is not None:
            return _array([number], self._type("i64")).reshape(())
        if self._text[self._position :].lstrip().startswith("{"):
            return self.dictionary(depth + 1)
        raise self.refused("a number, a string, an array or a dictionary")

    def _type(self, default: str = "") -> str:
        if not self._match("sign", ":"):
            if default:
                return default
            raise self.refused("a type")
        found = self._match("type") or self._match("word")
        if found is None:
            raise self.refused("a type")
        return found

    def _dense(self) -> Array:
        """Read the rest of `dense<...> : tensor<...>`; dimensions do not count."""
        self._sign("<")
        raw = self._match("string")
        values = [] if raw else self._elements()
        self._sign(">")
        found = _TENSOR.fullmatch(self._type())
        if found is None:
            raise self.refused("the type of a tensor")
        count = int(np.prod([int(x) for x in found[1].split("x") if x], dtype=np.int64))
        if raw:
            data = bytes.fromhex(raw.strip('"').removeprefix("0x"))
            return np.frombuffer(data, _dtype(found[2]))
        array = _array(values, found[2])
        return np.repeat(array, count) if array.size == 1 and count > 1 else array

    def _array(self) -> Array:
        """Read the rest of `array<type: ...>`."""
        self._sign("<")
        kind = self._match("word") or ""
        values = self._elements() if self._match("sign", ":") else []
        self._sign(">")
        return _array(values, kind)

    def _elements(self) -> list[str]:
        """Read numbers in any brackets, row by row; those in parentheses are parts of one."""
        found: list[str] = []
        while True:
            number = self._match("number") or self._match("word")
            if number is not None:
                found.append(number)
            elif not any(self._match("sign", x) for x in "[](),"):
                return found


def _bytes(text: str) -> bytes:
    """The bytes of a string in quotation marks."""

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return _PLAIN[code] if len(code) == 1 else bytes.fromhex(code.decode())

    return _ESCAPE.sub(plain, text[1:-1].encode())


_INTEGER: Final = re.compile(r"(u?)s?i(\d+)")


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype of an element type of MLIR; raises UnsupportedOpError."""
    integer = _INTEGER.fullmatch(name)
    if integer:
        name = "pred" if name == "i1" else f"{integer[1] or 's'}{integer[2]}"
    elif name.startswith("complex<"):
        name = {"complex<f32>": "c64", "complex<f64>": "c128"}.get(name, name)
    name = "s64" if name == "index" else name.lower()
    try:
        return DTYPES[ElementType(name)]
    except (ValueError, KeyError):
        raise UnsupportedOpError(f"attributes of the call: no element type {name!r}") from None


def _array(values: list[str], kind: str) -> Array:
    """Numbers of a type as MLIR writes them; a float in hexadecimal is its bits."""
    dtype = _dtype(kind)
    try:
        if kind.startswith("complex"):
            part = np.float32 if dtype == np.complex64 else np.float64
            return np.array([_number(x, np.dtype(part)) for x in values], part).view(dtype)
        return np.array([_number(x, dtype) for x in values], dtype)
    except (ValueError, OverflowError) as error:
        raise UnsupportedOpError(f"attributes of the call: {error}") from None


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return text == "true"
    if dtype.kind in "iu":
        return int(text, 0)
    if "0x" in text:
        return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return float(text)
