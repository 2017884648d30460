"""Numbers that a function may be given: where they stand, and the function that is given them.

Most stand where a register is as good: ahead of loops, in loops around others, in what is handed
to a call. The innermost loops have a few registers left for them; what a constant is better for
there, as the fixed part of an address that the loop has computed, or a divisor, is not given.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.records import dataclass

HOLE: Final = "\0"
"""What stands for a number in the text that functions have in common."""

MOST_IN_LOOPS: Final = 8
"""How many numbers the innermost loops are given at most: they have registers for no more."""

MOST_GIVEN: Final = 24
"""How many numbers a function is given at most: each of its calls hands all of them over."""

_SITE: Final = re.compile(
    r"^(?P<before>  (?:%[\w.]+ = (?:(?:add|sub|mul) nsw i64 %[\w.]+, |icmp \w+ i64 %[\w.]+, "
    r"|u(?:div|rem) i64 %[\w.]+, |call i64 @llvm\.smin\.i64\(i64 %[\w.]+, i64 "
    r"|sub nsw i64 |getelementptr (?:inbounds )?\w+, ptr %[\w.]+, i64 )))"
    r"(?P<number>-?\d+)(?=(?:\)?(?: ; open)?|, %[\w.]+)$)"
    r"|^  call void @(?!llvm)(?P<call>.*)$",
    re.MULTILINE,
)
"""A number that may be given, or a call, of which arguments may."""

_ARGUMENT: Final = re.compile(r"(?<=, i64 )-?\d+(?=[,)])")

_LABEL: Final = re.compile(r"[\w.]+:")

_TARGET: Final = re.compile(r"label %([\w.]+)")

_PLACE: Final = re.compile(
    r"  (?P<name>%[\w.]+) = getelementptr (?P<type>\w+), ptr (?P<base>%[\w.]+), (?P<index>i64 %.*)"
)
"""An address in a loop; a distance behind it may as well be one behind its base."""

_DISTANT: Final = re.compile(
    r"  %[\w.]+ = getelementptr (?P<type>(?:inbounds )?\w+), ptr (?P<place>%[\w.]+), i64 "
)

_FREE, _COUNTED, _FIXED, _MOVED = range(4)
"""What may become of a number: given, given in an innermost loop, not given, or given to the base
of an address ahead of the loop, where it counts as well."""


@dataclass(frozen=True, slots=True)
class Given:
    """The function that some become: its body, parameters, and the number of each for each."""

    body: str
    parameters: tuple[str, ...]
    numbers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a function, from first to last line: all, and those without loops and calls."""

    all: list[tuple[int, int]]
    innermost: list[tuple[int, int]]
    calls: list[int]
    """The lines that call functions."""


def without_numbers(body: str) -> tuple[str, tuple[str, ...]]:
    """Return a function with holes in place of numbers that may be given, and these."""
    numbers: list[str] = []

    def argument(found: re.Match[str]) -> str:
        numbers.append(found[0])
        return HOLE

    def taken(found: re.Match[str]) -> str:
        if found["call"] is not None:
            return _ARGUMENT.sub(argument, found[0])
        numbers.append(found["number"])
        return found["before"] + HOLE

    return _SITE.sub(taken, body), tuple(numbers)


def given_groups(
    body: str, functions: Sequence[tuple[str, ...]]
) -> Iterator[tuple[list[int], Given]]:
    """Yield the places of functions that become one each, two of them or more, and that one.

    `body` has holes for numbers, of which each function has its own.
    """
    lines = body.split("\n")
    roles = _roles(lines)
    for group in _groups(roles, functions):
        yield group, _given(lines, roles, [functions[x] for x in group])


def _groups(roles: Sequence[int], functions: Sequence[tuple[str, ...]]) -> Iterator[list[int]]:
    """Functions in groups whose numbers differ where they may, and in no more than may."""
    fixed = [x for x, role in enumerate(roles) if role == _FIXED]
    within = [x for x, role in enumerate(roles) if role != _FREE]
    for group in _apart(range(len(functions)), functions, fixed):
        in_loops = len(_columns([[functions[x][y] for y in within] for x in group]))
        parts = [group] if in_loops <= MOST_IN_LOOPS else _apart(group, functions, within)
        for part in parts:
            differing = len(_columns([functions[x] for x in part]))
            every = range(len(roles))
            yield from [part] if differing <= MOST_GIVEN else _apart(part, functions, every)


def _apart(
    group: Sequence[int], functions: Sequence[tuple[str, ...]], sites: Sequence[int]
) -> list[list[int]]:
    """Those of a group that have the same numbers at some sites, where there are two or more."""
    same: dict[tuple[str, ...], list[int]] = {}
    for x in group:
        same.setdefault(tuple([functions[x][y] for y in sites]), []).append(x)
    return [x for x in same.values() if len(x) > 1]


def _columns(functions: Sequence[Sequence[str]]) -> dict[tuple[str, ...], str]:
    """The numbers that differ, each as what it is in all functions, and its parameter."""
    columns = dict.fromkeys(zip(*functions, strict=True))
    differing = [x for x in columns if len(set(x)) > 1]
    return {x: f"%given.{number}" for number, x in enumerate(differing)}


def _given(
    lines: Sequence[str], roles: Sequence[int], functions: Sequence[tuple[str, ...]]
) -> Given:
    """The function that takes the place of several, whose numbers differ in some sites."""
    columns = _columns(functions)
    values = [columns.get(x, x[0]) for x in zip(*functions, strict=True)]
    handed, derived = _derived(columns)
    moved: dict[str, str] = {}
    written: list[str] = []
    places: dict[str, re.Match[str]] = {}
    sites = iter(zip(roles, values, strict=True))
    first = _first_block(lines)
    for line in lines:
        if (place := _PLACE.fullmatch(line)) is not None:
            places[place["name"]] = place
        start, *parts = line.split(HOLE)
        for part in parts:
            role, value = next(sites)
            if role == _MOVED and value.startswith("%"):
                start = _with_distance_ahead(start, value, places, moved)
            else:
                start += value + part
        written.append(start)
    ahead = [f"  {name} = {value}" for value, name in moved.items()]
    body = [written[0], *derived, *written[1 : first - 1], *ahead, *written[first - 1 :]]
    return Given("\n".join(body), tuple(handed.values()), tuple(handed))


def _with_distance_ahead(
    line: str, distance: str, places: dict[str, re.Match[str]], moved: dict[str, str]
) -> str:
    """The line of an address in a loop, whose distance is given to its base ahead of the loop."""
    name, place = line.split(" = ")[0].lstrip(), places[line.split(", ")[1].removeprefix("ptr ")]
    value = f"getelementptr i8, ptr {place['base']}, i64 {distance}"
    base = moved.setdefault(value, f"{name}.base")
    return f"  {name} = getelementptr {place['type']}, ptr {base}, {place['index']}"


def _derived(columns: dict[tuple[str, ...], str]) -> tuple[dict[tuple[str, ...], str], list[str]]:
    """The numbers that are handed over, with their parameters, and lines that make the others.

    A number that is a multiple of another one, in all functions alike, is made of it.
    """
    handed: dict[tuple[str, ...], str] = {}
    lines = []
    for column, name in columns.items():
        for known, its_name in handed.items():
            if (factor := _factor(column, known)) is not None:
                lines.append(f"  {name} = mul nsw i64 {its_name}, {factor}")
                break
        else:
            handed[column] = name
    return handed, lines


def _factor(column: Sequence[str], known: Sequence[str]) -> int | None:
    """How many times as large numbers are as others, None where that is no whole number."""
    numbers = [(int(x), int(y)) for x, y in zip(column, known, strict=True)]
    first, its = numbers[0]
    factor = first // its if its else 0
    return factor if all(x == factor * y for x, y in numbers) else None


def _first_block(lines: Sequence[str]) -> int:
    """How many lines the first block of a function has: what stands there runs once."""
    return next((x for x, y in enumerate(lines) if x and _LABEL.fullmatch(y)), len(lines) - 1)


def _loops(lines: Sequence[str]) -> _Loops:
    labels: dict[str, int] = {}
    ends: dict[int, int] = {}
    calls: list[int] = []
    for number, line in enumerate(lines):
        if line.startswith("  br "):
            for target in _TARGET.findall(line):
                if target in labels:
                    ends[labels[target]] = number
        elif line.startswith("  call void @") and not line.startswith("  call void @llvm"):
            calls.append(number)
        elif _LABEL.fullmatch(line):
            labels[line[:-1]] = number
    every = sorted(ends.items())
    stops = sorted([*ends, *calls])
    return _Loops(every, [x for x in every if not _between(stops, *x)], calls)


def _between(numbers: list[int], after: int, last: int) -> bool:
    """Whether one of ascending numbers is greater than one number and no greater than another."""
    place = bisect_right(numbers, after)
    return place < len(numbers) and numbers[place] <= last


def _may_divide(line: int, loops: _Loops) -> bool:
    """Whether division may take longer at a line: it runs once, or as often as a call there."""
    around = [x for x in loops.all if x[0] <= line <= x[1]]
    return not around or _between(loops.calls, *around[-1])


def _roles(lines: Sequence[str]) -> list[int]:
    """What may become of each number of a function with holes."""
    roles: list[int] = []
    loops = _loops(lines)
    inner = iter([*loops.innermost, (len(lines), len(lines))])
    start, end = next(inner)
    defined: dict[str, int] = {}
    places: dict[str, str] = {}
    first = _first_block(lines)
    for number, line in enumerate(lines):
        if number > end:
            start, end = next(inner)
        name = line.partition(" = ")[0].lstrip()
        defined[name] = number
        if (place := _PLACE.fullmatch(line)) is not None:
            places[name] = place["base"]
        if HOLE not in line:
            continue
        role = _FREE if number < start else _COUNTED
        if " = udiv " in line or " = urem " in line:
            role = _FREE if _may_divide(number, loops) else _FIXED
        elif role == _COUNTED and (found := _DISTANT.match(line)) is not None:
            known = found["place"]
            if defined.get(known, 0) >= start:
                base = defined.get(places.get(known, known), 0)
                is_outside = found["type"] == "i8" and base < start
                role = _FIXED if not is_outside else _MOVED if base < first else _COUNTED
        roles += [role] * line.count(HOLE)
    return roles
