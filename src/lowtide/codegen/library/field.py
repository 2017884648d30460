"""Real and complex arithmetic on vectors in scratch memory, where matrices lie row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number, fma
from lowtide.codegen.kernel import rounded
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

Parts: TypeAlias = "tuple[Number, ...]"
"""A number, or the real and the imaginary part of one."""


@dataclass(frozen=True, slots=True)
class PlanarGrid:
    """A matrix in scratch: real parts, then imaginary ones, each row by row with `stride`.

    Elements of narrow types are computed with as floats, so they are floats here.
    """

    type: ElementType
    rows: int
    stride: int

    @property
    def element(self) -> str:
        """The LLVM type of each part."""
        return register_type(self.type)

    @property
    def width(self) -> int:
        """The bytes of each part of an element."""
        return 8 if self.element == "double" else 4

    @property
    def parts(self) -> int:
        """How many numbers make an element."""
        return 2 if self.type.is_complex else 1

    @property
    def plane_bytes(self) -> int:
        """The bytes of all real parts."""
        return rounded(self.rows * self.stride * self.width)

    @property
    def nbytes(self) -> int:
        """The bytes of the matrix."""
        return self.parts * self.plane_bytes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A grid at an address in a function."""

    fn: Function
    target: Target
    grid: PlanarGrid
    base: str

    def _pointers(self, row: Integer, column: Integer) -> list[str]:
        fn, grid = self.fn, self.grid
        at = fn.add(fn.mul(row, grid.stride), column)
        return [
            fn.gep(fn.gep(self.base, part * grid.plane_bytes), at, grid.element)
            for part in range(grid.parts)
        ]

    def load(self, row: Integer, column: Integer, lanes: int = 0) -> Parts:
        """Return elements from a place on, along the row."""
        grid = self.grid
        kind = f"<{lanes} x {grid.element}>" if lanes else grid.element
        return tuple(
            [
                Number(self.fn, self.target, grid.element, lanes, self.fn.load(kind, x, grid.width))
                for x in self._pointers(row, column)
            ]
        )

    def store(self, row: Integer, column: Integer, value: Parts) -> None:
        """Store elements from a place on."""
        for pointer, part in zip(self._pointers(row, column), value, strict=True):
            self.fn.store(part.type, part.name, pointer, self.grid.width)

    def zero(self) -> Parts:
        """Return a single zero."""
        return self.constant(0.0)

    def constant(self, number: float) -> Parts:
        """Return a single real number."""
        like = Number(self.fn, self.target, self.grid.element, 0, "")
        return tuple([like.constant(number if i == 0 else 0.0) for i in range(self.grid.parts)])


def parts_of(fn: Function, target: Target, value: Value) -> Parts:
    """Return an element as numbers."""
    return memory.numbers(fn, target, value)


def value_of(parts: Parts, type_: ElementType) -> Value:
    """Return numbers as an element; a narrow type is rounded to when it is stored."""
    return Value(tuple([x.name for x in parts]), type_, parts[0].lanes)


def conjugate(value: Parts) -> Parts:
    """Return the conjugate; a real number as it is."""
    return value if len(value) == 1 else (value[0], -value[1])


def spread(value: Parts, lanes: int) -> Parts:
    """Return a single element in each lane."""
    return tuple(
        [
            Number(x.fn, x.target, x.element, lanes, x.fn.splat(x.element, x.name, lanes))
            for x in value
        ]
    )


def times(a: Parts, b: Parts) -> Parts:
    """Return a * b."""
    if len(a) == 1:
        return (a[0] * b[0],)
    return fma(-a[1], b[1], a[0] * b[0]), fma(a[0], b[1], a[1] * b[0])


def plus_product(total: Parts, a: Parts, b: Parts) -> Parts:
    """Return total + a * b."""
    if len(total) == 1:
        return (fma(a[0], b[0], total[0]),)
    real = fma(-a[1], b[1], fma(a[0], b[0], total[0]))
    return real, fma(a[1], b[0], fma(a[0], b[1], total[1]))


def minus_product(total: Parts, a: Parts, b: Parts) -> Parts:
    """Return total - a * b."""
    return plus_product(total, tuple([-x for x in a]), b)


def added(a: Parts, b: Parts) -> Parts:
    """Return a + b."""
    return tuple([x + y for x, y in zip(a, b, strict=True)])


def subtracted(a: Parts, b: Parts) -> Parts:
    """Return a - b."""
    return tuple([x - y for x, y in zip(a, b, strict=True)])


def scaled(value: Parts, factor: Number | float) -> Parts:
    """Return the product with a real number."""
    return tuple([x * factor for x in value])


def divided(a: Parts, b: Parts) -> Parts:
    """Return a / b.

    Source of the complex quotient: R. Smith (1962), "Algorithm 116: Complex division".
    """
    if len(a) == 1:
        return (a[0] / b[0],)
    real_is_less = b[0].abs() < b[1].abs()
    large, small = real_is_less.select(b[1], b[0]), real_is_less.select(b[0], b[1])
    ratio = small / large
    bottom = fma(small, ratio, large)
    real = real_is_less.select(fma(a[0], ratio, a[1]), fma(a[1], ratio, a[0]))
    other = real_is_less.select(fma(a[1], ratio, -a[0]), fma(-a[0], ratio, a[1]))
    return real / bottom, other / bottom


def carried(values: Sequence[Parts]) -> list[tuple[str, str]]:
    """Return elements as a loop carries them."""
    return [(part.type, part.name) for value in values for part in value]


def restored(values: Sequence[Parts], names: Sequence[str]) -> list[Parts]:
    """Return elements like others, under names in the order of `carried`."""
    left = iter(names)
    return [tuple([x.named(x.element, next(left)) for x in value]) for value in values]
