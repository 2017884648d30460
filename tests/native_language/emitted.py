"""Where the package writes machine code as text: lines of LLVM's IR or of PTX in its strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

_OPCODES: Final = (
    "add|alloca|and|ashr|atomicrmw|bitcast|br|call|cmpxchg|declare|define|extractelement|"
    "extractvalue|fadd|fcmp|fdiv|fence|fmul|fneg|fpext|fptosi|fptrunc|fsub|getelementptr|icmp|"
    "insertelement|insertvalue|inttoptr|load|lshr|mul|or|phi|ptrtoint|ret|sdiv|select|sext|shl|"
    "shufflevector|sitofp|store|sub|switch|trunc|udiv|uitofp|unreachable|urem|xor|zext"
)
_IR: Final = re.compile(
    rf"\s*(?:[%@][\w.]+ = )?(?:{_OPCODES}) (?:.*[%@]\w|.*\b(?:i\d+|ptr|void)\b)"
)
_PTX: Final = re.compile(
    r"\s*(?:\.(?:version|target|visible|extern|entry|reg|func)\b|"
    r"(?:ld|st|cvta|mov|setp|selp|mad|fma|bra|atom)\.\S+ .*;)"
)
_ASSEMBLY: Final = re.compile(
    r"\s*(?:\.(?:text|globl|section)\b|(?:mov|lea|jmp|push|pop|call)[lq] )"
)


def emitted_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of code in the strings of a file of Python, each with its own line's number.

    Text of documentation does not count, nor that of patterns, which find code.
    """
    tree = ast.parse(source)
    for node in _strings(tree):
        for line in _text(node).splitlines():
            if any(x.match(line) for x in (_IR, _PTX, _ASSEMBLY)):
                yield node.lineno, line


def builds_functions(source: str) -> bool:
    """Return whether a file takes what writes functions of LLVM's IR."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "lowtide.llvm.function"
        and any(x.name == "Function" for x in node.names)
        for node in ast.walk(ast.parse(source))
    )


def _strings(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        match one:
            case ast.Constant(str()) | ast.JoinedStr():
                yield one
                if isinstance(one, ast.JoinedStr):
                    waiting += [x.value for x in one.values if isinstance(x, ast.FormattedValue)]
            case ast.Expr(ast.Constant()):
                pass
            case ast.Call(ast.Attribute(ast.Name("re"))):
                pass
            case _:
                waiting += ast.iter_child_nodes(one)


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """A string, with a number where a value stands in it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join([str(x.value) if isinstance(x, ast.Constant) else "0" for x in node.values])
