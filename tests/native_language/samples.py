"""Native functions for tests: each thing that the language has, once."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

from lowtide.native import (
    ACQ_REL,
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    U8,
    Address,
    Atomic,
    NativeItems,
    NativeRecord,
    NativeRecords,
    NativeUnit,
    address_of,
    array_at,
    at,
    behind,
    copy_bytes,
    external,
    free,
    futex_wake,
    inline,
    leading_zeros,
    native,
    new,
    offset,
    on_stack,
    relax,
    round_as_before,
    round_to_nearest,
    shared,
    size_of,
    the,
    trailing_zeros,
)

TEXT: Final = b"text"
FACTOR: Final = 3
LEAST: Final = -1e30

Twice: TypeAlias = Callable[[int], int]


class Colour(IntEnum):
    """Names of numbers."""

    RED = 1
    GREEN = 7


class Link(NativeRecord):
    """A record with one of each kind of field."""

    next: Link | None
    count: Atomic[int]
    narrow: Atomic[I32]
    small: U8
    signed: I32
    flag: bool
    places: NativeItems[Atomic[Address]] = inline(3)
    numbers: NativeItems[int]
    parts: NativeRecords[Part]
    twice: Twice | None


class Part(NativeRecord):
    """A record that lies in an array."""

    low: I32
    high: int


class Longer(Link):
    """A record that begins as another one."""

    more: int


class Common(NativeRecord):
    """What the unit has once."""

    calls: Atomic[int]
    twice: Twice


@external
def labs(number: int) -> int:
    """Return the absolute value."""
    raise NotImplementedError


@native
def double(number: int) -> int:
    """Return twice a number."""
    the(common).calls.add(1, RELAXED)
    return 2 * number


common: Final = shared(Common, twice=double)


@native
def arithmetic(a: int, b: int) -> int:
    """Compute with all operators."""
    found = a // b * 3 + a % b - (a << 2) + (a >> 1)
    found ^= a & b | FACTOR
    found -= Colour.GREEN
    return min(found, a, b) + max(-a, ~b) + int(a < b <= 100) + (1 if a == b else -2)


@native
def loops(count: int) -> int:
    """Go round in all ways."""
    total = 0
    for i in range(count):
        if i % 7 == 3:
            continue
        if i > 40 or (i == 30 and count > 50):
            break
        total += i
    for i in range(10, 0, -3):
        total = total * 2 + i
    while True:
        total -= 5
        if not total > 100:
            return total


@native
def choice(entry: int) -> int:
    """Choose by a number, whose name is that of a block elsewhere."""
    match entry:
        case Colour.RED:
            return 10
        case Colour.GREEN:
            entry = 5
        case 3:
            entry += 1
        case _:
            return -1
    return entry


@native
def nothing(number: int) -> None:
    """Do nothing, in two ways."""
    assert number
    if number == 2:
        return
    relax()


@native
def fields(link: Longer, numbers: NativeItems[int]) -> int:
    """Read and write fields, and those of records within."""
    link.small, link.signed, link.flag = 300, -5, True
    link.more += link.small
    link.numbers = numbers
    link.numbers[2] = link.signed
    link.parts = array_of_parts(behind(numbers_of(link)))
    link.parts[1].low = 9
    link.parts[1].high -= 1
    if link.next is None:
        link.next = link
    own = link.next
    return link.more + (100 if own is link and link.flag else 0)


@native
def numbers_of(link: Link) -> Part:
    """Return the first numbers of a record as a part."""
    return at(Part, address_of(link.numbers))


@native
def array_of_parts(place: Address) -> NativeRecords[Part]:
    """Return the parts from an address on."""
    holder = on_stack(PartsHolder)
    array_at(int, address_of(holder))[0] = place
    return holder.parts


class PartsHolder(NativeRecord):
    """A place for a pointer."""

    parts: NativeRecords[Part]


@native
def atomics(link: Link) -> int:
    """Use all operations of atomics."""
    link.count.store(5, RELEASE)
    first = link.count.add(-7, ACQ_REL)
    second = link.count.exchange(40, SEQ_CST)
    third = link.count.compare_exchange(41, 1, ACQUIRE)
    fourth = link.count.compare_exchange(40, 1, ACQ_REL)
    fifth = link.count.raise_to(9, RELAXED)
    link.narrow.store(-3, RELAXED)
    link.narrow.add(-1, SEQ_CST)
    link.places[2].store(77, RELEASE)
    futex_wake(link.count, 1)
    left = link.count.load(ACQUIRE) + link.narrow.load(SEQ_CST) + link.places[2].load(ACQUIRE)
    return left + 10 * (first + 10 * (second + 10 * (third + 10 * (fourth + 10 * fifth))))


@native
def pointers(link: Link) -> int:
    """Call functions by pointers, of other code, and of a record of the unit."""
    found = labs(-4)
    if link.twice is not None:
        found += link.twice(100)
    found += the(common).twice(1000)
    own = address_of(double)
    return found if own else 0


@native
def memory(count: int) -> int:
    """Make records, copy bytes, and free them again."""
    link = new(Link, count * 8)
    numbers = array_at(int, behind(link))
    for i in range(count):
        numbers[i] = i * i
    copy = on_stack(Part)
    copy_bytes(address_of(copy) + offset_of_high, address_of(numbers) + 8 * (count - 1), 8)
    found = copy.high + size_of(Link) * 1000 + len(TEXT)
    text = array_at(int, address_of(TEXT))
    if not text:
        found = 0
    free(link)
    return found


offset_of_high: Final = offset(Part, "high")


@native
def bits(number: int) -> int:
    """Count zeros; the way of rounding stays as it was."""
    before = round_to_nearest(number % 2)
    found = trailing_zeros(number) + 100 * leading_zeros(number)
    round_as_before(before)
    return found


@native
def floats(number: int, share: float) -> float:
    """Compute with floats, and with numbers that become some."""
    total = -share + number / 4
    total *= 1.5 if number > 0 else number
    if total < share != 0.0 or not (total == total and share >= LEAST):
        total -= 2
    low = min(total, number, share) + max(share, number)
    return low + float(int(share * 8 if -2 < share < 2 else 0.0)) + abs(number)


@native
def weighted(number: int, weight: int) -> int:
    """Return a product."""
    return number * weight


by_eleven: Final = weighted.bound("by_eleven", weight=11)

UNIT: Final = NativeUnit(
    "samples",
    [
        *(arithmetic, loops, choice, nothing, fields, atomics),
        *(pointers, memory, bits, floats, by_eleven, double),
    ],
)
