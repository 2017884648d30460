"""Factors of what addresses data by numbers: dynamic slices and their updates, gather, scatter."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir.attributes import Gather, Scatter
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ops.factors.record import FactorDraft, FactorKind, OpFactors
from lowtide.ops.reducers import reducer_opcode, sum_of


def dynamic_slice(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of dynamic-slice.

    A cut dimension of the operand has one too: parts give what they have of the slice, and zeros
    elsewhere, whose sum is the slice.
    """
    draft = FactorDraft.of(operands, results)
    for dimension, size in enumerate(operands[0].dimensions):
        if results[0].dimensions[dimension] == size:
            draft.join(size, {0: dimension}, {0: dimension})
        else:
            draft.join(size, {0: dimension}, kind=FactorKind.PICKED)
    return draft.done(((0,),), sum_of(results[0]), "a cut dimension")


def dynamic_update_slice(
    x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]
) -> OpFactors:
    """Return the factors of dynamic-update-slice: parts take what of the update falls into them."""
    draft = FactorDraft.of(operands, results)
    for dimension, size in enumerate(operands[0].dimensions):
        is_whole = operands[1].dimensions[dimension] == size
        given = {0: dimension, 1: dimension} if is_whole else {0: dimension}
        kind = FactorKind.PASSED if is_whole else FactorKind.PLACED
        draft.join(size, given, {0: dimension}, kind)
    return draft.done(linear=((0, 1),), why="an updated dimension")


def gather(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of gather.

    One have batch dimensions of the indices, dimensions of the operand that slices take whole, and
    those of which a slice takes one element: parts give zeros for rows that others have.
    """
    draft = FactorDraft.of(operands, results)
    g = x.attributes_as(Gather)
    shape, indices, result = operands[0].dimensions, operands[1].dimensions, results[0].dimensions
    batch = [d for d in range(len(indices)) if d != g.index_vector_dim]
    places = [d for d in range(len(result)) if d not in g.offset_dims]
    batching = dict(zip(g.start_indices_batching_dims, g.operand_batching_dims, strict=True))
    for dimension, place in zip(batch, places, strict=True):
        given = {1: dimension}
        if dimension in batching:
            given[0] = batching[dimension]
        draft.join(indices[dimension], given, {0: place})
    left_out = (*g.collapsed_slice_dims, *g.operand_batching_dims)
    windows = [d for d in range(len(shape)) if d not in left_out]
    for dimension, place in zip(windows, g.offset_dims, strict=True):
        if g.slice_sizes[dimension] == shape[dimension]:
            draft.join(shape[dimension], {0: dimension}, {0: place})
    for dimension in g.collapsed_slice_dims:
        if dimension in g.start_index_map:
            draft.join(shape[dimension], {0: dimension}, kind=FactorKind.PICKED)
    why = "dimensions of which slices take a part"
    return draft.done(((0,),), sum_of(results[0]), why)


def scatter(x: Instruction, operands: Sequence[Shape], results: Sequence[Shape]) -> OpFactors:
    """Return the factors of scatter.

    One have dimensions of the operand that updates cover, those of which an update takes one
    element (each part takes the rows that fall into it), and batch dimensions of the updates, which
    are applied part by part.
    """
    draft = FactorDraft.of(operands, results)
    s = x.attributes_as(Scatter)
    count = len(results)
    reduction = reducer_opcode(x.called_computations[0]) if count == 1 else None
    shape, indices = operands[0].dimensions, operands[count].dimensions
    updates = operands[count + 1].dimensions
    batch = [d for d in range(len(indices)) if d != s.index_vector_dim]
    places = [d for d in range(len(updates)) if d not in s.update_window_dims]
    batching = dict(zip(s.scatter_indices_batching_dims, s.input_batching_dims, strict=True))
    all_results = range(count)
    for dimension, place in zip(batch, places, strict=True):
        given = {count: dimension, **dict.fromkeys(range(count + 1, 2 * count + 1), place)}
        if dimension in batching:
            own = dict.fromkeys(all_results, batching[dimension])
            draft.join(indices[dimension], {**given, **own}, own)
        else:
            draft.join(indices[dimension], given, kind=FactorKind.APPLIED)
    left_out = (*s.inserted_window_dims, *s.input_batching_dims)
    windows = [d for d in range(len(shape)) if d not in left_out]
    for dimension, place in zip(windows, s.update_window_dims, strict=True):
        if updates[place] == shape[dimension]:
            own = dict.fromkeys(all_results, dimension)
            moved = dict.fromkeys(range(count + 1, 2 * count + 1), place)
            draft.join(shape[dimension], {**own, **moved}, own)
    for dimension in s.inserted_window_dims:
        if dimension in s.scatter_dims_to_operand_dims:
            own = dict.fromkeys(all_results, dimension)
            draft.join(shape[dimension], own, own, FactorKind.PLACED)
    linear = ((0, 2),) if reduction is Opcode.ADD else ()
    why = "dimensions that updates cover in part"
    return draft.done(linear, reduction, why, once=(0,))
