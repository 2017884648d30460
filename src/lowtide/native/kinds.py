"""Kinds of values in native code, and what annotations mean."""

from __future__ import annotations

import ast
import ctypes
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from lowtide.native.records import (
    WIDTHS,
    Address,
    Atomic,
    NativeError,
    NativeItems,
    NativeRecord,
    NativeRecords,
    offset,
)
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Int:
    """A number of so many bits in memory; a value of it has 64."""

    bits: int = 64
    signed: bool = True


class PlainKind(Enum):
    """Kinds without more to say: true or false, a byte in memory; and what None is."""

    BOOL = "bool"
    NOTHING = "None"


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to a record, or null."""

    record: type[NativeRecord]


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
NOTHING: Final = PlainKind.NOTHING


def llvm_type(kind: Kind) -> str:
    """Return LLVM's type of a parameter or a result."""
    match kind:
        case Int(bits):
            return f"i{bits}"
        case PlainKind.BOOL:
            return "i1"
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
        case ast.Name("bool"):
            return BOOL
        case ast.Name(name) if name in names:
            return kind_of_type(names[name])
    raise NativeError(f"{ast.unparse(node)} is no annotation of native code")


def kind_of_type(found: Any) -> Kind:
    """Return the kind that a type of Python's means; raises NativeError."""
    if isinstance(found, type) and issubclass(found, NativeRecord):
        return Reference(found)
    if found in (int, Address):
        return INT
    if found is bool:
        return BOOL
    if found in (None, types.NoneType):
        return NOTHING
    origin, given = typing.get_origin(found), typing.get_args(found)
    if origin in _GENERIC:
        return _of_generic(origin, kind_of_type(given[0]))
    if origin in (types.UnionType, typing.Union):
        (one,) = [x for x in given if x is not types.NoneType]
        return kind_of_type(one)
    if given and isinstance(given[0], list):
        return Pointed(tuple([kind_of_type(x) for x in given[0]]), kind_of_type(given[1]))
    raise NativeError(f"{found!r} is no type of native code")


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


@cache
def field_of(record: type[NativeRecord], name: str) -> Field | None:
    """Return a field of a record, None where it has none of the name."""
    for base in record.__mro__:
        if issubclass(base, NativeRecord) and name in base.texts:
            names = vars(sys.modules[base.__module__])
            kind = kind_of_annotation(ast.parse(base.texts[name], mode="eval").body, names)
            return Field(offset(record, name), kind, name in base.inlined)
    return None


def field_names(record: type[NativeRecord]) -> list[str]:
    """Return the names of all fields, those of bases first."""
    bases = [x for x in reversed(record.__mro__) if issubclass(x, NativeRecord)]
    return [name for x in bases for name in x.texts]


def record_size(record: type[NativeRecord]) -> int:
    """Return the bytes of a record."""
    return ctypes.sizeof(record)
