"""Loops that return one element of their state as another one: what moves is copied first.

Such an element cannot stay where it is, in any order of the instructions. The copy goes where its
target is read no more and its source is not overwritten yet, as far as there is such a place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow
from lowtide.buffers.copy_reason import CopyReason, rotation_reason
from lowtide.buffers.editor import Editor
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.shape import index_text

Copies = list[tuple[Instruction, CopyReason]]


def copy_rotated_state(
    flows: Dataflow, sequences: Mapping[Computation, Sequence[Instruction]] | None, editor: Editor
) -> Copies:
    """Return the copies put into loop bodies; `sequences` are the orders of a scheduled module."""
    made: Copies = []
    done: set[Computation] = set()
    for flow in flows.values():
        for instruction in flow.nodes:
            if instruction.opcode is not Opcode.WHILE:
                continue
            body = while_body(instruction)
            if body not in done:
                done.add(body)
                sequence = None if sequences is None else sequences[body]
                made += _copy_moved(instruction, flows[body], sequence, editor)
    return made


def _copy_moved(
    loop: Instruction,
    flow: ComputationDataflow,
    sequence: Sequence[Instruction] | None,
    editor: Editor,
) -> Copies:
    moved = _moved(flow)
    if not moved:
        return []
    body = flow.computation
    reads = _LastReads(flow, sequence)
    indices = [index for index, _ in body.root.shape.leaves()]
    made: Copies = []
    replacements: dict[int, Instruction] = {}
    for target in _sources_free(moved):
        source = moved[target]
        copy = editor.copy_leaf(body.parameters[0], source, reads.place(flow.parameters[target]))
        reads.note(flow.parameters[source], flow.parameters[target])
        replacements[target] = copy
        names = [index_text(indices[x]) for x in (target, source)]
        made.append((copy, rotation_reason(loop, *names)))
    editor.return_instead(body, replacements)
    return made


def _moved(flow: ComputationDataflow) -> dict[int, int]:
    """Per leaf of the state the other leaf whose value it takes, where both change."""
    leaf_of = {value: leaf for leaf, value in enumerate(flow.parameters)}
    changed = flow.changed_state
    found = {}
    for leaf in changed:
        source = leaf_of.get(flow.root[leaf])
        if source in changed and flow.value_bytes[flow.root[leaf]]:
            found[leaf] = source
    return found


def _sources_free(moved: Mapping[int, int]) -> Iterator[int]:
    """The targets in an order in which each is read before it is written; cycles as they come."""
    readers: dict[int, int] = dict.fromkeys(moved, 0)
    for source in moved.values():
        if source in readers:
            readers[source] += 1
    ready = [target for target, count in readers.items() if not count]
    waiting = dict.fromkeys(moved)
    while waiting:
        target = ready.pop() if ready else next(iter(waiting))
        if target not in waiting:
            continue
        del waiting[target]
        yield target
        source = moved[target]
        if source in readers:
            readers[source] -= 1
            if not readers[source]:
                ready.append(source)


class _LastReads:
    """The place in the sequence of a loop body at which each value is read last."""

    def __init__(self, flow: ComputationDataflow, sequence: Sequence[Instruction] | None) -> None:
        self._sequence = sequence
        self._last: dict[int, int] = {}
        for position, instruction in enumerate(sequence or ()):
            for value in flow.reads[flow.number[instruction]]:
                self._last[value] = position
        parameter = flow.computation.parameters[0]
        first = 0 if sequence is None else sequence.index(parameter)
        self._first = first

    def place(self, value: int) -> Instruction | None:
        """Return the instruction right after the last read of a value; None for the end."""
        if self._sequence is None:
            return None
        position = max(self._last.get(value, 0), self._first) + 1
        return self._sequence[position] if position < len(self._sequence) else None

    def note(self, source: int, target: int) -> None:
        """Record that the copy of `source` stands after the last read of `target`."""
        here = max(self._last.get(target, 0), self._first)
        self._last[source] = max(self._last.get(source, 0), here)
