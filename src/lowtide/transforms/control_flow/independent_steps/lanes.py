"""Values of many steps of a loop at once, while they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import ElementType, Instruction
from lowtide.ir.shape import array_shape
from lowtide.transforms.control_flow.independent_steps.kinds import Kind, StepKind, StepNumber


@final
class StepLanes:
    """The values of `count` steps of `steps` that follow each other, the first number `base`.

    `base` is a scalar of s32; None stands for 0. `made` has what `build` made of each value of the
    body: one value where all steps have the same, else one with a dimension of `count` steps
    ahead of its own.
    """

    def __init__(
        self,
        build: Builder,
        kinds: Mapping[Instruction, Kind],
        steps: int,
        count: int,
        base: Op | None,
    ) -> None:
        self.build = build
        self.kinds = kinds
        self.steps = steps
        self.count = count
        self.base = base
        self.made: dict[Instruction, Op] = {}
        self._spread: dict[Instruction, Op] = {}

    def alike(self, x: Instruction) -> Op:
        """Return a value that all steps have."""
        return self.made[x]

    def is_alike(self, x: Instruction) -> bool:
        """Whether all steps have the same value."""
        return self.kinds[x] is StepKind.ALIKE

    def own(self, x: Instruction) -> Op:
        """Return the values of all steps along a first dimension, whatever their kind."""
        found = self._spread.get(x)
        if found is None:
            kind = self.kinds[x]
            if isinstance(kind, StepNumber):
                found = self._counted(kind, x.shape.element_type)
                if x.shape.rank:
                    found = self.build.reshape(found, (self.count, *x.shape.dimensions))
            else:
                sizes = (self.count, *x.shape.dimensions)
                found = self.build.broadcast(self.made[x], sizes, range(1, len(sizes)))
            self._spread[x] = found
        return found

    def put(self, x: Instruction, values: Op) -> None:
        """Keep the values that the steps have of their own."""
        self.made[x] = self._spread[x] = values

    def _counted(self, kind: StepNumber, element_type: ElementType) -> Op:
        if not kind.by:
            return self._filled(kind.first, element_type)
        kind = kind.within(element_type)
        is_narrow = element_type.bits < ElementType.S32.bits  # It may not have so many numbers.
        counted = ElementType.S32 if is_narrow else element_type
        numbers = self.build.iota(array_shape(counted, (self.count,)))
        if is_narrow:
            numbers = self.build.convert(numbers, element_type)
        if kind.by != 1:
            numbers = numbers * self._filled(kind.by, element_type)
        if self.base is None:
            return numbers + self._filled(kind.first, element_type) if kind.first else numbers
        first = self.number(kind, element_type)
        return numbers + self.build.broadcast(first, (self.count,), ())

    def _filled(self, value: int, element_type: ElementType) -> Op:
        return self.build.broadcast(self.build.constant(value, element_type), (self.count,), ())

    def number(self, kind: StepNumber, element_type: ElementType) -> Op:
        """Return a counted number in the first of the steps."""
        build, kind = self.build, kind.within(element_type)
        if self.base is None or not kind.by:
            return build.constant(kind.first, element_type)
        value = self.base
        if element_type is not value.element_type:
            value = build.convert(value, element_type)
        if kind.by != 1:
            value = value * build.constant(kind.by, element_type)
        return value + build.constant(kind.first, element_type) if kind.first else value

    def lowest(self, kind: StepNumber, element_type: ElementType) -> Op:
        """Return the least of a counted number that grows by 1 or -1."""
        if kind.by == 1:
            return self.number(kind, element_type)
        return self.number(StepNumber(kind.first - (self.count - 1), kind.by), element_type)

    def slices(self, stack: Op, dimension: int, kind: StepNumber, element_type: ElementType) -> Op:
        """Return the slices of an array that the steps read, along a first dimension.

        Each has size 1 along `dimension`, in which it begins at a number that grows by 1 or -1.
        """
        build, sizes = self.build, list(stack.dimensions)
        sizes[dimension] = self.count
        found = stack
        if self.base is not None or stack.dimensions[dimension] != self.count:
            zero = build.constant(0, element_type)
            starts = [zero] * stack.rank
            starts[dimension] = self.lowest(kind, element_type)
            found = build.dynamic_slice(stack, starts, sizes)
        if kind.by < 0:
            found = build.reverse(found, [dimension])
        if dimension:
            found = build.transpose(found, [dimension, *_others(stack.rank, dimension)])
        return build.reshape(found, (self.count, *_one(stack.dimensions, dimension)))

    def stacked(
        self, stack: Op, slices: Op, dimension: int, kind: StepNumber, element_type: ElementType
    ) -> Op:
        """Return an array with the slices of all steps written where `slices` would read them."""
        build, sizes = self.build, list(stack.dimensions)
        rest = [size for place, size in enumerate(sizes) if place != dimension]
        found = build.reshape(slices, (self.count, *rest))
        if dimension:
            order = [*range(1, dimension + 1), 0, *range(dimension + 1, stack.rank)]
            found = build.transpose(found, order)
        if kind.by < 0:
            found = build.reverse(found, [dimension])
        if self.base is None and sizes[dimension] == self.count:
            return found
        starts = [build.constant(0, element_type)] * stack.rank
        starts[dimension] = self.lowest(kind, element_type)
        return build.dynamic_update_slice(stack, found, starts)


def _others(rank: int, dimension: int) -> list[int]:
    return [place for place in range(rank) if place != dimension]


def _one(sizes: Sequence[int], dimension: int) -> tuple[int, ...]:
    return tuple([1 if place == dimension else size for place, size in enumerate(sizes)])
