"""A native function as the compiler sees it: its syntax, its types, and the names around it."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from lowtide.native.functions import External, NativeFunction
from lowtide.native.kinds import Kind, kind_of_annotation
from lowtide.native.records import NativeError


class NativeSignature(NamedTuple):
    """The kinds of parameters and result."""

    parameters: tuple[tuple[str, Kind], ...]
    result: Kind


@cache
def _functions_of(file: str, text: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions of a file by their names and the lines of their first decorators."""
    found = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.FunctionDef)]
    return {(x.name, min([x.lineno, *[y.lineno for y in x.decorator_list]])): x for x in found}


def _syntax_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The syntax of a function as it stands in its file; raises NativeError where there is none."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    try:
        return _functions_of(code.co_filename, "".join(lines))[code.co_name, code.co_firstlineno]
    except (KeyError, SyntaxError):
        place = f"{code.co_filename}:{code.co_firstlineno}"
        raise NativeError(f"{place}: {code.co_name} has no source there") from None


class FunctionSource:
    """One native or external function; `constants` are parameters that have a value for good."""

    def __init__(self, function: NativeFunction[..., Any] | External[..., Any]) -> None:
        self.name = function.name
        self.python: Callable[..., Any] = function.python
        self.constants = function.constants
        self.names = self.python.__globals__
        self.tree = _syntax_of(self.python)
        self.signature = self._signature()

    def _signature(self) -> NativeSignature:
        given = [x for x in self.tree.args.args if x.arg not in self.constants]
        parameters = tuple([(x.arg, self.kind(x.annotation)) for x in given])
        return NativeSignature(parameters, self.kind(self.tree.returns))

    def kind(self, node: ast.expr | None) -> Kind:
        """Return what an annotation means; raises NativeError with its place."""
        if node is None:
            raise self.error(self.tree, "expected annotations of all parameters and the result")
        try:
            return kind_of_annotation(node, self.names)
        except NativeError as problem:
            raise self.error(node, str(problem)) from None

    def error(self, node: ast.AST, problem: str) -> NativeError:
        """Return the error for a problem at a place in the source."""
        code = self.python.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        return NativeError(f"{code.co_filename}:{line}: in {self.name}: {problem}")


# -- names ---------------------------------------------------------------------------------------


def settled_names(function: ast.FunctionDef) -> set[str]:
    """Return the names that stand for one value wherever they are read.

    They are set by one statement, and read only behind it in its block, or never set at all, as
    parameters are.
    """
    found = _Names()
    reads = found.block(function.body)
    once = {x for x, count in found.sets.items() if count == 1 and found.behind[x] == reads[x]}
    parameters = {x.arg for x in function.args.args}
    return (once - parameters) | (parameters - found.sets.keys())


class _Names:
    """How often names are set, and how often they are read behind that in its block."""

    def __init__(self) -> None:
        self.sets: Counter[str] = Counter()
        self.behind: Counter[str] = Counter()

    def block(self, statements: list[ast.stmt]) -> Counter[str]:
        """Return how often a block reads each name."""
        reads: Counter[str] = Counter()
        for statement in reversed(statements):
            here = self._statement(statement)
            for name in here.sets:
                self._set(name, reads[name] if here.settles else -1)
            reads.update(here.reads)
        return reads

    def _set(self, name: str, reads: int) -> None:
        self.sets[name] += 1
        self.behind[name] = reads

    def _statement(self, statement: ast.stmt) -> _Statement:
        found = _Statement(isinstance(statement, ast.Assign | ast.AnnAssign))
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, ast.stmt | ast.match_case):
                found.look(part)
        for case in getattr(statement, "cases", []):
            found.reads.update(self.block(case.body))
        for name in ("body", "orelse"):
            inside = self.block(getattr(statement, name, []))
            if isinstance(statement, ast.For) and name == "body":
                for target in found.sets:
                    self._set(target, inside[target])
                found.sets = []
            found.reads.update(inside)
        return found


class _Statement:
    """What a statement sets and reads; `settles` says that what it sets is known behind it."""

    def __init__(self, settles: bool) -> None:
        self.settles = settles
        self.sets: list[str] = []
        self.reads: Counter[str] = Counter()

    def look(self, node: ast.AST) -> None:
        """Note the names of an expression."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                self.sets.append(node.id)
            else:
                self.reads[node.id] += 1
            return
        for child in ast.iter_child_nodes(node):
            self.look(child)
