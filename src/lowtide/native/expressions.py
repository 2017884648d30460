"""From the syntax of a native function to LLVM's textual IR: expressions."""

from __future__ import annotations

import ast
import builtins
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from lowtide.native.functions import External, NativeFunction, SharedRecord
from lowtide.native.kinds import (
    BOOL,
    INT,
    NOTHING,
    AtomicKind,
    Int,
    ItemsKind,
    Kind,
    PlainKind,
    Pointed,
    Reference,
    field_names,
    field_of,
    llvm_type,
    record_size,
    size_in_memory,
    value_type,
)
from lowtide.native.records import NativeError
from lowtide.native.scope import FunctionSource
from lowtide.native.writer import NONE, NativeValue, Writer

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Is: "eq",
    ast.IsNot: "ne",
}
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}


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


class Expressions:
    """Values in the body of a function."""

    def __init__(self, scope: FunctionSource, unit: Surroundings) -> None:
        self.scope = scope
        self.unit = unit
        self.writer = Writer()
        self.values: dict[str, NativeValue] = {}
        self.stacked: dict[str, tuple[Kind, str]] = {}
        """Names of values that lie on the stack: their kinds and addresses."""

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
            near = nearest(name, field_names(record))
            raise self.error(node, f"{record.__name__} has no field {name}; nearest is {near}")
        stays = field.is_inline or isinstance(field.kind, AtomicKind)
        return Location(field.kind, self.writer.move(base.text, field.offset), stays)

    def _element(self, kind: ItemsKind, base: str, number: str) -> Location:
        size = size_in_memory(kind.of)
        if kind.in_place:
            assert isinstance(kind.of, Reference)
            size = record_size(kind.of.record)
        if number.lstrip("-").isdigit():
            place = self.writer.move(base, int(number) * size)
        else:
            place = self.writer.move(base, self.writer.op(f"mul i64 {number}, {size}"))
        return Location(kind.of, place, kind.in_place or isinstance(kind.of, AtomicKind))

    def plain_place(self, node: ast.expr) -> tuple[Kind, str]:
        """Return the kind and the address of what is set without an order."""
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

    # -- arithmetic ----------------------------------------------------------------------------

    def _binop_value(self, node: ast.BinOp) -> NativeValue:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(
        self, node: ast.AST, operator: ast.operator, left: NativeValue, right: NativeValue
    ) -> NativeValue:
        """Write an operation on two numbers."""
        a, b = (self.cast(x, INT, node).text for x in (left, right))
        if isinstance(operator, ast.FloorDiv | ast.Mod):
            return self._divided(operator, a, b)
        name = _OPERATORS.get(type(operator))
        if name is None:
            raise self.error(node, f"native code has no {type(operator).__name__}")
        return NativeValue(INT, self.writer.op(f"{name} i64 {a}, {b}"))

    def _divided(self, operator: ast.operator, a: str, b: str) -> NativeValue:
        """The quotient or remainder with Python's meaning: rounded down."""
        op = self.writer.op
        quotient, rest = op(f"sdiv i64 {a}, {b}"), op(f"srem i64 {a}, {b}")
        is_odd = op(f"icmp ne i64 {rest}, 0")
        differs = op(f"icmp slt i64 {op(f'xor i64 {rest}, {b}')}, 0")
        below = op(f"and i1 {is_odd}, {differs}")
        if isinstance(operator, ast.FloorDiv):
            return NativeValue(INT, op(f"sub i64 {quotient}, {op(f'zext i1 {below} to i64')}"))
        return NativeValue(INT, op(f"add i64 {rest}, {op(f'select i1 {below}, i64 {b}, i64 0')}"))

    def _unaryop_value(self, node: ast.UnaryOp) -> NativeValue:
        if isinstance(node.op, ast.Not):
            return self._chosen(node)
        given = self.cast(self.value(node.operand), INT, node).text
        if isinstance(node.op, ast.USub):
            if given.isdigit():
                return NativeValue(INT, f"-{given}")
            return NativeValue(INT, self.writer.op(f"sub i64 0, {given}"))
        if isinstance(node.op, ast.Invert):
            return NativeValue(INT, self.writer.op(f"xor i64 {given}, -1"))
        raise self.error(node, f"native code has no {type(node.op).__name__}")

    # -- conditions ----------------------------------------------------------------------------

    def condition(self, node: ast.expr, yes: str, no: str) -> None:
        """Go on at one of two labels, as a condition says: numbers and pointers that are not 0."""
        match node:
            case ast.UnaryOp(ast.Not(), operand):
                self.condition(operand, no, yes)
            case ast.BoolOp(operator, operands):
                for operand in operands[:-1]:
                    more = self.writer.fresh("more")
                    is_or = isinstance(operator, ast.Or)
                    self.condition(operand, *((yes, more) if is_or else (more, no)))
                    self.writer.label(more)
                self.condition(operands[-1], yes, no)
            case _:
                self.writer.branch(self.truth(node), yes, no)

    def truth(self, node: ast.expr) -> str:
        """Return whether a value is true: it is, or is not 0, or not null."""
        found = self.value(node)
        if found.kind == BOOL:
            return found.text
        if found.kind == NOTHING or isinstance(found.kind, AtomicKind):
            raise self.error(node, "expected a condition")
        zero = "0" if isinstance(found.kind, Int) else "null"
        return self.writer.op(f"icmp ne {value_type(found.kind)} {found.text}, {zero}")

    def _boolop_value(self, node: ast.BoolOp) -> NativeValue:
        return self._chosen(node)

    def _chosen(self, node: ast.expr) -> NativeValue:
        """A condition as a value."""
        yes, no, behind = (self.writer.fresh(x) for x in ("yes", "no", "known"))
        self.condition(node, yes, no)
        for label in (yes, no):
            self.writer.label(label)
            self.writer.jump(behind)
        self.writer.label(behind)
        return self.writer.phi(BOOL, [("true", yes), ("false", no)])

    def _compare_value(self, node: ast.Compare) -> NativeValue:
        left, result = self.value(node.left), ""
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            sign = _COMPARISONS.get(type(operator))
            if sign is None:
                raise self.error(node, f"native code has no {type(operator).__name__}")
            right = self.value(operand)
            here = self._compared(node, sign, left, right)
            result = self.writer.op(f"and i1 {result}, {here}") if result else here
            left = right
        return NativeValue(BOOL, result)

    def _compared(self, node: ast.AST, sign: str, a: NativeValue, b: NativeValue) -> str:
        if "ptr" in (value_type(a.kind), value_type(b.kind)) or NONE in (a, b):
            for one in (a, b):
                if one != NONE and value_type(one.kind) != "ptr":
                    raise self.error(node, "a pointer is compared with a number")
            return self.writer.op(f"icmp {sign} ptr {a.text}, {b.text}")
        if BOOL in (a.kind, b.kind) and a.kind == b.kind:
            return self.writer.op(f"icmp {sign} i1 {a.text}, {b.text}")
        left, right = (self.cast(x, INT, node).text for x in (a, b))
        return self.writer.op(f"icmp {sign} i64 {left}, {right}")

    def _ifexp_value(self, node: ast.IfExp) -> NativeValue:
        then, other, behind = (self.writer.fresh(x) for x in ("then", "else", "either"))
        self.condition(node.test, then, other)
        kind: Kind = NOTHING
        incoming = []
        for label, operand in ((then, node.body), (other, node.orelse)):
            self.writer.label(label)
            found = self.value(operand)
            kind = found.kind if kind == NOTHING else kind
            incoming.append((found, self.writer.block))
            self.writer.jump(behind)
        self.writer.label(behind)
        sides = [(self.cast(x, kind, node).text, block) for x, block in incoming]
        return self.writer.phi(kind, sides)

    # -- calls ---------------------------------------------------------------------------------

    def _call_value(self, node: ast.Call) -> NativeValue:
        if node.keywords:
            raise self.error(node, "calls have no keywords")
        callee = self.static(node.func)
        if isinstance(callee, NativeFunction | External):
            return self._called(node, callee)
        if callee is not None:
            return self.primitive(node, callee)
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value)
            if isinstance(base.kind, AtomicKind):
                return self.atomic(node, node.func.attr, base)
            function = self._read(self._field_place(node.func, base, node.func.attr))
        else:
            function = self.value(node.func)
        if not isinstance(function.kind, Pointed):
            raise self.error(node, f"{ast.unparse(node.func)} is no function")
        return self.call(node, function.text, [*function.kind.given], function.kind.result)

    def primitive(self, node: ast.Call, callee: Any) -> NativeValue:
        """Write what a primitive does."""
        raise NotImplementedError

    def atomic(self, node: ast.Call, method: str, place: NativeValue) -> NativeValue:
        """Write an operation of an atomic."""
        raise NotImplementedError

    def _called(
        self, node: ast.Call, callee: NativeFunction[..., Any] | External[..., Any]
    ) -> NativeValue:
        scope = self.unit.function(callee)
        kinds = [kind for _, kind in scope.signature.parameters]
        what = f"@{callee.name}"
        if isinstance(callee, External) and callee.fixed is not None:
            fixed = ", ".join([llvm_type(x) for x in kinds[: callee.fixed]])
            what = f"({fixed}, ...) {what}"
        return self.call(node, what, kinds, scope.signature.result)

    def call(self, node: ast.Call, what: str, kinds: list[Kind], result: Kind) -> NativeValue:
        """Write a call, with the values of its arguments."""
        if len(node.args) != len(kinds):
            raise self.error(node, f"{len(node.args)} arguments, expected {len(kinds)}")
        given = []
        for argument, kind in zip(node.args, kinds, strict=True):
            found = self.cast(self.value(argument), kind, argument)
            given.append(f"{llvm_type(kind)} {self.writer.narrowed(kind, found.text)}")
        text = f"call {llvm_type(result)} {what}({', '.join(given)})"
        if result == NOTHING:
            self.writer.do(text)
            return NONE
        return self.writer.widened(result, self.writer.op(text))

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


def nearest(name: str, known: list[str]) -> str:
    """Return the name that is most like one that nobody knows."""
    return get_close_matches(name, known, 1, 0.0)[0]
