"""Checks of printed text by patterns that stand in comments, in the manner of LLVM's FileCheck.

    // CHECK: add            somewhere behind the last match
    // CHECK-NEXT: multiply  on the next line
    // CHECK-SAME: f32       later on the same line
    // CHECK-NOT: negate     nowhere between the matches before and behind
    // CHECK-DAG: abs        behind the last match, in any order among neighbouring -DAG lines
    // CHECK-LABEL: ENTRY    matched first; the lines between two labels are checked by themselves

`{{...}}` holds a regular expression, `[[NAME:...]]` one whose match is called NAME, and `[[NAME]]`
is what NAME matched. Runs of blanks match any run of blanks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from lowtide.records import dataclass


class DirectiveKind(StrEnum):
    """What stands between `CHECK` and the colon."""

    PLAIN = ""
    NEXT = "-NEXT"
    SAME = "-SAME"
    NOT = "-NOT"
    DAG = "-DAG"
    LABEL = "-LABEL"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of checks: `line` is its number in the file, from 1."""

    kind: DirectiveKind
    pattern: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: CHECK{self.kind.value}: {self.pattern}"


class FileCheckError(AssertionError):
    """A text does not match its checks; the message shows the check and where the search began."""


_LINE: Final = re.compile(r"(?://|#)\s*CHECK(-NEXT|-SAME|-NOT|-DAG|-LABEL)?:\s*(.*?)\s*$")
_PART: Final = re.compile(r"\{\{(.+?)\}\}|\[\[([A-Za-z_]\w*)(?::(.+?))?\]\](?!\])|\s+", re.DOTALL)


def parse_checks(text: str) -> list[Check]:
    """Return the checks in the comments of a text; raises ValueError for one without a pattern."""
    checks = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.search(line)
        if match is None:
            continue
        if not match[2]:
            raise ValueError(f"line {number}: the check has no pattern")
        checks.append(Check(DirectiveKind(match[1] or ""), match[2], number))
    return checks


def file_check(text: str, checks: list[Check]) -> None:
    """Assert that `text` matches the checks; raises FileCheckError, or ValueError without checks.

    A name is bound in the order of the checks, and holds across labels.
    """
    if not checks:
        raise ValueError("there is no CHECK line")
    if checks[0].kind in (DirectiveKind.NEXT, DirectiveKind.SAME):
        raise ValueError(f"{checks[0]}: there is no match before")
    names: dict[str, str] = {}
    blocks = _blocks(text, checks)
    for start, first, end, block in blocks:
        _Matcher(text, first, end, names).run(block, start)


def _blocks(text: str, checks: list[Check]) -> list[tuple[int, int, int, list[Check]]]:
    """Return (where the label begins, where it ends, where the next one begins, checks)."""
    blocks: list[tuple[int, int, list[Check]]] = [(0, 0, [])]
    position = 0
    for check in checks:
        if check.kind is not DirectiveKind.LABEL:
            blocks[-1][2].append(check)
            continue
        match = _search(check, text, position, len(text), {})
        if match is None:
            raise FileCheckError(_not_found(check, text, position, len(text)))
        position = match.end()
        blocks.append((match.start(), position, []))
    ends = [start for start, _, _ in blocks[1:]] + [len(text)]
    pairs = zip(blocks, ends, strict=True)
    return [(start, first, end, block) for (start, first, block), end in pairs]


class _Matcher:
    """Walks through the checks of one block; `position` is the end of the last match."""

    def __init__(self, text: str, position: int, end: int, names: dict[str, str]) -> None:
        self.text = text
        self.position = position
        self.end = end
        self.names = names
        self.forbidden: list[Check] = []
        self.group_start = position
        """Where the neighbouring -DAG checks begin to search."""
        self.taken: list[tuple[int, int]] = []

    def run(self, checks: list[Check], label: int) -> None:
        for check in checks:
            if check.kind is DirectiveKind.NOT:
                self._close_group()
                self.forbidden.append(check)
            elif check.kind is DirectiveKind.DAG:
                self._match_dag(check)
            else:
                self._close_group()
                self._match(check)
        self._close_group()
        self._check_forbidden(self.end)

    def _match(self, check: Check) -> None:
        start, end = self.position, self.end
        if check.kind is not DirectiveKind.PLAIN:
            line_end = self._line_end(self.position)
            if check.kind is DirectiveKind.NEXT:
                start = min(line_end + 1, self.end)
                line_end = self._line_end(start)
            end = min(line_end, self.end)
        match = _search(check, self.text, start, end, self.names)
        if match is None:
            raise FileCheckError(_not_found(check, self.text, start, end))
        self._check_forbidden(match.start())
        self._bind(match)
        self.position = match.end()

    def _match_dag(self, check: Check) -> None:
        if not self.taken:
            self.group_start = self.position
        start = self.group_start
        while True:
            match = _search(check, self.text, start, self.end, self.names)
            if match is None:
                raise FileCheckError(_not_found(check, self.text, self.group_start, self.end))
            if all(match.end() <= a or b <= match.start() for a, b in self.taken):
                break
            start = match.start() + 1
        self.taken.append(match.span())
        self._bind(match)

    def _close_group(self) -> None:
        """Go on behind the neighbouring -DAG checks, what was forbidden before them kept out."""
        if self.taken:
            self._check_forbidden(min([a for a, _ in self.taken]))
            self.position = max([b for _, b in self.taken])
            self.taken = []

    def _check_forbidden(self, end: int) -> None:
        for check in self.forbidden:
            match = _search(check, self.text, self.position, end, self.names)
            if match is not None:
                place = _excerpt(self.text, match.start(), self.end)
                raise FileCheckError(f"{check}\nfound what must not be there:\n{place}")
        self.forbidden = []

    def _bind(self, match: re.Match[str]) -> None:
        self.names.update({k: v for k, v in match.groupdict().items() if v is not None})

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end


def _search(
    check: Check, text: str, start: int, end: int, names: Mapping[str, str]
) -> re.Match[str] | None:
    return _compile(check, names).search(text, start, end)


def _compile(check: Check, names: Mapping[str, str]) -> re.Pattern[str]:
    parts: list[str] = []
    bound: set[str] = set()
    position = 0
    for match in _PART.finditer(check.pattern):
        parts.append(re.escape(check.pattern[position : match.start()]))
        position = match.end()
        expression, name, definition = match.groups()
        if expression is not None:
            parts.append(f"(?:{expression})")
        elif name is None:
            parts.append(r"[ \t]+")
        elif definition is not None:
            bound.add(name)
            parts.append(f"(?P<{name}>{definition})")
        elif name in bound:
            parts.append(f"(?P={name})")
        elif name in names:
            parts.append(re.escape(names[name]))
        else:
            raise ValueError(f"{check}: nothing is called {name} yet")
    parts.append(re.escape(check.pattern[position:]))
    return re.compile("".join(parts), re.MULTILINE)


def _not_found(check: Check, text: str, start: int, end: int) -> str:
    return f"{check}\nnot found in:\n{_excerpt(text, start, end)}"


def _excerpt(text: str, start: int, end: int, most: int = 12) -> str:
    """Return the lines from the one around `start`, cut to `most`."""
    begin = text.rfind("\n", 0, start) + 1
    lines = text[begin:end].splitlines()
    more = [f"... {len(lines) - most} more lines"] if len(lines) > most else []
    return "\n".join([f"  | {line}" for line in lines[:most]] + more)
