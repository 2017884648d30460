"""Gather and scatter in one form: index vectors last, and no batching dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.attributes import Gather, Scatter
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expand, expander
from lowtide.transforms.simplify.support import Made


def normalize_indices(module: Module) -> int:
    """Bring gathers and scatters into one form; return the number of changes.

    Index vectors lie along the last dimension of the indices, which is spelled out where they have
    one element. In place of a batching dimension the vectors get its number as an element more.
    """
    return expand(module, (*RULES, *_BATCHING))


@expander(Opcode.GATHER)
def gather_by_last(x: Instruction, at: Rewriter) -> Made:
    """gather(x, i) => gather(x, transpose(i)), with index vectors along the last dimension"""
    numbers = x.attributes_as(Gather)
    operand, indices = x.operands
    vector = numbers.index_vector_dim
    if vector == indices.shape.rank - 1:
        return None
    made = _vectors_last(at, indices, vector)
    normal = replace(
        numbers,
        index_vector_dim=made.rank - 1,
        start_indices_batching_dims=_moved(numbers.start_indices_batching_dims, vector),
    )
    return at.build.emit(Opcode.GATHER, [at(operand), made], normal, shape=x.shape)


@expander(Opcode.SCATTER)
def scatter_by_last(x: Instruction, at: Rewriter) -> Made:
    """scatter(x, i, u) => scatter(x, transpose(i), u), with vectors along the last dimension"""
    numbers = x.attributes_as(Scatter)
    indices = x.operands[len(x.operands) // 2]
    vector = numbers.index_vector_dim
    if vector == indices.shape.rank - 1:
        return None
    made = _vectors_last(at, indices, vector)
    normal = replace(
        numbers,
        index_vector_dim=made.rank - 1,
        scatter_indices_batching_dims=_moved(numbers.scatter_indices_batching_dims, vector),
    )
    return _scattered(at, x, made, normal)


@expander(Opcode.GATHER)
def gather_without_batching(x: Instruction, at: Rewriter) -> Made:
    """gather(x, i) => gather(x, concatenate(i, iota)), without batching dimensions"""
    numbers = x.attributes_as(Gather)
    operand, indices = x.operands
    batching = numbers.operand_batching_dims
    if not batching or set(batching) & set(numbers.start_index_map):
        return None  # An index vector would name one dimension twice.
    if numbers.index_vector_dim != indices.shape.rank - 1:
        return None
    normal = replace(
        numbers,
        collapsed_slice_dims=tuple(sorted((*numbers.collapsed_slice_dims, *batching))),
        start_index_map=(*numbers.start_index_map, *batching),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        indices_are_sorted=False,
    )
    made = _with_places(at, indices, numbers.start_indices_batching_dims)
    return at.build.emit(Opcode.GATHER, [at(operand), made], normal, shape=x.shape)


@expander(Opcode.SCATTER)
def scatter_without_batching(x: Instruction, at: Rewriter) -> Made:
    """scatter(x, i, u) => scatter(x, concatenate(i, iota), u), without batching dimensions"""
    numbers = x.attributes_as(Scatter)
    indices = x.operands[len(x.operands) // 2]
    batching = numbers.input_batching_dims
    if not batching or set(batching) & set(numbers.scatter_dims_to_operand_dims):
        return None
    if numbers.index_vector_dim != indices.shape.rank - 1:
        return None
    normal = replace(
        numbers,
        inserted_window_dims=tuple(sorted((*numbers.inserted_window_dims, *batching))),
        scatter_dims_to_operand_dims=(*numbers.scatter_dims_to_operand_dims, *batching),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        indices_are_sorted=False,
    )
    made = _with_places(at, indices, numbers.scatter_indices_batching_dims)
    return _scattered(at, x, made, normal)


def _scattered(at: Rewriter, x: Instruction, indices: Op, numbers: Scatter) -> Op:
    operands = [at(y) for y in x.operands]
    operands[len(operands) // 2] = indices
    called = [SubComputation(y) for y in x.called_computations]
    return at.build.emit(Opcode.SCATTER, operands, numbers, called, shape=x.shape)


def _vectors_last(at: Rewriter, indices: Instruction, vector: int) -> Op:
    made = at(indices)
    if vector == made.rank:
        return at.build.reshape(made, (*made.dimensions, 1))
    others = [i for i in range(made.rank) if i != vector]
    return at.build.transpose(made, [*others, vector])


def _moved(dimensions: tuple[int, ...], vector: int) -> tuple[int, ...]:
    """The numbers of dimensions once that of the vectors has gone from among them."""
    return tuple([i if i < vector else i - 1 for i in dimensions])


def _with_places(at: Rewriter, indices: Instruction, batching: tuple[int, ...]) -> Op:
    """The index vectors, each with its place in the batching dimensions behind."""
    made = at(indices)
    if made.element_type.bits < ElementType.S32.bits:
        made = at.build.convert(made, ElementType.S32)
    shape = array_shape(made.element_type, (*made.dimensions[:-1], 1))
    places = [at.build.iota(shape, i) for i in batching]
    return at.build.concatenate([made, *places], made.rank - 1)


RULES: Final = (gather_by_last, scatter_by_last)
"""What brings index vectors to the end. Batching dimensions stay: along them a scatter may run in
parallel, and the indices stay as short as they are."""

_BATCHING: Final = (gather_without_batching, scatter_without_batching)

PASSES: Final = (
    Pass(
        "normalize-indices",
        normalize_indices,
        "Brings gathers and scatters into one form, with index vectors last and no batching.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  i = s32[3] parameter(1)
- ROOT y = f32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
-   index_vector_dim=1, slice_sizes={1}
+ reshape = s32[3,1] reshape(i)
+ ROOT gather = f32[3] gather(x, reshape), offset_dims={}, collapsed_slice_dims={0},
+   start_index_map={0}, index_vector_dim=1, slice_sizes={1}
}
"""
        ),
    ),
)
