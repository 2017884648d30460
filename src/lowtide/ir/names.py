"""Unique names, numbered as XLA numbers them."""

from __future__ import annotations

import re
from typing import Final

from lowtide.ir.element_type import BY_KEYWORD
from lowtide.records.late import late_pattern

_ILLEGAL: Final = late_pattern(r"[^A-Za-z0-9_.-]")
_SUFFIX: Final = late_pattern(r"(.+)\.([+-]?\d+)", re.DOTALL)
_LARGEST: Final = 2**63 - 1


TYPE_NAMES: Final = frozenset(BY_KEYWORD) - {"tuple", "buffer"}
"""Words that HLO text reads as element types, so that nothing can be named so."""


def sanitize(name: str) -> str:
    """Return `name` made legal: `_` for each other character; never empty, never a type."""
    if not name:
        return "name"
    name = _ILLEGAL.sub("_", name)
    if not (name[0].isalpha() or name[0] == "_"):
        name = "_" + name[1:]
    if name.startswith("__") and not name.startswith("__xla_"):
        name = "a" + name[1:]
    return f"{name}_" if name in TYPE_NAMES else name


def _parts(name: str) -> tuple[str, int, bool]:
    """The stem and the number of a name like `add.1`, and whether it has a number."""
    stem, _, digits = name.rpartition(".")
    if stem and len(digits) < _FEW_DIGITS and digits.isascii() and digits.isdigit():
        return stem, int(digits), True
    match = _SUFFIX.fullmatch(name)
    if match is None or abs(int(match[2])) > _LARGEST:
        return name, 0, False
    return match[1], int(match[2]), True


_FEW_DIGITS: Final = 19
"""Of so many digits a number may exceed the largest one."""


class NameUniquer:
    """Hands out names which differ from all names that it handed out before.

    A taken name keeps its stem and gets the smallest number that is free: `add`, `add.1`, ...
    """

    __slots__ = ("_next", "_used")

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """Return `name`, or the name with the next free number where it is taken."""
        if name.startswith("__") or name in TYPE_NAMES:
            name = sanitize(name)
        stem, number, has_number = name, 0, False
        if "." in name:
            stem, number, has_number = _parts(name)
        used = self._used.get(stem)
        if used is None:
            self._used[stem] = {number}
        elif number not in used:
            used.add(number)
        else:
            number = self._next.get(stem, 0)
            while number in used:
                number += 1
            used.add(number)
            self._next[stem] = number + 1
        if number == 0:
            return f"{stem}.0" if has_number else stem
        return f"{stem}.{number}"

    def copy(self) -> NameUniquer:
        """Return another one, which hands out the same names from here on."""
        other = NameUniquer()
        other._used = {stem: set(numbers) for stem, numbers in self._used.items()}
        other._next = dict(self._next)
        return other
