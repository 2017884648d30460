"""Memory that a result shares: which leaves overwrite operands, and whether they may."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.evaluator.in_arena.cells import Cell, Cells
from lowtide.evaluator.in_arena.code import ArenaStep
from lowtide.evaluator.in_arena.errors import ArenaError, place_text
from lowtide.evaluator.in_arena.memory import is_writable
from lowtide.evaluator.in_arena.passing import keeps_bytes, may_pass
from lowtide.evaluator.in_arena.sites import Places
from lowtide.evaluator.in_arena.storage import leaf_count, leaf_position
from lowtide.evaluator.in_arena.watch import overlap
from lowtide.ir.attributes import Aliasing, Async, CustomCall, Fusion
from lowtide.ir.buffer import Allocation, BufferSlice
from lowtide.ir.instruction import Instruction
from lowtide.ops.may_share import sharing_pairs

Pair = tuple[int, int, int]
"""Operand number, leaf of the operand, leaf of the result."""


class ArenaSharing:
    """Answers per call site and step, each found once: the places of a right plan never change."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._writable = [is_writable(x) for x in allocations]
        self._fresh: dict[tuple[int, Instruction], tuple[int, ...]] = {}
        self._passes: dict[tuple[int, Instruction], bool] = {}

    def may_pass(
        self, site: int, step: ArenaStep, places: Places, operands: Sequence[Cells]
    ) -> bool:
        """Whether a copy, reshape, transpose or annotation is its operand, in its place."""
        instruction = step.instruction
        if not may_pass(instruction) or len(places) != 1 or len(operands[0]) != 1:
            return False
        key = (site, instruction)
        if key not in self._passes:
            place, operand = places[0], operands[0][0]
            same = operand.place is not None and place in (operand.place, None)
            same = same and step.storages[0].nbytes == operand.storage.nbytes
            self._passes[key] = same and operand.sizes is None and keeps_bytes(instruction)
        return self._passes[key]

    def fresh_leaves(
        self, site: int, step: ArenaStep, places: Places, operands: Sequence[Cells]
    ) -> tuple[int, ...]:
        """Return the leaves made which lie over no operand.

        Raises ArenaError for a leaf that lies where nothing may be written, or over an operand
        which the operation does not overwrite.
        """
        key = (site, step.instruction)
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = tuple(self._find(step, places, operands))
        return found

    def _find(self, step: ArenaStep, places: Places, operands: Sequence[Cells]) -> list[int]:
        allowed: set[Pair] | None = None
        fresh = []
        for leaf, place in enumerate(places):
            if place is None or (step.passed is not None and step.passed[leaf] is not None):
                continue
            self.check_writable(step, leaf, place)
            under = _overlapping(place, operands)
            if not under:
                fresh.append(leaf)
                continue
            allowed = _allowed(step.instruction) if allowed is None else allowed
            for operand, source, found in under:
                if found != place or (operand, source, leaf) not in allowed:
                    _refuse(step, leaf, place, operands[operand][source].name, found)
        return fresh

    def is_writable(self, place: BufferSlice) -> bool:
        """Whether the program may write to the allocation of a slice."""
        return self._writable[place.allocation]

    def check_writable(self, step: ArenaStep, leaf: int, place: BufferSlice) -> None:
        """Raise ArenaError for a result in an argument that no output overwrites, or a constant."""
        if not self.is_writable(place):
            raise ArenaError(
                f"{step.name(leaf)} is written where nothing may be written: {place_text(place)}"
            )

    def check_declared(
        self, step: ArenaStep, operands: Sequence[Cells], result: Sequence[Cell]
    ) -> None:
        """Raise ArenaError where a declared alias does not lie in one place."""
        for operand, source, leaf in declared(step.instruction):
            before, after = operands[operand][source], result[leaf]
            if before.place is None or after.place is None or before.place == after.place:
                continue
            raise ArenaError(
                f"{step.name(leaf)} has to overwrite {before.name}: the former at "
                f"{place_text(after.place)}, the latter at {place_text(before.place)}"
            )


def _overlapping(
    place: BufferSlice, operands: Sequence[Cells]
) -> list[tuple[int, int, BufferSlice]]:
    return [
        (operand, leaf, cell.place)
        for operand, cells in enumerate(operands)
        for leaf, cell in enumerate(cells)
        if cell.place is not None and overlap(place, cell.place)
    ]


def _allowed(instruction: Instruction) -> set[Pair]:
    pairs: set[Pair] = set()
    for (operand, index), output in sharing_pairs(instruction):
        shape = instruction.operands[operand].shape
        before, after = leaf_position(shape, index), leaf_position(instruction.shape, output)
        for leaf in range(leaf_count(shape.at(index))):
            pairs.add((operand, before + leaf, after + leaf))
    return pairs


def declared(instruction: Instruction) -> list[Pair]:
    """Return the leaves which the text of an instruction says to share memory."""
    attributes = instruction.attributes
    if not isinstance(attributes, (Async, CustomCall, Fusion)):
        return []
    pairs: tuple[Aliasing, ...] = attributes.output_to_operand_aliasing
    found = []
    for pair in pairs:
        shape = instruction.operands[pair.operand].shape
        before = leaf_position(shape, pair.operand_index)
        after = leaf_position(instruction.shape, pair.output_index)
        count = leaf_count(shape.at(pair.operand_index))
        found += [(pair.operand, before + leaf, after + leaf) for leaf in range(count)]
    return found


def _refuse(
    step: ArenaStep, leaf: int, place: BufferSlice, operand: str, under: BufferSlice
) -> None:
    raise ArenaError(
        f"{step.name(leaf)} is written over its operand {operand}, which it reads while it "
        f"writes: {place_text(place)}, over {place_text(under)}"
    )
