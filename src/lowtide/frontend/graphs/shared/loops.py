"""Loops whose number of steps is known, with bodies that are Python functions on operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lowtide.builder import Builder, Op, SubComputation
from lowtide.ir import Shape, array_shape, tuple_shape
from lowtide.ir.element_type import ElementType

Step: TypeAlias = Callable[[Builder, Op, list[Op]], list[Op]]
"""Gives the state after one step, from the step's number (s64, from 0) and the state before."""


def repeat_steps(b: Builder, count: int, state: Sequence[Op], step: Step) -> list[Op]:
    """Return the state after `count` steps.

    What a step reads beside constants has to be in the state, and keeps its shape.
    """
    if count == 0:
        return list(state)
    start = b.tuple([b.constant(0, ElementType.S64), *state])
    shape = tuple_shape([array_shape(ElementType.S64), *[x.shape for x in state]])
    test = b.sub_builder("more_steps")
    number = test.get_tuple_element(test.parameter(0, shape, "state"), 0)
    condition = test.build_computation(number.lt(count))
    result = b.while_(condition, _body(b, shape.tuple_shapes, step), start)
    return [b.get_tuple_element(result, i + 1) for i in range(len(state))]


def _body(b: Builder, shapes: Sequence[Shape], step: Step) -> SubComputation:
    child = b.sub_builder("step")
    bundle = child.parameter(0, tuple_shape(list(shapes)), "state")
    parts = [child.get_tuple_element(bundle, i) for i in range(len(shapes))]
    after = step(child, parts[0], parts[1:])
    return child.build_computation(child.tuple([parts[0] + 1, *after]))


def part_at(b: Builder, x: Op, number: Op) -> Op:
    """Return x[number], one entry along the first dimension."""
    zero = b.constant(0, number.element_type)
    starts = [number, *[zero] * (x.rank - 1)]
    return b.reshape(b.dynamic_slice(x, starts, [1, *x.dimensions[1:]]), x.dimensions[1:])


def with_part(b: Builder, x: Op, part: Op, number: Op) -> Op:
    """Return x with `part` as its entry `number` along the first dimension."""
    zero = b.constant(0, number.element_type)
    starts = [number, *[zero] * (x.rank - 1)]
    return b.dynamic_update_slice(x, b.reshape(part, [1, *part.dimensions]), starts)
