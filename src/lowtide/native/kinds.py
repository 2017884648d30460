"""Kinds of values in native code, and what annotations mean."""

from __future__ import annotations

import ast
import ctypes
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.native.records import (
    FLOATS,
    WIDTHS,
    Atomic,
    NativeError,
    NativeItems,
    NativeRecord,
    NativeRecords,
    offset,
)
from lowtide.records import dataclass, is_frozen


@dataclass(frozen=True, slots=True)
class Int:
    """A number of so many bits in memory; a value of it has 64.

    `passed` is LLVM's type of a parameter or a result, where it is bits of another one.
    """

    bits: int = 64
    signed: bool = True
    passed: str = ""


class PlainKind(Enum):
    """Kinds without more to say: true or false, a byte in memory; 64-bit floats; what None is."""

    BOOL = "bool"
    FLOAT = "float"
    NOTHING = "None"


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to a record, or null; the words of a frozen record (`frozen.py`) never change."""

    record: type[Any]

    @property
    def is_frozen(self) -> bool:
        """Whether it is of a frozen data class."""
        return not issubclass(self.record, NativeRecord)


@dataclass(frozen=True, slots=True)
class ItemsKind:
    """A pointer to elements; where `in_place` is true these are records themselves."""

    of: Kind
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class AtomicKind:
    """The address of an atomic."""

    of: Kind


@dataclass(frozen=True, slots=True)
class Pointed:
    """A pointer to a function."""

    given: tuple[Kind, ...]
    result: Kind


Kind: TypeAlias = Int | PlainKind | Reference | ItemsKind | AtomicKind | Pointed

INT: Final = Int()
BOOL: Final = PlainKind.BOOL
FLOAT: Final = PlainKind.FLOAT
NOTHING: Final = PlainKind.NOTHING


def llvm_type(kind: Kind) -> str:
    """Return LLVM's type of a parameter or a result."""
    match kind:
        case Int(bits):
            return kind.passed or f"i{bits}"
        case PlainKind.BOOL:
            return "i1"
        case PlainKind.FLOAT:
            return "double"
        case PlainKind.NOTHING:
            return "void"
    return "ptr"


def value_type(kind: Kind) -> str:
    """Return LLVM's type of a value while one computes with it."""
    return "i64" if isinstance(kind, Int) else llvm_type(kind)


def memory_type(kind: Kind) -> str:
    """Return LLVM's type of what is in memory."""
    return "i8" if kind == BOOL else llvm_type(kind)


def size_in_memory(kind: Kind) -> int:
    """Return the bytes of an element of an array."""
    if isinstance(kind, AtomicKind):
        return size_in_memory(kind.of)
    if isinstance(kind, Int):
        return kind.bits // 8
    return 1 if kind == BOOL else 8


def kind_of_annotation(node: ast.expr, names: Mapping[str, Any]) -> Kind:
    """Return the kind that an annotation means; raises NativeError."""
    match node:
        case ast.Constant(None):
            return NOTHING
        case ast.Constant(str() as text):
            return kind_of_annotation(ast.parse(text, mode="eval").body, names)
        case ast.BinOp(left, ast.BitOr(), ast.Constant(None)):
            return kind_of_annotation(left, names)
        case ast.Subscript(ast.Name(outer), inner) if names.get(outer) in _GENERIC:
            return _of_generic(names[outer], kind_of_annotation(inner, names))
        case ast.Name(name) if name in WIDTHS:
            return Int(*WIDTHS[name])
        case ast.Name(name) if name in FLOATS:
            bits, passed = FLOATS[name]
            return Int(bits, False, passed)
        case ast.Name("bool"):
            return BOOL
        case ast.Name("float"):
            return FLOAT
        case ast.Name(name) if name in names:
            return kind_of_type(names[name])
    raise NativeError(f"{ast.unparse(node)} is no annotation of native code")


def kind_of_type(found: Any) -> Kind:
    """Return the kind that a type of Python's means; raises NativeError."""
    if isinstance(found, type) and (issubclass(found, NativeRecord) or is_dataclass(found)):
        return Reference(found)
    for plain, kind in _PLAIN:
        if found == plain:
            return kind
    origin, given = typing.get_origin(found), typing.get_args(found)
    if origin in _GENERIC:
        return _of_generic(origin, kind_of_type(given[0]))
    if origin in (types.UnionType, typing.Union):
        (one,) = [x for x in given if x is not types.NoneType]
        return kind_of_type(one)
    if given and isinstance(given[0], list):
        return Pointed(tuple([kind_of_type(x) for x in given[0]]), kind_of_type(given[1]))
    raise NativeError(f"{found!r} is no type of native code")


_PLAIN: Final[tuple[tuple[Any, Kind], ...]] = (
    *((int, INT), (bool, BOOL), (float, FLOAT), (None, NOTHING), (types.NoneType, NOTHING)),
    (npt.NDArray[np.int64], ItemsKind(INT)),
    (npt.NDArray[np.float64], ItemsKind(FLOAT)),
)
"""What types mean; arrays of NumPy's are their elements."""

_GENERIC: Final = (Atomic, NativeItems, NativeRecords)


def _of_generic(outer: type, inner: Kind) -> Kind:
    if outer is Atomic:
        return AtomicKind(inner)
    return ItemsKind(inner, in_place=outer is NativeRecords)


class Field(NamedTuple):
    """A field of a record: where it lies, its kind, and whether its elements lie there."""

    offset: int
    kind: Kind
    is_inline: bool


def field_of(record: type[Any], name: str) -> Field | None:
    """Return a field of a record, None where it has none of the name."""
    return fields_of(record).get(name)


_KNOWN_FIELDS: Final[dict[type[Any], dict[str, Field]]] = {}
"""Those of the records met so far."""


def fields_of(record: type[Any]) -> dict[str, Field]:
    """Return all fields of a record by name, those of bases first; raises NativeError."""
    if record not in _KNOWN_FIELDS:
        is_shared = issubclass(record, NativeRecord)
        _KNOWN_FIELDS[record] = (_shared_fields if is_shared else _frozen_fields)(record)
    return _KNOWN_FIELDS[record]


def _shared_fields(record: type[NativeRecord]) -> dict[str, Field]:
    found = {}
    for base in reversed(record.__mro__):
        if issubclass(base, NativeRecord):
            names = vars(sys.modules[base.__module__])
            for name, text in base.texts.items():
                kind = kind_of_annotation(ast.parse(text, mode="eval").body, names)
                found[name] = Field(offset(record, name), kind, name in base.inlined)
    return found


FROZEN_FIELDS: Final = "a record or one of int, float, Array, FloatArray"
"""What the fields of a frozen record are."""


def is_frozen_field(kind: Kind) -> bool:
    """Whether a frozen record may have a field of a kind."""
    if isinstance(kind, Reference):
        return kind.is_frozen
    return (kind.of if isinstance(kind, ItemsKind) else kind) in (INT, FLOAT)


def _frozen_fields(record: type[Any]) -> dict[str, Field]:
    """The fields as 64-bit words; those of records within a record lie in its place."""
    if not is_frozen(record):
        raise NativeError(f"record {record.__name__} is no frozen dataclass")
    found, place = {}, 0
    names = vars(sys.modules[record.__module__])
    for field in fields(record):
        kind = _kind_of_field(field.type, names)
        if kind is None or not is_frozen_field(kind):
            problem = f"{field.name} is {field.type}, expected {FROZEN_FIELDS}"
            raise NativeError(f"record {record.__name__}: {problem}")
        found[field.name] = Field(place, kind, isinstance(kind, Reference))
        place += _field_size(kind)
    return found


def _kind_of_field(annotation: Any, names: Mapping[str, Any]) -> Kind | None:
    try:
        if isinstance(annotation, str):
            return kind_of_annotation(ast.parse(annotation, mode="eval").body, names)
        return kind_of_type(annotation)
    except NativeError:
        return None


def record_size(record: type[Any]) -> int:
    """Return the bytes of a record."""
    if issubclass(record, NativeRecord):
        return ctypes.sizeof(record)
    last = list(fields_of(record).values())[-1:]
    return sum([x.offset + _field_size(x.kind) for x in last])


def _field_size(kind: Kind) -> int:
    return record_size(kind.record) if isinstance(kind, Reference) else 8
