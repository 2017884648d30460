"""Putting copies into a module: of a leaf of an operand, or of a leaf of a result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import final

from lowtide.ir import (
    Computation,
    Instruction,
    Module,
    Opcode,
    Schedule,
    Shape,
    ShapeIndex,
    tuple_shape,
)
from lowtide.ir.attributes import GetTupleElement


@final
class Editor:
    """Inserts instructions into computations, and keeps the schedule in step where there is one.

    Where a new instruction goes in the schedule is told by the one that it precedes; None means
    the end. Call `finish` when all is in.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._before: dict[Computation, dict[Instruction | None, list[Instruction]]] = {}
        self._removed: set[Instruction] = set()
        self._indices: dict[Shape, list[ShapeIndex]] = {}

    def copy(self, source: Instruction, before: Instruction | None) -> Instruction:
        """Return a new copy of an array."""
        made = source.parent.add(Opcode.COPY, source.shape, (source,))
        made.set_metadata(source.raw_metadata)
        self._place(made, before)
        return made

    def copy_leaf(self, source: Instruction, leaf: int, before: Instruction | None) -> Instruction:
        """Return a new copy of one leaf of a value."""
        return self.copy(self._element(source, self._index(source.shape, leaf), before), before)

    def copy_operand_leaves(
        self, user: Instruction, operand: int, leaves: Collection[int]
    ) -> dict[int, Instruction]:
        """Make `user` read copies of some leaves of an operand; return the copies by leaf."""
        source = user.operands[operand]
        made = self._copies(source, leaves, user)
        user.replace_operand(operand, self._rebuilt(source, made, user))
        self._drop(source)
        return {leaf: copy for leaf, (_, copy) in made.items()}

    def copy_root_leaves(
        self, computation: Computation, leaves: Collection[int]
    ) -> dict[int, Instruction]:
        """Make a computation return copies of some leaves of its result; return them by leaf."""
        root = computation.root
        made = self._copies(root, leaves, None)
        self._return(computation, made)
        return {leaf: copy for leaf, (_, copy) in made.items()}

    def return_instead(
        self, computation: Computation, replacements: Mapping[int, Instruction]
    ) -> None:
        """Make a computation return other instructions as some leaves of its result.

        One of another shape that lies in memory alike is named anew by a bitcast.
        """
        shape = computation.root.shape
        made = {}
        for leaf, replacement in replacements.items():
            index = self._index(shape, leaf)
            made[leaf] = index, self._as_shape(replacement, shape.at(index))
        self._return(computation, made)

    def _as_shape(self, instruction: Instruction, shape: Shape) -> Instruction:
        if instruction.shape is shape:
            return instruction
        made = instruction.parent.add(Opcode.BITCAST, shape, (instruction,))
        made.set_metadata(instruction.raw_metadata)
        self._place(made, None)
        return made

    def leave_out(self, copy: Instruction) -> None:
        """Remove a copy: what reads it reads its operand instead."""
        copy.replace_all_uses_with(copy.operands[0])
        self._remove(copy)

    def make_again(self, copy: Instruction) -> Instruction:
        """Return an array made like what was copied, in place of the copy, which is removed.

        So is what was copied, where nothing else reads it.
        """
        (source,) = copy.operands
        made = source.parent.add(source.opcode, source.shape, source.operands, source.attributes)
        made.set_metadata(source.raw_metadata)
        self._place(made, copy)
        copy.replace_all_uses_with(made)
        self._remove(copy)
        if not source.users and not source.is_root:
            self._remove(source)
        return made

    def finish(self) -> None:
        """Bring the schedule of the module up to date."""
        schedule = self._module.schedule
        if schedule is None:
            return
        sequences = dict(schedule.sequences)
        for computation in self._before:
            if computation in sequences:
                sequences[computation] = tuple(self._sequence(sequences[computation]))
        self._module.schedule = Schedule(sequences)
        self._before = {}

    def _sequence(self, order: tuple[Instruction, ...]) -> list[Instruction]:
        inserted = self._before[order[0].parent]
        sequence: list[Instruction] = []
        for instruction in (*order, None):
            sequence += inserted.get(instruction, ())
            if instruction is not None:
                sequence.append(instruction)
        return [instruction for instruction in sequence if instruction not in self._removed]

    # -- tuples --------------------------------------------------------------------------------

    def _copies(
        self, source: Instruction, leaves: Collection[int], before: Instruction | None
    ) -> dict[int, tuple[ShapeIndex, Instruction]]:
        made = {}
        for leaf in sorted(leaves):
            index = self._index(source.shape, leaf)
            made[leaf] = index, self.copy(self._element(source, index, before), before)
        return made

    def _index(self, shape: Shape, leaf: int) -> ShapeIndex:
        if shape not in self._indices:
            self._indices[shape] = [index for index, _ in shape.leaves()]
        return self._indices[shape][leaf]

    def _return(
        self, computation: Computation, made: dict[int, tuple[ShapeIndex, Instruction]]
    ) -> None:
        root = computation.root
        computation.root = self._rebuilt(root, made, None)
        self._drop(root)

    def _element(
        self, source: Instruction, index: ShapeIndex, before: Instruction | None
    ) -> Instruction:
        """The array at an index of a tuple."""
        for number in index:
            if source.opcode is Opcode.TUPLE:
                source = source.operands[number]
                continue
            shape = source.shape.tuple_shapes[number]
            attributes = GetTupleElement(number)
            source = source.parent.add(Opcode.GET_TUPLE_ELEMENT, shape, (source,), attributes)
            self._place(source, before)
        return source

    def _rebuilt(
        self,
        source: Instruction,
        made: dict[int, tuple[ShapeIndex, Instruction]],
        before: Instruction | None,
    ) -> Instruction:
        """A value like `source` with other instructions at some leaves."""
        replacement = dict(made.values())
        inner = {index[:depth] for index in replacement for depth in range(len(index))}
        return self._with_leaves(source, (), replacement, inner, before)

    def _with_leaves(
        self,
        source: Instruction,
        index: ShapeIndex,
        replacement: dict[ShapeIndex, Instruction],
        inner: set[ShapeIndex],
        before: Instruction | None,
    ) -> Instruction:
        if index in replacement:
            return replacement[index]
        if index not in inner:
            return source
        elements = [
            replacement.get((*index, number))
            or self._with_leaves(
                self._element(source, (number,), before),
                (*index, number),
                replacement,
                inner,
                before,
            )
            for number in range(len(source.shape.tuple_shapes))
        ]
        shape = tuple_shape([element.shape for element in elements])
        made = source.parent.add(Opcode.TUPLE, shape, tuple(elements))
        made.set_metadata(source.raw_metadata)
        made.set_annotations(source.annotations)
        self._place(made, before)
        return made

    # -- the schedule --------------------------------------------------------------------------

    def _place(self, instruction: Instruction, before: Instruction | None) -> None:
        places = self._before.setdefault(instruction.parent, {})
        places.setdefault(before, []).append(instruction)

    def _drop(self, instruction: Instruction) -> None:
        """Remove a tuple that nothing reads any more, and its elements likewise."""
        stack = [instruction]
        while stack:
            found = stack.pop()
            if found.opcode not in _PLUMBING or found.users or found.is_root:
                continue
            if found.has_control_edges or found in self._removed:
                continue
            stack.extend(dict.fromkeys(found.operands))
            self._remove(found)

    def _remove(self, instruction: Instruction) -> None:
        self._removed.add(instruction)
        self._before.setdefault(instruction.parent, {})
        instruction.parent.remove(instruction)


_PLUMBING = frozenset({Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT})


def is_of_constants(instruction: Instruction) -> bool:
    """Whether an array takes no other array to make: counted, or the elements of a constant."""
    if instruction.opcode is Opcode.IOTA:
        return True
    is_broadcast = instruction.opcode is Opcode.BROADCAST
    return is_broadcast and instruction.operands[0].opcode is Opcode.CONSTANT
