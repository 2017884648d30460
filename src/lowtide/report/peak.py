"""The peak as data: the buffers that are taken then, each with its cause and its place."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from lowtide.ir import SourceLocation
from lowtide.records import dataclass
from lowtide.report.schema import Json, source_json


class CauseKind(StrEnum):
    """The reasons for which bytes are taken at the peak."""

    ARGUMENTS = "arguments"
    CONSTANTS = "constants"
    OUTPUTS = "outputs"
    NOT_DONATED = "not donated"
    SAVED = "saved for the backward pass"
    LOOP_STATE = "loop state doubled"
    COPIES = "copies"
    MATERIALIZED = "materialized"
    SCRATCH = "scratch"
    ORDER = "order"
    PACKING = "packing"
    IRREDUCIBLE = "irreducible"


@dataclass(frozen=True, slots=True)
class PeakBuffer:
    """A buffer that is taken at the peak, and the value that it then holds.

    `op_name` and `source` are those of the instruction that makes the value; where it has none,
    those of the nearest instruction that uses it, or of the one that calls its computation.
    `source` is the innermost call in the user's own files, `stack` all calls, innermost first.
    `live` are the positions of the value's definition and of its last use, both included. `kind`
    is "temporary", "output", "argument" for one that an output overwrites, or "scratch" for what
    the step at the peak needs only while it runs. `reason` says more about the cause, or is "".
    """

    name: str
    nbytes: int
    instruction: str
    opcode: str
    shape: str
    kind: str
    op_name: str
    source: SourceLocation | None
    live: tuple[int, int]
    stack: tuple[SourceLocation, ...] = ()
    cause: CauseKind = CauseKind.IRREDUCIBLE
    reason: str = ""

    def to_json(self) -> Json:
        """Return the entry of the schema's `peak.buffers`."""
        return {
            "name": self.name,
            "bytes": self.nbytes,
            "instruction": self.instruction,
            "opcode": self.opcode,
            "shape": self.shape,
            "kind": self.kind,
            "op_name": self.op_name,
            "source": source_json(self.source),
            "live": list(self.live),
            "cause": self.cause.value,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class PeakGroup:
    """The buffers of the peak that one source line made, largest first.

    `live` spans from the first definition to the last use among them. `label` names what the group
    has in common, such as a scope; with `is_line`, besides the line of `source`.
    """

    source: SourceLocation | None
    nbytes: int
    buffers: tuple[PeakBuffer, ...]
    label: str = ""
    is_line: bool = False

    @property
    def live(self) -> tuple[int, int]:
        """The first and the last position at which any of them is live."""
        return min([x.live[0] for x in self.buffers]), max([x.live[1] for x in self.buffers])


@dataclass(frozen=True, slots=True)
class Peak:
    """The step at which most is live: its position, its instruction, and all buffers taken then.

    Buffers stand largest first. Their bytes add up to `live_bytes` plus `alias_bytes`. `source` and
    `stack` are those of the instruction.
    """

    position: int
    instruction: str
    source: SourceLocation | None
    buffers: tuple[PeakBuffer, ...]
    stack: tuple[SourceLocation, ...] = ()

    def in_all_frames(self) -> Peak:
        """Return the peak with the innermost call of all as source, also where a library has it."""
        buffers = [replace(x, source=next(iter(x.stack), x.source)) for x in self.buffers]
        source = next(iter(self.stack), self.source)
        return replace(self, source=source, buffers=tuple(buffers))

    def to_json(self) -> Json:
        """Return the schema's `peak`."""
        from lowtide.report.stack_tree import stack_tree

        tree = stack_tree(self.buffers)
        buffers = [
            {**x.to_json(), "frame": frame}
            for x, frame in zip(self.buffers, tree.leaf_of, strict=True)
        ]
        return {
            "position": self.position,
            "instruction": self.instruction,
            "source": source_json(self.source),
            "buffers": buffers,
            "tree": [node.to_json() for node in tree.nodes],
        }
