"""The C header of a planned model."""

from __future__ import annotations

import re

from lowtide.micro.planned import PlannedModel


def arena_header(name: str, made: PlannedModel) -> str:
    """Return a header with `kTensorArenaSize` and its parts, in bytes."""
    size = made.size
    guard = re.sub(r"\W", "_", name).upper()
    return "\n".join(
        [
            f"/* The tensor arena of {name}, in bytes; {size.source}, with 64-bit addresses. */",
            f"#ifndef LOWTIDE_{guard}_ARENA_H",
            f"#define LOWTIDE_{guard}_ARENA_H",
            "",
            "/* Tensors, at the offsets that the file has. */",
            f"enum {{ kTensorArenaPlannedHead = {size.planned_bytes} }};",
            "",
            "/* What kernels ask for beyond them while they run. */",
            f"enum {{ kTensorArenaScratch = {size.scratch_bytes} }};",
            "",
            "/* What lasts for as long as the interpreter does; less where addresses are short. */",
            f"enum {{ kTensorArenaTail = {size.tail_bytes} }};",
            "",
            "/* The least arena that does, aligned to 16 bytes. */",
            f"enum {{ kTensorArenaSize = {size.arena_bytes} }};",
            "#endif",
            "",
        ]
    )
