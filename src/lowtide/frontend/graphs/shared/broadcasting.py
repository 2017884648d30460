"""NumPy's broadcasting: dimensions meet from the last one on, and sizes of 1 stretch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.builder import Builder, BuildError, Op


def together(builder: Builder, ops: Sequence[Op]) -> list[Op]:
    """Return the operands with equal dimensions; raises BuildError where they do not fit."""
    if all(op.dimensions == ops[0].dimensions for op in ops):
        return list(ops)
    return [expand(builder, op, joint_sizes(ops)) for op in ops]


def joint_sizes(ops: Sequence[Op]) -> tuple[int, ...]:
    """Return the sizes to which the operands broadcast together."""
    return joined([op.dimensions for op in ops])


def joined(sizes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the sizes to which all of some sizes broadcast; raises BuildError if they do not."""
    rank = max([len(x) for x in sizes], default=0)
    found = [1] * rank
    for own in sizes:
        for place, size in enumerate(own, rank - len(own)):
            if found[place] == 1:
                found[place] = size
            elif size not in (1, found[place]):
                shown = ", ".join([str(list(x)) for x in sizes])
                raise BuildError(f"sizes {shown} do not broadcast together")
    return tuple(found)


def expand(builder: Builder, op: Op, sizes: Sequence[int]) -> Op:
    """Return an operand stretched to `sizes`; raises BuildError where it does not fit."""
    if op.dimensions == tuple(sizes):
        return op
    if joined([op.dimensions, sizes]) != tuple(sizes):
        raise BuildError(f"{list(op.dimensions)} does not broadcast to {list(sizes)}")
    shift = len(sizes) - op.rank
    kept = [i for i, size in enumerate(op.dimensions) if size == sizes[shift + i]]
    if len(kept) < op.rank:
        op = builder.reshape(op, [op.dimensions[i] for i in kept])
    return builder.broadcast(op, sizes, [shift + i for i in kept])


def along(builder: Builder, vector: Op, axis: int, sizes: Sequence[int]) -> Op:
    """Return a vector that runs along one dimension, repeated along all others."""
    return builder.broadcast(vector, sizes, [axis])


def scalar(builder: Builder, value: complex, like: Op) -> Op:
    """Return a number in the element type of `like`."""
    literal = np.asarray(value)
    return builder.constant(literal, like.element_type)
