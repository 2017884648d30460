"""From the syntax of a native function to LLVM's textual IR: constants, names and memory."""

from __future__ import annotations

import ast
import builtins
import struct
from enum import Enum
from typing import Any, NamedTuple, Protocol

from lowtide.native.functions import External, NativeFunction, SharedRecord
from lowtide.native.kinds import (
    BOOL,
    FLOAT,
    INT,
    AtomicKind,
    Field,
    Int,
    ItemsKind,
    Kind,
    PlainKind,
    Reference,
    field_of,
    fields_of,
    memory_type,
    record_size,
    size_in_memory,
    value_type,
)
from lowtide.native.records import NativeError
from lowtide.native.scope import FunctionSource
from lowtide.native.writer import NONE, NativeValue, Writer
from lowtide.suggestions import nearest


class Surroundings(Protocol):
    """What the functions of a unit share: other functions, constants, records."""

    def function(self, callee: NativeFunction[..., Any] | External[..., Any]) -> FunctionSource:
        """Return a function, which is then part of the unit."""

    def shared(self, one: SharedRecord[Any]) -> str:
        """Return the symbol of a record of the unit."""

    def text(self, data: bytes) -> str:
        """Return the symbol of a constant."""

    def declare(self, line: str) -> None:
        """Note a declaration that the unit needs."""

    @property
    def architecture(self) -> str:
        """The processor, as its triple begins."""


class Location(NamedTuple):
    """The address of a field or an element, and the kind of what is there.

    What `stays` there is used by its address: atomics, elements within a record, records.
    """

    kind: Kind
    text: str
    stays: bool


class ValueLowering:
    """Values in the body of a function, and where they lie."""

    def __init__(self, scope: FunctionSource, unit: Surroundings) -> None:
        self.scope = scope
        self.unit = unit
        self.writer = Writer()
        self.values: dict[str, NativeValue] = {}
        self.stacked: dict[str, tuple[Kind, str]] = {}
        """Names of values that lie on the stack: their kinds and addresses."""
        self.fields: dict[tuple[str, int], str] = {}
        """What was read of frozen records where the function begins, by record and offset."""

    def error(self, node: ast.AST, problem: str) -> NativeError:
        """Return the error for a problem at a place in the source."""
        return self.scope.error(node, problem)

    def value(self, node: ast.expr) -> NativeValue:
        """Write what computes an expression."""
        is_plain = isinstance(node, ast.Name | ast.Attribute)
        static = self.static(node) if is_plain else None
        if static is not None:
            return self.constant(node, static)
        method = getattr(self, f"_{type(node).__name__.lower()}_value", None)
        if method is None:
            raise self.error(node, f"native code has no {type(node).__name__}")
        found: NativeValue = method(node)
        return found

    # -- constants and names -------------------------------------------------------------------

    def static(self, node: ast.expr) -> Any:
        """Return what a name of the module, or an attribute of one, stands for, or None."""
        if isinstance(node, ast.Attribute):
            base = self.static(node.value)
            return None if base is None else getattr(base, node.attr, None)
        if not isinstance(node, ast.Name) or node.id in self.values or node.id in self.stacked:
            return None
        return self.scope.names.get(node.id, vars(builtins).get(node.id))

    def constant(self, node: ast.AST, found: Any) -> NativeValue:
        """Return a number of Python's."""
        if isinstance(found, Enum) and isinstance(found.value, int):
            found = found.value
        if isinstance(found, bool):
            return NativeValue(BOOL, str(found).lower())
        if isinstance(found, int):
            return NativeValue(INT, str(int(found)))
        if isinstance(found, float):
            return NativeValue(FLOAT, f"0x{struct.pack('>d', found).hex()}")
        raise self.error(node, f"native code has no constant {found!r}")

    def _constant_value(self, node: ast.Constant) -> NativeValue:
        return NONE if node.value is None else self.constant(node, node.value)

    def _name_value(self, node: ast.Name) -> NativeValue:
        if node.id in self.values:
            return self.values[node.id]
        if node.id not in self.stacked:
            raise self.error(node, f"{node.id} is not set before it is read")
        kind, place = self.stacked[node.id]
        found = self.writer.op(f"load {value_type(kind)}, ptr {place}, align 8")
        return NativeValue(kind, found)

    # -- memory --------------------------------------------------------------------------------

    def place(self, node: ast.expr) -> Location:
        """Return where a field or an element is."""
        match node:
            case ast.Attribute(base, name):
                return self._field_place(node, self.value(base), name)
            case ast.Subscript(base, index):
                found = self.value(base)
                if not isinstance(found.kind, ItemsKind):
                    raise self.error(node, f"{ast.unparse(base)} is no array")
                number = self.cast(self.value(index), INT, node).text
                return self._element(found.kind, found.text, number)
        raise self.error(node, "expected a name, a field or an element")

    def _field_place(self, node: ast.expr, base: NativeValue, name: str) -> Location:
        if not isinstance(base.kind, Reference):
            raise self.error(node, f"{described(base.kind)} has no field {name}: it is no record")
        record = base.kind.record
        field = field_of(record, name)
        if field is None:
            hint = nearest(name, fields_of(record))
            raise self.error(node, f"{record.__name__} has no field {name}{hint}")
        if base.kind.is_frozen and base.text in self.writer.first:
            return Location(field.kind, self._first_read(base.text, field), True)
        stays = field.is_inline or isinstance(field.kind, AtomicKind)
        return Location(field.kind, self.writer.move(base.text, field.offset), stays)

    def _first_read(self, record: str, field: Field) -> str:
        """A field that is never set: read where the function begins, once for all its uses."""
        key = record, field.offset
        if key not in self.fields:
            place = f"getelementptr i8, ptr {record}, i64 {field.offset}"
            found = self.writer.at_first(place)
            if not field.is_inline:
                found = self.writer.at_first(f"load {memory_type(field.kind)}, ptr {found}")
            self.fields[key] = found
        return self.fields[key]

    def _element(self, kind: ItemsKind, base: str, number: str) -> Location:
        size = size_in_memory(kind.of)
        if kind.in_place:
            assert isinstance(kind.of, Reference)
            size = record_size(kind.of.record)
        if number.lstrip("-").isdigit():
            place = self.writer.move(base, int(number) * size)
        else:
            place = self.writer.op(f"getelementptr [{size} x i8], ptr {base}, i64 {number}")
        return Location(kind.of, place, kind.in_place or isinstance(kind.of, AtomicKind))

    def plain_place(self, node: ast.expr) -> tuple[Kind, str]:
        """Return the kind and the address of what is set without an order."""
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            if isinstance(base.kind, Reference) and base.kind.is_frozen:
                raise self.error(node, f"{ast.unparse(node)} is a field and cannot be set")
        found = self.place(node)
        if found.stays:
            raise self.error(node, f"{ast.unparse(node)} cannot be set: atomics have methods")
        return found.kind, found.text

    def _attribute_value(self, node: ast.Attribute) -> NativeValue:
        return self._read(self.place(node))

    def _subscript_value(self, node: ast.Subscript) -> NativeValue:
        return self._read(self.place(node))

    def _read(self, found: Location) -> NativeValue:
        if found.stays:
            return NativeValue(found.kind, found.text)
        return self.writer.load(found.kind, found.text)

    def cast(self, found: NativeValue, wanted: Kind, node: ast.AST) -> NativeValue:
        """Return a value as one of a kind that means the same; raises NativeError."""
        kind = found.kind
        if kind == wanted:
            return found
        if isinstance(wanted, Int):
            if isinstance(kind, Int):
                return NativeValue(INT, found.text)
            if kind == BOOL:
                return NativeValue(INT, self.writer.op(f"zext i1 {found.text} to i64"))
        elif wanted == FLOAT and (isinstance(kind, Int) or kind == BOOL):
            how = "sitofp i64" if isinstance(kind, Int) else "uitofp i1"
            return NativeValue(FLOAT, self.writer.op(f"{how} {found.text} to double"))
        elif isinstance(kind, Reference) and isinstance(wanted, Reference):
            if issubclass(kind.record, wanted.record):
                return NativeValue(wanted, found.text)
        elif found == NONE and value_type(wanted) == "ptr":
            return NativeValue(wanted, "null")
        raise self.error(node, f"expected {described(wanted)}, found {described(kind)}")


def described(kind: Kind) -> str:
    """Return a kind in the words of annotations."""
    match kind:
        case Reference(record):
            return record.__name__
        case ItemsKind(of, in_place):
            return f"{'NativeRecords' if in_place else 'NativeItems'}[{described(of)}]"
        case AtomicKind(of):
            return f"Atomic[{described(of)}]"
        case Int(64):
            return "int"
        case Int(bits, signed):
            return f"{'I' if signed else 'U'}{bits}"
    return kind.value if isinstance(kind, PlainKind) else "a function"
