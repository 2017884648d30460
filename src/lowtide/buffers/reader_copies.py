"""Copies for those who read a value after it is overwritten, where its successor must not move.

Such a value lies in the storage of an argument or in the state of a loop, where its successor has
to end up. If the value stayed there, and its successor were made elsewhere, the successor would
have to be copied back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

from lowtide.analysis.dataflow import ComputationDataflow
from lowtide.buffers.editor import Editor
from lowtide.ir import Instruction


class OperandRead(NamedTuple):
    """An instruction that reads a value as one of its operands."""

    reader: Instruction
    operand: int
    name: Instruction


@final
class Reads:
    """The readers of each value of a computation, in the order `sequence`."""

    def __init__(self, flow: ComputationDataflow, sequence: Sequence[Instruction]) -> None:
        self._results = frozenset(flow.root)
        self._place = {instruction: place for place, instruction in enumerate(sequence)}
        self._names: list[list[Instruction]] = [[] for _ in flow.value_node]
        self._reads: list[list[OperandRead]] = [[] for _ in flow.value_node]
        for instruction in sequence:
            if instruction.shape.is_array:
                self._names[flow.leaves_of(instruction)[0]].append(instruction)
            read = set(flow.reads[flow.number[instruction]])
            for number, operand in enumerate(instruction.operands):
                for value in read.intersection(flow.leaves_of(operand)):
                    self._reads[value].append(OperandRead(instruction, number, operand))

    def later(self, value: int, writer: Instruction) -> list[OperandRead]:
        """Return who reads a value after `writer`."""
        place = self._place[writer]
        return [read for read in self._reads[value] if self._place[read.reader] > place]

    def copy_for_readers(
        self, value: int, writer: Instruction, editor: Editor
    ) -> tuple[Instruction, Instruction] | None:
        """Make all that read a value after `writer` read a copy; return it and the first of them.

        None, and nothing is changed, where a reader gets the value in a tuple, under another shape,
        or as a part of the result.
        """
        late = self.later(value, writer)
        place = self._place[writer]
        source = next((x for x in self._names[value] if self._place[x] < place), None)
        if not late or source is None or value in self._results:
            return None
        if any(read.name.shape is not source.shape for read in late):
            return None
        copy = editor.copy(source, writer)
        for read in late:
            read.reader.replace_operand(read.operand, copy)
        return copy, late[0].reader
