"""Addresses in innermost loops: a fixed part, a multiple of the counter, and a known distance.

An address is the sum of a pointer, integers that the loop does not change, the counter times a
number, and a number of bytes. The first two are added ahead of the loop. Multiples that a processor
has no scale for are carried from one iteration to the next. That is strength reduction, for what
the writer of a loop knows of it; LLVM's own tries forms of all addresses together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.llvm.loops import Integer, Loop
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.llvm.function import Function

Terms: TypeAlias = "dict[str, int]"
"""Factors of the names of integers; what they sum up to is a part of an integer or address."""

MOST_TERMS: Final = 4
"""Names of which a sum is known; one of more names is a name itself."""

MOST_FIXED: Final = 10
"""Fixed parts of addresses for which a loop has registers."""

_SIZES: Final = {
    "i8": 1,
    "i16": 2,
    "half": 2,
    "bfloat": 2,
    "i32": 4,
    "float": 4,
    "i64": 8,
    "double": 8,
    "ptr": 8,
}
"""Bytes of the types of which addresses are taken apart."""

_SCALES: Final = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Types of as many bytes as an address may have its index times."""

_NAME: Final = re.compile(r"%[\w.]+")


class Sums:
    """What is known of the integers and addresses of a function: sums of multiples of names."""

    def __init__(self) -> None:
        self.integers: dict[str, tuple[Terms, int]] = {}
        """The terms of an integer, and what is added to them."""
        self.addresses: dict[str, tuple[str, Terms, int]] = {}
        """The pointer that an address is behind, the terms of its bytes, and further bytes."""

    def of(self, value: Integer) -> tuple[Terms, int]:
        """Return what an integer is the sum of."""
        if isinstance(value, int):
            return {}, value
        return self.integers.get(value) or ({value: 1}, 0)

    def add(self, name: str, a: Integer, b: Integer, factor: int = 1) -> None:
        """Know `name` as a + factor * b."""
        terms, constant = self.of(a)
        more, further = self.of(b)
        found = _sum(terms, more, factor)
        if len(found) <= MOST_TERMS:
            self.integers[name] = found, constant + factor * further

    def multiply(self, name: str, a: Integer, b: Integer) -> None:
        """Know `name` as a * b where one of them is a number."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            terms, constant = self.of(a)
            self.integers[name] = {x: n * b for x, n in terms.items()}, constant * b

    def place(self, name: str, base: str, index: Integer, element: str) -> None:
        """Know `name` as the address of an element behind `base`."""
        size = _SIZES.get(element)
        if size is None:
            return
        terms, constant = self.of(index)
        root, before, there = self.addresses.get(base) or (base, {}, 0)
        found = _sum(before, terms, size)
        if len(found) > MOST_TERMS:
            root, found, there = base, {x: n * size for x, n in terms.items()}, 0
        self.addresses[name] = root, found, there + constant * size


def _sum(terms: Terms, more: Terms, factor: int) -> Terms:
    found = dict(terms)
    for name, count in more.items():
        found[name] = found.get(name, 0) + factor * count
    return {x: n for x, n in found.items() if n}


@dataclass(frozen=True, eq=False, slots=True)
class _Address:
    """An address in a loop: `fixed` ahead of it, `multiple` of the counter, bytes `behind` both."""

    fixed: tuple[str, frozenset[tuple[str, int]]]
    multiple: int
    behind: int


@dataclass(frozen=True, eq=False, slots=True)
class Reduced:
    """The lines of a loop's body, and what it carries: the start and the step of each name."""

    body: list[str]
    carried: dict[str, tuple[Integer, Integer]]


def reduced(fn: Function, loop: Loop, body: list[str], start: Integer, step: Integer) -> Reduced:
    """Return an innermost loop with its addresses written anew; fixed parts are written ahead."""
    index = str(loop.index)
    found = _addresses(fn.sums, loop, index, body)
    carried, values = _multiples(fn, index, {x.multiple for x in found.values()})
    pointers = _fixed(fn, loop, found.values())
    lines: list[str] = []
    for line in body:
        name = _defined(line)
        address = found.get(name)
        if address is None:
            lines.append(line)
        else:
            lines += _written(fn, name, pointers[address.fixed], values, address)
    with fn.before(loop):
        steps = {
            name: (fn.mul(start, factor), fn.mul(step, factor)) for factor, name in carried.items()
        }
    return Reduced(_without_dead(fn.sums, loop, lines), steps)


def _defined(line: str) -> str:
    """The name of the value that a line gives, or the line."""
    return line[2:].partition(" = ")[0]


def _addresses(sums: Sums, loop: Loop, index: str, body: list[str]) -> dict[str, _Address]:
    """The addresses in a body whose parts are known, and are fixed but for the counter."""
    defined = [_defined(x) for x in body if " = " in x]
    inside = {index, *loop.values, *defined}
    found: dict[str, _Address] = {}
    for name in defined:
        if name not in sums.addresses:
            continue
        root, terms, behind = sums.addresses[name]
        rest = {x: n for x, n in terms.items() if x != index}
        if root in inside or not inside.isdisjoint(rest) or abs(behind) >= 1 << 31:
            continue
        found[name] = _Address((root, frozenset(rest.items())), terms.get(index, 0), behind)
    fixed = {x.fixed for x in found.values()}
    if len(fixed) > MOST_FIXED:
        found = {name: x for name, x in found.items() if not x.fixed[1]}
    return found


def _multiples(
    fn: Function, index: str, wanted: set[int]
) -> tuple[dict[int, str], dict[int, tuple[str, str]]]:
    """Return what is carried, by factor, and the value and type of a scale of each multiple."""
    carried: dict[int, str] = {}
    values: dict[int, tuple[str, str]] = {}
    for factor in sorted(wanted - {0}, key=lambda x: (abs(x), x)):
        if factor in _SCALES:
            values[factor] = index, _SCALES[factor]
            continue
        for scale, type_ in _SCALES.items():
            known = carried.get(factor // scale) if factor % scale == 0 else None
            if known is not None:
                values[factor] = known, type_
                break
        else:
            carried[factor] = fn.fresh("m")
            values[factor] = carried[factor], "i8"
    return carried, values


def _fixed(
    fn: Function, loop: Loop, addresses: Iterable[_Address]
) -> dict[tuple[str, frozenset[tuple[str, int]]], str]:
    """Write the fixed parts of addresses ahead of a loop; return their names."""
    names: dict[tuple[str, frozenset[tuple[str, int]]], str] = {}
    for address in addresses:
        if address.fixed in names:
            continue
        root, terms = address.fixed
        if not terms:
            names[address.fixed] = root
            continue
        with fn.before(loop):
            total: Integer = 0
            for name, factor in sorted(terms):
                total = fn.add(total, fn.mul(name, factor))
            names[address.fixed] = fn.op(f"getelementptr i8, ptr {root}, i64 {total}")
    return names


def _written(
    fn: Function, name: str, pointer: str, values: dict[int, tuple[str, str]], address: _Address
) -> list[str]:
    """The lines of an address."""
    if not address.multiple:
        return [f"  {name} = getelementptr i8, ptr {pointer}, i64 {address.behind}"]
    value, type_ = values[address.multiple]
    if not address.behind:
        return [f"  {name} = getelementptr {type_}, ptr {pointer}, i64 {value}"]
    near = fn.fresh("v")
    return [
        f"  {near} = getelementptr {type_}, ptr {pointer}, i64 {value}",
        f"  {name} = getelementptr i8, ptr {near}, i64 {address.behind}",
    ]


def _without_dead(sums: Sums, loop: Loop, lines: list[str]) -> list[str]:
    """Return lines without integers and addresses that nothing uses."""
    uses = Counter([*_NAME.findall("\n".join(lines)), *loop.next])
    kept: list[str] = []
    for line in reversed(lines):
        name, is_value, what = line[2:].partition(" = ")
        known = name in sums.integers or name in sums.addresses
        if is_value and known and uses[name] == 1:
            uses.subtract(_NAME.findall(what))
            continue
        kept.append(line)
    return kept[::-1]
