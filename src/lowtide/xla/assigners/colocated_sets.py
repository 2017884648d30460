"""Sets of logical buffers that have to lie in one place, as of TensorFlow 1.14.

Sets that never interfere are then merged: the interference graph of the sets is coloured, and those
of one colour become one set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lowtide.analysis.call_graph import executed_callees, while_body, while_condition
from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode, ShapeIndex
from lowtide.ir.traversal import post_order
from lowtide.ops.in_place import in_place_pairs
from lowtide.xla.analysis.points_to import LogicalBuffer, PointsToAnalysis
from lowtide.xla.assigners.buffer_liveness import BufferLiveness

ColocatedSet = tuple[LogicalBuffer, ...]

_Place = tuple[Instruction, ShapeIndex]


def colocated_sets(
    module: Module, points_to: PointsToAnalysis, computations: Iterable[Computation]
) -> list[ColocatedSet]:
    """Return the sets of the computations that own buffers, callees first.

    Outputs lie where the arguments lie that they overwrite; the state of a loop, what a call, a
    branch or an asynchronous operation is given and returns, and operands with what is written over
    them. Sets with a common buffer are one.
    """
    sets = _Union()
    for places in _colocated_places(module, computations):
        sets.unite([_only_buffer(points_to, place) for place in places])
    return sets.result()


def _colocated_places(
    module: Module, computations: Iterable[Computation]
) -> Iterator[Sequence[_Place]]:
    entry = module.entry
    for alias in module.input_output_aliases:
        parameter = entry.parameters[alias.parameter]
        yield (entry.root, alias.output_index), (parameter, alias.parameter_index)
    for computation in computations:
        for instruction in post_order(computation):
            yield from _of_instruction(instruction)


def _of_instruction(instruction: Instruction) -> Iterator[Sequence[_Place]]:
    opcode = instruction.opcode
    if opcode is Opcode.WHILE:
        condition, body = while_condition(instruction), while_body(instruction)
        state = instruction.operands[0], instruction, condition.parameters[0], body.parameters[0]
        yield from _everywhere(*state, body.root)
    elif opcode is Opcode.CONDITIONAL:
        branches = instruction.called_computations
        yield from _everywhere(instruction, *[branch.root for branch in branches])
        for branch, operand in zip(branches, instruction.operands[1:], strict=True):
            yield from _everywhere(branch.parameters[0], operand)
    elif executed_callees(instruction):
        callee = instruction.called_computations[0]
        at = (1,) if opcode is Opcode.ASYNC_START else ()
        for index, _ in callee.root.shape.subshapes():
            yield (instruction, (*at, *index)), (callee.root, index)
        for parameter, operand in zip(callee.parameters, instruction.operands, strict=True):
            yield from _everywhere(parameter, operand)
    else:
        for (number, index), output in in_place_pairs(instruction):
            yield (instruction.operands[number], index), (instruction, output)


def _everywhere(*instructions: Instruction) -> Iterator[Sequence[_Place]]:
    for index, _ in instructions[0].shape.subshapes():
        yield [(instruction, index) for instruction in instructions]


def _only_buffer(points_to: PointsToAnalysis, place: _Place) -> LogicalBuffer:
    instruction, index = place
    found = points_to.points_to_set(instruction).element(index)
    if len(found) != 1:
        names = ", ".join(map(str, found))
        raise LowtideError(f"{instruction.name} at {list(index)} may be in any of {names}")
    return found[0]


class _Union:
    """Sets that become one where they have a common buffer; those made first stand first."""

    def __init__(self) -> None:
        self.parent: dict[LogicalBuffer, LogicalBuffer] = {}

    def unite(self, buffers: Sequence[LogicalBuffer]) -> None:
        first = self._find(buffers[0])
        for buffer in buffers[1:]:
            self.parent[self._find(buffer)] = first

    def _find(self, buffer: LogicalBuffer) -> LogicalBuffer:
        parent = self.parent
        parent.setdefault(buffer, buffer)
        while parent[buffer] is not buffer:
            parent[buffer] = parent[parent[buffer]]
            buffer = parent[buffer]
        return buffer

    def result(self) -> list[ColocatedSet]:
        members: dict[LogicalBuffer, list[LogicalBuffer]] = {}
        for buffer in list(self.parent):
            members.setdefault(self._find(buffer), []).append(buffer)
        return [tuple(buffers) for buffers in members.values()]


# -- merging -----------------------------------------------------------------------------------


def merged_sets(
    sets: Sequence[ColocatedSet], liveness: BufferLiveness, module: Module
) -> list[ColocatedSet]:
    """Return the sets, those merged that never interfere and have one size and colour.

    Sets with arguments, outputs or constants stay as they are.
    """
    kept = [x for x in sets if _is_fixed(x, liveness, module)]
    classes: dict[tuple[int, int], list[ColocatedSet]] = {}
    for members in sets:
        if not _is_fixed(members, liveness, module):
            key = set_bytes(members), members[0].colour
            classes.setdefault(key, []).append(members)
    for similar in classes.values():
        colours = coloured(_interference_map(similar, liveness))
        merged: dict[int, list[LogicalBuffer]] = {}
        for members, colour in zip(similar, colours, strict=True):
            merged.setdefault(colour, []).extend(members)
        kept += [tuple(buffers) for buffers in merged.values()]
    return sorted(kept, key=lambda members: min([x.number for x in members]))


def set_bytes(members: ColocatedSet) -> int:
    """Return the size of the largest buffer."""
    return max([x.nbytes for x in members])


def _is_fixed(members: ColocatedSet, liveness: BufferLiveness, module: Module) -> bool:
    return any(
        buffer in liveness.live_out
        or buffer.instruction.opcode is Opcode.CONSTANT
        or (buffer.instruction.opcode is Opcode.PARAMETER and buffer.instruction.parent.is_entry)
        for buffer in members
    )


def _interference_map(sets: Sequence[ColocatedSet], liveness: BufferLiveness) -> list[list[int]]:
    """Per set the numbers of those that it must not be merged with."""
    members = [liveness.members(x) for x in sets]
    neighbours = [liveness.neighbours(x) for x in sets]
    return [
        [j for j in range(len(sets)) if j != i and (neighbours[i] & members[j]).any()]
        for i in range(len(sets))
    ]


def coloured(interference_map: Sequence[Sequence[int]]) -> list[int]:
    """Return a colour per node, from 0, that none of its neighbours has.

    The nodes with the most neighbours come first, ties in order; each gets the least colour free.
    """
    colours = [-1] * len(interference_map)
    for node in sorted(range(len(colours)), key=lambda x: -len(interference_map[x])):
        taken = {colours[x] for x in interference_map[node]}
        colours[node] = next(x for x in range(len(colours) + 1) if x not in taken)
    return colours
