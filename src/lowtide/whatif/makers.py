"""Makers of values: functions, scopes and shapes, and the instructions that come from them."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode
from lowtide.records import dataclass
from lowtide.report.blame import is_backward, primitive_of, scope_of
from lowtide.whatif.baseline import Baseline

SHAPING: Final = frozenset({Opcode.BROADCAST, Opcode.CONSTANT, Opcode.RESHAPE})
"""What brings operands into form: one operation of a program may have several."""

_AGAIN: Final = "rematted_computation"
"""The scope in which JAX has a checkpoint compute again."""

RUNS_AGAIN: Final = "a checkpoint computes it again already"
"""Why what `runs_again` gets no other checkpoint."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes arrays: a function of a file, or where none is known a scope, or a shape.

    `kind` is "function", "scope" or "shape"; `name` tells it from others of its kind.
    """

    kind: str
    name: str
    file: str = ""


def is_called_once(base: Baseline, maker: Maker) -> bool:
    """Whether the program as given has one call of a function: its first or last line comes once.

    Lines that begin anew are then those of a loop in it.
    """
    counts: dict[int, dict[object, int]] = {}
    for x in base.given.entry.instructions.values():
        if x.opcode not in SHAPING and not is_backward(x.metadata.op_name):
            for line in lines_in(x, maker):
                found = counts.setdefault(line, {})
                found[x.stack, x.opcode] = found.get((x.stack, x.opcode), 0) + 1
    if maker.kind != "function" or not counts:
        return False
    return any(max(counts[line].values()) == 1 for line in (min(counts), max(counts)))


def runs_again(base: Baseline, maker: Maker) -> bool:
    """Whether a checkpoint of the program as given computes again what a maker makes."""
    return any(
        _AGAIN in scope_of(x.metadata.op_name) and lines_in(x, maker)
        for x in base.given.entry.instructions.values()
    )


def lines_in(x: Instruction, maker: Maker) -> list[int]:
    """The line within the maker that an instruction comes from, in a list; none elsewhere."""
    if maker.kind == "function":
        return [f.line for f in x.stack if (f.function, f.file) == (maker.name, maker.file)][:1]
    if maker.kind == "shape":
        return [0] if _has_shape(x, maker.name) else []
    scopes = [_forward(scope) for scope in scope_of(x.metadata.op_name)]
    inside = "/".join(scopes)
    if inside == maker.name or inside.startswith(f"{maker.name}/"):
        return [0]
    return [0] if not scopes and primitive_of(x.metadata.op_name) == maker.name else []


def _forward(scope: str) -> str:
    """The scope of the operation whose gradient a scope computes."""
    start, end = "transpose(", ")"
    inner = scope.startswith(start) and scope.endswith(end)
    return scope[len(start) : -len(end)] if inner else scope


def _has_shape(x: Instruction, shape: str) -> bool:
    return any(leaf.text(layout=False) == shape for _, leaf in x.shape.leaves())
