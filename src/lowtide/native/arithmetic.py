"""From the syntax of a native function to LLVM's textual IR: arithmetic and conditions."""

from __future__ import annotations

import ast
from typing import Final

from lowtide.native.kinds import BOOL, FLOAT, INT, NOTHING, AtomicKind, Int, Kind, value_type
from lowtide.native.values import ValueLowering
from lowtide.native.writer import NONE, NativeValue

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("slt", "olt"),
    ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"),
    ast.GtE: ("sge", "oge"),
    ast.Eq: ("eq", "oeq"),
    ast.NotEq: ("ne", "une"),
    ast.Is: ("eq", "oeq"),
    ast.IsNot: ("ne", "une"),
}
"""LLVM's words of comparisons: of integers and pointers, and of floats."""

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
_FLOAT_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "fadd",
    ast.Sub: "fsub",
    ast.Mult: "fmul",
    ast.Div: "fdiv",
}


class ArithmeticLowering(ValueLowering):
    """Numbers and conditions in the body of a function."""

    # -- arithmetic ----------------------------------------------------------------------------

    def _binop_value(self, node: ast.BinOp) -> NativeValue:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(
        self, node: ast.AST, operator: ast.operator, left: NativeValue, right: NativeValue
    ) -> NativeValue:
        """Write an operation on two numbers: on floats where one is, or where it is `/`."""
        is_float = isinstance(operator, ast.Div) or FLOAT in (left.kind, right.kind)
        kind: Kind = FLOAT if is_float else INT
        a, b = (self.cast(x, kind, node).text for x in (left, right))
        if isinstance(operator, ast.FloorDiv | ast.Mod) and not is_float:
            return self._divided(operator, a, b)
        name = (_FLOAT_OPERATORS if is_float else _OPERATORS).get(type(operator))
        if name is None:
            problem = f"native code has no {type(operator).__name__}"
            raise self.error(node, f"{problem} of floats" if is_float else problem)
        return NativeValue(kind, self.writer.op(f"{name} {value_type(kind)} {a}, {b}"))

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
            return NativeValue(BOOL, self.writer.op(f"xor i1 {self.truth(node.operand)}, true"))
        value = self.value(node.operand)
        if value.kind == FLOAT and isinstance(node.op, ast.USub):
            return NativeValue(FLOAT, self.writer.op(f"fneg double {value.text}"))
        given = self.cast(value, INT, node).text
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
        if found.kind in (NOTHING, FLOAT) or isinstance(found.kind, AtomicKind):
            raise self.error(node, "expected a condition")
        zero = "0" if isinstance(found.kind, Int) else "null"
        return self.writer.op(f"icmp ne {value_type(found.kind)} {found.text}, {zero}")

    def _boolop_value(self, node: ast.BoolOp) -> NativeValue:
        """Whether all or any hold; an operand is computed only where those before do not decide."""
        decided, behind = str(isinstance(node.op, ast.Or)).lower(), self.writer.fresh("decided")
        incoming = []
        for number, operand in enumerate(node.values, 1):
            found = self.value(operand)
            if found.kind != BOOL:
                raise self.error(operand, "expected a comparison: the value of and, or is a bool")
            is_last = number == len(node.values)
            incoming.append((found.text if is_last else decided, self.writer.block))
            if is_last:
                self.writer.jump(behind)
                break
            more = self.writer.fresh("more")
            ends = (behind, more) if isinstance(node.op, ast.Or) else (more, behind)
            self.writer.branch(found.text, *ends)
            self.writer.label(more)
        self.writer.label(behind)
        return self.writer.phi(BOOL, incoming)

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

    def _compared(
        self, node: ast.AST, signs: tuple[str, str], a: NativeValue, b: NativeValue
    ) -> str:
        sign, float_sign = signs
        if "ptr" in (value_type(a.kind), value_type(b.kind)) or NONE in (a, b):
            for one in (a, b):
                if one != NONE and value_type(one.kind) != "ptr":
                    raise self.error(node, "a pointer is compared with a number")
            return self.writer.op(f"icmp {sign} ptr {a.text}, {b.text}")
        if FLOAT in (a.kind, b.kind):
            left, right = (self.cast(x, FLOAT, node).text for x in (a, b))
            return self.writer.op(f"fcmp {float_sign} double {left}, {right}")
        if BOOL in (a.kind, b.kind) and a.kind == b.kind:
            return self.writer.op(f"icmp {sign} i1 {a.text}, {b.text}")
        left, right = (self.cast(x, INT, node).text for x in (a, b))
        return self.writer.op(f"icmp {sign} i64 {left}, {right}")

    def _ifexp_value(self, node: ast.IfExp) -> NativeValue:
        writer = self.writer
        then, other, behind = (writer.fresh(x) for x in ("then", "else", "either"))
        self.condition(node.test, then, other)
        writer.label(then)
        yes, yes_block = self.value(node.body), writer.block
        end, writer.is_open = len(writer.lines), False
        writer.label(other)
        no, no_block = self.value(node.orelse), writer.block
        kind = _common(yes.kind, no.kind)
        no_text = self.cast(no, kind, node).text
        writer.jump(behind)
        later = writer.lines[end:]  # How the first side ends depends on the kind of the second.
        del writer.lines[end:]
        yes_text = self.cast(yes, kind, node).text
        writer.jump(behind)
        writer.lines += later
        writer.label(behind)
        return writer.phi(kind, [(yes_text, yes_block), (no_text, no_block)])

    # -- functions of Python -------------------------------------------------------------------

    def _min(self, node: ast.Call) -> NativeValue:
        return self._extreme(node, "smin", "olt")

    def _max(self, node: ast.Call) -> NativeValue:
        return self._extreme(node, "smax", "ogt")

    def _extreme(self, node: ast.Call, name: str, sign: str) -> NativeValue:
        if len(node.args) < 2:
            raise self.error(node, "min and max take two values or more")
        best, *others = [self.value(x) for x in node.args]
        for other in others:
            if FLOAT in (best.kind, other.kind):
                best = self._better_float(node, sign, best, other)
            else:
                best = self._better_number(node, name, best, other)
        return best

    def _better_number(
        self, node: ast.Call, name: str, best: NativeValue, other: NativeValue
    ) -> NativeValue:
        self.unit.declare(f"declare i64 @llvm.{name}.i64(i64, i64)")
        a, b = (self.cast(x, INT, node).text for x in (best, other))
        return NativeValue(INT, self.writer.op(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})"))

    def _better_float(
        self, node: ast.Call, sign: str, best: NativeValue, other: NativeValue
    ) -> NativeValue:
        """The first of two unless the second one compares as better, as in Python."""
        a, b = (self.cast(x, FLOAT, node).text for x in (best, other))
        is_better = self.writer.op(f"fcmp {sign} double {b}, {a}")
        found = self.writer.op(f"select i1 {is_better}, double {b}, double {a}")
        return NativeValue(FLOAT, found)

    def _int(self, node: ast.Call) -> NativeValue:
        found = self.value(node.args[0])
        if found.kind == FLOAT:
            return NativeValue(INT, self.writer.op(f"fptosi double {found.text} to i64"))
        return self.cast(found, INT, node)

    def _float(self, node: ast.Call) -> NativeValue:
        return self.cast(self.value(node.args[0]), FLOAT, node)

    def _abs(self, node: ast.Call) -> NativeValue:
        number = self.cast(self.value(node.args[0]), INT, node).text
        self.unit.declare("declare i64 @llvm.abs.i64(i64, i1)")
        found = self.writer.op(f"call i64 @llvm.abs.i64(i64 {number}, i1 false)")
        return NativeValue(INT, found)


def _common(one: Kind, other: Kind) -> Kind:
    """The kind of a value that is of one kind or another."""
    if one == other or other == NOTHING:
        return one
    if FLOAT in (one, other):
        return FLOAT
    return INT if one == BOOL else other if one == NOTHING else one
