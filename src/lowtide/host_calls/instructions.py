"""From an instruction that a function of this process runs to the call that it is."""

from __future__ import annotations

from lowtide.host_calls.foreign.targets import target_named
from lowtide.host_calls.functions import TARGET
from lowtide.host_calls.random_counter import COUNTER
from lowtide.ir.attributes import Aliasing, CustomCall, RngGetAndUpdateState
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.thunk import HostCall


def is_python_call(instruction: Instruction) -> bool:
    """Whether an instruction calls a Python function."""
    return (
        instruction.opcode is Opcode.CUSTOM_CALL
        and instruction.attributes_as(CustomCall).target == TARGET
    )


def is_foreign_call(instruction: Instruction) -> bool:
    """Whether an instruction calls a registered foreign function, which wants its own layouts."""
    return (
        instruction.opcode is Opcode.CUSTOM_CALL
        and target_named(instruction.attributes_as(CustomCall).target) is not None
    )


def host_call_of(instruction: Instruction) -> HostCall | None:
    """Return what an instruction asks for where a function of this process runs it, else None.

    It is a custom call, or one that draws random numbers. Raises UnsupportedOpError for a Python
    function that is not in this process, and for a foreign one that cannot be called.
    """
    if instruction.opcode is not Opcode.CUSTOM_CALL:
        return counter_call_of(instruction)
    call = _described(instruction)
    if call.target != TARGET and target_named(call.target) is None:
        return None
    from lowtide.host_calls.calls import runner  # Most programs call none.

    try:
        runner(call)
    except UnsupportedOpError as error:
        raise unsupported(instruction, str(error)) from None
    return call


def counter_call_of(instruction: Instruction) -> HostCall | None:
    """Return the call that an instruction is where it reads and moves the counter, else None."""
    if instruction.opcode is not Opcode.RNG_GET_AND_UPDATE_STATE:
        return None
    delta = instruction.attributes_as(RngGetAndUpdateState).delta
    results = (instruction.shape,)
    return HostCall(COUNTER, "", str(delta), (), results, is_tuple=False, has_side_effect=True)


def _described(instruction: Instruction) -> HostCall:
    attributes = instruction.attributes_as(CustomCall)
    shape = instruction.shape
    return HostCall(
        attributes.target,
        attributes.api_version,
        instruction.annotations.backend_config,
        tuple([leaf for x in instruction.operands for _, leaf in x.shape.leaves()]),
        tuple([leaf for _, leaf in shape.leaves()]),
        shape.is_tuple,
        attributes.has_side_effect,
        tuple([_aliased(instruction, x) for x in attributes.output_to_operand_aliasing]),
    )


def _aliased(instruction: Instruction, aliasing: Aliasing) -> tuple[int, int]:
    """The numbers of the operand's leaf and of the result's leaf that share memory."""
    operands = instruction.operands
    places = [(i, index) for i, x in enumerate(operands) for index, _ in x.shape.leaves()]
    results = [index for index, _ in instruction.shape.leaves()]
    operand = aliasing.operand, aliasing.operand_index
    return places.index(operand), results.index(aliasing.output_index)
