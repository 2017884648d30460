"""Attributes of nodes, which are text: numbers, lists in brackets, truth values, words."""

from __future__ import annotations

import ast
from typing import Final

from lowtide.frontend.graphs.context import OpKernelContext

_TRUE: Final = ("1", "true")
_FALSE: Final = ("0", "false", "none", "")


def text(context: OpKernelContext, name: str, default: str | None = None) -> str:
    """Return an attribute; raises GraphError where one without default is missing."""
    found = context.node.attributes.get(name, default)
    if found is None:
        raise context.error(f"attribute {name!r} is missing")
    return str(found)


def ints(
    context: OpKernelContext, name: str, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """Return a list of integers, written as (1, 2), [1, 2] or 3."""
    if name not in context.node.attributes and default is not None:
        return default
    given = text(context, name)
    try:
        found = ast.literal_eval(given.replace("L", ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    listed = found if isinstance(found, tuple | list) else (found,)
    if not all(isinstance(x, int) and not isinstance(x, bool) for x in listed):
        if given in ("None", "()", "[]"):
            return ()
        raise context.error(f"attribute {name!r} is {given!r}; expected integers")
    return tuple(int(x) for x in listed)


def integer(context: OpKernelContext, name: str, default: int | None = None) -> int:
    """Return an integer."""
    found = ints(context, name, None if default is None else (default,))
    if len(found) != 1:
        raise context.error(f"attribute {name!r} is {text(context, name)!r}; expected an integer")
    return found[0]


def pair(
    context: OpKernelContext, name: str, default: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Return two integers; one stands for both."""
    found = ints(context, name, default)
    if len(found) not in (1, 2):
        raise context.error(f"attribute {name!r} has {len(found)} numbers; expected two")
    return found[0], found[-1]


def real(context: OpKernelContext, name: str, default: float | None = None) -> float:
    """Return a number."""
    given = text(context, name, None if default is None else repr(default))
    try:
        return float(given)
    except ValueError:
        raise context.error(f"attribute {name!r} is {given!r}; expected a number") from None


def flag(context: OpKernelContext, name: str, *, default: bool = False) -> bool:
    """Return a truth value."""
    given = text(context, name, str(default)).lower()
    if given not in (*_TRUE, *_FALSE):
        raise context.error(f"attribute {name!r} is {given!r}; expected True or False")
    return given in _TRUE
