"""Sums with +0, which only take the sign from a zero, moved to what is known early.

Gradients of single elements are padded with zeros and added up, so that such a sum often stands in
a chain of operations that all the rest waits for. A sum with +0 may be taken of a term as well as
of the total: neither is -0 then, and no other number changes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from lowtide.records import dataclass

_ZERO: Final = "0x0000000000000000"
_SUM_WITH_ZERO: Final = re.compile(
    rf"^  \S+ = fadd (?:float|double) (?:%\S+, {_ZERO}|{_ZERO}, %\S+)$", re.MULTILINE
)
_BLOCK: Final = re.compile(r"^(?:  .*\n)+", re.MULTILINE)
_OPERATION: Final = re.compile(
    r"^  (?P<name>%\S+) = (?P<op>fadd|fsub|fmul|fdiv) (?P<type>float|double) "
    r"(?P<left>[^ ,]+), (?P<right>\S+)$"
)
_DEFINED: Final = re.compile(r"^  (%\S+) = (\w+)")
_NAME: Final = re.compile(r"%[\w.]+")


@dataclass(frozen=True, slots=True)
class _Sum:
    """An operation of two floating point numbers, by the names in the text."""

    name: str
    op: str
    type: str
    left: str
    right: str

    @property
    def line(self) -> str:
        return f"  {self.name} = {self.op} {self.type} {self.left}, {self.right}"

    @property
    def term(self) -> str:
        """What +0 is added to, nothing for other operations."""
        if self.op != "fadd" or _ZERO not in (self.left, self.right):
            return ""
        term = self.right if self.left == _ZERO else self.left
        return term if term.startswith("%") else ""


def with_early_zeros(text: str) -> str:
    """Return a module in which +0 is added to the terms of sums that are known first."""
    if _SUM_WITH_ZERO.search(text) is None:
        return text
    uses = Counter(_NAME.findall(text))  # Names of several functions count together: never fewer.

    def moved(block: re.Match[str]) -> str:
        found = block[0]
        return _moved(found, uses) if _SUM_WITH_ZERO.search(found) else found

    return _BLOCK.sub(moved, text)


def _moved(block: str, uses: Counter[str]) -> str:
    """A block of straight code."""
    lines = block.splitlines()
    depths: dict[str, int] = {}
    found: dict[str, tuple[int, _Sum]] = {}
    sums: list[int] = []
    for number, line in enumerate(lines):
        operation = _OPERATION.match(line)
        if operation:
            one = _Sum(*operation.group("name", "op", "type", "left", "right"))
            found[one.name] = number, one
            if one.term:
                sums.append(number)
        defined = _DEFINED.match(line)
        if defined:
            given = [depths.get(x, 0) for x in _NAME.findall(line)[1:]]
            depths[defined[1]] = 0 if defined[2] == "load" else 1 + max(given, default=0)
    users = {x: y.name for _, y in found.values() for x in (y.left, y.right)}
    for number in sums:
        operation = _OPERATION.match(lines[number])
        assert operation is not None
        one = _Sum(*operation.group("name", "op", "type", "left", "right"))
        after = users.get(one.name, "")
        if uses[one.name] == _ONCE and after and _is_moved_on(lines, found, depths, one, after):
            continue
        if one.term in found and uses[one.term] == _ONCE:
            _move_back(lines, found[one.term], number, depths, one)
    return "\n".join([*lines, ""])


_ONCE: Final = 2
"""How often a name stands in the text that is defined and used once."""


def _is_moved_on(
    lines: list[str],
    found: dict[str, tuple[int, _Sum]],
    depths: dict[str, int],
    one: _Sum,
    after: str,
) -> bool:
    """(x + 0) + y => x + (y + 0), where y is known first; whether that was done."""
    number, total = found[after]
    if total.op != "fadd" or lines[number] != total.line:
        return False
    other = total.right if total.left == one.name else total.left
    is_known = other.startswith("%") and other != one.name
    if not is_known or depths.get(other, 0) >= depths.get(one.term, 0):
        return False
    early = _Sum(one.name, "fadd", one.type, other, _ZERO)
    late = _Sum(total.name, "fadd", one.type, one.term, one.name)
    lines[found[one.name][0]] = ""
    lines[number] = f"{early.line}\n{late.line}"
    return True


def _move_back(
    lines: list[str],
    inner: tuple[int, _Sum],
    number: int,
    depths: dict[str, int],
    one: _Sum,
) -> None:
    """(x - y) + 0 => (x + 0) - y, (x + y) + 0 => (x + 0) + y, where x is known before y."""
    place, total = inner
    if lines[place] != total.line or total.op not in ("fadd", "fsub"):
        return
    first, other = total.left, total.right
    if total.op == "fadd" and depths.get(other, 0) < depths.get(first, 0):
        first, other = other, first
    is_known = first.startswith("%") and other.startswith("%")
    if not is_known or depths.get(first, 0) >= depths.get(other, 0):
        return
    lines[place] = _Sum(total.name, "fadd", one.type, first, _ZERO).line
    lines[number] = _Sum(one.name, total.op, one.type, total.name, other).line
