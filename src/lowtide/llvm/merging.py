"""Modules put into another one, whose functions call theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lowtide.llvm.short_vectors import with_short_vectors

_DEFINITION: Final = re.compile(r"^define (?:internal)? (.*) nounwind \{$", re.MULTILINE)


def merged(text: str, others: Sequence[str], inlined_lines: int) -> str:
    """Return a module with all that is defined in others, whose functions are internal then.

    Those of modules of at most so many lines are inlined wherever they are called. Names are
    unique, as `with_unique_names` makes them.
    """
    heads: dict[str, None] = {}
    functions: list[str] = []
    for other in others:
        inlined = ""
        if other.count("\n") <= inlined_lines:
            other, inlined = with_short_vectors(other), "alwaysinline "
        take_lines(
            _DEFINITION.sub(rf"define internal \1 nounwind {inlined}{{", other), heads, functions
        )
    take_lines(text, heads, functions)
    return "\n".join([*heads, *functions, ""])


def take_lines(text: str, heads: dict[str, None], functions: list[str]) -> None:
    """Sort the lines of a module: those of functions, and those outside, each of which once."""
    inside = False
    for line in text.splitlines():
        inside = inside or line.startswith("define ")
        if inside:
            functions.append(line)
        elif line:
            heads[line] = None
        inside = inside and line != "}"
