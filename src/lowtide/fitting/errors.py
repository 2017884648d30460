"""Errors of programs at other sizes."""

from __future__ import annotations

from lowtide.ir import Instruction, LowtideError


class SpecializedError(LowtideError):
    """A program that cannot be had at a size; `x` is the instruction that stands in the way."""

    def __init__(self, reason: str, x: Instruction | None) -> None:
        where = ""
        if x is not None:
            source = x.source
            line = f" ({source.file}:{source.line})" if source is not None and source.file else ""
            where = f"{x.opcode.value} %{x.name}{line}: "
        super().__init__(f"{where}{reason}")
        self.instruction = x


class DimensionError(LowtideError):
    """A dimension that a program does not have, or that cannot be told from others."""
