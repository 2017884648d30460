"""Counted loops over arrays, and the parts of matrices that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.builder.values import Op
from lowtide.ir import ElementType, Opcode, array_shape, tuple_shape
from lowtide.ir.attributes import Dot, DotDimensions, Precision, PrecisionConfig


def counted(count: int, carried: Sequence[Op], step: Callable[..., Sequence[Op]]) -> list[Op]:
    """Return what is carried after `count` steps; `step` gets the number of the step, from 0.

    The arrays carried are of one builder; `step` gets those of the body of a while loop.
    """
    build = carried[0].builder
    shape = tuple_shape([array_shape(ElementType.S32), *[x.shape for x in carried]])

    def advance(state: Op) -> Op:
        number, *values = state
        return state.builder.tuple([number + 1, *step(number, *values)])

    def is_short(state: Op) -> Op:
        return state[0].lt(count)

    condition = build.sub_computation("condition", [shape], is_short)
    body = build.sub_computation("body", [shape], advance)
    zero = build.constant(0, ElementType.S32)
    return list(build.while_(condition, body, build.tuple([zero, *carried])))[1:]


_EXACT: Final = PrecisionConfig((Precision.HIGHEST, Precision.HIGHEST))


def product(left: Op, right: Op) -> Op:
    """Return products of matrices, shapes [..., n, k] and [..., k, m], in full precision."""
    batch = tuple(range(left.rank - 2))
    dimensions = DotDimensions((left.rank - 1,), (left.rank - 2,), batch, batch)
    return left.builder.emit(Opcode.DOT, [left, right], Dot(dimensions, _EXACT))


def transposed(x: Op) -> Op:
    """Return matrices with rows for columns."""
    order = list(range(x.rank))
    return x.builder.transpose(x, [*order[:-2], order[-1], order[-2]])


def conjugate(x: Op) -> Op:
    """Return complex conjugates; real numbers as they are."""
    if not x.element_type.is_complex:
        return x
    build = x.builder
    return build.complex(build.real(x), -build.imag(x))


def row(x: Op, number: Op) -> Op:
    """Return row `number` of matrices, shape [..., 1, m]."""
    return _part(x, number, x.rank - 2)


def column(x: Op, number: Op) -> Op:
    """Return column `number` of matrices, shape [..., n, 1]."""
    return _part(x, number, x.rank - 1)


def _part(x: Op, number: Op, dimension: int) -> Op:
    sizes = list(x.dimensions)
    sizes[dimension] = 1
    return x.builder.dynamic_slice(x, starts(x, number, dimension), sizes)


def starts(x: Op, number: Op, dimension: int) -> list[Op]:
    """Return the indices of a part that begins at `number` of one dimension, else at 0."""
    zero = x.builder.constant(0, ElementType.S32)
    return [number if i == dimension else zero for i in range(x.rank)]


def across(x: Op, sizes: Sequence[int]) -> Op:
    """Return an array repeated along its dimensions of size 1, to the given sizes."""
    if x.dimensions == tuple(sizes):
        return x
    kept = [i for i, (n, size) in enumerate(zip(x.dimensions, sizes, strict=True)) if n == size]
    build = x.builder
    return build.broadcast(build.reshape(x, [x.dimensions[i] for i in kept]), sizes, kept)


def scaled_by(x: Op, factor: Op) -> Op:
    """Return the elements of `x` times those of a factor, repeated along dimensions of size 1."""
    return x * across(factor, x.dimensions)


def folded(x: Op, opcode: Opcode, start: complex, dimension: int) -> Op:
    """Return an array reduced along a dimension by an operation, of size 1 there."""
    build = x.builder
    reducer = build.scalar_computation(opcode, x.element_type)
    init = build.constant(start, x.element_type)
    sizes = list(x.dimensions)
    sizes[dimension] = 1
    return build.reshape(build.reduce(x, init, reducer, [dimension]), sizes)


def index(x: Op, dimension: int) -> Op:
    """Return for each element its place along a dimension, counted from 0."""
    return x.builder.iota(array_shape(ElementType.S32, x.dimensions), dimension)
