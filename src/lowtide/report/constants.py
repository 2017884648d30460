"""Constants of a program that take memory: the largest of them, and the line that reads it."""

from __future__ import annotations

from lowtide.analysis.dataflow import Dataflow, ValueKind
from lowtide.ir import Instruction, SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import user_frame
from lowtide.report.schema import Json, source_json


@dataclass(frozen=True, slots=True)
class HeldConstant:
    """A constant of `nbytes` bytes; `source` is the line that reads it, None where none is known.

    Such a constant is mostly an array that a function took from outside of its arguments.
    """

    name: str
    shape: str
    nbytes: int
    source: SourceLocation | None

    def to_json(self) -> Json:
        """Return the schema's `largest_constant`."""
        return {
            "name": self.name,
            "shape": self.shape,
            "bytes": self.nbytes,
            "source": source_json(self.source),
        }


def largest_constant(flows: Dataflow) -> HeldConstant | None:
    """Return the largest constant with memory, the first one of these; None where there is none."""
    found = [
        (nbytes, flow.nodes[node])
        for flow in flows.values()
        for node, nbytes, kind in zip(
            flow.value_node, flow.value_bytes, flow.value_kind, strict=True
        )
        if kind is ValueKind.CONSTANT and nbytes
    ]
    if not found:
        return None
    nbytes, maker = max(found, key=lambda row: row[0])
    return HeldConstant(maker.name, maker.shape.text(layout=False), nbytes, _read_at(maker))


def _read_at(constant: Instruction) -> SourceLocation | None:
    """The line in the user's files of a constant, or of the first of its readers that has one."""
    for x in (constant, *constant.users):
        source = user_frame(x.stack)
        if source is not None and source.file:
            return source
    return None
