"""Makers of values: functions, scopes and shapes, and the instructions that come from them."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Opcode, SourceLocation
from lowtide.ir.metadata import FileLocation
from lowtide.records import dataclass
from lowtide.report.blame import primitive_of, scope_of
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

    `kind` is "function", "scope" or "shape"; `name` tells it from others of its kind, and `lines`
    a lambda from others of its function: none stand for all.
    """

    kind: str
    name: str
    file: str = ""
    lines: tuple[int, ...] = ()

    def has(self, frame: SourceLocation) -> bool:
        """Whether a call stands in the function."""
        is_own = (frame.function, frame.file) == (self.name, self.file)
        return is_own and (not self.lines or frame.line in self.lines)


def runs_again(base: Baseline, maker: Maker) -> bool:
    """Whether a checkpoint of the program as given computes again what a maker makes."""
    return any(
        _AGAIN in scope_of(x.metadata.op_name) and lines_in(x, maker)
        for x in base.given.entry.instructions.values()
    )


def lines_in(x: Instruction, maker: Maker) -> list[int]:
    """The line within the maker that an instruction comes from, in a list; none elsewhere."""
    if maker.kind == "function":
        return [x.stack[i].line for i in _outermost(x, maker)]
    if maker.kind == "shape":
        return [0] if _has_shape(x, maker.name) else []
    scopes = [_forward(scope) for scope in scope_of(x.metadata.op_name)]
    inside = "/".join(scopes)
    if inside == maker.name or inside.startswith(f"{maker.name}/"):
        return [0]
    return [0] if not scopes and primitive_of(x.metadata.op_name) == maker.name else []


def call_in(x: Instruction, maker: Maker) -> FileLocation | None:
    """The place at which the maker is called for an instruction, None where that is unknown."""
    ranges = x.parent.module.stack_frames.ranges(x.metadata.stack_frame_id)
    return next((ranges[i + 1] for i in _outermost(x, maker) if i + 1 < len(ranges)), None)


def _outermost(x: Instruction, maker: Maker) -> list[int]:
    """The place in the stack of a function's outermost call, in a list; none for no function.

    Below it may be places of an operation for which JAX has traced the same rule before.
    """
    if maker.kind != "function":
        return []
    return [i for i, frame in enumerate(x.stack) if maker.has(frame)][-1:]


def lambdas_of(base: Baseline, name: str, file: str) -> list[tuple[int, ...]]:
    """The lines of each of the lambdas that have one name, in order.

    Lines with one caller are those of one lambda, as far as lines can tell.
    """
    parts: list[tuple[set[int], set[SourceLocation | None]]] = []
    for x in base.given.entry.instructions.values():
        stack = x.stack
        for i, frame in enumerate(stack):
            if (frame.function, frame.file) != (name, file):
                continue
            lines, callers = {frame.line}, {stack[i + 1] if i + 1 < len(stack) else None}
            for part in [y for y in parts if y[0] & lines or y[1] & callers]:
                parts.remove(part)
                lines, callers = lines | part[0], callers | part[1]
            parts.append((lines, callers))
    return sorted([tuple(sorted(lines)) for lines, _ in parts])


def _forward(scope: str) -> str:
    """The scope of the operation whose gradient a scope computes."""
    start, end = "transpose(", ")"
    inner = scope.startswith(start) and scope.endswith(end)
    return scope[len(start) : -len(end)] if inner else scope


def _has_shape(x: Instruction, shape: str) -> bool:
    return any(leaf.text(layout=False) == shape for _, leaf in x.shape.leaves())
