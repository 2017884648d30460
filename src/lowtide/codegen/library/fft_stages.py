"""A transform of vectors in scratch: each lane is a line of its own.

Source of the order of stages, which needs no reversal of bits: T. Stockham (1966), "High-speed
convolution and correlation"; of transforms of any length by a convolution: L. Bluestein (1970), "A
linear filtering approach to the computation of discrete Fourier transform".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import global_array
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.library.fft_form import factors_of
from lowtide.codegen.library.field import (
    Matrix,
    Parts,
    PlanarGrid,
    added,
    plus_product,
    scaled,
    spread,
    subtracted,
    times,
)
from lowtide.llvm.callee import external, suffix
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

Complexes = npt.NDArray[np.complex128]


def roots_of_unity(n: int) -> Complexes:
    """Return exp(-2 pi i k / n) for k from 0 to n - 1."""
    found: Complexes = np.exp(-2j * np.pi * np.arange(n) / n)
    return found


@dataclass(frozen=True, slots=True)
class ComplexTable:
    """Complex constants, as pairs of numbers of a grid's type."""

    fn: Function
    target: Target
    grid: PlanarGrid
    pointer: str

    @classmethod
    def of(cls, elements: Elements, grid: PlanarGrid, values: Complexes) -> ComplexTable:
        """Return a table in the constants of a module."""
        dtype = np.complex128 if grid.element == "double" else np.complex64
        pointer = global_array(elements, values.astype(dtype))
        return cls(elements.function, elements.target, grid, pointer)

    def load(self, at: Integer) -> Parts:
        """Return one number."""
        fn, element = self.fn, self.grid.element
        place = fn.gep(self.pointer, fn.mul(at, 2), element)
        return tuple(
            [
                Number(fn, self.target, element, 0, fn.load(element, fn.gep(place, i, element), 4))
                for i in range(2)
            ]
        )

    def gather(self, at: Number) -> Parts:
        """Return the numbers of a vector of i64."""
        fn, element, lanes = self.fn, self.grid.element, at.lanes
        found = []
        for part in range(2):
            places = (at << 1) | part
            text = f"getelementptr inbounds {element}, ptr {self.pointer}, {places.type}"
            pointers = fn.op(f"{text} {places.name}")
            vector = f"<{lanes} x {element}>"
            name = f"llvm.masked.gather.{suffix(vector)}.v{lanes}p0"
            types = [f"<{lanes} x ptr>", "i32 immarg", f"<{lanes} x i1>", vector]
            callee = external(name, vector, *types)
            value = fn.call(callee, [pointers, 4, "splat (i1 true)", "zeroinitializer"])
            found.append(Number(fn, self.target, element, lanes, value))
        return tuple(found)


class RootsOfUnity:
    """The roots exp(-2 pi i k / n), 0 <= k < n, as products of two tables of about sqrt(n)."""

    def __init__(self, elements: Elements, grid: PlanarGrid, n: int) -> None:
        part = 1 << (n.bit_length() + 1) // 2
        coarse = np.arange(-(-n // part)) * part / n
        self._fine = ComplexTable.of(elements, grid, np.exp(-2j * np.pi * np.arange(part) / n))
        self._coarse = ComplexTable.of(elements, grid, np.exp(-2j * np.pi * coarse))
        self._shift, self._below = part.bit_length() - 1, part - 1

    def at(self, k: Number) -> Parts:
        """Return the roots of a vector of i64."""
        return times(self._coarse.gather(k >> self._shift), self._fine.gather(k & self._below))


def write_stages(elements: Elements, grid: PlanarGrid, n: int, lanes: int, a: str, b: str) -> str:
    """Transform n rows of `a`; return which of `a` and `b` has the result then."""
    fn, target = elements.function, elements.target
    table = ComplexTable.of(elements, grid, roots_of_unity(n))
    rest, stride = n, 1
    for radix in factors_of(n) or ():
        rest //= radix
        source, result = Matrix(fn, target, grid, a), Matrix(fn, target, grid, b)
        _stage(elements, table, source, result, (radix, rest, stride), lanes)
        stride *= radix
        a, b = b, a
    return a


def _stage(
    elements: Elements,
    table: ComplexTable,
    source: Matrix,
    result: Matrix,
    numbers: tuple[int, int, int],
    lanes: int,
) -> None:
    """One stage of `radix`, with `rest` times `stride` butterflies."""
    fn = elements.function
    radix, rest, stride = numbers
    with elements.scopes.loop(0, rest) as outer:
        turns = [
            spread(table.load(fn.mul(outer.index, k * stride)), lanes) for k in range(1, radix)
        ]
        with elements.scopes.loop(0, stride) as inner:
            at = fn.add(inner.index, fn.mul(outer.index, stride))
            values = [source.load(fn.add(at, rest * stride * j), 0, lanes) for j in range(radix)]
            found = butterfly(values)
            if rest > 1:
                found = [found[0], *[times(x, y) for x, y in zip(found[1:], turns, strict=True)]]
            to = fn.add(inner.index, fn.mul(outer.index, radix * stride))
            for k, value in enumerate(found):
                result.store(fn.add(to, k * stride), 0, value)


def butterfly(x: list[Parts]) -> list[Parts]:
    """Return the transform of a few numbers."""
    if len(x) == 2:
        return [added(x[0], x[1]), subtracted(x[0], x[1])]
    if len(x) == 4:
        even, odd = added(x[0], x[2]), subtracted(x[0], x[2])
        sum_, difference = added(x[1], x[3]), subtracted(x[1], x[3])
        turned = (difference[1], -difference[0])
        return [
            added(even, sum_),
            added(odd, turned),
            subtracted(even, sum_),
            subtracted(odd, turned),
        ]
    return _odd_butterfly(x)


def _odd_butterfly(x: list[Parts]) -> list[Parts]:
    """The transform of an odd number of numbers, from sums and differences of opposite ones."""
    n = len(x)
    half = range(1, n // 2 + 1)
    sums = {j: added(x[j], x[n - j]) for j in half}
    differences = {j: subtracted(x[j], x[n - j]) for j in half}
    first = x[0]
    for j in half:
        first = added(first, sums[j])
    found = {0: first}
    for k in half:
        even: Parts = x[0]
        odd: Parts = scaled(differences[1], float(np.sin(2 * np.pi * k / n)))
        for j in half:
            cosine = _real(sums[j], float(np.cos(2 * np.pi * (j * k % n) / n)))
            even = tuple([_fused(s, c, e) for s, c, e in zip(sums[j], cosine, even, strict=True)])
            if j > 1:
                sine = _real(sums[j], float(np.sin(2 * np.pi * (j * k % n) / n)))
                odd = tuple(
                    [_fused(d, s, o) for d, s, o in zip(differences[j], sine, odd, strict=True)]
                )
        turned = (odd[1], -odd[0])
        found[k], found[n - k] = added(even, turned), subtracted(even, turned)
    return [found[k] for k in range(n)]


def _real(like: Parts, number: float) -> Parts:
    return tuple([x.constant(number) for x in like])


def _fused(a: Number, b: Number, c: Number) -> Number:
    return plus_product((c,), (a,), (b,))[0]
