"""Addresses of what Python makes: whoever takes one has to keep what it is of."""

import ast
from pathlib import Path

import lowtide

SOURCES = Path(lowtide.__file__).parent
LASTS = {"_participant", "from_buffer", "immortal"}
"""Calls whose result lies in memory that something else holds."""


def test_no_address_is_of_something_that_nobody_holds() -> None:
    """An array made in the call is gone once its address is there: other objects take its place."""
    lost = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text()
        if "addressof(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or _name(node.func) != "addressof":
                continue
            given = node.args[0]
            if isinstance(given, ast.Call) and _name(given.func) not in LASTS:
                lost.append(f"{path.relative_to(SOURCES)}:{node.lineno}")
    assert not lost, f"addresses of what is gone at once: {lost}"


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
