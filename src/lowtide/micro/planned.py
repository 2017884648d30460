"""A planned model, and the C header with the parts of its arena."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from lowtide.frontend.tflite.model import LiteModel
from lowtide.micro.arena import ArenaSize, arena_size
from lowtide.micro.planning import MicroPlan, plan_micro
from lowtide.micro.writing import planned_file
from lowtide.records import dataclass
from lowtide.search.effort import Effort

_NO_BETTER: Final = (
    "scratch of kernels makes the arena with offsets larger than firmware's own: the file stays"
)


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A plan, the file that has it, its arena, and the arena of the file as it was."""

    plan: MicroPlan
    content: bytes
    size: ArenaSize
    before: ArenaSize | None


def planned_model(model: LiteModel, effort: Effort = Effort.DEFAULT) -> PlannedModel:
    """Return a model with its plan; without offsets where firmware needs less by itself.

    Raises InputError for a file that no plan can be added to.
    """
    plan = plan_micro(model, effort)
    content = planned_file(model, plan)
    size = arena_size(model, content, plan.head_bytes)
    given = model.source.data
    if content == given:
        return PlannedModel(plan, content, size, None)
    before = arena_size(model, given, plan.head_bytes)
    if not before.is_measured:
        return PlannedModel(plan, content, size, None)
    if before.arena_bytes < size.arena_bytes:
        kept = replace(plan, offsets={}, caveats=(*plan.caveats, _NO_BETTER))
        return PlannedModel(kept, given, before, before)
    return PlannedModel(plan, content, size, before)


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
