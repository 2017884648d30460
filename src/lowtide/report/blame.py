"""Blame: the line and the scope of the user's program that a buffer belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lowtide.ir import SourceLocation
from lowtide.records.late import late_pattern

_LIBRARY: Final = late_pattern(
    r"(^|/)(site-packages|dist-packages|lib/python\d+(\.\d+)?)/|^<frozen "
)
"""What stands in the paths of installed packages and of Python's own library."""

_OWN: Final = f"{Path(__file__).parents[1].as_posix()}/"
"""Where lowtide lies, whose calls of the user's function stand around it; a checkout may too."""

_WHOLE: Final = late_pattern(r"p?jit\(.*\)$")
"""The first part of an operation's name, which stands for the whole program."""


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package, to lowtide or to Python itself."""
    path = file.replace("\\", "/")
    return path.startswith(_OWN) or _LIBRARY.search(path) is not None


def user_frame(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """Return the innermost call in the user's own files, given the calls from the inside out.

    Where all are in libraries it is the innermost one; None without any.
    """
    own = [x for x in stack if x.file and not is_library(x.file)]
    named = [x for x in stack if x.file]
    return next(iter(own or named), None)


def user_frames(stack: Sequence[SourceLocation]) -> tuple[SourceLocation, ...]:
    """Return the calls in the user's own files, or all where there are none."""
    own = tuple([x for x in stack if x.file and not is_library(x.file)])
    return own or tuple([x for x in stack if x.file])


def scope_of(op_name: str) -> tuple[str, ...]:
    """Return the scopes around an operation from the outside in, e.g. `jvp(stem)`, `norm`.

    The program as a whole, `jit(...)`, is none, nor is the operation itself.
    """
    parts = _parts(op_name)
    if parts and _WHOLE.match(parts[0]):
        parts = parts[1:]
    return tuple(parts[:-1])


def primitive_of(op_name: str) -> str:
    """Return the operation that a name ends with, e.g. `dot_general`; "" for no such name."""
    parts = _parts(op_name)
    return parts[-1] if len(parts) > 1 else ""


def is_backward(op_name: str) -> bool:
    """Whether JAX made an operation to compute a gradient, by transposing another one."""
    return any(part.startswith("transpose(") for part in _parts(op_name))


def _parts(op_name: str) -> list[str]:
    """The parts between slashes that stand in no parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(op_name):
        depth += (character == "(") - (character == ")")
        if character == "/" and depth <= 0:
            parts.append(op_name[start:i])
            start = i + 1
    return [*parts, op_name[start:]] if op_name else []
