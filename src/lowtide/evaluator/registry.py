"""The table of handlers: one function per opcode, gathered from the files of the families.

Each family file exports `HANDLERS`, a dictionary from opcodes to handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.evaluator.values import Value
from lowtide.ir.opcode import Opcode

if TYPE_CHECKING:
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.ir.instruction import Instruction

Handler: TypeAlias = Callable[["Interpreter", "Instruction", Sequence[Value]], Value]
"""Computes the value of an instruction from the values of its operands."""

FAMILIES: Final = (
    "batch_norm",
    "collective",
    "contraction",
    "control_flow",
    "convolution",
    "custom_call",
    "data_movement",
    "elementwise",
    "indexing",
    "linear_algebra",
    "random",
    "reduction",
    "scan",
    "sorting",
    "structure",
    "windows",
)
"""The modules of `lowtide.evaluator` that export `HANDLERS`."""


@cache
def handlers() -> dict[Opcode, Handler]:
    """Return the handler of each opcode; raises ValueError where two families claim one."""
    table: dict[Opcode, Handler] = {}
    for family in FAMILIES:
        found: dict[Opcode, Handler] = import_module(f"lowtide.evaluator.{family}").HANDLERS
        repeated = table.keys() & found.keys()
        if repeated:
            names = ", ".join(sorted([opcode.value for opcode in repeated]))
            raise ValueError(f"{family}: {names} already has a handler")
        table.update(found)
    return table
