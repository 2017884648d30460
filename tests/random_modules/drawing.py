"""Drawing: a computation in the making, and the values that further operations can read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeVar

import numpy as np
from tests.random_modules.recipe import COMMON_TYPES, Choices, Recipe

from lowtide.builder import Builder, Op, SubComputation
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Layout, Shape, array_shape
from lowtide.ops.infer import infer_shape

T = TypeVar("T")
Test = Callable[[Shape], bool]


_MEANING: Final[dict[Opcode, Callable[[ElementType], bool]]] = {
    Opcode.SHIFT_LEFT: lambda t: t.is_integer,
    Opcode.SHIFT_RIGHT_ARITHMETIC: lambda t: t.is_integer,
    Opcode.SHIFT_RIGHT_LOGICAL: lambda t: t.is_integer,
    Opcode.MAXIMUM: lambda t: not t.is_complex,
    Opcode.MINIMUM: lambda t: not t.is_complex,
    Opcode.SIGN: lambda t: not t.is_unsigned,
    Opcode.POWER: lambda t: not t.is_integer,
    Opcode.REMAINDER: lambda t: not t.is_complex,
}
"""For which element types an operation means something, where HLO allows more."""


@cache
def result_type(opcode: Opcode, element_type: ElementType, count: int) -> ElementType | None:
    """Return what an elementwise operation makes of `count` operands of a type; None: refuses."""
    if opcode in _MEANING and not _MEANING[opcode](element_type):
        return None
    try:
        result = infer_shape(opcode, [array_shape(element_type)] * count, NO_ATTRIBUTES)
    except ShapeError:
        return None
    return result.element_type


def small_numbers(element_type: ElementType) -> tuple[int, int]:
    """Return the least and the greatest of a few integers which an element type can hold."""
    if element_type.is_floating or element_type.is_complex:
        return -3, 3
    least, most = element_type.bounds
    return max(-2, least), min(3, most)


_COMMON_SHAPES: Final = 3


class Drawing:
    """Draws operations into one builder.

    `pool` holds the values made so far. Only the entry grows parameters as it needs them; other
    computations make constants instead. `depth` is how many more levels of calls may follow, and
    `max_rank` the greatest rank of the arrays that operations take.
    """

    def __init__(
        self, builder: Builder, choices: Choices, recipe: Recipe, *, parent: Drawing | None = None
    ) -> None:
        self.builder = builder
        self.choices = choices
        self.recipe = recipe
        self.pool: list[Op] = []
        self.parent = parent
        self.depth: int = 2 if parent is None else parent.depth - 1
        self.root: Drawing = self if parent is None else parent.root
        self.callees: list[tuple[tuple[Shape, ...], SubComputation]] = []
        self.common: list[Shape] = []
        self.max_rank = 4
        self._parameters = 0

    # -- choices -------------------------------------------------------------------------------

    def integer(self, least: int, most: int) -> int:
        """Return a number between both ends, which are included."""
        return self.choices.integer(least, most)

    def chance(self, one_in: int) -> bool:
        """Return True once in so many times."""
        return self.choices.integer(0, one_in - 1) == one_in - 1

    def choice(self, values: Sequence[T]) -> T:
        """Return one of the values; earlier ones are simpler."""
        return values[self.choices.integer(0, len(values) - 1)]

    def subset(self, count: int) -> list[int]:
        """Return some of the numbers below `count`, in increasing order."""
        return [i for i in range(count) if self.chance(2)]

    def permutation(self, count: int) -> list[int]:
        """Return the numbers below `count` in any order."""
        left = list(range(count))
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]

    # -- shapes --------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the size of a dimension."""
        if self.recipe.empty_arrays and self.chance(40):
            return 0
        return self.integer(1, self.recipe.max_size)

    def sizes(self, rank: int) -> tuple[int, ...]:
        """Return the sizes of an array."""
        return tuple([self.size() for _ in range(rank)])

    def element_type(self, test: Callable[[ElementType], bool] | None = None) -> ElementType | None:
        """Return an element type of the recipe which passes a test, mostly a common one."""
        allowed = [x for x in self.recipe.element_types if test is None or test(x)]
        if not allowed:
            return None
        common = [x for x in allowed if x in COMMON_TYPES]
        return self.choice(common if common and not self.chance(3) else allowed)

    def accepts(self, opcode: Opcode, element_type: ElementType, count: int) -> bool:
        """Whether an elementwise operation stays within the types of the recipe, or makes pred."""
        result = result_type(opcode, element_type, count)
        return result is ElementType.PRED or result in self.recipe.element_types

    def common_shape(self) -> Shape:
        """Return one of the few shapes that values exchange places in, the same in all callees."""
        common = self.root.common
        if not common or (len(common) < _COMMON_SHAPES and self.chance(3)):
            element_type = self.choice(self.recipe.element_types)
            shape = array_shape(element_type, self.sizes(self.integer(0, 2)))
            common.append(self.relaid(shape) if self.recipe.layouts else shape)
        return self.choice(common)

    def relaid(self, shape: Shape) -> Shape:
        """Return the shape with any order of its dimensions in memory, mostly its own."""
        if shape.rank < 2 or not self.chance(3):
            return shape
        return shape.with_layout(Layout(tuple(self.permutation(shape.rank))))

    # -- operands ------------------------------------------------------------------------------

    def add(self, op: Op) -> Op:
        """Let further operations read a value."""
        self.pool.append(op)
        return op

    def find(self, test: Test) -> Op | None:
        """Return a value of the pool whose shape passes a test, or None."""
        found = [op for op in self.pool if test(op.shape)]
        return self.choice(found) if found else None

    def array(
        self, test: Callable[[ElementType], bool] | None = None, ranks: tuple[int, int] = (0, 3)
    ) -> Op | None:
        """Return an array, found or new, with an element type that passes and a rank in range.

        Returns None where the recipe has no such type, or all such ranks exceed `max_rank`.
        """
        least, most = ranks[0], min(ranks[1], self.max_rank)
        if least > most:
            return None

        def fits(shape: Shape) -> bool:
            if not shape.is_array or not least <= shape.rank <= most:
                return False
            return test is None or test(shape.element_type)

        found = None if self.chance(10) else self.find(fits)
        if found is not None:
            return found
        element_type = self.element_type(test)
        if element_type is None:
            return None
        return self.source(array_shape(element_type, self.sizes(self.integer(least, most))))

    def like(self, shape: Shape) -> Op:
        """Return a value of exactly this shape: found, made of another one, or new."""
        found = None if self.chance(8) else self.find(lambda other: other is shape)
        if found is not None:
            return found
        derived = self._derived(shape) if shape.is_array and not self.chance(3) else None
        return self.source(shape) if derived is None else derived

    def _derived(self, shape: Shape) -> Op | None:
        """Return a value of the pool, converted and reshaped or broadcast to a shape."""
        element_type, count = shape.element_type, shape.element_count

        def fits(other: Shape) -> bool:
            if not other.is_array or other.element_type.is_complex > element_type.is_complex:
                return False
            return other.rank == 0 or other.element_count == count

        op = self.find(fits)
        if op is None:
            return None
        if op.element_type is not element_type:
            op = self.add(self.builder.convert(op, element_type))
        if op.dimensions == shape.dimensions:
            return self._laid_out(op, shape)
        if op.rank:
            return self._laid_out(self.add(self.builder.reshape(op, shape.dimensions)), shape)
        return self._laid_out(self.add(self.builder.broadcast(op, shape.dimensions, [])), shape)

    def _laid_out(self, op: Op, shape: Shape) -> Op:
        """Return the value in the layout of `shape`."""
        if op.shape is shape:
            return op
        return self.add(self.builder.emit(Opcode.COPY, [op], shape=shape))

    def source(self, shape: Shape) -> Op:
        """Return a new value of a shape: a parameter, a constant, a broadcast or an iota."""
        if shape.is_tuple:
            return self.add(self.builder.tuple([self.like(x) for x in shape.tuple_shapes]))
        if self.parent is None and not self.chance(4):
            return self.parameter(shape)
        if shape.rank and shape.element_type is not ElementType.PRED and self.chance(3):
            return self.add(self.builder.iota(shape, self.integer(0, shape.rank - 1)))
        if shape.rank and (shape.element_count > 16 or self.chance(2)):
            scalar = self.constant(shape.element_type, ())
            return self._laid_out(
                self.add(self.builder.broadcast(scalar, shape.dimensions, [])), shape
            )
        return self._laid_out(self.add(self.constant(shape.element_type, shape.dimensions)), shape)

    def parameter(self, shape: Shape) -> Op:
        """Return a new argument of the program; its elements can be read too."""
        self._parameters += 1
        op = self.add(self.builder.parameter(self._parameters - 1, shape))
        if shape.is_tuple:
            self.pool += list(op)
        return op

    def constant(self, element_type: ElementType, sizes: tuple[int, ...]) -> Op:
        """Return a constant of small numbers."""
        least, most = small_numbers(element_type)
        values = [self.integer(least, most) for _ in range(math.prod(sizes))]
        array = np.array(values, np.float32).reshape(sizes)
        return self.builder.constant(array.astype(DTYPES[element_type]), element_type)

    def reducer(self, opcode: Opcode, element_type: ElementType) -> SubComputation:
        """Return the computation of a binary operation on scalars, one for the whole module."""
        return self.root.builder.scalar_computation(opcode, element_type)
