"""Literals in HLO text: the values of constants."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from lowtide.frontend.hlo_text.lexer import Lexer
from lowtide.frontend.hlo_text.shape_parser import parse_shape
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES, Array, Literal, nan_payload_bits
from lowtide.ir.shape import UNBOUNDED, Layout, Shape, array_shape, tuple_shape
from lowtide.records.late import late_pattern

_PART: Final = late_pattern(
    r"(?:\s+|/\*.*?\*/|//[^\n]*)*"
    r"([{},]|\.\.\.|\((?:[^()]|\([^()]*\))*+\)|[^\s{},()/]+(?:\(0x[0-9a-fA-F]+\))?)",
    re.DOTALL,
)
_INTEGER: Final = late_pattern(r"-?\d+")
_NOT_SHORT: Final = late_pattern(r"[.eE]|\d{18}")
"""What makes a row of numbers one of decimals, or of integers that may not fit 64 bits."""
_LARGEST_FILL: Final = 2**28
"""How many elements a constant may have of which the text gives only the first."""
_ROW: Final = late_pattern(
    r"\s*+-?\d++\.?+\d*+(?:[eE][+-]?\d{1,3}+)?+(?:\s*+,\s*+"
    r"-?\d++\.?+\d*+(?:[eE][+-]?\d{1,3}+)?+){15,}+(?=\s*+,?+\s*+\})"
)
"""A row of plain numbers, long enough to be read at once."""
_NUMBER: Final = late_pattern(r"(?:-?\d+\.?\d*|-\.\d+)(?:[eE][+-]?\d+)?|-?inf")
"""A number without digits before its point needs a sign, as in XLA."""
_NAN: Final = late_pattern(r"(-?)nan(?:\((0x[0-9a-fA-F]+)\))?")
_COMPLEX: Final = late_pattern(
    r"\(\s*([^\s,()]+(?:\([^\s,()]+\))?)\s*,\s*([^\s,()]+(?:\([^\s,()]+\))?)\s*\)"
)


class _BadElementError(ValueError):
    """An element is not a value of the type; the message says why."""


def parse_literal(lexer: Lexer, shape: Shape) -> Literal:
    """Take the value of a constant of `shape`.

    The literal's own shape has no dynamic dimension, and of its layout what XLA keeps in literals.
    """
    return _parse_value(lexer, shape.with_leaves(_literal_shape))


def _literal_shape(shape: Shape) -> Shape:
    """Return the shape of an array whose elements have their natural size.

    A scalar outside of special memory has no layout, unless it is tiled.
    """
    layout = shape.layout
    if layout is None:
        return shape
    if not shape.rank and not layout.tiles and not layout.memory_space:
        return shape.with_layout(Layout(()))
    if layout.element_size_in_bits:
        return shape.with_layout(replace(layout, element_size_in_bits=0))
    return shape


def _parse_value(lexer: Lexer, shape: Shape) -> Literal:
    if shape.is_tuple:
        return _parse_tuple(lexer, shape)
    if shape.is_token:
        return Literal(shape, None)
    if not shape.is_array:
        lexer.fail(f"there are no literals of shape {shape}")
    return _parse_array(lexer, shape)


def _parse_tuple(lexer: Lexer, shape: Shape) -> Literal:
    if lexer.at("{"):
        return _parse_elided_tuple(lexer, shape)
    lexer.enter()
    start = lexer.start
    lexer.expect("(", "at the start of a tuple literal")
    elements: list[Literal] = []
    for _ in lexer.elements(")"):
        if len(elements) == len(shape.tuple_shapes):
            lexer.fail(f"expected {len(elements)} elements in the tuple literal, found more")
        elements.append(_parse_value(lexer, shape.tuple_shapes[len(elements)]))
    lexer.expect(")", "at the end of a tuple literal")
    if len(elements) != len(shape.tuple_shapes):
        wanted = len(shape.tuple_shapes)
        lexer.fail(f"expected {wanted} elements in the tuple literal, found {len(elements)}", start)
    lexer.leave()
    return Literal(tuple_shape([x.shape for x in elements]), tuple(elements))


def _parse_elided_tuple(lexer: Lexer, shape: Shape) -> Literal:
    lexer.expect("{")
    lexer.expect("...", "in an elided tuple literal")
    lexer.expect("}")
    return lexer.filling.next_literal(shape)


def parse_shaped_literal(lexer: Lexer) -> Literal:
    """Take a literal with its shape; in a tuple each element has its own."""
    if not lexer.at("("):
        return parse_literal(lexer, parse_shape(lexer))
    lexer.enter()
    lexer.expect("(")
    elements = [parse_shaped_literal(lexer) for _ in lexer.elements(")")]
    lexer.expect(")", "at the end of a tuple literal")
    lexer.leave()
    return Literal(tuple_shape([x.shape for x in elements]), tuple(elements))


def _parse_array(lexer: Lexer, shape: Shape) -> Literal:
    """Take an array; its parts are read with one regular expression, not as tokens."""
    if shape.is_dynamic:
        shape = _static(lexer, shape)
    parts = _Parts(lexer)
    if not shape.dimensions:
        offset, text = parts.take()
        value = _element(parts, text, offset, shape.element_type)
        parts.finish()
        return Literal(shape, _to_array([value], shape))
    values = _parse_nested(parts, shape)
    parts.finish()
    if values is None:
        return lexer.filling.next_literal(shape)
    if len(values) != shape.element_count:
        if shape.element_count > _LARGEST_FILL:
            lexer.fail(f"a constant of shape {shape} needs all its elements in the text")
        return _first_element(values, shape)
    return Literal(shape, _to_array(values, shape))


def _static(lexer: Lexer, shape: Shape) -> Shape:
    """Return the shape with each dimension fixed at its bound, which it needs to have."""
    if UNBOUNDED in shape.dimensions:
        lexer.fail(f"a constant of shape {shape} has no size")
    return array_shape(shape.element_type, shape.dimensions, shape.layout)


def _first_element(values: list[Any], shape: Shape) -> Literal:
    """Return the literal whose first elements are `values`, the rest 0."""
    array = np.zeros(shape.element_count, DTYPES[shape.element_type])
    array[: len(values)] = np.array(values).astype(array.dtype)[: array.size]
    return Literal(shape, array.reshape(shape.dimensions))


class _Parts:
    """The parts of an array literal: braces, commas and elements."""

    __slots__ = ("lexer", "position")

    def __init__(self, lexer: Lexer) -> None:
        self.lexer = lexer
        self.position = lexer.start

    def take(self) -> tuple[int, str]:
        match = _PART.match(self.lexer.text, self.position)
        if match is None:
            self.lexer.seek(self.position)
            self.lexer.expect_fail("a literal")
        self.position = match.end()
        return match.start(1), match[1]

    def take_row(self, element_type: ElementType) -> list[Any]:
        """Take a long row of plain numbers at once, if one is next; else take nothing."""
        match = _ROW.match(self.lexer.text, self.position)
        if match is None or not element_type.is_floating:
            return self._take_integers(match, element_type)
        if element_type is ElementType.F8E8M0FNU:
            return []
        row = np.fromstring(match[0], np.float64, sep=",")
        with np.errstate(all="ignore"):
            if not np.isfinite(row.astype(DTYPES[element_type])).all():
                return []
        self.position = match.end()
        return list(row.tolist())

    def _take_integers(self, match: re.Match[str] | None, element_type: ElementType) -> list[Any]:
        if match is None or not element_type.is_integer or _NOT_SHORT.search(match[0]):
            return []
        row = np.fromstring(match[0], np.int64, sep=",")
        low, high = integer_range(element_type)
        if row.min() < low or row.max() > high:
            return []
        self.position = match.end()
        return list(row.tolist())

    def finish(self) -> None:
        self.lexer.seek(self.position)

    def fail(self, message: str, offset: int) -> Any:
        self.lexer.fail(message, offset)


def _parse_nested(parts: _Parts, shape: Shape) -> list[Any] | None:
    """Return the elements row major, or None for `{...}`.

    As in XLA commas may be missing, and a bare scalar is the first element, the others being 0.
    """
    sizes = shape.dimensions
    rank = len(sizes)
    convert = _converter(shape.element_type)
    counts = [0] * (rank + 1)
    values: list[Any] = []
    depth = 0
    while True:
        offset, text = parts.take()
        if text == "{":
            if depth == rank:
                parts.fail(f"expected nested braces of rank {rank}, found another '{{'", offset)
            _count(parts, counts, sizes, depth, offset)
            depth += 1
            counts[depth] = 0
            if depth == rank:
                row = parts.take_row(shape.element_type)
                counts[depth] = len(row)
                values += row
        elif text == "}":
            if depth == 0:
                parts.fail("unexpected '}' in the literal", offset)
            if counts[depth] != sizes[depth - 1]:
                wanted = sizes[depth - 1]
                parts.fail(f"expected {wanted} elements here, found {counts[depth]}", offset)
            depth -= 1
            if depth == 0:
                return values
        elif text == "," and depth:
            continue
        elif text == "...":
            _parse_elided(parts, depth, values, offset)
            return None
        else:
            if depth not in (0, rank):
                parts.fail(f"expected nested braces of rank {rank}, found rank {depth}", offset)
            _count(parts, counts, sizes, depth, offset)
            try:
                values.append(convert(text))
            except (_BadElementError, ValueError) as error:
                parts.fail(_reason(error, text), offset)
            if depth == 0:
                return values


def _count(
    parts: _Parts, counts: list[int], sizes: tuple[int, ...], depth: int, offset: int
) -> None:
    counts[depth] += 1
    if depth and counts[depth] > sizes[depth - 1]:
        parts.fail(f"expected {sizes[depth - 1]} elements here, found more", offset)


def _parse_elided(parts: _Parts, depth: int, values: list[Any], offset: int) -> None:
    if depth != 1 or values:
        parts.fail("'...' stands for all elements: {...}", offset)
    offset, text = parts.take()
    if text != "}":
        parts.fail("expected '}' after '...'", offset)


def _element(parts: _Parts, text: str, offset: int, element_type: ElementType) -> Any:
    try:
        return _converter(element_type)(text)
    except (_BadElementError, ValueError) as error:
        return parts.fail(_reason(error, text), offset)


def _reason(error: Exception, text: str) -> str:
    if isinstance(error, _BadElementError):
        return str(error)
    return f"expected a literal, found {text[:40]!r}"


def _converter(element_type: ElementType) -> Callable[[str], Any]:
    if element_type is ElementType.PRED:
        return _to_bool
    if element_type.is_complex:
        return lambda text: _to_complex(text, element_type)
    if element_type.is_floating:
        return lambda text: _to_float(text, element_type)
    return lambda text: _to_integer(text, element_type)


def _to_bool(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text) != 0
    raise _BadElementError(f"expected true or false, found {text[:40]!r}")


def integer_range(element_type: ElementType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    bits = element_type.bits
    if element_type.is_unsigned:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _to_integer(text: str, element_type: ElementType) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > 21:
        raise _BadElementError(f"expected an integer, found {text[:40]!r}")
    value = _in_64_bits(int(text), is_unsigned=element_type is ElementType.U64)
    low, high = integer_range(element_type)
    if not low <= value <= high:
        kind = element_type.value
        raise _BadElementError(f"{text} is out of the range of {kind}, [{low}, {high}]")
    return value


def _in_64_bits(value: int, *, is_unsigned: bool) -> int:
    """Return the value with the same 64 bits, if there is one, in the other range of 64 bits."""
    if is_unsigned:
        return value + 2**64 if -(2**63) <= value < 0 else value
    return value - 2**64 if 2**63 <= value < 2**64 else value


def _to_float(text: str, element_type: ElementType) -> Any:
    if text.startswith(("nan", "-nan")):
        return _to_nan(text, element_type)
    if not _NUMBER.fullmatch(text):
        raise _BadElementError(f"expected a number, found {text[:40]!r}")
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise _BadElementError(f"{text[:40]} is out of the range of a double")
    if element_type is ElementType.F64 or math.isinf(value):
        return value
    if element_type is ElementType.F8E8M0FNU:
        return _to_exponent(value)
    with np.errstate(all="ignore"):
        rounded = np.float64(value).astype(DTYPES[element_type])
        if not np.isfinite(rounded):
            kind = element_type.value
            raise _BadElementError(f"{text[:40]} is out of the range of {kind}")
    return value


def _to_exponent(value: float) -> Any:
    """Return the nearest power of two as f8e8m0fnu, whose only field is the exponent.

    Halfway is up, and what is less than the least power becomes that.
    """
    if value <= 0:
        raise _BadElementError("f8e8m0fnu has positive values only")
    mantissa, exponent = math.frexp(value)
    biased = max(0, exponent + 126 + (mantissa >= 0.75))
    if biased > 254:
        raise _BadElementError(f"{value:g} is out of the range of f8e8m0fnu")
    return np.uint8(biased).view(DTYPES[ElementType.F8E8M0FNU])


def _to_nan(text: str, element_type: ElementType) -> Any:
    match = _NAN.fullmatch(text)
    if match is None:
        raise _BadElementError(f"expected a number, found {text[:40]!r}")
    dtype = DTYPES[element_type]
    if match[2] is None:
        value = np.asarray(np.nan, dtype)
        return np.negative(value)[()] if match[1] else value[()]
    bits = nan_payload_bits(element_type)
    payload = int(match[2], 16)
    if bits == 0:
        raise _BadElementError(f"{element_type.value} has no NaN payload")
    if not 0 < payload < 2**bits:
        limit = 2**bits - 1
        raise _BadElementError(f"the NaN payload {match[2]} is out of the range [1, {limit:#x}]")
    total = element_type.bits
    raw = payload | ((2 ** (total - 1 - bits) - 1) << bits) | (bool(match[1]) << (total - 1))
    return np.frombuffer(raw.to_bytes(dtype.itemsize, "little"), dtype)[0]


def _to_complex(text: str, element_type: ElementType) -> Any:
    part = ElementType.F32 if element_type is ElementType.C64 else ElementType.F64
    match = _COMPLEX.fullmatch(text)
    if match is None:
        raise _BadElementError(f"expected a complex number (re, im), found {text[:40]!r}")
    real, imaginary = _to_float(match[1], part), _to_float(match[2], part)
    if math.isnan(real) or math.isnan(imaginary):
        # XLA's parser makes both parts the NaN that the real one is. Python's complex numbers are
        # of doubles, and a conversion changes the bits of a signalling NaN.
        parts = [real, real if math.isnan(real) else imaginary]
        return np.array(parts, DTYPES[part]).view(DTYPES[element_type])[0]
    return complex(real, imaginary)


def _to_array(values: list[Any], shape: Shape) -> Array:
    dtype = DTYPES[shape.element_type]
    with np.errstate(all="ignore"):
        if shape.element_type.is_integer and shape.element_type.bits < 8:
            flat = np.array(values, np.int8).astype(dtype)
        elif shape.element_type.is_floating and dtype.kind != "f":
            flat = np.array([dtype.type(x) for x in values], dtype)
        else:
            flat = np.array(values, dtype)
    return flat.reshape(shape.dimensions)
