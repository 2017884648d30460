"""From the syntax tree of a kernel to LLVM IR."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from llvmlite import ir

from lowtide.search.kernels.kernel import Kernel

_INT: Final = ir.IntType(64)
_BOOL: Final = ir.IntType(1)
_FLOAT: Final = ir.DoubleType()
_TYPES: Final[dict[str, ir.Type]] = {
    "int": _INT,
    "float": _FLOAT,
    "Array": _INT.as_pointer(),
    "FloatArray": _FLOAT.as_pointer(),
}
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
    module = ir.Module(name=kernel.name)
    functions: dict[str, tuple[Kernel[..., Any], ir.Function]] = {}
    waiting = [kernel]

    def declare(callee: Kernel[..., Any]) -> ir.Function:
        if callee.name in functions:
            known, function = functions[callee.name]
            if known is not callee:
                raise kernel.error(callee.tree, f"two kernels have the name {callee.name}")
            return function
        signature = callee.signature
        parameters = [_TYPES[kind] for _, kind in signature.parameters]
        shape = ir.FunctionType(_TYPES[signature.result], parameters)
        function = ir.Function(module, shape, callee.name)
        if callee is not kernel:
            function.linkage = "internal"
            waiting.append(callee)
        functions[callee.name] = callee, function
        return function

    declare(kernel)
    while waiting:
        current = waiting.pop()
        _Body(current, functions[current.name][1], declare).build()
    return module


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
        declare: Callable[[Kernel[..., Any]], ir.Function],
    ) -> None:
        self.kernel = kernel
        self.function = function
        self.declare = declare
        self.entry = function.append_basic_block("entry")
        self.build_at = ir.IRBuilder(function.append_basic_block("body"))
        self.variables: dict[str, ir.AllocaInstr] = {}
        self.arrays: dict[str, ir.Argument] = {}
        self.loops: list[_Loop] = []

    def build(self) -> None:
        for (name, kind), argument in zip(
            self.kernel.signature.parameters, self.function.args, strict=True
        ):
            if isinstance(argument.type, ir.PointerType):
                self.arrays[name] = argument
            else:
                self._store(name, argument)
            argument.name = f"{name}.{kind}"
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
            raise self._error(target, "expected a name or a subscript")
        old = self._name_value(target)
        self._set(target, self._binary(node, node.op, old, self._value(node.value)))

    def _set(self, target: ast.expr, value: ir.Value) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.arrays:
                raise self._error(target, f"{target.id} is an array and cannot be set")
            self._store(target.id, self._cast(value, self._type_of(target.id, value), target))
        elif isinstance(target, ast.Subscript):
            place = self._place(target)
            self.build_at.store(self._cast(value, place.type.pointee, target), place)
        else:
            raise self._error(target, "expected a name or a subscript")

    def _type_of(self, name: str, value: ir.Value) -> ir.Type:
        if name in self.variables:
            return self.variables[name].allocated_type
        return _INT if value.type == _BOOL else value.type

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
        counter = ir.IRBuilder(self.entry).alloca(_INT, name=f"{node.target.id}.counter")
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
        self.build_at.store(self.build_at.add(now, ir.Constant(_INT, step)), counter)
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
        ends = [self._cast(self._value(x), _INT, node) for x in call.args[:2]]
        return (ends[0], ends[1], step) if len(ends) == 2 else (ir.Constant(_INT, 0), ends[0], step)

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
        if value.type == _BOOL:
            return value
        if value.type == _INT:
            return self.build_at.icmp_signed("!=", value, ir.Constant(_INT, 0))
        raise self._error(node, "expected a condition")

    def _constant_value(self, node: ast.Constant) -> ir.Value:
        return self._number(node, node.value)

    def _number(self, node: ast.AST, value: object) -> ir.Value:
        if isinstance(value, bool):
            return ir.Constant(_BOOL, int(value))
        if isinstance(value, int):
            return ir.Constant(_INT, value)
        if isinstance(value, float):
            return ir.Constant(_FLOAT, value)
        raise self._error(node, f"kernels have no constant {value!r}")

    def _name_value(self, node: ast.Name) -> ir.Value:
        if node.id in self.variables:
            return self.build_at.load(self.variables[node.id])
        if node.id in self.arrays:
            return self.arrays[node.id]
        outside = self.kernel.python.__globals__
        if node.id not in outside:
            raise self._error(node, f"{node.id} is not set before it is read")
        return self._number(node, outside[node.id])

    def _subscript_value(self, node: ast.Subscript) -> ir.Value:
        return self.build_at.load(self._place(node))

    def _place(self, node: ast.Subscript) -> ir.Value:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.arrays:
            raise self._error(node, "only arrays that are parameters have subscripts")
        index = self._cast(self._value(node.slice), _INT, node)
        return self.build_at.gep(self.arrays[node.value.id], [index])

    def _binop_value(self, node: ast.BinOp) -> ir.Value:
        return self._binary(node, node.op, self._value(node.left), self._value(node.right))

    def _binary(self, node: ast.AST, operator: ast.operator, a: ir.Value, b: ir.Value) -> ir.Value:
        kind = type(operator).__name__
        if isinstance(operator, ast.Div) or _FLOAT in (a.type, b.type):
            name = _FLOAT_OPERATORS.get(kind)
            a, b = self._cast(a, _FLOAT, node), self._cast(b, _FLOAT, node)
        else:
            a, b = self._cast(a, _INT, node), self._cast(b, _INT, node)
            if isinstance(operator, ast.FloorDiv | ast.Mod):
                return self._divide(operator, a, b)
            name = _INT_OPERATORS.get(kind)
        if name is None:
            raise self._error(node, f"kernels have no {kind} of these types")
        return getattr(self.build_at, name)(a, b)

    def _divide(self, operator: ast.operator, a: ir.Value, b: ir.Value) -> ir.Value:
        """Python rounds down, the machine to zero."""
        at, zero = self.build_at, ir.Constant(_INT, 0)
        rest = at.srem(a, b)
        signs = at.icmp_signed("<", at.xor(rest, b), zero)
        below = at.and_(at.icmp_signed("!=", rest, zero), signs)
        if isinstance(operator, ast.Mod):
            return at.add(rest, at.select(below, b, zero))
        return at.sub(at.sdiv(a, b), at.zext(below, _INT))

    def _unaryop_value(self, node: ast.UnaryOp) -> ir.Value:
        if isinstance(node.op, ast.Not):
            return self.build_at.not_(self._condition(node.operand))
        value = self._value(node.operand)
        if isinstance(node.op, ast.USub):
            return self.build_at.fneg(value) if value.type == _FLOAT else self.build_at.neg(value)
        if isinstance(node.op, ast.Invert) and value.type == _INT:
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
        if _FLOAT in (a.type, b.type):
            a, b = self._cast(a, _FLOAT, node), self._cast(b, _FLOAT, node)
            compare = self.build_at.fcmp_unordered if sign == "!=" else self.build_at.fcmp_ordered
            return compare(sign, a, b)
        return self.build_at.icmp_signed(sign, self._cast(a, _INT, node), self._cast(b, _INT, node))

    def _boolop_value(self, node: ast.BoolOp) -> ir.Value:
        """Whether all or any hold; an operand is computed only where those before do not decide."""
        decided = ir.Constant(_BOOL, int(isinstance(node.op, ast.Or)))
        behind = self._new("decided")
        incoming = []
        for number, operand in enumerate(node.values, 1):
            value = self._value(operand)
            if value.type != _BOOL:
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
        return self._joined(_BOOL, incoming)

    def _ifexp_value(self, node: ast.IfExp) -> ir.Value:
        then, other, behind = self._new("then"), self._new("else"), self._new("either")
        self.build_at.cbranch(self._condition(node.test), then, other)
        sides = []
        for block, operand in ((then, node.body), (other, node.orelse)):
            self.build_at.position_at_end(block)
            sides.append((self._value(operand), self.build_at.block))
        kinds = {value.type for value, _ in sides}
        kind = _FLOAT if _FLOAT in kinds else _BOOL if kinds == {_BOOL} else _INT
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
        function = self.declare(callee)
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
            kind = _FLOAT if _FLOAT in (best.type, value.type) else _INT
            best, value = self._cast(best, kind, node), self._cast(value, kind, node)
            best = self.build_at.select(self._compared(node, sign, value, best), value, best)
        return best

    def _converted(self, node: ast.Call, name: str, value: ir.Value) -> ir.Value:
        if name == "float":
            return self._cast(value, _FLOAT, node)
        if name == "int":
            return self.build_at.fptosi(value, _INT) if value.type == _FLOAT else value
        if value.type == _FLOAT:
            raise self._error(node, "abs takes an int")
        return self.build_at.select(
            self.build_at.icmp_signed("<", value, ir.Constant(_INT, 0)),
            self.build_at.neg(value),
            value,
        )

    def _cast(self, value: ir.Value, wanted: ir.Type, node: ast.AST) -> ir.Value:
        if value.type == wanted:
            return value
        if value.type == _BOOL and wanted == _INT:
            return self.build_at.zext(value, _INT)
        if value.type == _BOOL and wanted == _FLOAT:
            return self.build_at.uitofp(value, _FLOAT)
        if value.type == _INT and wanted == _FLOAT:
            return self.build_at.sitofp(value, _FLOAT)
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
