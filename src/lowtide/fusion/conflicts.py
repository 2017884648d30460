"""Fusions that no single loop computes are written out: their instructions run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Slice
from lowtide.ir.schedule import Schedule
from lowtide.ir.shape import major_to_minor
from lowtide.ops.in_place import in_place_pairs, source_of
from lowtide.ops.table import TABLE
from lowtide.passes.call_sites import count_references, drop_unreferenced
from lowtide.passes.editing import substitute
from lowtide.passes.embedding import embed
from lowtide.passes.matching import scalar_value


def write_out_fusions(module: Module, is_wanted: Callable[[Instruction], bool]) -> int:
    """Replace fusions by their instructions, in the schedule too; return how many."""
    references = count_references(module)
    sequences = dict(module.schedule.sequences) if module.schedule else {}
    left: dict[Computation, None] = {}
    changes = 0
    for computation in list(module.computations.values()):
        for fusion in list(computation.instructions.values()):
            if fusion.opcode is not Opcode.FUSION or not is_wanted(fusion):
                continue
            body = fusion.called_computations[0]
            _write_out(fusion, sequences, once=references[body] == 1)
            references[body] -= 1
            left[body] = None
            changes += 1
    if changes:
        drop_unreferenced(module, left)
        if module.schedule is not None:
            module.schedule = Schedule(sequences)
    return changes


def _write_out(
    fusion: Instruction, sequences: dict[Computation, tuple[Instruction, ...]], *, once: bool
) -> None:
    parent = fusion.parent
    known = len(parent.instructions)
    body = fusion.called_computations[0]
    result = embed(body, fusion, fusion.operands, once=once)
    made = list(parent.instructions.values())[known:]
    if fusion.has_control_edges:
        _pass_on_edges(fusion, made)
    substitute(fusion, result)
    order = sequences.get(parent)
    if order is not None:
        at = order.index(fusion)
        sequences[parent] = (*order[:at], *made, *order[at + 1 :])
    parent.remove(fusion)


def _pass_on_edges(fusion: Instruction, made: list[Instruction]) -> None:
    """All that is written out stays between what the fusion waited for and what waits for it."""
    for x in made:
        for predecessor in fusion.control_predecessors:
            x.add_control_predecessor(predecessor)
        for successor in fusion.control_successors:
            successor.add_control_predecessor(x)


# -- conflicts -------------------------------------------------------------------------------------


def overwrites_what_it_reads(fusion: Instruction) -> bool:
    """Whether a result of a fusion overwrites an operand of which other elements are read.

    The loops of a fusion write elements in any order. So what overwrites an operand may need of it
    just the element that is written next.
    """
    body = fusion.called_computations[0]
    for (number, index), output in in_place_pairs(fusion):
        parameter = body.parameters[number]
        source, _ = source_of(body.root, output)
        if index or _Walk(parameter, source).finds_conflict():
            return True
    return False


_WRITERS: Final = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER})


@final
class _Walk:
    """What depends on a parameter that is overwritten by the result that `source` makes.

    A value is whole where its elements lie where those of the parameter do, else it is the part
    that an update replaces.
    """

    def __init__(self, parameter: Instruction, source: Instruction) -> None:
        self.parameter = parameter
        self.update = source if source.opcode in _WRITERS else None

    def finds_conflict(self) -> bool:
        """Whether anything needs an element at another place than where it is written."""
        seen = {(self.parameter, True)}
        stack = [(self.parameter, True)]
        while stack:
            value, is_whole = stack.pop()
            for user in value.users:
                after = self._after(value, user, is_whole)
                if after is None:
                    return True
                fresh = [(user, x) for x in after if (user, x) not in seen]
                seen.update(fresh)
                stack += fresh
        return False

    def _after(
        self, value: Instruction, user: Instruction, is_whole: bool
    ) -> tuple[bool, ...] | None:
        """Whether the user is whole, or a part, or needs no look; None for a conflict."""
        if user is self.update:
            return self._given(value, is_whole)
        if user.opcode is Opcode.TUPLE:
            return () if self.update is None or self._is_updated(value) else None
        if self._is_updated(value):
            return (is_whole,) if user.opcode is Opcode.BITCAST else None
        if is_whole and self._is_replaced_part(user, value):
            return (False,)
        if user.opcode is Opcode.BITCAST:
            return (True,) if self._is_parameter(user) and is_whole else None
        if not self._keeps_order(value):
            return None
        keeps_places = TABLE[user.opcode].elementwise and all(
            x.shape.dimensions in ((), user.shape.dimensions) for x in user.operands
        )
        if keeps_places and user.shape.dimensions == value.shape.dimensions:
            return (is_whole,)
        return None

    def _given(self, value: Instruction, is_whole: bool) -> tuple[bool, ...] | None:
        """A value handed to the update: as what is overwritten, or as what it writes."""
        assert self.update is not None
        places = [number for number, x in enumerate(self.update.operands) if x is value]
        if places == [0] and self._is_parameter(value):
            return (True,)
        is_slice = self.update.opcode is Opcode.DYNAMIC_UPDATE_SLICE
        return () if places == [1] and is_slice and not is_whole else None

    def _is_updated(self, value: Instruction) -> bool:
        """Whether a value is the updated array."""
        return self.update is not None and source_of(value, ())[0] is self.update

    def _is_parameter(self, value: Instruction) -> bool:
        """Whether a value is the parameter, perhaps under other dimensions."""
        return source_of(value, ())[0] is self.parameter

    def _keeps_order(self, value: Instruction) -> bool:
        """Whether places mean the same for a value as for the parameter."""
        if value is self.parameter or not self._is_parameter(value):
            return True
        shapes = (value.shape, self.parameter.shape)
        same_type = shapes[0].element_type is shapes[1].element_type
        return same_type and all(x.layout in (None, major_to_minor(x.rank)) for x in shapes)

    def _is_replaced_part(self, part: Instruction, value: Instruction) -> bool:
        """Whether an instruction slices of a value just what the update replaces."""
        update = self.update
        if update is None or update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE:
            return False
        target, written, *starts = update.operands
        if value.shape.dimensions != target.shape.dimensions:
            return False
        if part.shape.dimensions != written.shape.dimensions:
            return False
        if part.opcode is Opcode.DYNAMIC_SLICE:
            return part.operands[0] is value and _equal(part.operands[1:], starts)
        if part.opcode is not Opcode.SLICE:
            return False
        attributes = part.attributes_as(Slice)
        known = [scalar_value(x) for x in starts]
        sizes = zip(target.shape.dimensions, written.shape.dimensions, strict=True)
        lasts = [whole - size for whole, size in sizes]
        clamped = [
            None if x is None else min(max(int(x), 0), last)
            for x, last in zip(known, lasts, strict=True)
        ]
        return list(attributes.starts) == clamped and set(attributes.strides) <= {1}


def _equal(starts: tuple[Instruction, ...], others: list[Instruction]) -> bool:
    """Whether indices are the same instructions, or equal constants."""
    values = [[scalar_value(x) for x in y] for y in (starts, others)]
    pairs = zip(starts, others, *values, strict=True)
    return all(a is b or (x is not None and x == y) for a, b, x, y in pairs)
