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

MOST_TERMS: Final = 8
"""Names of which a sum is known; one of more names is a name itself."""

MOST_FIXED: Final = 10
"""Fixed parts of addresses for which a loop has registers."""

TYPE_BYTES: Final = {
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
"""Bytes of LLVM's types in memory, of those that addresses are counted in."""

_SCALES: Final = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Types of as many bytes as an address may have its index times."""

_NAME: Final = re.compile(r"%[\w.]+")


class KnownSums:
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
        size = TYPE_BYTES.get(element)
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


Parts: TypeAlias = "frozenset[tuple[str, int]]"
"""Names of integers and their factors, of which the sum is taken."""


@dataclass(frozen=True, eq=False, slots=True)
class _Address:
    """An address in a loop, the sum of what this says, in bytes.

    `root` and the sum of `fixed` do not change in the loop; `multiple` is the factor of its
    counter; `varying` is what else it computes; `behind` is a number.
    """

    root: str
    fixed: Parts
    multiple: int
    varying: Parts
    behind: int


@dataclass(frozen=True, eq=False, slots=True)
class ReducedLoop:
    """The lines of a loop's body, and what it carries: the start and the step of each name."""

    body: list[str]
    carried: dict[str, tuple[Integer, Integer]]


def reduced(
    fn: Function, loop: Loop, body: list[str], start: Integer, step: Integer
) -> ReducedLoop:
    """Return an innermost loop with its addresses written anew; fixed parts are written ahead.

    One that calls functions stays as it is: an address is little beside a call, and would have to
    be kept through it.
    """
    if any(_calls(line) for line in body):
        return ReducedLoop(body, {})
    names = [line[2:].partition(" = ")[0] for line in body]
    found = _addresses(fn.sums, loop, names)
    if not found:
        return ReducedLoop(body, {})
    writer = _Writer(fn, str(loop.index))
    with fn.before(loop):
        writer.write_fixed(found.values())
        writer.choose_multiples(found.values())
        steps = {
            name: (fn.mul(start, factor), fn.mul(step, factor))
            for factor, name in writer.carried.items()
        }
    lines: list[str] = []
    for name, line in zip(names, body, strict=True):
        if name in found:
            lines += writer.lines(name, found[name])
            continue
        lines.append(line)
        if not line.startswith(" "):
            writer.begin_block()
    return ReducedLoop(_without_dead(fn.sums, loop, lines), steps)


def _calls(line: str) -> bool:
    """Whether a line calls a function of the module."""
    return line.startswith("  call void @") and not line.startswith("  call void @llvm.")


def _addresses(sums: KnownSums, loop: Loop, names: list[str]) -> dict[str, _Address]:
    """The addresses among what a loop computes that have something to take out of it, by name."""
    index = str(loop.index)
    inside = {index, *loop.values, *names}
    found: dict[str, _Address] = {}
    for name in names:
        known = sums.addresses.get(name)
        if known is None:
            continue
        root, terms, behind = known
        rest = [(x, n) for x, n in terms.items() if x != index]
        fixed = frozenset([x for x in rest if x[0] not in inside])
        varying = frozenset([x for x in rest if x[0] in inside])
        multiple = terms.get(index, 0)
        has_parts = multiple or (fixed and not varying)
        if root not in inside and has_parts and abs(behind) < 1 << 31:
            found[name] = _Address(root, fixed, multiple, varying, behind)
    if len({(x.root, x.fixed) for x in found.values()}) > MOST_FIXED:
        return {name: x for name, x in found.items() if not x.fixed}
    return found


class _Writer:
    """What writes the addresses of a loop."""

    def __init__(self, fn: Function, index: str) -> None:
        self.fn = fn
        self.carried: dict[int, str] = {}
        """The names of carried multiples of the counter, in bytes, by factor."""
        self._index = index
        self._values: dict[int, tuple[str, str]] = {}
        self._fixed: dict[tuple[str, Parts], str] = {}
        self._known: dict[tuple[str, ...], str] = {}

    def write_fixed(self, addresses: Iterable[_Address]) -> None:
        """Write the fixed parts of addresses."""
        fn = self.fn
        for address in addresses:
            key = address.root, address.fixed
            if key in self._fixed:
                continue
            total: Integer = 0
            for name, factor in sorted(address.fixed):
                total = fn.add(total, fn.mul(name, factor))
            place = address.root
            if address.fixed:
                place = fn.op(f"getelementptr i8, ptr {place}, i64 {total}")
            self._fixed[key] = place

    def choose_multiples(self, addresses: Iterable[_Address]) -> None:
        """Choose the value of each multiple, and the type of which the processor scales it."""
        wanted = {(x.multiple, not x.varying) for x in addresses if x.multiple}
        for factor, _ in sorted(wanted, key=lambda x: (x[1], abs(x[0]), x[0])):
            if factor in self._values:
                continue
            if factor in _SCALES and (factor, False) not in wanted:
                self._values[factor] = self._index, _SCALES[factor]
                continue
            for scale, type_ in _SCALES.items():
                known = self.carried.get(factor // scale) if factor % scale == 0 else None
                if known is not None and (factor, False) not in wanted:
                    self._values[factor] = known, type_
                    break
            else:
                self.carried[factor] = self.fn.fresh("m")
                self._values[factor] = self.carried[factor], "i8"

    def begin_block(self) -> None:
        """Forget what the block before has computed."""
        self._known.clear()

    def lines(self, name: str, address: _Address) -> list[str]:
        """Return the lines that compute an address, so far as the block has not done so."""
        lines: list[str] = []
        place = self._fixed[address.root, address.fixed]
        value, type_ = self._values.get(address.multiple, ("", "i8"))
        for part, factor in sorted(address.varying):
            bytes_ = self._once(lines, "mul i64", part, str(factor)) if factor != 1 else part
            value = self._once(lines, "add i64", value, bytes_) if value else bytes_
        if value and address.behind:
            place = self._once(lines, f"getelementptr {type_}, ptr", place, f"i64 {value}")
        elif value:
            return [*lines, f"  {name} = getelementptr {type_}, ptr {place}, i64 {value}"]
        return [*lines, f"  {name} = getelementptr i8, ptr {place}, i64 {address.behind}"]

    def _once(self, lines: list[str], *words: str) -> str:
        """Return the name of an instruction's value; write it where the block has none."""
        known = self._known.get(words)
        if known is None:
            known = self._known[words] = self.fn.fresh()
            operation, first, second = words
            lines.append(f"  {known} = {operation} {first}, {second}")
        return known


def _without_dead(sums: KnownSums, loop: Loop, lines: list[str]) -> list[str]:
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
