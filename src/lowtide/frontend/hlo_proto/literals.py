"""Literals: constant values, stored in the order of the literal's own layout."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.messages import new_message, parse_message
from lowtide.frontend.hlo_proto.shapes import ShapeReader, ShapeWriter
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array, Literal, zero_literal
from lowtide.ir.shape import UNBOUNDED, Shape, major_to_minor

_PACKED: Final = {
    ElementType.F32: "f32s",
    ElementType.F64: "f64s",
    ElementType.C64: "c64s",
    ElementType.C128: "c128s",
}
"""Types whose field holds packed little-endian numbers, declared as chunks of bytes."""
_NUMBERS: Final = {
    ElementType.PRED: "preds",
    ElementType.S32: "s32s",
    ElementType.S64: "s64s",
    ElementType.U32: "u32s",
    ElementType.U64: "u64s",
}
"""Types whose field is a repeated number. All others are one string of bytes."""
_LARGEST_BYTES: Final = 2**31
_CHUNK: Final = 2**20


def _field(element_type: ElementType) -> str:
    known = _PACKED.get(element_type) or _NUMBERS.get(element_type)
    return known or f"{element_type.value}s"


_MOST_WRITTEN: Final = 1 << 24
"""How many elements of a constant that a text left out are written; more are zeros when read."""


# -- reading -----------------------------------------------------------------------------------


def read_literal(proto: Any, shapes: ShapeReader, wanted: Shape | None = None) -> Literal:
    """Return a literal; raises FieldError where the data do not fit its shape.

    The result has the shape `wanted`, if given, which may differ in layout from the literal's.
    """
    shape = shapes.read_field(proto, "shape")
    if wanted is None:
        wanted = shape
    elif wanted.without_layout() is not shape.without_layout():
        raise FieldError(f"the literal has shape {shape}, the instruction {wanted}", "shape")
    return _read(proto, shapes, shape, wanted)


def _read(proto: Any, shapes: ShapeReader, shape: Shape, wanted: Shape) -> Literal:
    if shape.is_array and proto.elided and shape.element_count > _MOST_WRITTEN:
        return zero_literal(wanted, elided=True)
    if shape.is_array:
        return Literal(wanted, _read_array(proto, shape), elided=proto.elided)
    if not shape.is_tuple:
        if shape.is_token:
            return Literal(wanted, None)
        raise FieldError(f"a literal cannot have shape {shape}", "shape")
    count = len(shape.tuple_shapes)
    if len(proto.tuple_literals) != count:
        raise FieldError(
            f"expected {count} elements, found {len(proto.tuple_literals)}", "tuple_literals"
        )
    elements = []
    for i, element in enumerate(proto.tuple_literals):
        try:
            literal = read_literal(element, shapes, wanted.tuple_shapes[i])
        except FieldError as error:
            raise error.under(f"tuple_literals[{i}]") from None
        elements.append(literal)
    return Literal(wanted, tuple(elements), elided=proto.elided)


def _read_array(proto: Any, shape: Shape) -> Array:
    if UNBOUNDED in shape.dimensions:
        raise FieldError("a literal has no unbounded dimension", "shape.dimensions")
    _check_dynamic_sizes(proto, shape)
    flat = _read_flat(proto, shape.element_type, shape.element_count)
    layout = shape.layout or major_to_minor(shape.rank)
    order = layout.minor_to_major[::-1]
    try:
        stored = flat.reshape([shape.dimensions[d] for d in order])
    except ValueError as error:
        raise FieldError(f"NumPy has no array of shape {shape}: {error}", "shape") from None
    logical = stored.transpose(np.argsort(np.asarray(order, int)))
    return np.ascontiguousarray(logical).reshape(shape.dimensions)


def _check_dynamic_sizes(proto: Any, shape: Shape) -> None:
    sizes = tuple(proto.dynamic_sizes)
    if not sizes:
        return
    if len(sizes) != shape.rank:
        raise FieldError(f"expected {shape.rank} sizes, found {len(sizes)}", "dynamic_sizes")
    for i, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True)):
        if shape.dynamic and shape.dynamic[i] and size != bound:
            raise UnsupportedOpError(
                f"a literal of shape {shape} with {size} elements in dimension {i}: only literals "
                "which fill their shape are supported"
            )


def _read_flat(proto: Any, element_type: ElementType, count: int) -> Array:
    field = _field(element_type)
    stored = getattr(proto, field)
    dtype = DTYPES[element_type]
    if element_type in _PACKED:
        data = _packed_bytes(proto, field, stored, count * dtype.itemsize)
        _check_count(len(data) / dtype.itemsize, count, field)
        return np.frombuffer(data, dtype)
    if element_type in _NUMBERS:
        _check_count(len(stored), count, field)
        return np.fromiter(stored, dtype, count)
    _check_count(len(stored) / dtype.itemsize, count, field)
    return _from_bytes(stored, element_type)


def _packed_bytes(proto: Any, field: str, chunks: Any, size: int) -> bytes:
    if len(chunks) == 1 and len(chunks[0]) == size:
        data = chunks[0]
        assert isinstance(data, bytes)
        return data
    plain = parse_message("ElementwiseLiteral", proto.SerializeToString())
    dtype = np.dtype(np.float64 if field in ("f64s", "c128s") else np.float32)
    return np.asarray(getattr(plain, field), dtype).tobytes()


def _check_count(found: float, wanted: int, field: str) -> None:
    if found != wanted:
        raise FieldError(f"expected {wanted} elements, found {found:g}", field)


def _from_bytes(data: bytes, element_type: ElementType) -> Array:
    """Return the values of a type that is stored as bytes; narrow ones take a byte each."""
    dtype = DTYPES[element_type]
    bits = element_type.bits
    if bits >= 8:
        return np.frombuffer(data, dtype)
    raw = np.frombuffer(data, np.uint8) & np.uint8((1 << bits) - 1)
    if element_type.is_signed:
        sign = np.uint8(1 << (bits - 1))
        raw = ((raw ^ sign) - sign).astype(np.uint8)
    return raw.view(dtype)


def to_value(literal: Literal) -> Any:
    """Return the value of a literal as an array, a list of values, or None for a token."""
    if literal.shape.is_tuple:
        return [to_value(element) for element in literal.elements]
    return literal.value


# -- writing -----------------------------------------------------------------------------------


def write_literal(literal: Literal, proto: Any, shapes: ShapeWriter) -> None:
    """Write a literal into a LiteralProto; raises FieldError over the limits of protobuf.

    A constant whose value the text left out is written with a mark that only lowtide reads, and
    without elements if it is very large.
    """
    shapes.write(literal.shape.with_leaves(_stored_shape), proto.shape)
    _write(literal, proto, shapes)


def _write(literal: Literal, proto: Any, shapes: ShapeWriter) -> None:
    proto.elided = literal.elided
    shape = literal.shape
    if shape.is_tuple:
        for element in literal.elements:
            write_literal(element, proto.tuple_literals.add(), shapes)
    elif shape.is_array and not (literal.elided and shape.element_count > _MOST_WRITTEN):
        _write_array(literal.array, shape, proto)


def _stored_shape(shape: Shape) -> Shape:
    """Return the shape of an array in a literal, whose elements are never packed."""
    return shape.with_element_type(shape.element_type) if shape.is_array else shape


def _write_array(array: Array, shape: Shape, proto: Any) -> None:
    size = math.prod(array.shape) * array.dtype.itemsize
    if size >= _LARGEST_BYTES:
        raise FieldError(f"{size} bytes of data: a protobuf holds less than 2 GiB", "literal")
    layout = shape.layout or major_to_minor(shape.rank)
    flat = array.transpose(layout.minor_to_major[::-1]).reshape(-1)
    element_type = shape.element_type
    stored = getattr(proto, _field(element_type))
    if element_type in _PACKED:
        if size:
            stored.append(flat.tobytes())
    elif element_type in _NUMBERS:
        for start in range(0, len(flat), _CHUNK):
            stored.extend(flat[start : start + _CHUNK].tolist())
    else:
        setattr(proto, _field(element_type), _to_bytes(flat, element_type))


def _to_bytes(flat: Array, element_type: ElementType) -> bytes:
    if element_type.bits >= 8:
        return flat.tobytes()
    raw = np.ascontiguousarray(flat).view(np.uint8)
    return (raw & np.uint8((1 << element_type.bits) - 1)).tobytes()


def literal_message(literal: Literal) -> Any:
    """Return a LiteralProto."""
    proto = new_message("LiteralProto")
    write_literal(literal, proto, ShapeWriter())
    return proto
