"""From a custom call to the function of this process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from lowtide.host_calls.arrays import array_at, write_array
from lowtide.host_calls.functions import TARGET, function_named
from lowtide.host_calls.python_calls import PythonCall
from lowtide.ir.attributes import CustomCall
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


def host_call_of(instruction: Instruction) -> HostCall | None:
    """Return what a custom call asks for where a function of this process runs it, else None.

    Raises UnsupportedOpError for a Python function that is not in this process.
    """
    call = _described(instruction)
    if call.target != TARGET:
        return None
    try:
        function_named(call.config)
    except UnsupportedOpError as error:
        raise unsupported(instruction, str(error)) from None
    return call


def runner(call: HostCall) -> Runner:
    """Return what makes a call, and keeps the function; raises UnsupportedOpError without one."""
    return PythonCall(call).run


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
    )


def called_on_arrays(call: HostCall, operands: Sequence[Array]) -> list[Array]:
    """Return the arrays that a call returns for those that it takes; neither has tokens."""
    shapes = (*call.operands, *call.results)
    blocks = [np.empty(_nbytes(x) + 64, np.uint8) for x in shapes]
    addresses = [x.ctypes.data + -x.ctypes.data % 64 for x in blocks]
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
