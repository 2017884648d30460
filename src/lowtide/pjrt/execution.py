"""Calls of programs: buffers in, buffers out."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from ctypes import c_int, c_size_t, c_void_p
from sys import getrefcount
from typing import Any, Final

from lowtide.ir.literal import Array
from lowtide.pjrt.buffers import delete, happened, new_buffer, numbers
from lowtide.pjrt.errors import INVALID_ARGUMENT, PluginError
from lowtide.pjrt.handles import value_of
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.table import serves
from lowtide.pjrt.tokens import with_tokens, without_tokens


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
    arrays = _taken(program, given, donated)
    plain = without_tokens(arrays, program.tokens)
    results = executable(*plain, consume=bool(program.donated))
    leaves = with_tokens(results if program.is_tuple else (results,))
    device = value_of(arguments.execute_device) if arguments.execute_device else program.device
    to: Any = (c_void_p * len(leaves)).from_address(_pointer(arguments.output_lists))
    for i, (result, array) in enumerate(zip(program.results, leaves, strict=True)):
        to[i] = new_buffer(array, result.number, device, happened())
    if arguments.device_complete_events:
        done = c_void_p.from_address(arguments.device_complete_events)
        done.value = happened()


def _taken(program: PluginProgram, given: Sequence[int], donated: Sequence[int]) -> list[Array]:
    """The arrays of a call; donated ones are gone for all others from now on.

    So they are where the call fails, since they may be half overwritten then. What may be
    overwritten is copied where it is not donated this time, or where somebody else still reads it:
    a view that the user holds, or a call in another thread.
    """
    buffers = [value_of(x) for x in given]
    arrays = [x.alive() for x in buffers]
    for i in donated:
        delete(given[i])
    for i in program.donated:
        if i not in donated or getrefcount(arrays[i]) > _ALONE:
            arrays[i] = arrays[i].copy()
    return arrays


_ALONE: Final = 2
"""References to an array that only a list has: the list's, and that of who counts."""


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
