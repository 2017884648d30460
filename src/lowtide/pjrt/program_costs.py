"""Costs of programs: operations and bytes, and the memory of their plans."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final

from lowtide.pjrt.getters import COUNTED, reads
from lowtide.pjrt.handles import kept_text, value_of
from lowtide.pjrt.program_answers import generated_bytes
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.table import serves

_FLOAT: Final = 3
"""The kind of a named value that is a number of 32 bits."""


class _NamedNumber(ctypes.Structure):
    """A name and a number, which takes the first bytes of a union."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension_start", c_void_p),
        ("name", c_void_p),
        ("name_size", c_size_t),
        ("kind", c_int),
        ("nothing", c_int),
        ("value", c_float),
        ("rest", c_float),
        ("value_size", c_size_t),
    )


def _costs(program: PluginProgram) -> tuple[int, int]:
    """The names are XLA's."""
    from lowtide.ops.cost import module_cost  # Most programs are never asked.

    cost = module_cost(program.alive().module)
    found = {
        "flops": cost.flops,
        "transcendentals": cost.transcendentals,
        "bytes accessed": cost.bytes_accessed,
    }
    rows = []
    for name, value in found.items():
        if value or name == "flops":
            rows.append(_NamedNumber(56, None, *kept_text(name), _FLOAT, 0, value, 0, 1))
    return len(rows), program.lists.of(_NamedNumber, rows)


reads("Executable_GetCostAnalysis", COUNTED, _costs)


@serves(
    "Executable_GetCompiledMemoryStats",
    executable=c_void_p,
    generated_code=c_int64,
    argument=c_int64,
    output=c_int64,
    alias=c_int64,
    temp=c_int64,
    host_generated_code=c_int64,
    host_argument=c_int64,
    host_output=c_int64,
    host_alias=c_int64,
    host_temp=c_int64,
    peak=c_int64,
    total=c_int64,
)
def _memory(arguments: Any) -> None:
    program = value_of(arguments.executable)
    memory = program.alive().memory
    whole = memory["argument_bytes"] + memory["ladder"]["arena_bytes"]
    found = {
        "generated_code": generated_bytes(program),
        "argument": memory["argument_bytes"],
        "output": memory["output_bytes"],
        "alias": memory["alias_bytes"],
        "temp": memory["temp_bytes"],
        "peak": whole,
        "total": whole,
    }
    structure = type(arguments)
    for name, kind in structure._fields_:
        end = getattr(structure, name).offset + 8
        if kind is c_int64 and end <= arguments.struct_size:
            setattr(arguments, name, found.get(name, 0))
