"""Functions that several modules have, taken out of these: LLVM compiles each of them once.

Layers of one model have kernels that differ by what stands before and after a product, or by how
far rows lie apart, while the loops within are the same. Functions that are equal but for factors,
limits of loops, numbers of buffers and distances become one, which is given those that differ. A
kernel that is such a function as a whole is left as a call of it; all these calls are one module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

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

_LABEL: Final = re.compile(r"^(?!entry:)[\w.]+:$", re.MULTILINE)
"""Where the second block of a function begins: what stands before runs once."""

_VALUE: Final = re.compile(r"^  (%[\w.]+) = ", re.MULTILINE)

_AHEAD: Final = re.compile(
    r"^(?P<before>  %[\w.]+ = (?:(?:add|sub|mul) nsw i64 %[\w.]+, |icmp slt i64 %[\w.]+, "
    r"|call i64 @llvm\.smin\.i64\(i64 %[\w.]+, i64 "
    r"|getelementptr (?:inbounds )?\w+, ptr %[\w.]+, i64 ))(?P<number>\d+)(?=\)?$)",
    re.MULTILINE,
)
"""Where a number may be given that is used once."""

_WITHIN: Final = re.compile(
    r"^(?P<before>  %[\w.]+ = (?:mul nsw i64 %[\w.]+, |icmp slt i64 %[\w.]+, "
    r"|getelementptr inbounds ptr, ptr %buffers, i64 "
    r"|getelementptr i8, ptr (?P<place>%[\w.]+), i64 ))(?P<number>\d+)$",
    re.MULTILINE,
)
"""Where it may be given elsewhere: it is the fixed part of an address only behind some `place`."""

_PLACE: Final = re.compile(
    r"^  (?P<name>%[\w.]+) = getelementptr (?P<type>[^, ]+), ptr (?P<base>%[\w.]+), "
    r"(?P<index>i64 %[\w.]+)$",
    re.MULTILINE,
)
"""An address in a loop; a distance behind it may as well be one behind its base."""

_DISTANT: Final = re.compile(
    r"^  (%[\w.]+) = getelementptr i8, ptr (%[\w.]+), i64 (%given\.\d+)$", re.MULTILINE
)

_HOLE: Final = "\0"
"""What stands for a number in the text that functions have in common."""

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

_LEAST_LINES: Final = {"internal": 40, "": 20}
"""Lines of a function from which on one module more costs LLVM less than the function does; of a
kernel, whose call is in a module with others."""

_MOST_GIVEN: Final = 8
"""How many numbers a function is given at most: its loops have registers for no more."""


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
    numbers: tuple[str, ...]
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
    or read its constants, stay where they are. Modules of which only calls are left are one.
    """
    changes: dict[int, _Changes] = {}
    made: dict[str, None] = {}
    for (name, _, body), found in _alike(texts).items():
        for group in _groups(found):
            made[_shared(name, body, group, texts, changes)] = None
    left: list[str] = []
    calls: list[str] = []
    for number, text in enumerate(texts):
        change = changes.get(number)
        is_call = change is not None and f"\n{text}".count("\ndefine ") == len(change.texts)
        (calls if is_call else left).append(text if change is None else _changed(text, change))
    if calls:
        left.append(merged("", calls))
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


def _alike(texts: Sequence[str]) -> dict[tuple[str, str, str], list[_Inner]]:
    """The functions that may be taken out, by what those like each have in common."""
    same: dict[tuple[str, str, int], list[_Inner]] = {}
    for module, text in enumerate(texts):
        for name, inner in _candidates(module, text):
            same.setdefault((name, inner.given, inner.body.count("\n")), []).append(inner)
    alike: dict[tuple[str, str, str], list[_Inner]] = {}
    for (name, given, _), functions in same.items():
        for inner in functions if len(functions) > 1 else ():
            body, numbers = _without_numbers(inner.body)
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
        if opening is None or body.count("\n") < _LEAST_LINES[opening["inner"]]:
            continue
        if ending[1] in body or f"@{COMMON}" in body:
            continue
        symbol = f"@{opening['name']}{ending[1]}"
        left = "" if opening["inner"] else opening[0]
        if left or text.count(symbol) == text.count(f"  call void {symbol}(") + 1:
            given, whole = opening["given"], text[start : end + 2]
            yield opening["name"], _Inner(module, symbol, whole, given, body, (), left)


def _blocks(body: str) -> tuple[str, str]:
    """The first block of a function, and the others."""
    second = _LABEL.search(body)
    end = len(body) if second is None else second.start()
    return body[:end], body[end:]


def _without_numbers(body: str) -> tuple[str, tuple[str, ...]]:
    """A function with holes in place of numbers that may be given, and these."""
    first, others = _blocks(body)
    bases = {*_VALUE.findall(first)}
    places = {None, *[x["name"] for x in _PLACE.finditer(others) if x["base"] in bases]}
    numbers: list[str] = []

    def taken(found: re.Match[str]) -> str:
        if found.groupdict().get("place") not in places:
            return found[0]
        numbers.append(found["number"])
        return found["before"] + _HOLE

    return _AHEAD.sub(taken, first) + _WITHIN.sub(taken, others), tuple(numbers)


def _with_distances_ahead(body: str) -> str:
    """A function whose addresses in loops have no distances that are given, but bases that do."""
    first, others = _blocks(body)
    places = {x["name"]: x for x in _PLACE.finditer(others)}
    ahead: dict[str, str] = {}

    def placed(found: re.Match[str]) -> str:
        place = places[found[2]]
        value = f"getelementptr i8, ptr {place['base']}, i64 {found[3]}"
        base = ahead.setdefault(value, f"{found[1]}.base")
        return f"  {found[1]} = getelementptr {place['type']}, ptr {base}, {place['index']}"

    others = _DISTANT.sub(placed, others)
    end = first.rindex("\n", 0, -1) + 1
    lines = "".join([f"  {name} = {value}\n" for value, name in ahead.items()])
    return "".join([first[:end], lines, first[end:], others])


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
    values = [columns.get(x, x[0]) for x in numbers]
    start, *parts = body.split(_HOLE)
    written = start + "".join([x + y for x, y in zip(values, parts, strict=True)])
    written = _with_distances_ahead(written)
    more = "".join([f", i64 {x}" for x in columns.values()])
    rest = f"({group[0].given}{more})"
    text = texts[group[0].module]
    needed = [x[0] for x in _DECLARED.finditer(text) if x[1] in written]
    needed += [x[0] for x in _MARK.finditer(text) if f"{x[1]}\n" in written]
    symbol = f"@{name}.{_digest([rest, *needed, written])}"
    types = ", ".join([x.rpartition(" ")[0] for x in rest[1:-1].split(", ")])
    for place, inner in enumerate(group):
        change = changes.setdefault(inner.module, _Changes())
        given = "".join([f", i64 {x[place]}" for x in columns])
        call = f"{inner.left}\n  tail call void {symbol}({inner.given}{given})\n  ret void\n}}\n"
        change.texts[inner.text] = call if inner.left else ""
        if not inner.left:
            change.calls[inner.symbol] = symbol, given
        change.declared[f"declare void {symbol}({types})"] = None
    return "\n".join([*needed, f"define void {symbol}{rest} nounwind {{", f"{written}}}", ""])


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
