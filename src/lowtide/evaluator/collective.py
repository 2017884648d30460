"""Collective operations, seen from one device: replica 0, partition 0, or one of several.

Of several devices, `device_groups` exchanges their values. Alone, a collective whose group holds
that device only passes its operands on, and one over several devices raises UnsupportedOpError,
since the values of the other devices are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from lowtide.evaluator.device_groups import device_number_of
from lowtide.evaluator.values import Value, Values, as_array, as_tuple, zeros
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.errors import unsupported
from lowtide.ir.opcode import OVER_PARTITIONS, Opcode
from lowtide.ir.replica_groups import device_count

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction
    from lowtide.ir.shape import Shape


def group_size(instruction: Instruction) -> int:
    """Return how many devices exchange values with device 0, itself included; 0 if it is in none.

    Without a channel the groups hold replicas, with one also partitions, or partitions alone.
    """
    attributes = instruction.attributes_as(Collective)
    module = instruction.parent.module
    replicas, partitions = module.replica_count, module.num_partitions
    if attributes.channel_id is None:
        everyone, each = replicas, 1
    elif instruction.opcode in OVER_PARTITIONS:
        everyone, each = partitions, 1
    elif attributes.use_global_device_ids:
        everyone, each = replicas * partitions, 1
    else:
        everyone, each = replicas * partitions, partitions
    if not device_count(attributes.replica_groups):
        return everyone
    groups = attributes.replica_groups.as_lists()
    return sum([len(group) * each for group in groups if 0 in group])


def _refuse(instruction: Instruction, devices: str) -> NoReturn:
    reason = (
        "the evaluator runs one device here, and only collectives in which it is alone; of a "
        "module that says how many devices there are `lowtide run --reference` runs all"
    )
    raise unsupported(instruction, f"takes {devices}; {reason}")


def _require_alone(instruction: Instruction) -> None:
    size = group_size(instruction)
    if size != 1:
        _refuse(instruction, f"{size} devices" if size else "groups without device 0")


# -- whole collectives -------------------------------------------------------------------------


def exchange(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operands: one device's values reduced, gathered, scattered or split."""
    return _exchanged(interpreter, instruction, instruction.shape, operands)


def _exchanged(
    interpreter: Interpreter, instruction: Instruction, shape: Shape, operands: Values
) -> Value:
    if interpreter.device is not None:
        received = interpreter.device.collective(instruction, operands)
        return tuple(received) if shape.is_tuple else received[0]
    _require_alone(instruction)
    return _as_result(instruction, shape, operands)


def _as_result(instruction: Instruction, shape: Shape, operands: Values) -> Value:
    """Return the operands in the form of `shape`: a tuple, or the one of them."""
    result = tuple(operands) if shape.is_tuple else operands[0]
    arrays = result if isinstance(result, tuple) else (result,)
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    for array, expected in zip(arrays, shapes, strict=True):
        if as_array(array).shape != expected.dimensions and not expected.is_dynamic:
            _refuse(instruction, f"several devices (by its shape, {shape})")
    return result


def all_gather_start(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (operands, results), where a single operand and result stand for themselves."""
    result = _exchanged(interpreter, instruction, instruction.shape.tuple_shapes[1], operands)
    sent = tuple(operands) if instruction.shape.tuple_shapes[0].is_tuple else operands[0]
    return (sent, result)


def pass_on(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operand: what an all-reduce starts with is its result."""
    return operands[0]


def second_element(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the result which the start put after its operands."""
    return as_tuple(operands[0])[1]


# -- collective-permute ------------------------------------------------------------------------


def permute(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return what device 0 receives: its own operands, or zeros where no pair ends there."""
    return _received(interpreter, instruction, instruction.shape, operands)


def permute_start(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (operands, results, contexts...), where the contexts are zeros."""
    shapes = instruction.shape.tuple_shapes
    sent = tuple(operands) if shapes[0].is_tuple else operands[0]
    received = _received(interpreter, instruction, shapes[1], operands)
    return (sent, received, *[zeros(shape) for shape in shapes[2:]])


def _received(
    interpreter: Interpreter, instruction: Instruction, shape: Shape, operands: Values
) -> Value:
    attributes = instruction.attributes_as(CollectivePermute)
    if attributes.slice_sizes:
        raise unsupported(instruction, "the form with slice_sizes is not evaluated; the plain is")
    if interpreter.device is not None:
        received = interpreter.device.permute(instruction, operands)
        return tuple(received) if shape.is_tuple else received[0]
    sources = [source for source, target in attributes.source_target_pairs if target == 0]
    if any(sources):
        _refuse(instruction, f"several devices (0 receives from {sources[0]})")
    own = _as_result(instruction, shape, operands)
    return own if sources else zeros(shape)


# -- ragged all-to-all -------------------------------------------------------------------------


def ragged_all_to_all(
    interpreter: Interpreter, instruction: Instruction, operands: Values
) -> Value:
    """Return operand 1 with slices of operand 0 written over it, along the major dimension.

    Slice `i` has `send_sizes[i]` rows; it starts at `input_offsets[i]` in the input, and at
    `output_offsets[i]` in the output. Of several devices, slice `i` goes to the one at place `i` of
    the group, or `i` by the number of slices for each.
    """
    if interpreter.device is not None:
        return interpreter.device.collective(instruction, operands)[0]
    _require_alone(instruction)
    source, output, starts, sizes, places, _ = (as_array(x) for x in operands)
    result = output.copy()
    slices = zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True)
    for start, size, place in slices:
        result[place : place + size] = source[start : start + size]
    return result


# -- identity of the device, and the host ------------------------------------------------------


def device_number(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the number of the replica or partition that runs; 0 of the only one."""
    if interpreter.device is not None:
        return device_number_of(interpreter.device, instruction)
    return zeros(instruction.shape)


def host_transfer(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Raise UnsupportedOpError: there is no host program that sends or receives."""
    reason = "no host program runs beside the evaluator; pass such values as parameters"
    raise unsupported(instruction, reason)


HANDLERS: Final[dict[Opcode, Handler]] = {
    Opcode.ALL_GATHER: exchange,
    Opcode.ALL_GATHER_DONE: second_element,
    Opcode.ALL_GATHER_START: all_gather_start,
    Opcode.ALL_REDUCE: exchange,
    Opcode.ALL_REDUCE_DONE: pass_on,
    Opcode.ALL_REDUCE_START: exchange,
    Opcode.ALL_TO_ALL: exchange,
    Opcode.COLLECTIVE_BROADCAST: exchange,
    Opcode.COLLECTIVE_PERMUTE: permute,
    Opcode.COLLECTIVE_PERMUTE_DONE: second_element,
    Opcode.COLLECTIVE_PERMUTE_START: permute_start,
    Opcode.INFEED: host_transfer,
    Opcode.OUTFEED: host_transfer,
    Opcode.PARTITION_ID: device_number,
    Opcode.RAGGED_ALL_TO_ALL: ragged_all_to_all,
    Opcode.RECV: host_transfer,
    Opcode.RECV_DONE: host_transfer,
    Opcode.REDUCE_SCATTER: exchange,
    Opcode.REPLICA_ID: device_number,
    Opcode.SEND: host_transfer,
    Opcode.SEND_DONE: host_transfer,
}
