"""HloBuffer: the values of a module that have to lie in one place, as XLA's alias analysis says.

They are the state of a loop, the results of branches, an operand and what is written into it, and
an output and the argument that it overwrites. The analysis does not ask whether they interfere:
a module without the copies that it needs gets buffers that no plan can honour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.ir import Instruction, Module, Opcode, ShapeIndex
from lowtide.ops.in_place import in_place_pairs
from lowtide.records import dataclass
from lowtide.xla.analysis.hlo_dataflow import HloDataflow, hlo_dataflow
from lowtide.xla.analysis.hlo_value import HloValue

Place = tuple[Instruction, ShapeIndex]
"""An instruction and an index into its shape."""


@dataclass(frozen=True, eq=False, slots=True)
class HloBuffer:
    """Values that share one place, in order of their numbers; buffers compare by identity.

    `number` is the buffer's place in `HloAliasAnalysis.buffers`.
    """

    number: int
    values: tuple[HloValue, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the largest value."""
        return max([value.nbytes for value in self.values])

    @property
    def colour(self) -> int:
        """The memory space of the first value."""
        return self.values[0].colour

    @property
    def live_out(self) -> bool:
        """Whether one of the values is part of the result of the entry."""
        return any(value.live_out for value in self.values)

    def __str__(self) -> str:
        return f"HloBuffer {self.number}, values: {', '.join(map(str, self.values))}"

    def __repr__(self) -> str:
        return f"<{self}>"


def hlo_alias_analysis(module: Module, dataflow: HloDataflow | None = None) -> HloAliasAnalysis:
    """Return the buffers of a verified module whose call graph is flat.

    `dataflow` are the values of the same module, by default those of the SSA form. Where several
    values may be at a position that aliases another, all of them share its buffer.
    """
    dataflow = hlo_dataflow(module) if dataflow is None else dataflow
    classes = _Classes(len(dataflow.values))
    for first, second in _aliased_places(module):
        numbers = [x.number for place in (first, second) for x in dataflow.value_set(*place)]
        for number in numbers[1:]:
            classes.unite(numbers[0], number)
    members: dict[int, list[HloValue]] = {}
    for value in dataflow.values:
        members.setdefault(classes.find(value.number), []).append(value)
    buffers = [HloBuffer(i, tuple(values)) for i, values in enumerate(members.values())]
    return HloAliasAnalysis(dataflow, tuple(buffers))


@final
class HloAliasAnalysis:
    """The buffers of a module; it does not change once made. Get one from `hlo_alias_analysis`.

    Each value of `dataflow` is in exactly one buffer. `buffers` are in the order of their first
    values.
    """

    def __init__(self, dataflow: HloDataflow, buffers: tuple[HloBuffer, ...]) -> None:
        self.dataflow = dataflow
        self.buffers = buffers
        self._buffer_of = {value: buffer for buffer in buffers for value in buffer.values}

    @property
    def live_out_buffers(self) -> tuple[HloBuffer, ...]:
        """The buffers with a value that is part of the result of the entry."""
        return tuple([buffer for buffer in self.buffers if buffer.live_out])

    def buffer_of(self, value: HloValue) -> HloBuffer:
        """Return the buffer of a value; raises KeyError for a value of another analysis."""
        return self._buffer_of[value]

    def buffers_at(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[HloBuffer, ...]:
        """Return the buffers of the values at a position, in order of their numbers."""
        found = {self._buffer_of[x]: None for x in self.dataflow.value_set(instruction, index)}
        return tuple(sorted(found, key=lambda buffer: buffer.number))

    def unique_buffer_at(self, instruction: Instruction, index: ShapeIndex = ()) -> HloBuffer:
        """Return the only buffer at a position; raises ValueError where there are several."""
        found = self.buffers_at(instruction, index)
        if len(found) != 1:
            names = "; ".join(map(str, found))
            raise ValueError(f"{instruction.name} at {list(index)} may be in any of {names}")
        return found[0]

    def __str__(self) -> str:
        lines = [
            f"HloAliasAnalysis, module {self.dataflow.module.name}",
            "  Buffers at each position:",
        ]
        for instruction in self.dataflow.instructions:
            lines.append(f"    {instruction.name}:")
            for index, _ in instruction.shape.subshapes():
                names = "; ".join(map(str, self.buffers_at(instruction, index)))
                lines.append(f"      {list(index)}: {names}" if index else f"      {names}")
        lines.append("  Buffers:")
        for buffer in self.buffers:
            lines.append(f"    {buffer}")
            for value in buffer.values:
                lines += [f"      {place}" for place in value.positions]
        return "\n".join(lines) + "\n"


# -- what has to share -------------------------------------------------------------------------


def _aliased_places(module: Module) -> Iterator[tuple[Place, Place]]:
    """Yield the pairs of positions that always lie in one place."""
    entry = module.entry
    for alias in module.input_output_aliases:
        parameter = entry.parameters[alias.parameter]
        yield (entry.root, alias.output_index), (parameter, alias.parameter_index)
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if instruction.opcode is Opcode.WHILE:
                yield from _of_while(instruction)
            elif instruction.opcode is Opcode.CONDITIONAL:
                for branch in instruction.called_computations:
                    yield from _everywhere(branch.root, instruction)
            else:
                yield from _in_place(instruction)


def _of_while(loop: Instruction) -> Iterator[tuple[Place, Place]]:
    body = while_body(loop)
    for state in (
        while_condition(loop).parameters[0],
        body.parameters[0],
        body.root,
        loop.operands[0],
    ):
        yield from _everywhere(state, loop)


def _everywhere(first: Instruction, second: Instruction) -> Iterator[tuple[Place, Place]]:
    for index, _ in second.shape.subshapes():
        yield (first, index), (second, index)


def _in_place(instruction: Instruction) -> Iterator[tuple[Place, Place]]:
    for (operand, source), output in in_place_pairs(instruction):
        read = instruction.operands[operand]
        for index, _ in instruction.shape.at(output).subshapes():
            yield (read, (*source, *index)), (instruction, (*output, *index))


class _Classes:
    """Union-find over numbers."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, x: int) -> int:
        """Return the member that stands for the class of `x`."""
        parent = self.parent
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    def unite(self, a: int, b: int) -> None:
        """Make one class of two; the smaller representative stands for it."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[max(a, b)] = min(a, b)
