"""Custom calls that can be computed here: markers, placements, buffers, top-k, LAPACK.

`CUSTOM_CALL_TARGETS` lists them; a call of any other target raises UnsupportedOpError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lowtide.evaluator import lapack, lapack_spectra
from lowtide.evaluator.sorting import largest
from lowtide.evaluator.values import (
    TOKEN,
    Token,
    Value,
    Values,
    as_array,
    from_leaves,
    value_leaves,
    zeros,
)
from lowtide.host_calls.calls import called_on_arrays
from lowtide.host_calls.instructions import host_call_of
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import unsupported
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode
from lowtide.ir.thunk import HostCall
from lowtide.ops.custom_call import ANNOTATING_TARGETS

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.registry import Handler
    from lowtide.ir.instruction import Instruction


def custom_call(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return what the target computes; raises UnsupportedOpError for an unknown target."""
    target = instruction.attributes_as(CustomCall).target
    handler = CUSTOM_CALL_TARGETS.get(target)
    call = host_call_of(instruction) if handler is None else None
    if call is not None:
        return _called_here(instruction, call, operands)
    if handler is None:
        reason = f'no target "{target}" is known; `lowtide ops` lists those that are'
        raise unsupported(instruction, reason)
    return handler(interpreter, instruction, operands)


def _called_here(instruction: Instruction, call: HostCall, operands: Values) -> Value:
    """Return what a function of this process returns."""
    given = [x for y in operands for x in value_leaves(y) if not isinstance(x, Token)]
    found = iter(called_on_arrays(call, [as_array(x) for x in given]))
    leaves = [next(found) if x.is_array else TOKEN for x in call.results]
    return from_leaves(instruction.shape, leaves)


def identity(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the operands: the call only says where or how a value should lie.

    Raises UnsupportedOpError where the result has another shape, as a shard of an array has.
    """
    shape = instruction.shape
    if shape.is_tuple and not shape.tuple_shapes:
        return ()
    is_same = len(operands) == 1 and shape.is_tuple == instruction.operands[0].shape.is_tuple
    result = operands[0] if is_same else tuple(operands)
    _require_shape(instruction, result)
    return result


def _require_shape(instruction: Instruction, result: Value) -> None:
    found = [x.shape if isinstance(x, np.ndarray) else () for x in value_leaves(result)]
    wanted = [
        (leaf.tuple_shapes[0] if leaf.is_buffer else leaf) for _, leaf in instruction.shape.leaves()
    ]
    if instruction.shape.is_dynamic or found == [leaf.dimensions for leaf in wanted]:
        return
    target = instruction.attributes_as(CustomCall).target
    reason = f"{target} changes the shape to {instruction.shape}: it runs on several devices"
    raise unsupported(instruction, reason)


def host_execute(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the result of the called computation, which XLA would run on the host."""
    if not instruction.called_computations:
        raise unsupported(instruction, "the call names no computation to run")
    return interpreter.run(instruction.called_computations[0], operands)


def new_buffer(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return zeros: the contents of a new buffer are not specified."""
    shape = instruction.shape
    return zeros(shape.tuple_shapes[0] if shape.is_buffer else shape)


def pad_to_static(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return the array padded with zeros to its bounds, and its size in each dimension."""
    operand = as_array(operands[0])
    bound, *size_shapes = instruction.shape.tuple_shapes
    padding = [(0, n - m) for n, m in zip(bound.dimensions, operand.shape, strict=True)]
    sizes = [
        np.array(n, DTYPES[shape.element_type])
        for n, shape in zip(operand.shape, size_shapes, strict=True)
    ]
    return (np.pad(operand, padding), *sizes)


def slice_to_dynamic(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return operand 0 cut to the sizes which the other operands give."""
    sizes = [int(as_array(x)) for x in operands[1:]]
    return as_array(operands[0])[tuple([slice(n) for n in sizes])]


def read_only(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return an empty tuple: the call only keeps its operands alive."""
    return ()


def top_k(interpreter: Interpreter, instruction: Instruction, operands: Values) -> Value:
    """Return (values, places) of the greatest elements of each row; the result's shape says k."""
    shapes = instruction.shape.tuple_shapes
    values, places = largest(as_array(operands[0]), shapes[0].dimensions[-1])
    return (values, places.astype(DTYPES[shapes[1].element_type]))


CUSTOM_CALL_TARGETS: Final[dict[str, Handler]] = {
    **dict.fromkeys(sorted(ANNOTATING_TARGETS), identity),
    "AllocateBuffer": new_buffer,
    "CreateBuffer": new_buffer,
    "Eigh": lapack_spectra.eigh,
    "HostExecute": host_execute,
    "PadToStatic": pad_to_static,
    "ProductOfElementaryHouseholderReflectors": lapack.orgqr,
    "Qr": lapack.geqrf,
    "SetBound": identity,
    "SliceToDynamic": slice_to_dynamic,
    "TopK": top_k,
    "dce_sink": read_only,
    **lapack.TARGETS,
    **lapack_spectra.TARGETS,
}
"""What computes each supported target, by its name."""

HANDLERS: Final[dict[Opcode, Handler]] = {Opcode.CUSTOM_CALL: custom_call}
