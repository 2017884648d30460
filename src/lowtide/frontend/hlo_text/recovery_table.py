"""The recovery table of original values: text with modules inside of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lowtide.ir.module import Module
from lowtide.ir.strings import escape, unescape

_NESTED: Final = re.compile(r'"(\s*HloModule[^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


def normalize_recovery_table(text: str, parse: Callable[[str], Module]) -> str:
    """Return the table with each module in it printed canonically, indented by four.

    `parse` reads a nested module. Raises HloTextError, with a place in the nested text, and
    ValueError for a bad escape.
    """

    def replace(match: re.Match[str]) -> str:
        lines = str(parse(unescape(match[1]))).split("\n")
        body = "\n".join([f"    {escape(line)}" if line else "" for line in lines])
        return f'"\n{body}\n  "'

    return _NESTED.sub(replace, text)
