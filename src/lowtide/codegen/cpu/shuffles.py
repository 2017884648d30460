"""Vectors rearranged in registers: interleaved, taken apart, transposed.

Each step is a shuffle of two vectors, which processors have as one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.llvm.function import Function


def transposed(fn: Function, element: str, side: int, rows: Sequence[str]) -> list[str]:
    """Return the `side` columns of rows of `side` elements, a power of 2 that divides their number.

    Rows whose numbers differ by multiples of `side` share a vector. Then neighbours are interleaved
    by 1 element, by 2, and so on, each time within blocks of `side` elements.
    """
    vectors = [_joined(fn, element, side, rows[i::side]) for i in range(side)]
    type_ = f"<{len(rows)} x {element}>"
    distance = 1
    while distance < side:
        low, high = _interleaving(len(rows), side, distance)
        for i in range(side):
            if i & distance:
                continue
            a, b = vectors[i], vectors[i + distance]
            vectors[i] = fn.shuffle(type_, a, b, low)
            vectors[i + distance] = fn.shuffle(type_, a, b, high)
        distance *= 2
    bits = side.bit_length() - 1
    return [vectors[_bits_reversed(column, bits)] for column in range(side)]


def _joined(fn: Function, element: str, lanes: int, parts: Sequence[str]) -> str:
    """Return vectors one after the other as one; their number is a power of 2."""
    while len(parts) > 1:
        type_ = f"<{lanes} x {element}>"
        lanes *= 2
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [fn.shuffle(type_, a, b, range(lanes)) for a, b in pairs]
    return parts[0]


def _interleaving(size: int, block: int, unit: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors whose halves of each block are interleaved: the low, the high ones.

    Units of `unit` elements stay together.
    """
    low: list[int] = []
    high: list[int] = []
    for first in range(0, size, block):
        for half, start in ((low, first), (high, first + block // 2)):
            for at in range(start, start + block // 2, unit):
                half += [*range(at, at + unit), *range(size + at, size + at + unit)]
    return low, high


def _bits_reversed(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


def interleaved(fn: Function, type_: str, lanes: int, vectors: Sequence[str]) -> list[str]:
    """Return the elements of vectors in turn: all of lane 0, all of lane 1, and so on."""
    count = len(vectors)
    if count == 1:
        return list(vectors)
    if count % 2:
        return [_mixed(fn, type_, lanes, vectors, part) for part in range(count)]
    pairs = list(zip(vectors[: count // 2], vectors[count // 2 :], strict=True))
    found: list[str] = []
    for order in _interleaving(lanes, lanes, 1):
        halves = [fn.shuffle(type_, a, b, order) for a, b in pairs]
        found += interleaved(fn, type_, lanes, halves)
    return found


def _mixed(fn: Function, type_: str, lanes: int, vectors: Sequence[str], part: int) -> str:
    """Vector `part` of the elements in turn."""
    places = range(part * lanes, part * lanes + lanes)
    count = len(vectors)
    return picked(fn, type_, lanes, vectors, [x % count * lanes + x // count for x in places])


def picked(
    fn: Function, type_: str, lanes: int, vectors: Sequence[str], order: Sequence[int]
) -> str:
    """Return the elements of vectors, one after the other, at the numbers in `order`."""
    used = [x for x in range(len(vectors)) if any(n // lanes == x for n in order)]
    whole = vectors[used[0]]
    known = [n % lanes if n // lanes == used[0] else -1 for n in order]
    if len(used) == 1:
        same = known == list(range(lanes))
        return whole if same else fn.shuffle(type_, whole, "poison", known)
    for x in used[1:]:
        taken = [
            lanes + n % lanes if n // lanes == x else k for n, k in zip(order, known, strict=True)
        ]
        whole = fn.shuffle(type_, whole, vectors[x], taken)
        known = [i if k >= 0 else -1 for i, k in enumerate(taken)]
    return whole
