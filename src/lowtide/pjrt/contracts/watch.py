"""Watches: functions around those of the table, by which contracts are checked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from lowtide.pjrt.buffers import numbers
from lowtide.pjrt.contracts.arrays import ArrayFacts, facts_of, require_equal
from lowtide.pjrt.contracts.calls import (
    check_accepted,
    check_refusal,
    check_results,
    device_calls,
    drop_results,
    hold_arguments,
    release_arguments,
)
from lowtide.pjrt.contracts.findings import BrokenContractError, raise_noted, require
from lowtide.pjrt.contracts.programs import check_program
from lowtide.pjrt.devices import memory_at
from lowtide.pjrt.errors import PluginError
from lowtide.pjrt.handles import value_of
from lowtide.pjrt.layouts import order_at
from lowtide.pjrt.programs import ProgramCode
from lowtide.pjrt.table import watches

Call = Callable[[], None]


@watches("LoadedExecutable_Execute")
def _execute(arguments: Any, call: Call) -> None:
    raise_noted()
    calls = device_calls(arguments)
    hold_arguments(calls)
    try:
        call()
    except PluginError as error:
        release_arguments(calls)
        check_refusal(calls, error)
        raise
    try:
        check_accepted(calls)
        check_results(calls, arguments.output_lists)
        raise_noted()
    except BrokenContractError:
        release_arguments(calls)
        drop_results(calls, arguments.output_lists)
        raise


@watches("Client_Compile")
def _compile(arguments: Any, call: Call) -> None:
    raise_noted()
    call()
    program = ProgramCode.from_address(arguments.program)
    form = ctypes.string_at(program.format, program.format_size).decode()
    code = ctypes.string_at(program.code, program.code_size)
    check_program(value_of(arguments.executable), form, code)


@watches("Client_BufferFromHostBuffer")
def _from_host(arguments: Any, call: Call) -> None:
    """What was noted is not raised here: JAX answers an error by another try, and drops it."""
    sizes = tuple(numbers(arguments.dims, arguments.num_dims))
    place = memory_at(arguments.memory or arguments.device)
    order = order_at(arguments.layout, len(sizes))
    call()
    wanted = ArrayFacts(sizes, arguments.type, order, place.kind, place.device)
    require_equal(facts_of(arguments.buffer), wanted, "an array from the host")
    require(bool(arguments.done_with_host_buffer), "nothing says when the host's memory is free")


@watches("Buffer_CopyToDevice", "Buffer_CopyToMemory")
def _copy(arguments: Any, call: Call) -> None:
    raise_noted()
    source = facts_of(arguments.buffer)
    place = memory_at(arguments.place)
    call()
    require(arguments.copy != arguments.buffer, "the copy of an array is that array")
    wanted = ArrayFacts(source.sizes, source.number, source.order, place.kind, place.device)
    require_equal(facts_of(arguments.copy), wanted, "the copy of an array")


@watches("Buffer_ToHostBuffer")
def _to_host(arguments: Any, call: Call) -> None:
    raise_noted()
    asks = not arguments.dst
    call()
    if asks:
        nbytes = value_of(arguments.buffer).nbytes
        require(arguments.dst_size == nbytes, f"{arguments.dst_size} bytes are told of {nbytes}")
    else:
        require(bool(arguments.event), "nothing says when an array is on the host")
