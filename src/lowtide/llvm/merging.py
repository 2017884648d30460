"""Modules put into another one, whose functions call theirs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from lowtide.llvm.direct_addresses import with_direct_addresses
from lowtide.llvm.short_vectors import with_short_vectors

_DEFINITION: Final = re.compile(r"^define (?:internal)? (.*) nounwind \{$", re.MULTILINE)

_INNER: Final = re.compile(r"^define internal \S+ @([\w.]+)\(.*\) nounwind \{$", re.MULTILINE)
"""A function that LLVM is not told to inline, or not to."""

_NAMED: Final = re.compile(r"@([\w.]+)\(")
"""A function where it is defined or called."""

_OPEN: Final = " nounwind {\n"
"""What the line of such a function ends with."""

_DEFINED_AND_CALLED: Final = 2
"""How often its name stands before a parenthesis where one place calls it."""


def inner_text(text: str, inlined_lines: int) -> tuple[str, dict[str, int]]:
    """Return a module to be put into another one, whose functions are internal then.

    Those of a module of at most so many lines are inlined wherever they are called. Of these, some
    take the addresses of their buffers one by one: by name, how many.
    """
    inlined, direct = "", dict[str, int]()
    is_short = text.count("\n") <= inlined_lines
    text = with_short_vectors(text)  # Long ones, too: what is called once is inlined all the same.
    if is_short:
        inlined = "alwaysinline "
        text, direct = with_direct_addresses(text)
    return _DEFINITION.sub(rf"define internal \1 nounwind {inlined}{{", text), direct


def merged(text: str, others: Sequence[str]) -> str:
    """Return a module with all that is defined in others, as `inner_text` returns them.

    Names are unique, as `with_unique_names` makes them.
    """
    heads: dict[str, None] = {}
    functions: dict[str, None] = {}
    for other in others:
        take_parts(other, heads, functions)
    take_parts(text, heads, functions)
    return "\n".join([*heads, *functions, ""])


def inlined_once(others: Sequence[str], caller: str) -> list[str]:
    """Return modules, as `inner_text` does, whose functions are inlined if called from one place.

    What calls them is one of them or the module `caller`. Code becomes no longer by that, and LLVM
    need not look at which calls are worth it.
    """
    counts = Counter[str]()
    for text in (caller, *others):
        counts.update(_NAMED.findall(text))

    def inlined(definition: re.Match[str]) -> str:
        line = definition[0]
        is_once = counts[definition[1]] == _DEFINED_AND_CALLED
        return f"{line[:-1]}alwaysinline {{" if is_once else line

    return [_INNER.sub(inlined, x) if _OPEN in x else x for x in others]


def take_parts(text: str, heads: dict[str, None], functions: dict[str, None]) -> None:
    """Sort what a module defines: lines outside of functions, and functions, each of which once."""
    begun: list[str] = []
    for line in text.splitlines():
        if begun or line.startswith("define "):
            begun.append(line)
        elif line:
            heads[line] = None
        if begun and line == "}":
            functions["\n".join(begun)] = None
            begun = []
