"""Rows picked by their own number, as `x[jnp.arange(len(x)), labels]` picks one element of each.

A gather or scatter does not say that index i goes to row i: the numbers do, which are an iota. Then
the rows are a dimension that operand, indices and result share, as elementwise operations share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions, Gather, Iota, Scatter
from lowtide.ops.factors.record import DimensionFactors, OpFactors

_KEEPING: Final = frozenset(
    {
        *(Opcode.ADD, Opcode.BROADCAST, Opcode.COMPARE, Opcode.CONVERT, Opcode.COPY),
        *(Opcode.RESHAPE, Opcode.SELECT),
    }
)
"""What programs do to an iota to make indices of it: negative ones count from the end."""
_OPERANDS: Final = 3
"""The operands of a scatter into one array."""
_MOST: Final = 64
"""Indices made by more operations are not followed."""


def with_own_rows(x: Instruction, rule: OpFactors) -> OpFactors:
    """Return the factors of an instruction; rows picked by their own number have one factor."""
    if x.opcode is Opcode.GATHER:
        g = x.attributes_as(Gather)
        return _joined(x, rule, g.index_vector_dim, g.start_index_map, g.collapsed_slice_dims)
    if x.opcode is Opcode.SCATTER and len(x.operands) == _OPERANDS:
        s = x.attributes_as(Scatter)
        to, inserted = s.scatter_dims_to_operand_dims, s.inserted_window_dims
        return _joined(x, rule, s.index_vector_dim, to, inserted)
    return rule


def _joined(
    x: Instruction, rule: OpFactors, vector: int, targets: tuple[int, ...], single: tuple[int, ...]
) -> OpFactors:
    """Give dimensions that are indexed by their own number the factor of the indices."""
    indices = x.operands[1]
    for place, dimension in enumerate(targets):
        if dimension not in single:
            continue
        own = _numbered(indices, vector, place, x.operands[0].shape.dimensions[dimension])
        factors = () if own is None else rule.operands[1][own]
        if not factors:
            continue
        rule = replace(
            rule, operands=(_with(rule.operands[0], dimension, factors), *rule.operands[1:])
        )
        if x.opcode is Opcode.SCATTER:
            rule = replace(rule, results=(_with(rule.results[0], dimension, factors),))
    return rule


def _with(array: DimensionFactors, dimension: int, own: tuple[int, ...]) -> DimensionFactors:
    return (*array[:dimension], own, *array[dimension + 1 :])


def _numbered(indices: Instruction, vector: int, place: int, size: int) -> int | None:
    """The dimension along which the indices of a place in the index vector are 0, 1, ...

    None where there is no one such dimension, or it is not of `size`.
    """
    part = _part(indices, vector, place)
    if part is None or not _is_iota(part, size):
        return None
    found = [d for d, n in enumerate(indices.shape.dimensions) if d != vector and n == size]
    return found[0] if len(found) == 1 else None


def _part(indices: Instruction, vector: int, place: int) -> Instruction | None:
    """The array with the indices of a place in the index vector; None where it has no own array."""
    if vector == indices.shape.rank or indices.shape.dimensions[vector] == 1:
        return indices
    is_joined = indices.opcode is Opcode.CONCATENATE
    if not is_joined or indices.attributes_as(Dimensions).dimensions != (vector,):
        return None
    at = 0
    for part in indices.operands:
        at += part.shape.dimensions[vector]
        if place < at:
            return part if part.shape.dimensions[vector] == 1 else None
    return None


def _is_iota(x: Instruction, size: int) -> bool:
    """Whether all that an array is made of are scalars and iotas of a size."""
    todo, seen, iotas = [x], {x}, 0
    while todo:
        y = todo.pop()
        if y.opcode is Opcode.IOTA:
            if y.shape.dimensions[y.attributes_as(Iota).dimension] != size:
                return False
            iotas += 1
        elif y.opcode is Opcode.CONSTANT:
            if y.shape.rank:
                return False
        elif y.opcode not in _KEEPING or len(seen) > _MOST:
            return False
        new = [operand for operand in y.operands if operand not in seen]
        seen.update(new)
        todo += new
    return iotas > 0
