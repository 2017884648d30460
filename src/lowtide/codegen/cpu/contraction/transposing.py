"""Squares of elements transposed, and vectors added up, by shuffles that take one instruction.

Within blocks of 16 bytes neighbouring vectors are interleaved; then whole blocks are exchanged.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.function import Function

BLOCK: Final = 16
"""Bytes within which and of which shuffles take one instruction."""


def transposed(fn: Function, element: str, nbytes: int, pieces: list[str]) -> list[str]:
    """Return columns of as many rows as there are pieces; each piece has 16 bytes of a row.

    `element` is the type of the elements, of `nbytes`. Rows whose numbers differ by multiples of
    the elements in 16 bytes share a vector, within which these squares are transposed.
    """
    side = BLOCK // nbytes
    count = len(pieces) // side
    vectors = [
        _joined(fn, element, side, [pieces[i + side * q] for q in range(count)])
        for i in range(side)
    ]
    type_ = f"<{len(pieces)} x {element}>"
    distance = 1
    while distance < side:
        orders = _round(len(pieces), nbytes, distance)
        for i in range(side):
            j = i | distance
            if i != j:
                a, b = vectors[i], vectors[j]
                vectors[i], vectors[j] = [fn.shuffle(type_, a, b, x) for x in orders]
        distance *= 2
    bits = (side - 1).bit_length()
    return [vectors[int(f"{i:0{bits}b}"[::-1], 2)] if bits else vectors[i] for i in range(side)]


def _joined(fn: Function, element: str, lanes: int, parts: list[str]) -> str:
    """Return the vectors one after the other as one; their number is a power of 2."""
    while len(parts) > 1:
        type_ = f"<{lanes} x {element}>"
        lanes *= 2
        parts = [
            fn.shuffle(type_, a, b, range(lanes))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def totals(fn: Function, type_: str, nbytes: int, add: str, vectors: list[str]) -> str:
    """Return a vector whose lane i is the sum of the lanes of vector i.

    `add` is the operation; there are as many vectors as lanes, a power of 2.
    """
    size = len(vectors)
    distance = 1
    while distance < size:
        orders = _round(size, nbytes, distance)
        found = []
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            x, y = [fn.shuffle(type_, a, b, order) for order in orders]
            found.append(fn.op(f"{add} {type_} {x}, {y}"))
        vectors = found
        distance *= 2
    return vectors[0]


def _round(size: int, nbytes: int, distance: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors of `size` elements that two shuffles take, for rows so far apart."""
    block = min(size, BLOCK // nbytes)
    if distance >= block:
        numbers = range(2 * size // block)
        return _elements(numbers[::2], block), _elements(numbers[1::2], block)
    low: list[int] = []
    high: list[int] = []
    for first in range(0, size, block):
        for part, start in ((low, first), (high, first + block // 2)):
            for at in range(start, start + block // 2, distance):
                part += [*range(at, at + distance), *range(at + size, at + size + distance)]
    return low, high


def _elements(blocks: range, block: int) -> list[int]:
    return [number * block + i for number in blocks for i in range(block)]
