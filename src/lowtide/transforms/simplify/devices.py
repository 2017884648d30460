"""Facts known before the program runs: the number of a lone device, and static sizes."""

from __future__ import annotations

from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Collective
from lowtide.ir.replica_groups import device_count
from lowtide.passes.matching import dimensions, is_all, is_plain
from lowtide.passes.rewriting import Rewriter, rule
from lowtide.transforms.simplify.support import Made, scalar


@rule(Opcode.PARTITION_ID, Opcode.REPLICA_ID)
def number_of_lone_device(x: Instruction, at: Rewriter) -> Made:
    """partition-id() => 0 where there is one partition, and so for replicas"""
    module = x.parent.module
    count = module.num_partitions if x.opcode is Opcode.PARTITION_ID else module.replica_count
    return scalar(at, 0, ElementType.U32) if count == 1 else None


@rule(
    Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE,
    Opcode.ALL_TO_ALL,
    Opcode.COLLECTIVE_BROADCAST,
    Opcode.REDUCE_SCATTER,
)
def exchange_of_lone_replicas(x: Instruction, at: Rewriter) -> Made:
    """all-reduce(x) => x, where each group is one replica; and so for the other collectives

    Without a channel groups hold replicas. With one, partitions or other programs may take part.
    """
    if len(x.operands) != 1 or x.operands[0].shape is not x.shape:
        return None
    how = x.attributes_as(Collective)
    if how.channel_id is not None:
        return None
    if device_count(how.replica_groups):
        alone = all(len(group) == 1 for group in how.replica_groups.as_lists())
    else:
        alone = x.parent.module.replica_count == 1
    return x.operands[0] if alone else None


@rule(Opcode.GET_DIMENSION_SIZE)
def size_of_static_dimension(x: Instruction, at: Rewriter) -> Made:
    """get-dimension-size(x) => constant, where the sizes of x are static"""
    operand = x.operands[0].shape
    if not is_plain(operand):
        return None
    return scalar(at, operand.dimensions[dimensions(x)[0]], x.shape.element_type)


@rule(Opcode.SET_DIMENSION_SIZE)
def set_size_to_what_it_is(x: Instruction, at: Rewriter) -> Made:
    """set-dimension-size(x, n) => x, where all n elements are there and the result is static"""
    operand, size = x.operands
    if operand.shape is not x.shape or not is_plain(x.shape):
        return None
    return operand if is_all(size, x.shape.dimensions[dimensions(x)[0]]) else None
