"""Operations that read or write parts of arrays at given or computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.ir.attributes import Dimensions, DynamicSlice, Gather, Scatter, Slice
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape, array_shape
from lowtide.ops.checks import (
    Dimension,
    all_in_range,
    array,
    ascending,
    dimensions_of,
    distinct,
    in_range,
    integral,
    is_dynamic,
    listed,
    make_array,
    one_or_tuple,
    plain,
    same_sizes,
    same_type,
    scalar,
)
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, moves_all
from lowtide.ops.reduction import reducer_types

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- slices ------------------------------------------------------------------------------------


def _infer_slice(operands: Shapes, attributes: Slice, called: Called) -> Shape:
    operand = array(operands[0], "the operand")
    bounds = list(zip(attributes.starts, attributes.limits, attributes.strides, strict=True))
    if len(bounds) != operand.rank:
        raise ShapeError(f"{plain(operand)} needs {operand.rank} ranges, not {len(bounds)}")
    sizes: list[Dimension] = []
    for (size, dynamic), (start, limit, stride) in zip(dimensions_of(operand), bounds, strict=True):
        if not 0 <= start <= limit or (size != UNBOUNDED and limit > size):
            raise ShapeError(
                f"range [{start}:{limit}] is not within a dimension of {plain(operand)}"
            )
        if stride <= 0:
            raise ShapeError(f"stride {stride} of range [{start}:{limit}] must be positive")
        sizes.append(((limit - start + stride - 1) // stride, dynamic))
    return make_array(operand.element_type, sizes)


def _check_starts(starts: Shapes, operand: Shape) -> None:
    if len(starts) == 1 and starts[0].rank == 1:
        # The old form: one vector of start indices.
        if integral(starts[0], "the start indices").dimensions != (operand.rank,):
            raise ShapeError(
                f"{plain(operand)} needs {operand.rank} starts, not {plain(starts[0])}"
            )
        return
    if len(starts) != operand.rank:
        raise ShapeError(f"{plain(operand)} needs {operand.rank} start indices, not {len(starts)}")
    for start in starts:
        integral(scalar(start, "a start index"), "a start index")
        if start.element_type is not starts[0].element_type:
            raise ShapeError(f"start indices differ in type: {plain(starts[0])} and {plain(start)}")


def _infer_dynamic_slice(operands: Shapes, attributes: DynamicSlice, called: Called) -> Shape:
    operand = array(operands[0], "the operand")
    _check_starts(operands[1:], operand)
    if len(attributes.sizes) != operand.rank:
        raise ShapeError(
            f"{plain(operand)} needs {operand.rank} sizes, not {len(attributes.sizes)}"
        )
    for size, whole in zip(attributes.sizes, operand.dimensions, strict=True):
        if size < 0 or (whole != UNBOUNDED and size > whole):
            raise ShapeError(f"sizes {listed(attributes.sizes)} do not fit into {plain(operand)}")
    # A slice of a whole dynamic dimension is as dynamic as that.
    flags = [
        is_dynamic(operand, i) and size == operand.dimensions[i]
        for i, size in enumerate(attributes.sizes)
    ]
    return make_array(operand.element_type, zip(attributes.sizes, flags, strict=True))


def _infer_dynamic_update_slice(operands: Shapes, attributes: Any, called: Called) -> Shape:
    operand, update = array(operands[0], "the operand"), array(operands[1], "the update")
    _check_starts(operands[2:], operand)
    if update.rank != operand.rank or not same_type(update.element_type, operand.element_type):
        raise ShapeError(f"the update {plain(update)} must have rank and type of {plain(operand)}")
    for size, whole in zip(update.dimensions, operand.dimensions, strict=True):
        if whole != UNBOUNDED and size > whole:
            raise ShapeError(f"the update {plain(update)} does not fit into {plain(operand)}")
    return operand


# -- gather ------------------------------------------------------------------------------------


def _index_sizes(indices: Shape, vector: int) -> list[Dimension]:
    """Return the dimensions of the indices, with the index vectors as the dimension `vector`."""
    integral(indices, "the indices")
    if not 0 <= vector <= indices.rank:
        raise ShapeError(f"index_vector_dim {vector} is out of range for {plain(indices)}")
    dimensions = dimensions_of(indices)
    return [*dimensions, (1, False)] if vector == indices.rank else dimensions


def _check_index_map(mapped: Sequence[int], size: int, operand: Shape, what: str) -> None:
    if size not in (len(mapped), UNBOUNDED):
        raise ShapeError(f"{what} {listed(mapped)} must have {size} entries, one per index")
    all_in_range(mapped, operand, what)


def _check_batching(
    dimensions: Sequence[int],
    index_dimensions: Sequence[int],
    operand: Shape,
    sizes: list[Dimension],
    vector: int,
) -> None:
    all_in_range(dimensions, operand, "batching dimension")
    distinct(index_dimensions, "the batching dimensions of the indices")
    if len(dimensions) != len(index_dimensions):
        raise ShapeError(
            f"batching dimensions {listed(dimensions)} and {listed(index_dimensions)} "
            "do not pair up"
        )
    for a, b in zip(dimensions, index_dimensions, strict=True):
        if not 0 <= b < len(sizes) or b == vector:
            raise ShapeError(f"batching dimension {b} is none of the indices")
        if operand.dimensions[a] != sizes[b][0]:
            raise ShapeError(f"batching dimensions {a} and {b} differ in size")


def _check_slice_sizes(operand: Shape, attributes: Gather) -> None:
    sizes = attributes.slice_sizes
    if len(sizes) != operand.rank:
        raise ShapeError(f"{plain(operand)} needs {operand.rank} slice sizes, not {len(sizes)}")
    for size, whole in zip(sizes, operand.dimensions, strict=True):
        if size < 0 or (whole != UNBOUNDED and size > whole):
            raise ShapeError(f"slice sizes {listed(sizes)} do not fit into {plain(operand)}")
    for what, dropped in (
        ("collapsed_slice_dims", attributes.collapsed_slice_dims),
        ("operand_batching_dims", attributes.operand_batching_dims),
    ):
        ascending(dropped, what)
        all_in_range(dropped, operand, what)
        for i in dropped:
            if sizes[i] > 1:
                raise ShapeError(f"{what} {i} must have slice size 1, not {sizes[i]}")
    left = (
        operand.rank - len(attributes.collapsed_slice_dims) - len(attributes.operand_batching_dims)
    )
    if len(attributes.offset_dims) != left:
        raise ShapeError(f"offset_dims {listed(attributes.offset_dims)} must have {left} entries")


def _infer_gather(operands: Shapes, attributes: Gather, called: Called) -> Shape:
    operand, indices = array(operands[0], "the operand"), operands[1]
    vector = attributes.index_vector_dim
    index_sizes = _index_sizes(indices, vector)
    ascending(attributes.offset_dims, "offset_dims")
    _check_index_map(attributes.start_index_map, index_sizes[vector][0], operand, "start_index_map")
    _check_batching(
        attributes.operand_batching_dims,
        attributes.start_indices_batching_dims,
        operand,
        index_sizes,
        vector,
    )
    _check_slice_sizes(operand, attributes)
    dropped = (*attributes.collapsed_slice_dims, *attributes.operand_batching_dims)
    window = [
        (size, is_dynamic(operand, i) and size == operand.dimensions[i])
        for i, size in enumerate(attributes.slice_sizes)
        if i not in dropped
    ]
    batch = [x for i, x in enumerate(index_sizes) if i != vector]
    return make_array(operand.element_type, _interleaved(batch, window, attributes.offset_dims))


def _interleaved(
    batch: list[Dimension], window: list[Dimension], at: Sequence[int]
) -> list[Dimension]:
    rank = len(batch) + len(window)
    if any(not 0 <= i < rank for i in at):
        raise ShapeError(f"window dimensions {listed(at)} are out of range for rank {rank}")
    rest, inside = iter(batch), iter(window)
    return [next(inside) if i in at else next(rest) for i in range(rank)]


# -- scatter -----------------------------------------------------------------------------------


def _infer_scatter(operands: Shapes, attributes: Scatter, called: Called) -> Shape:
    count = len(operands) // 2
    if len(operands) != 2 * count + 1 or not count:
        raise ShapeError(f"scatter takes n arrays, indices and n updates, not {len(operands)}")
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    for number, (operand, update) in enumerate(zip(arrays, updates, strict=True)):
        array(operand, f"operand {number}")
        array(update, f"update {number}")
        if not same_sizes(operand, arrays[0]) or not same_sizes(update, updates[0]):
            raise ShapeError(
                f"the sizes of operand or update {number} differ from those of number 0"
            )
        _check_updates(operand, indices, update, attributes)
    reducer_types(called[0], updates, None, "to_apply")
    return one_or_tuple(arrays)


def _check_updates(operand: Shape, indices: Shape, update: Shape, attributes: Scatter) -> None:
    vector = attributes.index_vector_dim
    sizes = _index_sizes(indices, vector)
    window_dims = attributes.update_window_dims
    ascending(window_dims, "update_window_dims")
    all_in_range(window_dims, update, "update_window_dims")
    ascending(attributes.inserted_window_dims, "inserted_window_dims")
    all_in_range(attributes.inserted_window_dims, operand, "inserted_window_dims")
    _check_index_map(
        attributes.scatter_dims_to_operand_dims,
        sizes[vector][0],
        operand,
        "scatter_dims_to_operand_dims",
    )
    _check_batching(
        attributes.input_batching_dims,
        attributes.scatter_indices_batching_dims,
        operand,
        sizes,
        vector,
    )
    dropped = (*attributes.inserted_window_dims, *attributes.input_batching_dims)
    window = [size for i, size in enumerate(operand.dimensions) if i not in dropped]
    batch = [size for i, (size, _) in enumerate(sizes) if i != vector]
    if len(window_dims) != len(window) or update.rank != len(window) + len(batch):
        raise ShapeError(
            f"the update {plain(update)} must have {len(window)} window and {len(batch)} index "
            f"dimensions; update_window_dims={listed(window_dims)}"
        )
    for dimension, bound in zip(window_dims, window, strict=True):
        if bound != UNBOUNDED and update.dimensions[dimension] > bound:
            raise ShapeError(f"a window of {plain(update)} does not fit into {plain(operand)}")
    rest = [size for i, size in enumerate(update.dimensions) if i not in window_dims]
    if any(a != b and UNBOUNDED not in (a, b) for a, b in zip(rest, batch, strict=True)):
        raise ShapeError(f"the update {plain(update)} does not match the indices {plain(indices)}")


# -- dynamic dimensions ------------------------------------------------------------------------


def _infer_get_dimension_size(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    _only_dimension(operands[0], attributes)
    return array_shape(ElementType.S32)


def _infer_set_dimension_size(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    operand = operands[0]
    dimension = _only_dimension(operand, attributes)
    integral(scalar(operands[1], "the size"), "the size")
    flags = list(operand.dynamic or (False,) * operand.rank)
    flags[dimension] = True
    return array_shape(operand.element_type, operand.dimensions, operand.layout, tuple(flags))


def _only_dimension(operand: Shape, attributes: Dimensions) -> int:
    array(operand, "the operand")
    if len(attributes.dimensions) != 1:
        raise ShapeError(f"dimensions {listed(attributes.dimensions)} must name one dimension")
    return in_range(attributes.dimensions[0], operand, "dimension")


# -- cost --------------------------------------------------------------------------------------


def _slice_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    return Cost(bytes_accessed=2 * result.nbytes)


def _dynamic_slice_cost(
    result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]
) -> Cost:
    return Cost(bytes_accessed=2 * result.nbytes + sum([x.nbytes for x in operands[1:2]]))


def _dynamic_update_slice_cost(
    result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]
) -> Cost:
    return Cost(bytes_accessed=2 * operands[1].nbytes + sum([x.nbytes for x in operands[2:3]]))


def _scatter_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    count = len(operands) // 2
    moved = 3 * sum([x.nbytes for x in operands[count + 1 :]]) + operands[count].nbytes
    return called[0].times(operands[count + 1].element_count) + Cost(bytes_accessed=moved)


OPERATIONS: Final = (
    OpDefinition(
        Opcode.SLICE,
        "elements start, start + stride, ... up to a limit in each dimension",
        attributes=Slice,
        infer=_infer_slice,
        cost=_slice_cost,
        declared=True,
        factors="movement.slices",
    ),
    OpDefinition(
        Opcode.DYNAMIC_SLICE,
        "a slice of fixed size at positions given by operands 1, 2, ...",
        arity=(1, UNLIMITED),
        attributes=DynamicSlice,
        infer=_infer_dynamic_slice,
        cost=_dynamic_slice_cost,
        declared=True,
        factors="indexing.dynamic_slice",
    ),
    OpDefinition(
        Opcode.DYNAMIC_UPDATE_SLICE,
        "operand 0 with a slice replaced by operand 1, at positions given by the others",
        arity=(2, UNLIMITED),
        infer=_infer_dynamic_update_slice,
        cost=_dynamic_update_slice_cost,
        declared=True,
        in_place=((0, ()),),
        factors="indexing.dynamic_update_slice",
    ),
    OpDefinition(
        Opcode.GATHER,
        "slices of operand 0 at the index vectors in operand 1",
        arity=(2, 2),
        attributes=Gather,
        infer=_infer_gather,
        cost=_dynamic_slice_cost,
        factors="indexing.gather",
    ),
    OpDefinition(
        Opcode.SCATTER,
        "the arrays with updates combined into windows at the index vectors",
        arity=(3, UNLIMITED),
        attributes=Scatter,
        calls=("to_apply",),
        infer=_infer_scatter,
        cost=_scatter_cost,
        factors="indexing.scatter",
    ),
    OpDefinition(
        Opcode.GET_DIMENSION_SIZE,
        "the actual size of a dimension",
        attributes=Dimensions,
        infer=_infer_get_dimension_size,
        cost=moves_all,
    ),
    OpDefinition(
        Opcode.SET_DIMENSION_SIZE,
        "the operand with the actual size of a dimension set by operand 1",
        arity=(2, 2),
        attributes=Dimensions,
        infer=_infer_set_dimension_size,
        cost=moves_all,
        in_place=((0, ()),),
    ),
)
