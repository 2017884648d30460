"""Calls of programs: buffers in, buffers out."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from ctypes import c_int, c_size_t, c_void_p
from typing import Any

from lowtide.ir.literal import Array
from lowtide.pjrt.buffers import delete, happened, new_buffer, numbers
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import value_of
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.table import serves


class _ExecuteOptions(ctypes.Structure):
    """Options of a call, as far as they are read."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("send_callbacks", c_void_p),
        ("recv_callbacks", c_void_p),
        ("num_send_ops", c_size_t),
        ("num_recv_ops", c_size_t),
        ("launch_id", c_int),
        ("kept", c_void_p),
        ("kept_count", c_size_t),
    )


@serves(
    "LoadedExecutable_Execute",
    executable=c_void_p,
    options=c_void_p,
    argument_lists=c_void_p,
    num_devices=c_size_t,
    num_args=c_size_t,
    output_lists=c_void_p,
    device_complete_events=c_void_p,
    execute_device=c_void_p,
)
def _execute(arguments: Any) -> None:
    program: PluginProgram = value_of(arguments.executable)
    executable = program.alive()
    count = arguments.num_args
    if count != program.argument_count:
        found = f"{count} arguments, {program.name} takes {program.argument_count}"
        raise PluginError(INVALID_ARGUMENT, found)
    given = list((c_void_p * count).from_address(_pointer(arguments.argument_lists)))
    donated = _donated(program, given, arguments.options)
    arrays = [value_of(x).alive() for x in given]
    if program.donated and not donated:
        arrays = [x.copy() if i in program.donated else x for i, x in enumerate(arrays)]
    results = executable(*arrays, consume=bool(program.donated))
    for i in donated:
        delete(given[i])
    leaves: Sequence[Array] = results if program.is_tuple else (results,)
    device = value_of(arguments.execute_device) if arguments.execute_device else program.device
    to: Any = (c_void_p * len(leaves)).from_address(_pointer(arguments.output_lists))
    for i, (result, array) in enumerate(zip(program.results, leaves, strict=True)):
        to[i] = new_buffer(array, result.number, device, happened())
    if arguments.device_complete_events:
        done = c_void_p.from_address(arguments.device_complete_events)
        done.value = happened()


def _donated(program: PluginProgram, given: Sequence[int], options: int | None) -> list[int]:
    """The arguments that this call may overwrite; raises PluginError for one given twice."""
    if not program.donated:
        return []
    kept: list[int] = []
    if options:
        found = _ExecuteOptions.from_address(options)
        kept = numbers(found.kept, found.kept_count)
    donated = [i for i in program.donated if i not in kept]
    times = Counter(given)
    for i in donated:
        if times[given[i]] > 1:
            raise PluginError(
                INVALID_ARGUMENT,
                f"argument {i} of {program.name} is donated and given once more in the same call: "
                "give a copy, or do not donate it",
            )
    return donated


def _pointer(address: int) -> int:
    """The pointer at an address."""
    found = c_void_p.from_address(address).value
    return found or 0
