"""Pairs of operations of which one reads the other within a fusion: which there can be, and drawn.

Makers are asked what they read and make: what one makes has to be of an element type that the other
reads, and may have no more roundings behind it than the other bears.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Final

from tests.hunting.arrays import TYPES, DrawnArray
from tests.hunting.scope import MOST_NOISE, ModuleDraft, Scope
from tests.hunting.table import MAKERS, OUTSIDE

from lowtide.records import dataclass

FUSIBLE: Final = tuple([x for x in MAKERS if x not in OUTSIDE and x != "constant"])

NO_TYPE: Final = "no element type that one makes is read by the other"
ONLY_ROUNDED: Final = "a step at a rounded value has no one right result"

_DRAWS: Final = 8


@dataclass(frozen=True, slots=True)
class _Signature:
    """What an operation reads and makes when it is drawn for an element type.

    `reads` are element types, each with the most roundings that may be behind it.
    """

    type: str
    reads: frozenset[tuple[str, int]]
    made: str
    noise: int


@dataclass(frozen=True, slots=True)
class ReadingPair:
    """One operation that reads another one, and the element types for which they are drawn."""

    first: str
    first_type: str
    second: str
    second_type: str


@cache
def _signatures(opcode: str) -> tuple[_Signature, ...]:
    found: dict[_Signature, None] = {}
    for type_ in TYPES:
        for seed in range(_DRAWS):
            scope = Scope(ModuleDraft(Random(f"{opcode} {type_} {seed}")))
            scope.noisiest = MOST_NOISE - 1
            reads: set[tuple[str, int]] = set()

            def asked(
                wanted: str, sizes: tuple[int, ...], noise: int, reads: set[tuple[str, int]] = reads
            ) -> None:
                reads.add((wanted, noise))

            scope.supply = asked
            made = MAKERS[opcode](scope, type_)
            if made is not None:
                found[_Signature(type_, frozenset(reads), made.type, made.noise)] = None
    return tuple(found)


@cache
def links(a: str, b: str) -> tuple[ReadingPair, ...]:
    """Return the ways in which one of two operations can read the other; none where it cannot."""
    return _links(a, b, bears=True)


def why_apart(a: str, b: str) -> str:
    """Return why neither of two operations can read the other; empty where one can."""
    if links(a, b):
        return ""
    return ONLY_ROUNDED if _links(a, b, bears=False) else NO_TYPE


def _links(a: str, b: str, *, bears: bool) -> tuple[ReadingPair, ...]:
    found: dict[ReadingPair, None] = {}
    for first, second in dict.fromkeys(((a, b), (b, a))):
        for x in _signatures(first):
            for y in _signatures(second):
                for type_, noise in y.reads:
                    if type_ == x.made and (x.noise <= noise or not bears):
                        found[ReadingPair(first, x.type, second, y.type)] = None
    return tuple(found)


def draw_pair(scope: Scope, a: str, b: str) -> bool:
    """Draw two operations, of which one may read the other; return whether it does."""
    found = links(a, b)
    if not found:
        return False
    link = scope.random.choice(found)
    scope.noisiest = MOST_NOISE - 1
    first = _second_asks(scope, link) if scope.chance(2) else _first_waits(scope, link)
    scope.noisiest = 0
    if first is None:
        return False
    reads = re.compile(rf" {re.escape(link.second)}\((?:.*\W)?{first.name}\W")
    return any(reads.search(line) for line in scope.lines)


def _first_waits(scope: Scope, link: ReadingPair) -> DrawnArray | None:
    """Draw the first operation, and then the second one around its result."""
    first = MAKERS[link.first](scope, link.first_type)
    scope.focus = first
    MAKERS[link.second](scope, link.second_type)
    scope.focus = None
    return first


def _second_asks(scope: Scope, link: ReadingPair) -> DrawnArray | None:
    """Draw the second operation, and the first one where that asks for an operand like it."""
    made: list[DrawnArray] = []

    def supply(type_: str, sizes: tuple[int, ...], noise: int) -> DrawnArray | None:
        scope.hint = sizes
        first = MAKERS[link.first](scope, link.first_type)
        scope.hint = None
        if first is None or (first.type, first.sizes) != (type_, sizes) or first.noise > noise:
            return None
        made.append(first)
        return first

    scope.supply = supply
    MAKERS[link.second](scope, link.second_type)
    scope.supply = None
    return made[0] if made else None
