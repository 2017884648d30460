"""Functions that several modules have, taken out of these: LLVM compiles each of them once.

Layers of one model have kernels that differ by what stands before and after a product, or by how
far rows lie apart, while the loops within are the same. Functions that are equal but for factors,
limits of loops and numbers of buffers become one, which is given those that differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from lowtide.llvm.objects import COMMON
from lowtide.records import dataclass

_ENDING: Final = re.compile(r"^define .*?@\w+(\.[0-9a-f]{16})\(", re.MULTILINE)
"""A function of a module with what all of its names end with, see `with_unique_names`."""

_INNER: Final = re.compile(
    r"^define internal void @(?P<name>\w+)\.[0-9a-f]{16}\((?P<given>[^\n]*)\) nounwind \{\n"
    r"(?P<body>.*?\n)\}\n",
    re.MULTILINE | re.DOTALL,
)

_NUMBER: Final = re.compile(
    r"^(  %[\w.]+ = (?:mul nsw i64|icmp slt i64) %[\w.]+, "
    r"|  %[\w.]+ = getelementptr inbounds ptr, ptr %buffers, i64 )(\d+)$",
    re.MULTILINE,
)
"""Where a number may be given: no address within a loop has it as its fixed part."""

_DECLARED: Final = re.compile(r"^declare .*?(@[\w.]+\().*$", re.MULTILINE)

_COMMON_FUNCTION: Final = re.compile(
    rf"^define internal (?P<returns>[^@\n]*) @(?P<name>{re.escape(COMMON)}[\w.]+)"
    r"\((?P<given>[^\n]*)\) (?P<attributes>[^\n]*) \{\n(?P<body>.*?\n)\}\n",
    re.MULTILINE | re.DOTALL,
)
"""A function that is the same in all modules that define it."""

_COMMON_CONSTANT: Final = re.compile(
    rf"^(?P<name>@{re.escape(COMMON)}[\w.]+) = [^\n]*\n", re.MULTILINE
)

_LEAST_LINES: Final = 40
"""Lines of a function from which on one module more costs LLVM less than the function does."""

_MOST_GIVEN: Final = 8
"""How many numbers a function is given at most: its loops have registers for no more."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """A function of a module: its text, what calls it, and its numbers that may be given."""

    module: int
    symbol: str
    text: str
    given: str
    body: str
    numbers: tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Changes:
    """What becomes of a module: texts to leave out, calls by symbol, and functions to declare."""

    gone: list[str] = field(default_factory=list)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    declared: dict[str, None] = field(default_factory=dict)


def with_shared_functions(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return modules without the functions that they have in common, and the modules of these.

    Names are unique, as `with_unique_names` makes them. Functions that call others of their module,
    or read its constants, stay where they are.
    """
    alike: dict[tuple[str, str, str], list[_Inner]] = {}
    for module, text in enumerate(texts):
        for key, inner in _inner(module, text):
            alike.setdefault(key, []).append(inner)
    changes: dict[int, _Changes] = {}
    made: dict[str, None] = {}
    for (name, _, body), found in alike.items():
        for group in _groups(found):
            made[_shared(name, body, group, texts, changes)] = None
    left = [_changed(x, changes[i]) if i in changes else x for i, x in enumerate(texts)]
    return left, list(made)


def without_common(text: str) -> tuple[str, list[str]]:
    """Return a module that only declares the functions of common names, and a module for each.

    They read no memory but constants of common names, which go with them.
    """
    functions = list(_COMMON_FUNCTION.finditer(text))
    declared = {f"@{x['name']}(": _declaration(x) for x in functions}
    known = {x[1]: x[0] for x in _DECLARED.finditer(text)} | declared
    constants = {x["name"]: x[0] for x in _COMMON_CONSTANT.finditer(text)}
    left = _COMMON_CONSTANT.sub("", _COMMON_FUNCTION.sub("", text))
    modules = []
    for function in functions:
        body = function["body"]
        needed = [line for name, line in known.items() if name in body]
        needed += [line.rstrip() for name, line in constants.items() if name in body]
        defined = function[0].replace("define internal ", "define ", 1)
        modules.append("\n".join([*needed, defined]))
    return "\n".join([*[line for name, line in declared.items() if name in left], left]), modules


def _declaration(function: re.Match[str]) -> str:
    types = ", ".join([x.rpartition(" ")[0] for x in re.split(r", (?=[^,]* %)", function["given"])])
    return f"declare {function['returns']} @{function['name']}({types}) {function['attributes']}"


def _inner(module: int, text: str) -> Iterator[tuple[tuple[str, str, str], _Inner]]:
    """Yield the functions that may be taken out, each with what those like it have in common."""
    ending = _ENDING.search(text)
    if ending is None or "define internal" not in text:
        return
    for found in _INNER.finditer(text):
        body = found["body"]
        if body.count("\n") < _LEAST_LINES or ending[1] in body or f"@{COMMON}" in body:
            continue
        symbol = f"@{found['name']}{ending[1]}"
        if text.count(symbol) != text.count(f"  call void {symbol}(") + 1:
            continue
        parts = _NUMBER.split(body)
        numbers = tuple(parts[2::3])
        parts[2::3] = ["#"] * len(numbers)
        key = found["name"], found["given"], "".join(parts)
        yield key, _Inner(module, symbol, found[0], found["given"], body, numbers)


def _groups(found: Sequence[_Inner]) -> list[Sequence[_Inner]]:
    """Functions alike in groups that become one each: all, or those with the same numbers."""
    if len(found) > 1 and len(_columns(found)) <= _MOST_GIVEN:
        return [found]
    same: dict[tuple[str, ...], list[_Inner]] = {}
    for inner in found:
        same.setdefault(inner.numbers, []).append(inner)
    return [x for x in same.values() if len(x) > 1]


def _columns(group: Sequence[_Inner]) -> dict[tuple[str, ...], str]:
    """The numbers that differ, each as what it is in all functions, and its parameter."""
    columns = dict.fromkeys(zip(*[x.numbers for x in group], strict=True))
    differing = [x for x in columns if len(set(x)) > 1]
    return {x: f"%given.{number}" for number, x in enumerate(differing)}


def _shared(
    name: str,
    body: str,
    group: Sequence[_Inner],
    texts: Sequence[str],
    changes: dict[int, _Changes],
) -> str:
    """The module of the function that a group becomes; what changes elsewhere is noted."""
    columns = _columns(group)
    numbers = zip(*[x.numbers for x in group], strict=True)
    written = body
    if group[0].numbers:
        values = [columns.get(x, x[0]) for x in numbers]
        first, *parts = body.split("#\n")
        written = first + "".join([f"{x}\n{y}" for x, y in zip(values, parts, strict=True)])
    more = "".join([f", i64 {x}" for x in columns.values()])
    rest = f"({group[0].given}{more})"
    needed = [x[0] for x in _DECLARED.finditer(texts[group[0].module]) if x[1] in written]
    symbol = f"@{name}.{_digest([rest, *needed, written])}"
    types = ", ".join([x.rpartition(" ")[0] for x in rest[1:-1].split(", ")])
    for place, inner in enumerate(group):
        change = changes.setdefault(inner.module, _Changes())
        change.gone.append(inner.text)
        given = "".join([f", i64 {x[place]}" for x in columns])
        change.calls[inner.symbol] = symbol, given
        change.declared[f"declare void {symbol}({types})"] = None
    return "\n".join([*needed, f"define void {symbol}{rest} nounwind {{", f"{written}}}", ""])


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _changed(text: str, changes: _Changes) -> str:
    """A module that calls shared functions."""
    for gone in changes.gone:
        text = text.replace(gone, "", 1)
    calls: Mapping[str, tuple[str, str]] = changes.calls
    names = "|".join([re.escape(x) for x in calls])

    def call(found: re.Match[str]) -> str:
        symbol, given = calls[found[1]]
        return f"  call void {symbol}({found[2]}{given})"

    text = re.sub(rf"^  call void ({names})\((.*)\)$", call, text, flags=re.MULTILINE)
    return "\n".join([*changes.declared, text])
