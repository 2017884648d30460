"""From a call to the function of this process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from lowtide.host_calls.foreign.targets import target_named
from lowtide.host_calls.functions import TARGET
from lowtide.host_calls.memory_calls import MEMORY_TARGET, array_at, memory_function, write_array
from lowtide.host_calls.python_calls import PythonCall
from lowtide.host_calls.random_counter import COUNTER, CounterCall, RandomCounter
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import HostCall

Runner: TypeAlias = Callable[[int], None]
"""Makes a call, given the address of the addresses of operands and results."""


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
