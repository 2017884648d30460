"""From the syntax of a native function to LLVM's textual IR: statements."""

from __future__ import annotations

import ast
from typing import Any

from lowtide.native.kinds import INT, NOTHING, Kind, llvm_type, value_type
from lowtide.native.primitives import Primitives
from lowtide.native.scope import FunctionSource, settled_names
from lowtide.native.values import Surroundings
from lowtide.native.writer import FIRST_BLOCK, NativeValue


def function_text(scope: FunctionSource, unit: Surroundings, linkage: str) -> str:
    """Return the definition of a native function."""
    body = _Statements(scope, unit)
    body.write()
    signature = scope.signature
    given = ", ".join([f"{llvm_type(kind)} %{name}" for name, kind in signature.parameters])
    head = f"define {linkage}{llvm_type(signature.result)} @{scope.name}({given}) nounwind {{"
    lines = [head, f"{FIRST_BLOCK}:", *body.writer.beginning, *body.writer.lines, "}"]
    return "\n".join(lines) + "\n"


class _Statements(Primitives):
    """The body of one function.

    A name that is set once, ahead of all its uses, is a value of LLVM; others lie on the stack.
    """

    def __init__(self, scope: FunctionSource, unit: Surroundings) -> None:
        super().__init__(scope, unit)
        self.settled = settled_names(scope.tree)
        self.loops: list[tuple[str, str]] = []
        """Where `continue` and `break` go."""

    def write(self) -> None:
        signature = self.scope.signature
        for name, kind in signature.parameters:
            self.writer.first.add(f"%{name}")
            self.set_name(name, self.writer.widened(kind, f"%{name}"), self.scope.tree)
        for name, number in self.scope.constants.items():
            self.values[name] = NativeValue(INT, str(number))
        self.block(self.scope.tree.body)
        if self.writer.is_open:
            if signature.result != NOTHING:
                raise self.error(self.scope.tree, "a path through the function returns nothing")
            self.writer.do("ret void")

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if not self.writer.is_open:
                raise self.error(statement, "this statement is never reached")
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is None:
                raise self.error(statement, f"native code has no {type(statement).__name__}")
            method(statement)

    def _expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.value(node.value)

    def _pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _assert(self, node: ast.Assert) -> None:
        """Asserts are for Python."""

    # -- setting -------------------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
            values = node.value
            targets = node.targets[0].elts
            if not isinstance(values, ast.Tuple) or len(values.elts) != len(targets):
                raise self.error(node, "expected as many values as targets")
            found = [self.value(x) for x in values.elts]
            for target, value in zip(targets, found, strict=True):
                self.set(target, value)
            return
        value = self.value(node.value)
        for target in node.targets:
            self.set(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None or not isinstance(node.target, ast.Name):
            raise self.error(node, "expected a name and a value")
        kind = self.scope.kind(node.annotation)
        self.set(node.target, self.cast(self.value(node.value), kind, node))

    def _augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            self.set(node.target, self.binary(node, node.op, old, self.value(node.value)))
            return
        kind, place = self.plain_place(node.target)
        old = self.writer.load(kind, place)
        new = self.binary(node, node.op, old, self.value(node.value))
        self.writer.store(kind, self.cast(new, kind, node).text, place)

    def set(self, target: ast.expr, value: NativeValue) -> None:
        if isinstance(target, ast.Name):
            self.set_name(target.id, value, target)
            return
        kind, place = self.plain_place(target)
        self.writer.store(kind, self.cast(value, kind, target).text, place)

    def set_name(self, name: str, value: NativeValue, node: ast.AST) -> None:
        if value.kind == NOTHING:
            raise self.error(node, f"{name} needs an annotation: it is set to nothing")
        if name in self.settled:
            self.values[name] = value
            return
        if name not in self.stacked:
            self.stacked[name] = value.kind, self.writer.alloca(value_type(value.kind))
        kind, place = self.stacked[name]
        text = self.cast(value, kind, node).text
        self.writer.do(f"store {value_type(kind)} {text}, ptr {place}, align 8")

    # -- control flow --------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> None:
        wanted: Kind = self.scope.signature.result
        if wanted is NOTHING:
            if node.value is not None and self.value(node.value).kind != NOTHING:
                raise self.error(node, "the function has no result")
            self.writer.do("ret void")
        else:
            if node.value is None:
                raise self.error(node, "expected a value")
            found = self.cast(self.value(node.value), wanted, node)
            text = self.writer.narrowed(wanted, found.text)
            self.writer.do(f"ret {llvm_type(wanted)} {text}")
        self.writer.is_open = False

    def _if(self, node: ast.If) -> None:
        then, behind = self.writer.fresh("then"), self.writer.fresh("endif")
        other = self.writer.fresh("else") if node.orelse else behind
        self.condition(node.test, then, other)
        self.writer.label(then)
        self.block(node.body)
        is_reached = self.writer.is_open or not node.orelse
        if self.writer.is_open:
            self.writer.jump(behind)
        if node.orelse:
            self.writer.label(other)
            self.block(node.orelse)
            is_reached = is_reached or self.writer.is_open
        if is_reached:
            self.writer.label(behind)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error(node, "native code has no else of a loop")
        test, body, behind = (self.writer.fresh(x) for x in ("while", "do", "endwhile"))
        self.writer.label(test)
        is_endless = isinstance(node.test, ast.Constant) and node.test.value is True
        if is_endless:
            self.writer.label(body)
        else:
            self.condition(node.test, body, behind)
            self.writer.label(body)
        self._body(node.body, test, behind)
        if not is_endless or any(isinstance(x, ast.Break) for x in ast.walk(node)):
            self.writer.label(behind)

    def _body(self, statements: list[ast.stmt], again: str, behind: str) -> None:
        self.loops.append((again, behind))
        self.block(statements)
        if self.writer.is_open:
            self.writer.jump(again)
        self.loops.pop()

    def _for(self, node: ast.For) -> None:
        start, stop, step = self._range(node)
        assert isinstance(node.target, ast.Name)
        writer = self.writer
        head, body, again, behind = (writer.fresh(x) for x in ("for", "do", "next", "endfor"))
        following, before = f"%{writer.fresh('following')}", writer.block
        writer.label(head)
        now = writer.phi(INT, [(start, before), (following, again)])
        sign = "slt" if step > 0 else "sgt"
        writer.branch(writer.op(f"icmp {sign} i64 {now.text}, {stop}"), body, behind)
        writer.label(body)
        self.set_name(node.target.id, now, node)
        self._body(node.body, again, behind)
        writer.label(again)
        writer.do(f"{following} = add i64 {now.text}, {step}")
        writer.jump(head)
        writer.label(behind)

    def _range(self, node: ast.For) -> tuple[str, str, int]:
        match node.iter:
            case ast.Call(ast.Name("range"), arguments) if 1 <= len(arguments) <= 3:
                pass
            case _:
                arguments = []
        if node.orelse or not isinstance(node.target, ast.Name) or not arguments:
            raise self.error(node, "expected `for NAME in range(...)` without else")
        step: Any = ast.literal_eval(arguments[2]) if len(arguments) == 3 else 1
        if not isinstance(step, int) or not step:
            raise self.error(node, "expected a number other than 0 as step")
        ends = [self.cast(self.value(x), INT, node).text for x in arguments[:2]]
        return (ends[0], ends[1], step) if len(ends) == 2 else ("0", ends[0], step)

    def _match(self, node: ast.Match) -> None:
        """A choice by a number; its cases are constants, and perhaps all else."""
        writer, behind = self.writer, self.writer.fresh("endmatch")
        found = self.cast(self.value(node.subject), INT, node).text
        default, cases, bodies = behind, [], []
        for case in node.cases:
            label = writer.fresh("case")
            bodies.append((label, case.body))
            match case.pattern:
                case ast.MatchValue(value) if case.guard is None:
                    cases.append(f"i64 {self.value(value).text}, label %{label}")
                case ast.MatchAs(None, None) if case.guard is None:
                    default = label
                case _:
                    raise self.error(case.pattern, "expected `case` with a constant or `_`")
        writer.do(f"switch i64 {found}, label %{default} [ {' '.join(cases)} ]")
        writer.is_open = False
        is_reached = default == behind
        for label, body in bodies:
            writer.label(label)
            self.block(body)
            is_reached = is_reached or writer.is_open
            if writer.is_open:
                writer.jump(behind)
        if is_reached:
            writer.label(behind)

    def _break(self, node: ast.Break) -> None:
        self.writer.jump(self.loops[-1][1])

    def _continue(self, node: ast.Continue) -> None:
        self.writer.jump(self.loops[-1][0])
