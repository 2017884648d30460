"""From the syntax tree of a kernel to LLVM IR."""

from __future__ import annotations

import ast
from typing import Any, Final, NamedTuple

from llvmlite import ir

from lowtide.search.kernels.declarations import BOOL, FLOAT, INT, TYPES, TranslationUnit
from lowtide.search.kernels.kernel import Kernel
from lowtide.search.kernels.records import kinds_of

_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def lower(kernel: Kernel[..., Any]) -> ir.Module:
    """Return the LLVM module of a kernel and of all kernels that it calls."""
    unit = TranslationUnit(kernel)
    while unit.waiting:
        current = unit.waiting.pop()
        _Body(current, unit.functions[current.name][1], unit).build()
    return unit.module


class _Loop(NamedTuple):
    """Where `continue` and `break` go."""

    again: ir.Block
    behind: ir.Block


class _Body:
    """The body of one function; every variable lies in memory, which LLVM turns to registers."""

    def __init__(
        self,
        kernel: Kernel[..., Any],
        function: ir.Function,
        unit: TranslationUnit,
    ) -> None:
        self.kernel = kernel
        self.function = function
        self.unit = unit
        self.entry = function.append_basic_block("entry")
        self.build_at = ir.IRBuilder(function.append_basic_block("body"))
        self.variables: dict[str, ir.AllocaInstr] = {}
        self.pointers: dict[str, ir.Value] = {}
        """Arrays and records by name, and fields by the record and their number."""
        self.fields: dict[tuple[ir.Value, int], ir.Value] = {}
        self.loops: list[_Loop] = []

    def build(self) -> None:
        names = [name for name, _ in self.kernel.signature.parameters]
        for name, argument in zip(names, self.function.args, strict=True):
            if argument.type.is_pointer:
                self.pointers[name] = argument
            else:
                self._store(name, argument)
            argument.name = f"{name}.argument"
        self._block(self.kernel.tree.body)
        if not self.build_at.block.is_terminated:
            if self._reachable():
                raise self._error(self.kernel.tree, "a path through the function returns nothing")
            self.build_at.unreachable()
        ir.IRBuilder(self.entry).branch(self.function.blocks[1])

    def _reachable(self) -> bool:
        """Whether the current block is the first one or the goal of some branch."""
        block = self.build_at.block
        if block is self.function.blocks[1]:
            return True
        goals = [
            goal
            for other in self.function.blocks
            if other.is_terminated
            for goal in other.terminator.operands
        ]
        return block in goals

    def _error(self, node: ast.AST, problem: str) -> Exception:
        return self.kernel.error(node, problem)

    # -- statements ----------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.build_at.block.is_terminated:
                raise self._error(statement, "this statement is never reached")
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is None:
                raise self._error(statement, f"kernels have no {type(statement).__name__}")
            method(statement)

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        self._value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self._error(node, "expected one target")
        self._set(node.targets[0], self._value(node.value))

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise self._error(node, "expected a value")
        self._set(node.target, self._value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            place = self._place(target)
            old = self.build_at.load(place)
            new = self._binary(node, node.op, old, self._value(node.value))
            self.build_at.store(self._cast(new, place.type.pointee, node), place)
            return
        if not isinstance(target, ast.Name):
            self._set(target, ir.Constant(INT, 0))
            return
        old = self._name_value(target)
        self._set(target, self._binary(node, node.op, old, self._value(node.value)))

    def _set(self, target: ast.expr, value: ir.Value) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.pointers:
                raise self._error(target, f"{target.id} is an array or a record and cannot be set")
            if value.type.is_pointer:
                self._name(target, value)
                return
            self._store(target.id, self._cast(value, self._type_of(target.id, value), target))
        elif isinstance(target, ast.Subscript):
            place = self._place(target)
            self.build_at.store(self._cast(value, place.type.pointee, target), place)
        elif isinstance(target, ast.Attribute):
            raise self._error(target, f"{ast.unparse(target)} is a field and cannot be set")
        else:
            raise self._error(target, "expected a name or a subscript")

    def _name(self, target: ast.Name, pointer: ir.Value) -> None:
        """Give an array or a record a name, which stands for it in all that follows."""
        if target.id in self.variables:
            raise self._error(target, f"{target.id} is a number and cannot be set to anything else")
        self.pointers[target.id] = pointer

    def _type_of(self, name: str, value: ir.Value) -> ir.Type:
        if name in self.variables:
            return self.variables[name].allocated_type
        return INT if value.type == BOOL else value.type

    def _store(self, name: str, value: ir.Value) -> None:
        if name not in self.variables:
            builder = ir.IRBuilder(self.entry)
            self.variables[name] = builder.alloca(value.type, name=name)
        self.build_at.store(value, self.variables[name])

    def _return(self, node: ast.Return) -> None:
        if node.value is None:
            raise self._error(node, "expected a value")
        wanted = self.function.function_type.return_type
        self.build_at.ret(self._cast(self._value(node.value), wanted, node))

    def _if(self, node: ast.If) -> None:
        then, behind = self._new("then"), self._new("endif")
        other = self._new("else") if node.orelse else behind
        self.build_at.cbranch(self._condition(node.test), then, other)
        self._branch(then, node.body, behind)
        if node.orelse:
            self._branch(other, node.orelse, behind)
        self.build_at.position_at_end(behind)
        if not self._reachable():
            self.build_at.unreachable()

    def _branch(self, block: ir.Block, statements: list[ast.stmt], behind: ir.Block) -> None:
        self.build_at.position_at_end(block)
        self._block(statements)
        if not self.build_at.block.is_terminated:
            self.build_at.branch(behind)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self._error(node, "kernels have no else of a loop")
        test, body, behind = self._new("while"), self._new("do"), self._new("endwhile")
        self.build_at.branch(test)
        self.build_at.position_at_end(test)
        self.build_at.cbranch(self._condition(node.test), body, behind)
        self._loop(body, node.body, _Loop(test, behind))

    def _for(self, node: ast.For) -> None:
        first, last, step = self._range(node)
        assert isinstance(node.target, ast.Name)
        counter = ir.IRBuilder(self.entry).alloca(INT, name=f"{node.target.id}.counter")
        self.build_at.store(first, counter)
        test, body = self._new("for"), self._new("do")
        again, behind = self._new("next"), self._new("endfor")
        self.build_at.branch(test)
        self.build_at.position_at_end(test)
        sign = "<" if step > 0 else ">"
        now = self.build_at.load(counter)
        self.build_at.cbranch(self.build_at.icmp_signed(sign, now, last), body, behind)
        self.build_at.position_at_end(body)
        self._set(node.target, now)
        self._loop(body, node.body, _Loop(again, behind))
        self.build_at.position_at_end(again)
        now = self.build_at.load(counter)
        self.build_at.store(self.build_at.add(now, ir.Constant(INT, step)), counter)
        self.build_at.branch(test)
        self.build_at.position_at_end(behind)

    def _range(self, node: ast.For) -> tuple[ir.Value, ir.Value, int]:
        call = node.iter
        if (
            node.orelse
            or not isinstance(node.target, ast.Name)
            or not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or call.func.id != "range"
            or not 1 <= len(call.args) <= 3
        ):
            raise self._error(node, "expected `for NAME in range(...)` without else")
        step = 1
        if len(call.args) == 3:
            step = ast.literal_eval(call.args[2])
            if not isinstance(step, int) or not step:
                raise self._error(node, "expected a number other than 0 as step")
        ends = [self._cast(self._value(x), INT, node) for x in call.args[:2]]
        return (ends[0], ends[1], step) if len(ends) == 2 else (ir.Constant(INT, 0), ends[0], step)

    def _loop(self, body: ir.Block, statements: list[ast.stmt], loop: _Loop) -> None:
        self.loops.append(loop)
        self.build_at.position_at_end(body)
        self._block(statements)
        if not self.build_at.block.is_terminated:
            self.build_at.branch(loop.again)
        self.loops.pop()
        self.build_at.position_at_end(loop.behind)

    def _break(self, node: ast.Break) -> None:
        self.build_at.branch(self.loops[-1].behind)

    def _continue(self, node: ast.Continue) -> None:
        self.build_at.branch(self.loops[-1].again)

    def _new(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    # -- expressions ---------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> ir.Value:
        method = getattr(self, f"_{type(node).__name__.lower()}_value", None)
        if method is None:
            raise self._error(node, f"kernels have no {type(node).__name__}")
        return method(node)

    def _condition(self, node: ast.expr) -> ir.Value:
        value = self._value(node)
        if value.type == BOOL:
            return value
        if value.type == INT:
            return self.build_at.icmp_signed("!=", value, ir.Constant(INT, 0))
        raise self._error(node, "expected a condition")

    def _constant_value(self, node: ast.Constant) -> ir.Value:
        return self._number(node, node.value)

    def _number(self, node: ast.AST, value: object) -> ir.Value:
        if isinstance(value, bool):
            return ir.Constant(BOOL, int(value))
        if isinstance(value, int):
            return ir.Constant(INT, value)
        if isinstance(value, float):
            return ir.Constant(FLOAT, value)
        raise self._error(node, f"kernels have no constant {value!r}")

    def _name_value(self, node: ast.Name) -> ir.Value:
        if node.id in self.variables:
            return self.build_at.load(self.variables[node.id])
        if node.id in self.pointers:
            return self.pointers[node.id]
        outside = self.kernel.python.__globals__
        if node.id not in outside:
            raise self._error(node, f"{node.id} is not set before it is read")
        return self._number(node, outside[node.id])

    def _subscript_value(self, node: ast.Subscript) -> ir.Value:
        return self.build_at.load(self._place(node))

    def _place(self, node: ast.Subscript) -> ir.Value:
        array = self._value(node.value)
        if array.type not in (TYPES["Array"], TYPES["FloatArray"]):
            raise self._error(node, "only arrays have subscripts")
        index = self._cast(self._value(node.slice), INT, node)
        return self.build_at.gep(array, [index])

    def _attribute_value(self, node: ast.Attribute) -> ir.Value:
        """A field of a record: loaded where the function begins, since none is ever set."""
        words = self._value(node.value)
        record = self.unit.record_at(words.type)
        if record is None:
            raise self._error(node, f"{ast.unparse(node.value)} is no record")
        kinds = kinds_of(record)
        if node.attr not in kinds:
            raise self._error(node, f"record {record.__name__} has no field {node.attr}")
        number = list(kinds).index(node.attr)
        if (words, number) not in self.fields:
            at = ir.IRBuilder(self.entry)
            place = at.gep(words, [ir.Constant(INT, 0), ir.Constant(ir.IntType(32), number)])
            is_record = not isinstance(kinds[node.attr], str)
            self.fields[words, number] = place if is_record else at.load(place)
        return self.fields[words, number]

    def _binop_value(self, node: ast.BinOp) -> ir.Value:
        return self._binary(node, node.op, self._value(node.left), self._value(node.right))

    def _binary(self, node: ast.AST, operator: ast.operator, a: ir.Value, b: ir.Value) -> ir.Value:
        kind = type(operator).__name__
        if isinstance(operator, ast.Div) or FLOAT in (a.type, b.type):
            name = _FLOAT_OPERATORS.get(kind)
            a, b = self._cast(a, FLOAT, node), self._cast(b, FLOAT, node)
        else:
            a, b = self._cast(a, INT, node), self._cast(b, INT, node)
            if isinstance(operator, ast.FloorDiv | ast.Mod):
                return self._divide(operator, a, b)
            name = _INT_OPERATORS.get(kind)
        if name is None:
            raise self._error(node, f"kernels have no {kind} of these types")
        return getattr(self.build_at, name)(a, b)

    def _divide(self, operator: ast.operator, a: ir.Value, b: ir.Value) -> ir.Value:
        """Python rounds down, the machine to zero."""
        at, zero = self.build_at, ir.Constant(INT, 0)
        rest = at.srem(a, b)
        signs = at.icmp_signed("<", at.xor(rest, b), zero)
        below = at.and_(at.icmp_signed("!=", rest, zero), signs)
        if isinstance(operator, ast.Mod):
            return at.add(rest, at.select(below, b, zero))
        return at.sub(at.sdiv(a, b), at.zext(below, INT))

    def _unaryop_value(self, node: ast.UnaryOp) -> ir.Value:
        if isinstance(node.op, ast.Not):
            return self.build_at.not_(self._condition(node.operand))
        value = self._value(node.operand)
        if isinstance(node.op, ast.USub):
            return self.build_at.fneg(value) if value.type == FLOAT else self.build_at.neg(value)
        if isinstance(node.op, ast.Invert) and value.type == INT:
            return self.build_at.not_(value)
        raise self._error(node, f"kernels have no {type(node.op).__name__} of this type")

    def _compare_value(self, node: ast.Compare) -> ir.Value:
        left = self._value(node.left)
        result: ir.Value | None = None
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            sign = _COMPARISONS.get(type(operator))
            if sign is None:
                raise self._error(node, f"kernels have no {type(operator).__name__}")
            right = self._value(operand)
            here = self._compared(node, sign, left, right)
            result = here if result is None else self.build_at.and_(result, here)
            left = right
        return result

    def _compared(self, node: ast.AST, sign: str, a: ir.Value, b: ir.Value) -> ir.Value:
        if FLOAT in (a.type, b.type):
            a, b = self._cast(a, FLOAT, node), self._cast(b, FLOAT, node)
            compare = self.build_at.fcmp_unordered if sign == "!=" else self.build_at.fcmp_ordered
            return compare(sign, a, b)
        return self.build_at.icmp_signed(sign, self._cast(a, INT, node), self._cast(b, INT, node))

    def _boolop_value(self, node: ast.BoolOp) -> ir.Value:
        """Whether all or any hold; an operand is computed only where those before do not decide."""
        decided = ir.Constant(BOOL, int(isinstance(node.op, ast.Or)))
        behind = self._new("decided")
        incoming = []
        for number, operand in enumerate(node.values, 1):
            value = self._value(operand)
            if value.type != BOOL:
                raise self._error(operand, "and, or take comparisons")
            here = self.build_at.block
            if number == len(node.values):
                incoming.append((value, here))
                self.build_at.branch(behind)
                break
            incoming.append((decided, here))
            more = self._new("more")
            ends = (behind, more) if isinstance(node.op, ast.Or) else (more, behind)
            self.build_at.cbranch(value, *ends)
            self.build_at.position_at_end(more)
        self.build_at.position_at_end(behind)
        return self._joined(BOOL, incoming)

    def _ifexp_value(self, node: ast.IfExp) -> ir.Value:
        then, other, behind = self._new("then"), self._new("else"), self._new("either")
        self.build_at.cbranch(self._condition(node.test), then, other)
        sides = []
        for block, operand in ((then, node.body), (other, node.orelse)):
            self.build_at.position_at_end(block)
            sides.append((self._value(operand), self.build_at.block))
        kinds = {value.type for value, _ in sides}
        kind = FLOAT if FLOAT in kinds else BOOL if kinds == {BOOL} else INT
        incoming = []
        for value, block in sides:
            self.build_at.position_at_end(block)
            incoming.append((self._cast(value, kind, node), block))
            self.build_at.branch(behind)
        self.build_at.position_at_end(behind)
        return self._joined(kind, incoming)

    def _joined(self, kind: ir.Type, incoming: list[tuple[ir.Value, ir.Block]]) -> ir.Value:
        phi = self.build_at.phi(kind)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _call_value(self, node: ast.Call) -> ir.Value:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise self._error(node, "expected NAME(...) without keywords")
        name = node.func.id
        if name in ("min", "max"):
            return self._extreme(node, "<" if name == "min" else ">")
        values = [self._value(x) for x in node.args]
        if name in ("int", "float", "abs") and len(values) == 1:
            return self._converted(node, name, values[0])
        callee = self.kernel.python.__globals__.get(name)
        if not isinstance(callee, Kernel):
            raise self._error(node, f"{name} is no kernel")
        function = self.unit.function(callee)
        wanted = function.function_type.args
        if len(values) != len(wanted):
            raise self._error(node, f"{len(values)} arguments, expected {len(wanted)}")
        arguments = [self._cast(x, kind, node) for x, kind in zip(values, wanted, strict=True)]
        return self.build_at.call(function, arguments)

    def _extreme(self, node: ast.Call, sign: str) -> ir.Value:
        if len(node.args) < 2:
            raise self._error(node, "min and max take two values or more")
        best = self._value(node.args[0])
        for operand in node.args[1:]:
            value = self._value(operand)
            kind = FLOAT if FLOAT in (best.type, value.type) else INT
            best, value = self._cast(best, kind, node), self._cast(value, kind, node)
            best = self.build_at.select(self._compared(node, sign, value, best), value, best)
        return best

    def _converted(self, node: ast.Call, name: str, value: ir.Value) -> ir.Value:
        if name == "float":
            return self._cast(value, FLOAT, node)
        if name == "int":
            return self.build_at.fptosi(value, INT) if value.type == FLOAT else value
        if value.type == FLOAT:
            raise self._error(node, "abs takes an int")
        return self.build_at.select(
            self.build_at.icmp_signed("<", value, ir.Constant(INT, 0)),
            self.build_at.neg(value),
            value,
        )

    def _cast(self, value: ir.Value, wanted: ir.Type, node: ast.AST) -> ir.Value:
        if value.type == wanted:
            return value
        if value.type == BOOL and wanted == INT:
            return self.build_at.zext(value, INT)
        if value.type == BOOL and wanted == FLOAT:
            return self.build_at.uitofp(value, FLOAT)
        if value.type == INT and wanted == FLOAT:
            return self.build_at.sitofp(value, FLOAT)
        raise self._error(node, f"expected {wanted}, found {value.type}")


_INT_OPERATORS: Final = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "LShift": "shl",
    "RShift": "ashr",
    "BitAnd": "and_",
    "BitOr": "or_",
    "BitXor": "xor",
}
_FLOAT_OPERATORS: Final = {"Add": "fadd", "Sub": "fsub", "Mult": "fmul", "Div": "fdiv"}
