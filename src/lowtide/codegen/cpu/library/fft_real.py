"""Lines of real numbers as half as many complex ones, each of two neighbours.

Source: J. Cooley, P. Lewis and P. Welch (1970), "The fast Fourier transform algorithm: programming
considerations in the calculation of sine, cosine and Laplace transforms". Each line is transformed
by itself, so that NaN or large numbers in one do no harm to another.
"""

from __future__ import annotations

from functools import cached_property

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.library.fft_stages import ComplexTable, roots_of_unity
from lowtide.codegen.library.field import (
    Matrix,
    Parts,
    added,
    conjugate,
    scaled,
    spread,
    subtracted,
    times,
)
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


def result_halves(one: Parts, opposite: Parts) -> tuple[Parts, Parts]:
    """Return results of the even and of the odd numbers of a line, before the odd ones are turned.

    `one` and `opposite` are results k and half - k of the complex line.
    """
    other = conjugate(opposite)
    even = scaled(added(one, other), 0.5)
    real, imaginary = scaled(subtracted(one, other), 0.5)
    return even, (imaginary, -real)


def given_halves(one: Parts, opposite: Parts, root: Parts) -> tuple[Parts, Parts]:
    """Return what is transformed back to even numbers of a line, and to odd ones, times i.

    `one` and `opposite` are results k and half - k of the real line, `root` the conjugate of the
    root by which k was turned.
    """
    other = conjugate(opposite)
    real, imaginary = times(subtracted(one, other), root)
    return added(one, other), (-imaginary, real)


@dataclass(eq=False)
class RealSide:
    """A grid with n / 2 complex numbers a line, and n real ones to read or to write."""

    elements: Elements
    matrix: Matrix
    n: int

    @cached_property
    def _roots(self) -> ComplexTable:
        """The roots by which halves of a result are turned."""
        roots = roots_of_unity(self.n)[: self.half + 1]
        return ComplexTable.of(self.elements, self.matrix.grid, roots)

    @property
    def fn(self) -> Function:
        """The function."""
        return self.elements.function

    @property
    def lanes(self) -> int:
        """The lines that are worked on together."""
        return self.elements.lanes

    @property
    def half(self) -> int:
        """The number of complex numbers."""
        return self.n // 2

    def _part(self, at: Integer, *, exchanged: bool) -> tuple[str, int]:
        """Where real number `at` lies: in real parts the even ones, or the odd ones."""
        fn, grid = self.fn, self.matrix.grid
        odd = fn.rem(at, 2)
        plane = fn.sub(1, odd) if exchanged else odd
        base = fn.gep(self.matrix.base, fn.mul(plane, grid.plane_bytes))
        return fn.gep(base, fn.mul(fn.div(at, 2), grid.stride), grid.element), grid.width

    # -- from real numbers -----------------------------------------------------------------------

    def put(self, at: Integer, value: Parts) -> None:
        """Store a real number of each line."""
        pointer, width = self._part(at, exchanged=False)
        self.fn.store(value[0].type, value[0].name, pointer, width)

    def get_result(self, at: Integer) -> Parts:
        """Return number `at`, at most n / 2, of the transform of the real numbers."""
        fn = self.fn
        one = self.matrix.load(fn.rem(at, self.half), 0, self.lanes)
        opposite = self.matrix.load(fn.rem(fn.sub(self.half, at), self.half), 0, self.lanes)
        even, odd = result_halves(one, opposite)
        return added(even, times(odd, spread(self._roots.load(at), self.lanes)))

    # -- to real numbers -------------------------------------------------------------------------

    def put_result(self, at: Integer, value: Parts) -> None:
        """Store number `at`, at most n / 2, of a transform of real numbers.

        The imaginary parts of the first and the last one do not count.
        """
        fn = self.fn
        inner = fn.compare("ult", fn.sub(at, 1), self.half - 1)
        zero = value[1].constant(0.0)
        name = fn.select(inner, value[1].type, value[1].name, zero.name)
        self.matrix.store(at, 0, (value[0], value[1].named(value[1].element, name)))

    def fold(self) -> None:
        """Make the n / 2 numbers to transform back, their parts exchanged."""
        fn = self.fn
        with self.elements.scopes.loop(0, self.half // 2 + 1) as loop:
            here, there = loop.index, fn.sub(self.half, loop.index)
            first = self.matrix.load(here, 0, self.lanes)
            second = self.matrix.load(there, 0, self.lanes)
            self.matrix.store(there, 0, self._folded(second, first, there))
            self.matrix.store(here, 0, self._folded(first, second, here))

    def _folded(self, one: Parts, opposite: Parts, at: Integer) -> Parts:
        root = conjugate(spread(self._roots.load(at), self.lanes))
        return added(*given_halves(one, opposite, root))[::-1]

    def get(self, at: Integer, scale: float) -> tuple[Number]:
        """Return real number `at` of each line, times a factor."""
        pointer, width = self._part(at, exchanged=True)
        grid = self.matrix.grid
        name = self.fn.load(f"<{self.lanes} x {grid.element}>", pointer, width)
        value = Number(self.fn, self.matrix.target, grid.element, self.lanes, name)
        return (value * scale,)
