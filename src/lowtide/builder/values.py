"""Values that a builder hands out, and the error that names the line which asked for one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import Array
from lowtide.ir.shape import ProgramShape, Shape
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.builder.builder import Builder


_PACKAGE = __name__.partition(".")[0] + "."


@final
class BuildError(LowtideError):
    """An operation cannot be built; `file` and `line` are where the program asked for it."""

    def __init__(self, message: str, *, operation: str = "") -> None:
        self.file, self.line = caller()
        self.operation = operation
        place = f"{self.file}:{self.line}" if self.line else ""
        super().__init__(": ".join([part for part in (place, operation, message) if part]))


def caller() -> tuple[str, int]:
    """Return file and line of the innermost call from outside of lowtide; ("", 0) for none.

    A file below the working directory is named relative to it.
    """
    frame = sys._getframe(1)
    while (frame.f_globals.get("__name__") or "").startswith(_PACKAGE):
        if frame.f_back is None:
            return "", 0
        frame = frame.f_back
    file = frame.f_code.co_filename
    here = os.getcwd() + os.sep
    return file.removeprefix(here), frame.f_lineno


Index: TypeAlias = "int | slice | tuple[int | slice, ...]"


@dataclass(frozen=True, slots=True)
class SubComputation:
    """A complete computation that the operations of any builder can call.

    The builder copies it into the module that is built, with all that it calls. `origins` tells
    which of its callees are copies of what, so that a builder that knows the original needs no
    other copy.
    """

    computation: Computation
    origins: Mapping[Computation, Computation] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes of the parameters and of the result."""
        return self.computation.program_shape


@final
class Op:
    """The value of an operation: an operand of further operations of the same builder.

    Arithmetic operators build elementwise operations, a number or array on the other side becoming
    a constant. `//` and `%` round down, as in Python, while `Builder.divide` (which is `/`) and
    `Builder.remainder` truncate integers, as in HLO. `>>` keeps the sign of signed integers.
    Comparisons are methods, since `==` compares handles. `op[...]` slices an array with numbers
    known now, and takes an element of a tuple.
    """

    __slots__ = ("builder", "instruction")

    # NumPy leaves operators with an array on the left to this class.
    __array_ufunc__ = None

    def __init__(self, builder: Builder, instruction: Instruction) -> None:
        self.builder = builder
        self.instruction = instruction

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.instruction.shape

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of an array."""
        return self.instruction.shape.dimensions

    @property
    def rank(self) -> int:
        """The number of dimensions of an array."""
        return self.instruction.shape.rank

    @property
    def element_type(self) -> ElementType:
        """The element type of an array."""
        return self.instruction.shape.element_type

    def __repr__(self) -> str:
        return f"<Op %{self.instruction.name} {self.shape}>"

    def __bool__(self) -> bool:
        raise BuildError(f"%{self.instruction.name} has no value yet: use select or conditional")

    # -- arithmetic ----------------------------------------------------------------------------

    def __add__(self, other: Value) -> Op:
        return self.builder.add(self, other)

    def __radd__(self, other: Value) -> Op:
        return self.builder.add(other, self)

    def __sub__(self, other: Value) -> Op:
        return self.builder.subtract(self, other)

    def __rsub__(self, other: Value) -> Op:
        return self.builder.subtract(other, self)

    def __mul__(self, other: Value) -> Op:
        return self.builder.multiply(self, other)

    def __rmul__(self, other: Value) -> Op:
        return self.builder.multiply(other, self)

    def __truediv__(self, other: Value) -> Op:
        return self.builder.divide(self, other)

    def __rtruediv__(self, other: Value) -> Op:
        return self.builder.divide(other, self)

    def __floordiv__(self, other: Value) -> Op:
        return self.builder.floor_divide(self, other)

    def __rfloordiv__(self, other: Value) -> Op:
        return self.builder.floor_divide(other, self)

    def __mod__(self, other: Value) -> Op:
        return self.builder.modulo(self, other)

    def __rmod__(self, other: Value) -> Op:
        return self.builder.modulo(other, self)

    def __pow__(self, other: Value) -> Op:
        return self.builder.power(self, other)

    def __rpow__(self, other: Value) -> Op:
        return self.builder.power(other, self)

    def __matmul__(self, other: Value) -> Op:
        return self.builder.matmul(self, other)

    def __rmatmul__(self, other: Value) -> Op:
        return self.builder.matmul(other, self)

    def __neg__(self) -> Op:
        return self.builder.negate(self)

    def __abs__(self) -> Op:
        return self.builder.abs(self)

    # -- bits ----------------------------------------------------------------------------------

    def __and__(self, other: Value) -> Op:
        return self.builder.and_(self, other)

    def __rand__(self, other: Value) -> Op:
        return self.builder.and_(other, self)

    def __or__(self, other: Value) -> Op:
        return self.builder.or_(self, other)

    def __ror__(self, other: Value) -> Op:
        return self.builder.or_(other, self)

    def __xor__(self, other: Value) -> Op:
        return self.builder.xor(self, other)

    def __rxor__(self, other: Value) -> Op:
        return self.builder.xor(other, self)

    def __invert__(self) -> Op:
        return self.builder.not_(self)

    def __lshift__(self, other: Value) -> Op:
        return self.builder.shift_left(self, other)

    def __rshift__(self, other: Value) -> Op:
        if self.element_type.is_signed:
            return self.builder.shift_right_arithmetic(self, other)
        return self.builder.shift_right_logical(self, other)

    # -- comparison ----------------------------------------------------------------------------

    def eq(self, other: Value) -> Op:
        """Return whether both are equal, element by element."""
        return self.builder.compare(self, other, "EQ")

    def ne(self, other: Value) -> Op:
        """Return whether both differ, element by element."""
        return self.builder.compare(self, other, "NE")

    def ge(self, other: Value) -> Op:
        """Return whether this one is not less, element by element."""
        return self.builder.compare(self, other, "GE")

    def gt(self, other: Value) -> Op:
        """Return whether this one is greater, element by element."""
        return self.builder.compare(self, other, "GT")

    def le(self, other: Value) -> Op:
        """Return whether this one is not greater, element by element."""
        return self.builder.compare(self, other, "LE")

    def lt(self, other: Value) -> Op:
        """Return whether this one is less, element by element."""
        return self.builder.compare(self, other, "LT")

    # -- parts ---------------------------------------------------------------------------------

    def __getitem__(self, index: Index) -> Op:
        if self.shape.is_tuple:
            if not isinstance(index, int):
                raise BuildError(f"a tuple is indexed by a number, not {index!r}")
            return self.builder.get_tuple_element(self, index)
        return self.builder.static_index(self, index if isinstance(index, tuple) else (index,))

    def __iter__(self) -> Iterator[Op]:
        """Return the elements of a tuple."""
        if not self.shape.is_tuple:
            raise BuildError(f"only tuples can be iterated over, not {self.shape}")
        count = len(self.shape.tuple_shapes)
        return iter([self.builder.get_tuple_element(self, i) for i in range(count)])


Value: TypeAlias = Op | complex | np.generic | Array | list[Any]
"""An operand: the result of an operation, or a number or array that becomes a constant."""
