"""From a custom call to the function of this process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from lowtide.host_calls.arrays import array_at, write_array
from lowtide.host_calls.foreign.targets import target_named
from lowtide.host_calls.functions import TARGET
from lowtide.host_calls.memory_calls import MEMORY_TARGET, memory_function
from lowtide.host_calls.python_calls import PythonCall
from lowtide.host_calls.random_counter import (
    COUNTER,
    CounterCall,
    RandomCounter,
    counter_call_of,
)
from lowtide.ir.attributes import Aliasing, CustomCall
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.instruction import Instruction
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import HostCall

Runner: TypeAlias = Callable[[int], None]
"""Makes a call, given the address of the addresses of operands and results."""


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
    try:
        runner(call)
    except UnsupportedOpError as error:
        raise unsupported(instruction, str(error)) from None
    return call


def runner(call: HostCall, counter: RandomCounter | None = None) -> Runner:
    """Return what makes a call, and keeps the function; raises UnsupportedOpError without one.

    `counter` is that of the program, for calls that draw random numbers.
    """
    if call.target == TARGET:
        return PythonCall(call).run
    if call.target == COUNTER:
        return CounterCall(call, counter or RandomCounter()).run
    if call.target == MEMORY_TARGET:
        return memory_function(call)
    target = target_named(call.target)
    if target is None:
        raise UnsupportedOpError(
            f'no foreign function is registered for the target "{call.target}": register it '
            "(jax.ffi.register_ffi_target) before the program is compiled or loaded"
        )
    is_typed = call.api_version == _TYPED
    if target.typed != is_typed:
        have, want = [_KINDS[x] for x in (target.typed, is_typed)]
        raise UnsupportedOpError(
            f'the function for the target "{call.target}" is {have}, the call is one of {want}'
        )
    from lowtide.host_calls.foreign.calls import PlainCall, TypedCall  # Most programs call none.

    return TypedCall(call, target).run if is_typed else PlainCall(call, target).run


_TYPED: Final = "API_VERSION_TYPED_FFI"
_KINDS: Final = {True: "a typed function", False: "a function without a call frame"}


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


def called_on_arrays(call: HostCall, operands: Sequence[Array]) -> list[Array]:
    """Return the arrays that a call returns for those that it takes; neither has tokens."""
    shapes = (*call.operands, *call.results)
    blocks = [np.empty(_nbytes(x) + 64, np.uint8) for x in shapes]
    addresses = [x.ctypes.data + -x.ctypes.data % 64 for x in blocks]
    for operand, result in call.aliases:
        addresses[len(call.operands) + result] = addresses[operand]
    given = iter(operands)
    for address, shape in zip(addresses, call.operands, strict=False):
        if shape.is_array:
            write_array(address, shape, next(given))
    words = np.array([*addresses, 0], np.uint64)
    runner(call)(words.ctypes.data)
    places = zip(addresses[len(call.operands) :], call.results, strict=True)
    return [array_at(address, shape) for address, shape in places if shape.is_array]


def _nbytes(shape: Shape) -> int:
    """The bytes of an array; a token has none."""
    if not shape.is_array:
        return 0
    return shape.element_count * DTYPES[shape.element_type].itemsize
