"""Answers about compiled programs: types, memories, layouts, devices, their HLO."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_size_t, c_void_p
from typing import Any, Final

from lowtide.client.executable.executable import Executable
from lowtide.pjrt.getters import (
    COUNTED,
    COUNTED_PAIR,
    FLAG,
    HELD_TEXT,
    LIST,
    POINTER,
    SIZE,
    TEXT,
    WIDE_NUMBER,
    reads,
)
from lowtide.pjrt.handles import handle, kept_text, put_text, value_of
from lowtide.pjrt.native_code import immortal
from lowtide.pjrt.programs import PluginProgram, ProgramCode
from lowtide.pjrt.signatures import ArrayType
from lowtide.pjrt.table import address_of, extends, serves


def _kinds(program: PluginProgram, types: Sequence[ArrayType]) -> tuple[int, int, int]:
    """How many types there are, and the addresses of their kinds of memory and of the lengths."""
    kinds = [x.memory.encode() for x in types]
    lists = program.lists
    return len(kinds), lists.of(c_char_p, kinds), lists.of(c_size_t, [len(x) for x in kinds])


keep: Final = immortal(ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None))
"""A function of C that frees nothing, for what stays."""

KEEP: Final = ctypes.cast(keep, c_void_p).value


def held(text: bytes) -> tuple[int, int, None, int | None]:
    """Return a text that stays as what C++ frees when it has read it."""
    return *kept_text(text), None, KEEP


def generated_bytes(program: PluginProgram) -> int:
    """Return the bytes of machine code of a program, for a card those of its text."""
    executable = program.alive()
    if not isinstance(executable, Executable):
        return executable.code_bytes
    return sum([len(x) for x in executable.program.objects])


reads("LoadedExecutable_GetExecutable", POINTER, lambda x: (handle(x, x.cell()),))
reads("LoadedExecutable_IsDeleted", FLAG, lambda x: (x.executable is None,))
reads("LoadedExecutable_AddressableDevices", LIST, lambda x: (x.devices_at, len(x.devices)))
reads("LoadedExecutable_GetDeviceAssignment", HELD_TEXT, lambda x: held(x.options.assignment))

reads("Executable_Name", TEXT, lambda x: kept_text(x.name))
reads("Executable_NumOutputs", SIZE, lambda x: (len(x.results),))
reads("Executable_OutputElementTypes", LIST, lambda x: (x.types_at, len(x.results)))
reads("Executable_OutputDimensions", COUNTED_PAIR, lambda x: (len(x.results), *x.sizes_at))
reads("Executable_OutputMemoryKinds", COUNTED_PAIR, lambda x: _kinds(x, x.results))
reads("Executable_ParameterMemoryKinds", COUNTED_PAIR, lambda x: _kinds(x, x.arguments))
reads("Executable_SizeOfGeneratedCodeInBytes", WIDE_NUMBER, lambda x: (generated_bytes(x),))
reads("Executable_GetCompileOptions", HELD_TEXT, lambda x: held(x.options.serialized))
reads(
    "Layouts_Executable_GetOutputLayouts", COUNTED, lambda x: (len(x.results), x.result_layouts_at)
)
reads(
    "Layouts_Executable_GetParameterLayouts",
    COUNTED,
    lambda x: (len(x.arguments), x.argument_layouts_at),
)


def _shardings(program: PluginProgram, side: int) -> tuple[int, int | None, int]:
    """How many shardings there are of arguments (0) or results (1), where they are, their lengths.

    A program that divides nothing has none.
    """
    if program.shardings is None:
        return len((program.arguments, program.results)[side]), None, 0
    found, lists = program.shardings[side], program.lists
    lengths = lists.of(c_size_t, [len(x) for x in found])
    return len(found), lists.of(c_char_p, found) if found else None, lengths


reads("Executable_ParameterShardings", COUNTED_PAIR, lambda x: _shardings(x, 0))
reads("Executable_OutputShardings", COUNTED_PAIR, lambda x: _shardings(x, 1))

_SHARDINGS_EXTENSION: Final = 19
"""The number of the extension of PJRT that tells shardings."""


@extends
def shardings_extension() -> tuple[int, list[int]]:
    """Return the number of the extension and the addresses of its functions, in its order."""
    names = ("Executable_ParameterShardings", "Executable_OutputShardings")
    return _SHARDINGS_EXTENSION, [address_of(x) for x in names]


@serves("LoadedExecutable_Delete", executable=c_void_p)
def _delete(arguments: Any) -> None:
    value_of(arguments.executable).executable = None


@serves("Executable_OptimizedProgram", executable=c_void_p, program=c_void_p)
def _optimized(arguments: Any) -> None:
    """Asked twice: for the size, and with room for as much."""
    proto = value_of(arguments.executable).proto
    program = ProgramCode.from_address(arguments.program)
    program.code_size = len(proto)
    put_text(program, "format", "hlo_with_config")
    if program.code:
        ctypes.memmove(program.code, proto, len(proto))
