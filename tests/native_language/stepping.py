"""Native functions as generators of Python, which yield before each access to memory.

What a step gets is kept in a local at once. So where a generator stands, with its locals, is all
that decides how it goes on.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lowtide.native import External, NativeFunction
from lowtide.native.functions import PRIMITIVES, SharedRecord
from lowtide.native.records import Order
from lowtide.native.scope import FunctionSource

Steps = Generator[tuple[Any, ...], Any, Any]

ATOMICS: Final = ("load", "store", "exchange", "compare_exchange", "add", "raise_to")

Fault = tuple[str, str]
"""A piece of the source of a function, and what stands there instead."""


@dataclass
class Stepped:
    """Native functions made into generators, with faults by the names of functions.

    Those of `_made` that a case gives stand for what it does not look into.
    """

    faults: Mapping[str, Fault] = field(default_factory=dict)
    _made: dict[str, Callable[..., Steps]] = field(default_factory=dict)

    def function(self, native: NativeFunction[..., Any]) -> Callable[..., Steps]:
        """Return a native function as a generator function."""
        if native.name not in self._made:
            self._made[native.name] = self._generator(native)
        return self._made[native.name]

    def give(self, name: str, function: Callable[..., Steps]) -> None:
        """Have a generator function stand for a native function."""
        self._made[name] = function

    def _generator(self, native: NativeFunction[..., Any]) -> Callable[..., Steps]:
        scope = FunctionSource(native)
        text = ast.unparse(scope.tree)
        if native.name in self.faults:
            before, after = self.faults[native.name]
            assert text.count(before) == 1, f"{native.name} has no or several {before!r}:\n{text}"
            text = text.replace(before, after)
        (tree,) = ast.parse(text).body
        assert isinstance(tree, ast.FunctionDef)
        tree.decorator_list = []
        tree.returns = None
        for argument in tree.args.args:
            argument.annotation = None
        changed = ast.Module([_Steps(scope.names).visit(tree)], [])
        orders = {x.name: x for x in Order}
        own = vars(sys.modules[native.python.__module__])
        names = {**orders, **own, "invoke": self.invoke}
        code = compile(
            ast.fix_missing_locations(changed), scope.python.__code__.co_filename, "exec"
        )
        exec(code, names)
        made: Callable[..., Steps] = names[tree.name]
        return made

    def invoke(self, callee: Any, *given: Any) -> Steps:
        """Call a native function, or have the one who drives the steps call another."""
        if isinstance(callee, NativeFunction):
            result = yield from self.function(callee)(*given)
        else:
            result = yield ("call", callee, given)
        return result


class _Steps(ast.NodeTransformer):
    """Accesses to memory become yields."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.count = 0

    def _kept(self, node: ast.expr) -> ast.expr:
        self.count += 1
        return ast.NamedExpr(ast.Name(f"_{self.count}", ast.Store()), node)

    def _step(self, *parts: ast.expr) -> ast.expr:
        return self._kept(ast.Yield(ast.Tuple(list(parts), ast.Load())))

    def _is_static(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and isinstance(self.names.get(node.id), type)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [ast.Expr(ast.Yield(ast.Constant(None))), *self._statements(node.body)]
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [x for y in body for x in self._several(self.visit(y))]

    def _several(self, found: Any) -> list[ast.stmt]:
        return found if isinstance(found, list) else [found]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return self.visit(ast.Assign([node.target], node.value))

    def visit_Assign(self, node: ast.Assign) -> Any:
        if all(isinstance(x, ast.Name) for y in node.targets for x in _each(y)):
            return self.generic_visit(node)
        pairs = []
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs += list(zip(target.elts, node.value.elts, strict=True))
            else:
                pairs.append((target, node.value))
        return [self._set(target, self.visit(value)) for target, value in pairs]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        old = self.visit(_loaded(node.target))
        return self._set(node.target, ast.BinOp(old, node.op, self.visit(node.value)))

    def _set(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        if isinstance(target, ast.Name):
            return ast.Assign([target], value)
        return ast.Expr(self._step(ast.Constant("set"), *self._place(target), value))

    def _place(self, node: ast.expr) -> tuple[ast.expr, ast.expr]:
        if isinstance(node, ast.Attribute):
            return self.visit(node.value), ast.Constant(node.attr)
        assert isinstance(node, ast.Subscript)
        return self.visit(node.value), self.visit(node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if self._is_static(node):
            return node
        return self._step(ast.Constant("get"), *self._place(node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._step(ast.Constant("get"), *self._place(node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        given = [self.visit(x) for x in node.args]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ATOMICS:
            what = ast.Constant(node.func.attr)
            return self._step(ast.Constant("atomic"), self.visit(node.func.value), what, *given)
        callee = node.func
        if isinstance(callee, ast.Name) and callee.id in ("max", "min", "int", "len", "range"):
            return ast.Call(callee, given, [])
        called = ast.Call(ast.Name("invoke", ast.Load()), [self.visit(callee), *given], [])
        return self._kept(ast.YieldFrom(called))


def _each(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _loaded(target: ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return ast.Subscript(target.value, target.slice, ast.Load())


__all__ = ["ATOMICS", "PRIMITIVES", "External", "Fault", "SharedRecord", "Stepped", "Steps"]
