"""Functions that several modules have, taken out of these: LLVM compiles each of them once.

Layers of one model have kernels that differ by what stands before and after a product, or by how
far rows lie apart, while the loops within are the same. Functions that are equal but for factors,
limits of loops, numbers of buffers and distances become one, which is given those that differ. A
kernel that is such a function as a whole is left as a call of it; all these calls are one module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from lowtide.llvm.given_numbers import Given, given_groups, without_numbers
from lowtide.llvm.machine import CALLS
from lowtide.llvm.merging import merged
from lowtide.llvm.objects import COMMON
from lowtide.records import dataclass

_ENDING: Final = re.compile(r"^define .*?@\w+(\.[0-9a-f]{16})\(", re.MULTILINE)
"""A function of a module with what all of its names end with, see `with_unique_names`."""

_OPENING: Final = re.compile(
    r"define (?P<inner>internal|) ?void @(?P<name>\w+)\.[0-9a-f]{16}\((?P<given>[^\n]*)\) "
    r"nounwind \{"
)
"""The first line of a function that may be taken out."""

_DECLARED: Final = re.compile(r"^declare .*?(@[\w.]+\().*$", re.MULTILINE)

_MARK: Final = re.compile(r"^(!\d+) = .*$", re.MULTILINE)
"""What instructions are marked with; a number is the same mark in all modules."""

_COMMON_FUNCTION: Final = re.compile(
    rf"^define internal (?P<returns>[^@\n]*) @(?P<name>{re.escape(COMMON)}[\w.]+)"
    r"\((?P<given>[^\n]*)\) (?P<attributes>[^\n]*) \{\n(?P<body>.*?\n)\}\n",
    re.MULTILINE | re.DOTALL,
)
"""A function that is the same in all modules that define it."""

_COMMON_CONSTANT: Final = re.compile(
    rf"^(?P<name>@{re.escape(COMMON)}[\w.]+) = [^\n]*\n", re.MULTILINE
)

_LEAST_LINES: Final = 20
"""Lines of a function from which on one module more costs LLVM less than the function does."""

_ROUNDS: Final = 3
"""How often functions are looked for: what is taken out may leave callers that are alike."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """A function of a module: its text, what calls it, and its numbers that may be given.

    A kernel stays as `left`, what comes before its call of the shared function.
    """

    module: int
    symbol: str
    text: str
    given: str
    body: str
    numbers: tuple[int, ...]
    left: str


@dataclass(eq=False, slots=True)
class _Changes:
    """What becomes of a module: texts of functions, calls by symbol, and functions to declare."""

    texts: dict[str, str] = field(default_factory=dict)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    declared: dict[str, None] = field(default_factory=dict)


def with_shared_functions(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return modules without the functions that they have in common, and the modules of these.

    Names are unique, as `with_unique_names` makes them. Functions that call others of their module,
    which no module has in common, or read its constants, stay where they are. Modules of which only
    calls are left are one.
    """
    left, made, is_call = [*texts], dict[str, None](), [False] * len(texts)
    seen: Iterable[int] = range(len(texts))
    for _ in range(_ROUNDS):
        changes: dict[int, _Changes] = {}
        for (name, _, body), found in _alike({x: left[x] for x in seen}).items():
            for places, function in given_groups(body, [x.numbers for x in found]):
                group = [found[x] for x in places]
                made[_shared(name, function, group, left, changes)] = None
        if not changes:
            break
        for number, change in changes.items():
            is_call[number] = f"\n{left[number]}".count("\ndefine ") == len(change.texts)
            left[number] = _changed(left[number], change)
        seen = sorted(changes)
    calls = [x for x, is_only_call in zip(left, is_call, strict=True) if is_only_call]
    left = [x for x, is_only_call in zip(left, is_call, strict=True) if not is_only_call]
    return [*left, *([CALLS + merged("", calls)] if calls else [])], [*made]


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


def _alike(texts: Mapping[int, str]) -> dict[tuple[str, str, str], list[_Inner]]:
    """The functions that may be taken out, by what those like each have in common."""
    same: dict[tuple[str, str, int], list[_Inner]] = {}
    for module, text in texts.items():
        for name, inner in _candidates(module, text):
            same.setdefault((name, inner.given, inner.body.count("\n")), []).append(inner)
    alike: dict[tuple[str, str, str], list[_Inner]] = {}
    for (name, given, _), functions in same.items():
        for inner in functions if len(functions) > 1 else ():
            body, numbers = without_numbers(inner.body)
            found = replace(inner, numbers=numbers)
            alike.setdefault((name, given, body), []).append(found)
    return alike


def _candidates(module: int, text: str) -> Iterator[tuple[str, _Inner]]:
    """Yield the functions of a module that others may have, too, each with its name."""
    ending = _ENDING.search(text)
    end = 0 if ending is None else ending.start()
    while ending is not None and (start := text.find("define ", end)) >= 0:
        line = text.index("\n", start)
        end = text.index("\n}\n", line) + 1
        opening = _OPENING.fullmatch(text, start, line)
        body = text[line + 1 : end]
        if opening is None or body.count("\n") < _LEAST_LINES:
            continue
        if ending[1] in body or f"@{COMMON}" in body:
            continue
        symbol = f"@{opening['name']}{ending[1]}"
        left = "" if opening["inner"] else opening[0]
        if left or text.count(symbol) == text.count(f"  call void {symbol}(") + 1:
            given, whole = opening["given"], text[start : end + 2]
            yield opening["name"], _Inner(module, symbol, whole, given, body, (), left)


def _shared(
    name: str,
    function: Given,
    group: Sequence[_Inner],
    texts: Sequence[str],
    changes: dict[int, _Changes],
) -> str:
    """The module of the function that a group becomes; what changes elsewhere is noted."""
    written, numbers = function.body, function.numbers
    more = "".join([f", i64 {x}" for x in function.parameters])
    rest = f"({group[0].given}{more})"
    text = texts[group[0].module]
    needed = [x for x in _declarations(text) if x[x.index("@") : x.index("(") + 1] in written]
    needed += [x[0] for x in _MARK.finditer(text) if f"{x[1]}\n" in written]
    symbol = f"@{name}.{_digest([rest, *needed, written])}"
    types = ", ".join([x.rpartition(" ")[0] for x in rest[1:-1].split(", ")])
    for place, inner in enumerate(group):
        change = changes.setdefault(inner.module, _Changes())
        given = "".join([f", i64 {x[place]}" for x in numbers])
        call = f"{inner.left}\n  tail call void {symbol}({inner.given}{given})\n  ret void\n}}\n"
        change.texts[inner.text] = call if inner.left else ""
        if not inner.left:
            change.calls[inner.symbol] = symbol, given
        change.declared[f"declare void {symbol}({types})"] = None
    return "\n".join([*needed, f"define void {symbol}{rest} nounwind {{", f"{written}}}", ""])


def _declarations(text: str) -> list[str]:
    """The lines of a module that declare functions."""
    parts = f"\n{text}".split("\ndeclare ")
    return ["declare " + x.partition("\n")[0] for x in parts[1:]]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _changed(text: str, changes: _Changes) -> str:
    """A module that calls shared functions."""
    for before, after in changes.texts.items():
        text = text.replace(before, after, 1)
    calls: Mapping[str, tuple[str, str]] = changes.calls
    if not calls:
        return "\n".join([*changes.declared, text])
    names = "|".join([re.escape(x) for x in calls])

    def call(found: re.Match[str]) -> str:
        symbol, given = calls[found[1]]
        return f"  call void {symbol}({found[2]}{given})"

    text = re.sub(rf"^  call void ({names})\((.*)\)$", call, text, flags=re.MULTILINE)
    return "\n".join([*changes.declared, text])
