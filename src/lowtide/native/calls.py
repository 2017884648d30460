"""From the syntax of a native function to LLVM's textual IR: calls."""

from __future__ import annotations

import ast
from typing import Any

from lowtide.native.arithmetic import ArithmeticLowering
from lowtide.native.functions import External, NativeFunction
from lowtide.native.kinds import NOTHING, AtomicKind, Kind, Pointed, llvm_type
from lowtide.native.writer import NONE, NativeValue


class CallLowering(ArithmeticLowering):
    """Calls in the body of a function."""

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
