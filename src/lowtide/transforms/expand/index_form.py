"""Gather and scatter in one form: index vectors last, and no batching dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.attributes import Gather, Scatter
from lowtide.passes.interface import Pass
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.expand.support import expand, expander
from lowtide.transforms.simplify.support import Made


def normalize_indices(module: Module) -> int:
    """Bring gathers and scatters into one form; return the number of changes.

    Index vectors lie along the last dimension of the indices, which is spelled out where they have
    one element. In place of a batching dimension the vectors get its number as an element more.
    """
    return expand(module, RULES)


@expander(Opcode.GATHER)
def normal_gather(x: Instruction, at: Rewriter) -> Made:
    """gather(x, i) => gather(x, concatenate(transpose(i), iota))"""
    numbers = x.attributes_as(Gather)
    operand, indices = x.operands
    batching = numbers.operand_batching_dims
    if set(batching) & set(numbers.start_index_map):
        return None  # An index vector would name one dimension twice.
    if _is_normal(indices, numbers.index_vector_dim, batching):
        return None
    made = _indices(at, indices, numbers.index_vector_dim, numbers.start_indices_batching_dims)
    normal = replace(
        numbers,
        collapsed_slice_dims=tuple(sorted((*numbers.collapsed_slice_dims, *batching))),
        start_index_map=(*numbers.start_index_map, *batching),
        index_vector_dim=made.rank - 1,
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        indices_are_sorted=numbers.indices_are_sorted and not batching,
    )
    return at.build.emit(Opcode.GATHER, [at(operand), made], normal, shape=x.shape)


@expander(Opcode.SCATTER)
def normal_scatter(x: Instruction, at: Rewriter) -> Made:
    """scatter(x, i, u) => scatter(x, concatenate(transpose(i), iota), u)"""
    numbers = x.attributes_as(Scatter)
    count = len(x.operands) // 2
    indices = x.operands[count]
    batching = numbers.input_batching_dims
    if set(batching) & set(numbers.scatter_dims_to_operand_dims):
        return None
    if _is_normal(indices, numbers.index_vector_dim, batching):
        return None
    made = _indices(at, indices, numbers.index_vector_dim, numbers.scatter_indices_batching_dims)
    normal = replace(
        numbers,
        inserted_window_dims=tuple(sorted((*numbers.inserted_window_dims, *batching))),
        scatter_dims_to_operand_dims=(*numbers.scatter_dims_to_operand_dims, *batching),
        index_vector_dim=made.rank - 1,
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        indices_are_sorted=numbers.indices_are_sorted and not batching,
    )
    operands = [at(y) for y in x.operands]
    operands[count] = made
    called = [SubComputation(y) for y in x.called_computations]
    return at.build.emit(Opcode.SCATTER, operands, normal, called, shape=x.shape)


def _is_normal(indices: Instruction, vector: int, batching: tuple[int, ...]) -> bool:
    return vector == indices.shape.rank - 1 and not batching


def _indices(at: Rewriter, indices: Instruction, vector: int, batching: tuple[int, ...]) -> Op:
    """The index vectors along the last dimension, each with its place in the batching ones."""
    made = at(indices)
    if vector == made.rank:
        made = at.build.reshape(made, (*made.dimensions, 1))
    elif vector != made.rank - 1:
        others = [i for i in range(made.rank) if i != vector]
        made = at.build.transpose(made, [*others, vector])
    if not batching:
        return made
    if made.element_type.bits < ElementType.S32.bits:
        made = at.build.convert(made, ElementType.S32)
    shape = array_shape(made.element_type, (*made.dimensions[:-1], 1))
    places = [at.build.iota(shape, i if i < vector else i - 1) for i in batching]
    return at.build.concatenate([made, *places], made.rank - 1)


RULES: Final = (normal_gather, normal_scatter)

PASSES: Final = (
    Pass(
        "normalize-indices",
        normalize_indices,
        "Brings gathers and scatters into one form, with index vectors last and no batching.",
        before="""
HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  i = s32[3] parameter(1)
  ROOT y = f32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1}
}
""",
        after="""
HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  i = s32[3] parameter(1)
  reshape = s32[3,1] reshape(i)
    ROOT gather = f32[3] gather(x, reshape), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1}
}
""",
    ),
)
