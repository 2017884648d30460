"""Points-to sets and logical buffers: the view of TensorFlow 1.14's XLA.

A logical buffer is one demand for memory, by the instruction and index that define it. Here nothing
flows through calls: a parameter, a call, a loop and a conditional define all their elements.
Which operations pass on what is one table for this view and that of `hlo_dataflow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from lowtide.ir import Instruction, Module, Shape, ShapeIndex
from lowtide.ir.shape import index_text
from lowtide.records import dataclass
from lowtide.xla.analysis.hlo_value import HloPosition
from lowtide.xla.analysis.position_graph import PositionGraph, within_computations
from lowtide.xla.analysis.reaching_values import ReachingValues, reaching_values


@dataclass(frozen=True, eq=False, slots=True)
class LogicalBuffer:
    """What `instruction` defines at `index`; buffers compare by identity.

    `number` is the buffer's place in `PointsToAnalysis.buffers`.
    """

    number: int
    instruction: Instruction
    index: ShapeIndex

    @property
    def shape(self) -> Shape:
        """The shape of the defining position."""
        return self.instruction.shape.at(self.index)

    @property
    def nbytes(self) -> int:
        """Bytes of an array; 8 per element of a tuple, for its table; 0 of a token."""
        return self.shape.nbytes

    @property
    def colour(self) -> int:
        """The memory space of the layout, 0 for tuples."""
        return self.shape.memory_space

    def __str__(self) -> str:
        index = ",".join(map(str, self.index))
        return f"{self.instruction.name}[{index}](#{self.number} @{self.colour})"

    def __repr__(self) -> str:
        return f"<LogicalBuffer {self}>"


@dataclass(frozen=True, eq=False, slots=True)
class PointsToSet:
    """Which logical buffers may be at each index of the result of `instruction`."""

    instruction: Instruction
    elements: dict[ShapeIndex, tuple[LogicalBuffer, ...]]

    def element(self, index: ShapeIndex) -> tuple[LogicalBuffer, ...]:
        """Return the buffers at one index; raises KeyError where there is no such index."""
        return self.elements[index]

    def create_flattened_set(self) -> tuple[LogicalBuffer, ...]:
        """Return all buffers at any index, in order of first appearance, none twice."""
        return tuple(dict.fromkeys([x for found in self.elements.values() for x in found]))

    @property
    def is_ambiguous(self) -> bool:
        """Whether an index has more than one buffer."""
        return any(len(found) > 1 for found in self.elements.values())

    @property
    def is_distinct(self) -> bool:
        """Whether no buffer is at two indices."""
        count = sum([len(found) for found in self.elements.values()])
        return count == len(self.create_flattened_set())

    def __str__(self) -> str:
        parts = [
            f"{index_text(index)}: {', '.join(map(str, found))}"
            for index, found in self.elements.items()
        ]
        return f"{self.instruction.name}: {'; '.join(parts)}"


def points_to_analysis(module: Module) -> PointsToAnalysis:
    """Return the points-to sets of all instructions of a verified module, fused ones too."""
    graph = within_computations(module)
    return PointsToAnalysis(graph, reaching_values(graph, ssa=True))


def maybe_live_out_buffers(
    module: Module, points_to: PointsToAnalysis | None = None
) -> tuple[LogicalBuffer, ...]:
    """Return the buffers that may be part of the result of the entry."""
    points_to = points_to_analysis(module) if points_to is None else points_to
    return points_to.points_to_set(module.entry.root).create_flattened_set()


@final
class PointsToAnalysis:
    """The logical buffers of a module; it does not change once made. See `points_to_analysis`.

    `buffers` are in order of their numbers: callees before callers, operands before users, tuples
    before their elements.
    """

    def __init__(self, graph: PositionGraph, reaching: ReachingValues) -> None:
        self.module = graph.module
        self._graph = graph
        self._reaching = reaching
        self._buffer_at: dict[int, LogicalBuffer] = {}
        self._aliases: dict[int, list[HloPosition]] = {}
        for number, position in enumerate(self._positions()):
            value = reaching.at[number]
            if value == number:
                buffer = LogicalBuffer(len(self._buffer_at), position.instruction, position.index)
                self._buffer_at[number] = buffer
            self._aliases.setdefault(value, []).append(position)
        self.buffers = tuple(self._buffer_at.values())

    def _positions(self) -> Iterator[HloPosition]:
        for instruction in self._graph.instructions:
            for index in self._graph.subshapes(instruction.shape).indices:
                yield HloPosition(instruction, index)

    def points_to_set(self, instruction: Instruction) -> PointsToSet:
        """Return the buffers at each index of the result of an instruction."""
        indices = self._graph.subshapes(instruction.shape).indices
        numbers = self._graph.range_of(instruction)
        found = [(self._buffer_at[self._reaching.at[number]],) for number in numbers]
        return PointsToSet(instruction, dict(zip(indices, found, strict=True)))

    def buffers_defined_by(self, instruction: Instruction) -> tuple[LogicalBuffer, ...]:
        """Return the buffers that an instruction defines, tuples before their elements."""
        numbers = self._graph.range_of(instruction)
        return tuple([self._buffer_at[n] for n in numbers if n in self._buffer_at])

    def buffer_aliases(self, buffer: LogicalBuffer) -> tuple[HloPosition, ...]:
        """Return all positions at which a buffer is."""
        return tuple(self._aliases[self._graph.number(buffer.instruction, buffer.index)])

    def __str__(self) -> str:
        lines = [f"TuplePointsToAnalysis, module {self.module.name}:"]
        lines += [f"  {self.points_to_set(x)}" for x in self._graph.instructions]
        lines.append("LogicalBuffers:")
        lines += [f"  {buffer}" for buffer in self.buffers]
        return "\n".join(lines) + "\n"
