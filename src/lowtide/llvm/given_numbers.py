"""Numbers that a function may be given: where they stand, and the function that is given them.

Most stand where a register is as good: ahead of loops, in loops around others, in what is handed
to a call. The innermost loops have a few registers left for them; what a constant is better for
there, as the fixed part of an address that the loop has computed, or a divisor, is not given.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from lowtide.records import dataclass

HOLE: Final = "\0"
"""What stands for a number in the text that functions have in common."""

MOST_IN_LOOPS: Final = 8
"""How many numbers an innermost loop is given at most: it has registers for no more."""

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

_ADDRESS: Final = " = getelementptr "

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


_Column: TypeAlias = "tuple[int, ...]"
"""What a number is in each of several functions."""


@dataclass(frozen=True, slots=True)
class Given:
    """The function that some become: its body, parameters, and the number of each for each."""

    body: str
    parameters: tuple[str, ...]
    numbers: tuple[_Column, ...]


@dataclass(frozen=True, slots=True)
class _Site:
    """What may become of a number, and the innermost loop that it stands in, -1 for none."""

    role: int
    loop: int = -1


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a function, from first to last line: all, and those without loops and calls."""

    all: list[tuple[int, int]]
    innermost: list[tuple[int, int]]
    calls: list[int]
    """The lines that call functions."""


def without_numbers(body: str) -> tuple[str, tuple[int, ...]]:
    """Return a function with holes in place of numbers that may be given, and these."""
    numbers: list[int] = []

    def argument(found: re.Match[str]) -> str:
        numbers.append(int(found[0]))
        return HOLE

    def taken(found: re.Match[str]) -> str:
        if found["call"] is not None:
            return _ARGUMENT.sub(argument, found[0])
        numbers.append(int(found["number"]))
        return found["before"] + HOLE

    return _SITE.sub(taken, body), tuple(numbers)


def given_groups(
    body: str, functions: Sequence[tuple[int, ...]]
) -> Iterator[tuple[list[int], Given]]:
    """Yield the places of functions that become one each, two of them or more, and that one.

    `body` has holes for numbers, of which each function has its own.
    """
    lines = body.split("\n")
    sites = _sites(lines)
    for group in _groups(sites, functions):
        yield group, _given(lines, sites, [functions[x] for x in group])


def _groups(sites: Sequence[_Site], functions: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Functions in groups whose numbers differ where they may, and in no more than may."""
    fixed = [x for x, site in enumerate(sites) if site.role == _FIXED]
    within = [x for x, site in enumerate(sites) if site.loop >= 0]
    for group in _apart(range(len(functions)), functions, fixed):
        registers = _registers(sites, [functions[x] for x in group])
        parts = [group] if registers <= MOST_IN_LOOPS else _apart(group, functions, within)
        for part in parts:
            handed = len(_derived(_columns([functions[x] for x in part]))[0])
            every = range(len(sites))
            yield from [part] if handed <= MOST_GIVEN else _apart(part, functions, every)


def _apart(
    group: Sequence[int], functions: Sequence[tuple[int, ...]], sites: Sequence[int]
) -> list[list[int]]:
    """Those of a group that have the same numbers at some sites, where there are two or more."""
    same: dict[_Column, list[int]] = {}
    for x in group:
        same.setdefault(tuple([functions[x][y] for y in sites]), []).append(x)
    return [x for x in same.values() if len(x) > 1]


def _registers(sites: Sequence[_Site], functions: Sequence[tuple[int, ...]]) -> int:
    """How many numbers that differ one innermost loop has at most: each takes a register.

    Distances ahead of the loop that lie as far apart in all functions take one together.
    """
    found: dict[int, set[tuple[int, _Column]]] = {}
    for site, column in zip(sites, zip(*functions, strict=True), strict=True):
        if site.loop >= 0 and len(set(column)) > 1:
            what = _differences(column) if site.role == _MOVED else column
            found.setdefault(site.loop, set()).add((site.role, what))
    return max([len(x) for x in found.values()], default=0)


def _columns(functions: Sequence[Sequence[int]]) -> dict[_Column, str]:
    """The numbers that differ, each as what it is in all functions, and its parameter."""
    columns = dict.fromkeys(zip(*functions, strict=True))
    differing = [x for x in columns if len(set(x)) > 1]
    return {x: f"%given.{number}" for number, x in enumerate(differing)}


def _given(
    lines: Sequence[str], sites: Sequence[_Site], functions: Sequence[tuple[int, ...]]
) -> Given:
    """The function that takes the place of several, whose numbers differ in some sites."""
    columns = _columns(functions)
    handed, derived = _derived(columns)
    moved = _Moved(columns)
    written: list[str] = []
    found = iter(zip(sites, zip(*functions, strict=True), strict=True))
    first = _first_block(lines)
    for line in lines:
        moved.see(line)
        start, *parts = line.split(HOLE)
        for part in parts:
            site, column = next(found)
            if site.role == _MOVED and column in columns:
                start = moved.line(start, column)
            else:
                start += columns.get(column, str(column[0])) + part
        written.append(start)
    body = [written[0], *derived, *written[1 : first - 1], *moved.ahead, *written[first - 1 :]]
    return Given("\n".join(body), tuple(handed.values()), tuple(handed))


class _Moved:
    """Addresses in loops whose distances are given to their bases, `ahead` of all loops."""

    def __init__(self, columns: dict[_Column, str]) -> None:
        self._columns = columns
        self._places: dict[str, re.Match[str]] = {}
        self._bases: dict[tuple[str, _Column], tuple[str, int]] = {}
        self.ahead: list[str] = []

    def see(self, line: str) -> None:
        """Note the address that a line makes."""
        if _ADDRESS in line and (place := _PLACE.fullmatch(line)) is not None:
            self._places[place["name"]] = place

    def line(self, start: str, distance: _Column) -> str:
        """Return what makes an address whose line begins so, and that far behind another one."""
        name, _, value = start.lstrip().partition(" = ")
        place = self._places[value.split(", ")[1].removeprefix("ptr ")]
        key = place["base"], _differences(distance)
        if key not in self._bases:
            self._bases[key] = f"{name}.base", distance[0]
            value = f"getelementptr i8, ptr {place['base']}, i64 {self._columns[distance]}"
            self.ahead.append(f"  {name}.base = {value}")
        base, known = self._bases[key]
        address = f"getelementptr {place['type']}, ptr {base}, {place['index']}"
        if distance[0] == known:
            return f"  {name} = {address}"
        further = f"getelementptr i8, ptr {name}.place, i64 {distance[0] - known}"
        return f"  {name}.place = {address}\n  {name} = {further}"


def _derived(columns: dict[_Column, str]) -> tuple[dict[_Column, str], list[str]]:
    """The numbers that are handed over, with their parameters, and lines that make the others.

    A number that is a multiple of another one, or as far from it, in all functions is made of it.
    """
    handed: dict[_Column, str] = {}
    lines: list[str] = []
    apart: dict[_Column, tuple[str, int]] = {}
    for column, name in columns.items():
        step = _differences(column)
        for known, its_name in handed.items():
            if (factor := _factor(column, known)) is not None:
                lines.append(f"  {name} = mul nsw i64 {its_name}, {factor}")
                break
        else:
            if step in apart:
                its_name, first = apart[step]
                lines.append(f"  {name} = add nsw i64 {its_name}, {column[0] - first}")
            else:
                handed[column] = name
        apart.setdefault(step, (name, column[0]))
    return handed, lines


def _differences(column: _Column) -> _Column:
    """By how much a number is larger in each function than in the first one."""
    return tuple([x - column[0] for x in column])


def _factor(column: _Column, known: _Column) -> int | None:
    """How many times as large numbers are as others, None where that is no whole number."""
    factor = column[0] // known[0] if known[0] else 0
    return factor if all(x == factor * y for x, y in zip(column, known, strict=True)) else None


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


def _sites(lines: Sequence[str]) -> list[_Site]:
    """What may become of each number of a function with holes."""
    sites: list[_Site] = []
    loops = _loops(lines)
    inner = enumerate([*loops.innermost, (len(lines), len(lines))])
    loop, (start, end) = next(inner)
    defined: dict[str, int] = {}
    bases: dict[str, str] = {}
    first = _first_block(lines)
    for number, line in enumerate(lines):
        if number > end:
            loop, (start, end) = next(inner)
        name = line.partition(" = ")[0].lstrip()
        defined[name] = number
        if _ADDRESS in line and (place := _PLACE.fullmatch(line)) is not None:
            bases[name] = place["base"]
        if HOLE not in line:
            continue
        site = _Site(_FREE) if number < start else _Site(_COUNTED, loop)
        if " = udiv " in line or " = urem " in line:
            site = _Site(_FREE if _may_divide(number, loops) else _FIXED, site.loop)
        elif site.loop >= 0 and (found := _DISTANT.match(line)) is not None:
            known = found["place"]
            if defined.get(known, 0) >= start:
                base = defined.get(bases.get(known, known), 0)
                is_outside = found["type"] == "i8" and base < start
                role = _FIXED if not is_outside else _MOVED if base < first else _COUNTED
                site = _Site(role, loop)
        sites += [site] * line.count(HOLE)
    return sites
