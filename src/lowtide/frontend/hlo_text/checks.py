"""Checks of XLA's parser besides the grammar; all others are the verifier's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_text.lexer import Lexer
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import ElementType
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED

Check = Callable[[Lexer, Instruction, int], None]


def check_instruction(lexer: Lexer, instruction: Instruction, start: int) -> None:
    """Fail at `start` where an instruction breaks a rule that belongs to the syntax."""
    check = _CHECKS.get(instruction.opcode)
    if check is not None:
        check(lexer, instruction, start)


def check_only_root(lexer: Lexer, root: Instruction | None, found: Instruction) -> None:
    """Fail at a ROOT in whose computation another one stands before it."""
    if root is not None:
        lexer.fail("one computation has only one ROOT", found.position)


def check_replication(lexer: Lexer, instruction: Instruction, start: int) -> None:
    """Fail where parameter_replication does not have an entry for each leaf of the shape."""
    found = len(instruction.annotations.parameter_replication)
    wanted = sum([1 for _ in instruction.shape.leaves()])
    if found and found != wanted:
        lexer.fail(f"parameter_replication has {found} entries, the shape {wanted} arrays", start)


def _check_reshape(lexer: Lexer, instruction: Instruction, start: int) -> None:
    shape, operand = instruction.shape, instruction.operands[0].shape
    if UNBOUNDED in shape.dimensions or UNBOUNDED in operand.dimensions:
        return
    if not shape.is_array or not operand.is_array:
        lexer.fail("reshape is for arrays", start)
    if shape.element_count != operand.element_count:
        lexer.fail(
            f"reshape of {operand} ({operand.element_count} elements) to {shape} "
            f"({shape.element_count} elements)",
            start,
        )


def _check_tuple(lexer: Lexer, instruction: Instruction, start: int) -> None:
    elements = instruction.shape.tuple_shapes
    if not instruction.shape.is_tuple or len(elements) != len(instruction.operands):
        count = len(instruction.operands)
        lexer.fail(f"a tuple of {count} operands cannot have shape {instruction.shape}", start)


def _check_conditional(lexer: Lexer, instruction: Instruction, start: int) -> None:
    if not instruction.operands:
        lexer.fail("conditional needs a predicate or a branch index", start)
    if not instruction.called_computations:
        lexer.fail("conditional needs at least one branch", start)
    shape = instruction.operands[0].shape
    if not shape.is_array or shape.dimensions:
        lexer.fail(f"the first operand of conditional must be a scalar, not {shape}", start)
    if shape.element_type not in (ElementType.PRED, ElementType.S32):
        lexer.fail(f"the first operand of conditional must be pred or s32, not {shape}", start)
    predicated = shape.element_type is ElementType.PRED
    branches = len(instruction.called_computations)
    if predicated and branches != 2:
        lexer.fail("a conditional on pred has a true and a false branch", start)
    if len(instruction.operands) != branches + 1:
        found = len(instruction.operands) - 1
        lexer.fail(f"conditional has {branches} branches, but {found} operands for them", start)


def _check_custom_call(lexer: Lexer, instruction: Instruction, start: int) -> None:
    layouts = instruction.attributes_as(ir.CustomCall).operand_layouts
    if layouts is None:
        return
    if len(layouts) != len(instruction.operands):
        wanted, found = len(instruction.operands), len(layouts)
        lexer.fail(f"expected {wanted} operand layout constraints, found {found}", start)
    for number, (layout, operand) in enumerate(zip(layouts, instruction.operands, strict=True)):
        if not layout.compatible(operand.shape):
            lexer.fail(
                f"operand layout constraint {number} is {layout}, the operand is {operand.shape}",
                start,
            )


def _check_infeed(lexer: Lexer, instruction: Instruction, start: int) -> None:
    if not instruction.shape.is_tuple or not instruction.shape.tuple_shapes:
        lexer.fail("infeed has a tuple shape that is not empty", start)


def _check_dynamic_reshape(lexer: Lexer, instruction: Instruction, start: int) -> None:
    if not instruction.operands:
        lexer.fail("dynamic-reshape needs at least one operand", start)


def _check_channel(lexer: Lexer, instruction: Instruction, start: int) -> None:
    operand = instruction.operands[0]
    if not isinstance(operand.attributes, ir.Channel):
        return
    wanted = operand.attributes.channel_id
    found = instruction.attributes_as(ir.Channel).channel_id
    if wanted != found:
        lexer.fail(f"{operand.name} is on channel {wanted}, this on channel {found}", start)


def _check_starts(lexer: Lexer, instruction: Instruction, start: int) -> None:
    """The start indices of a dynamic slice: one scalar per dimension, or all in one array."""
    first = 1 if instruction.opcode is Opcode.DYNAMIC_SLICE else 2
    operands = instruction.operands
    starts = operands[first:]
    if len(operands) > first and (
        len(starts) == operands[0].shape.rank or (len(starts) == 1 and starts[0].shape.rank == 1)
    ):
        return
    wanted = f"{first} operands and a start index for each dimension"
    lexer.fail(f"{instruction.opcode.value} takes {wanted}, found {len(operands)}", start)


def _check_scatter(lexer: Lexer, instruction: Instruction, start: int) -> None:
    if len(instruction.operands) % 2 == 0:
        count = len(instruction.operands)
        lexer.fail(f"scatter takes an odd number of operands, found {count}", start)


def _check_pairs(lexer: Lexer, instruction: Instruction, start: int) -> None:
    count = len(instruction.operands)
    if count % 2 or not count:
        lexer.fail(f"reduce takes inputs and as many initial values, found {count}", start)


def _check_global_ids(lexer: Lexer, instruction: Instruction, start: int) -> None:
    record = instruction.attributes_as(ir.Collective)
    if record.use_global_device_ids and record.channel_id is None:
        lexer.fail("use_global_device_ids=true needs a channel_id=", start)


def _check_permute(lexer: Lexer, instruction: Instruction, start: int) -> None:
    record = instruction.attributes_as(ir.CollectivePermute)
    if record.slice_sizes and len(instruction.operands) != 4:
        count = len(instruction.operands)
        lexer.fail(f"with slice_sizes= there are 4 operands, found {count}", start)


_CHECKS: Final[dict[Opcode, Check]] = {
    Opcode.RESHAPE: _check_reshape,
    Opcode.TUPLE: _check_tuple,
    Opcode.CONDITIONAL: _check_conditional,
    Opcode.CUSTOM_CALL: _check_custom_call,
    Opcode.INFEED: _check_infeed,
    Opcode.DYNAMIC_RESHAPE: _check_dynamic_reshape,
    Opcode.SEND_DONE: _check_channel,
    Opcode.RECV_DONE: _check_channel,
    Opcode.DYNAMIC_SLICE: _check_starts,
    Opcode.DYNAMIC_UPDATE_SLICE: _check_starts,
    Opcode.REDUCE: _check_pairs,
    Opcode.SCATTER: _check_scatter,
    Opcode.ALL_REDUCE: _check_global_ids,
    Opcode.ALL_REDUCE_START: _check_global_ids,
    Opcode.REDUCE_SCATTER: _check_global_ids,
    Opcode.COLLECTIVE_PERMUTE: _check_permute,
    Opcode.COLLECTIVE_PERMUTE_START: _check_permute,
}


def check_computation(lexer: Lexer, computation: Computation) -> None:
    """Fail where the parameters are not numbered 0, 1, ... each once."""
    for number, parameter in enumerate(computation.parameters):
        found = parameter.attributes_as(ir.Parameter).number
        if found == number:
            continue
        if found < number:
            lexer.fail(f"parameter number {found} stands twice", parameter.position)
        lexer.fail(
            f"parameter number {number} is missing, found {found} instead", parameter.position
        )
