"""Operands of shuffles of which LLVM 22 is not to know how they were made.

For AVX-512 it does not end where it narrows bytes by itself, for x86-64 it is wrong where it makes
floats of halves after they were shuffled. A fence is no code at all; what is behind it is not
merged with what is before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lowtide.llvm.callee import intrinsic

if TYPE_CHECKING:
    from lowtide.llvm.function import Function

_HALF: Final = 32
"""Bytes of half a vector of AVX-512; LLVM ends for shuffles that give no more."""

GROUP: Final = 4
"""How many floats x86-64 shuffles among each other; of halves, twice as many."""

_FLOATS: Final = "<8 x float>"
"""What goes through a fence instead of half a vector of bytes."""


def fenced(
    fn: Function, type_: str, a: str, b: str, order: list[int]
) -> tuple[str, str, list[int]]:
    """Return the operands of a shuffle, and the lanes that it takes of them."""
    if min(_lanes_of(type_, "i8"), len(order)) > _HALF:
        return _halves(fn, type_, a, b, order)
    floats = _lanes_of(type_, "float")
    if fn.has_halves and floats and max(floats, len(order)) > GROUP:
        a, b = [_fence(fn, type_, x) if x[0] == "%" and x not in fn.shuffled else x for x in (a, b)]
    return a, b, order


def _fence(fn: Function, type_: str, vector: str) -> str:
    return fn.call(intrinsic("arithmetic.fence", type_, 1), [vector])


def _halves(
    fn: Function, type_: str, a: str, b: str, order: list[int]
) -> tuple[str, str, list[int]]:
    """Return two vectors of bytes with only the half that a shuffle reads, and its lanes.

    Else LLVM narrows a vector itself where a shuffle repeats bytes of one half of it in turn.
    Halves are the first ones of what is returned.
    """
    size = _lanes_of(type_, "i8")
    found = []
    for start, vector in ((0, a), (size, b)):
        read = {(x - start) // _HALF * _HALF for x in order if start <= x < start + size}
        if len(read) != 1:
            found.append(vector)
            continue
        (half,) = read
        found.append(_half(fn, type_, vector, half))
        order = [x - half if start <= x < start + size else x for x in order]
    return found[0], found[1], order


def _half(fn: Function, type_: str, vector: str, start: int) -> str:
    """Return a vector of bytes that begins with the half of another one from `start` on."""
    size, narrow = _lanes_of(type_, "i8"), f"<{_HALF} x i8>"
    lanes = [x if x < size else -1 for x in range(start, start + _HALF)]
    half = fn.shuffle(type_, vector, "poison", lanes)
    numbers = fn.op(f"bitcast {narrow} {half} to {_FLOATS}")
    half = fn.op(f"bitcast {_FLOATS} {_fence(fn, _FLOATS, numbers)} to {narrow}")
    wide = [x if x < _HALF else -1 for x in range(size)]
    return fn.shuffle(narrow, half, "poison", wide)


def _lanes_of(type_: str, element: str) -> int:
    """The number of lanes of a vector of such elements, 0 for other types."""
    size, _, found = type_.strip("<>").partition(" x ")
    return int(size) if found == element else 0
