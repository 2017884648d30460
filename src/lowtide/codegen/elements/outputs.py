"""Outputs of a kernel of loops: their elements, and the places to store them in."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, leaves, roots_of
from lowtide.codegen.elements.values import CallFrame, Mask
from lowtide.codegen.indexing import ZERO, Index
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ops.in_place import in_place_pairs
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class KernelOutput:
    """One result: the elements of `source` are stored in it, from `update`'s start if it is one.

    `leaf` says which of the arrays of `source` they are, and `dimensions` those of that array.
    """

    source: Instruction
    array: int
    dimensions: tuple[int, ...]
    leaf: int = 0
    update: Instruction | None = None


def outputs_of(instruction: Instruction) -> list[KernelOutput]:
    """Return what a kernel of loops stores; updates in place store only what is new."""
    root = instruction
    if instruction.opcode is Opcode.FUSION:
        root = instruction.called_computations[0].root
    in_place = {output for _, output in in_place_pairs(instruction)}
    positions = [index for index, leaf in instruction.shape.leaves() if leaf.is_array]
    sources = [
        (source, leaf, shape.dimensions)
        for source in roots_of(root)
        for leaf, shape in enumerate(leaves(source.shape))
    ]
    found = []
    for number, ((source, leaf, sizes), at) in enumerate(zip(sources, positions, strict=True)):
        update = _update_behind(source) if at in in_place else None
        if update is None:
            found.append(KernelOutput(source, number, sizes, leaf))
        else:
            written = update.operands[1]
            found.append(KernelOutput(written, number, written.shape.dimensions, 0, update))
    return found


def _update_behind(source: Instruction) -> Instruction | None:
    return source if source.opcode is Opcode.DYNAMIC_UPDATE_SLICE else None


@dataclass(frozen=True, eq=False, slots=True)
class ComputedOutput:
    """The values of an output at some indices, and where they are to be stored."""

    array: Array
    values: tuple[Value, ...]
    places: tuple[Index, ...]


def stored(
    elements: Elements,
    outputs: Sequence[KernelOutput],
    bound: Bound,
    indices: Sequence[Index],
    mask: Mask | None,
) -> None:
    """Compute outputs at some indices, then store them all.

    The indices are in an array of the dimensions of the first output; others have the same but for
    those of size 1. Several indices are those of the steps of a loop, for which outputs that lie so
    in memory are stored side by side.
    """
    store_computed(elements, computed(elements, outputs, bound, indices, mask), mask)


def computed(
    elements: Elements,
    outputs: Sequence[KernelOutput],
    bound: Bound,
    indices: Sequence[Index],
    mask: Mask | None,
) -> list[ComputedOutput]:
    """Compute outputs at some indices, as `stored` does."""
    found = []
    for output in outputs:
        values, places = [], []
        for position in indices:
            index = _fitted(position, outputs[0].dimensions, output.dimensions)
            element = elements.all_at(output.source, index, bound.frame, mask)
            values.append(element.values[output.leaf])
            places.append(_place(elements, bound.frame, output, index))
        array = bound.results[output.array]
        found.append(ComputedOutput(array, tuple(values), tuple(places)))
    return found


def store_computed(elements: Elements, found: Sequence[ComputedOutput], mask: Mask | None) -> None:
    """Store values that were computed."""
    for x in found:
        offsets = [offset(x.array.shape, place) for place in x.places]
        if not elements.memory.store_in_turn(elements, x.array, offsets, x.values, mask):
            for value, place in zip(x.values, x.places, strict=True):
                elements.store(x.array, place, value, mask)


def _fitted(index: Index, dimensions: tuple[int, ...], wanted: tuple[int, ...]) -> Index:
    """Return an index where dimensions of size 1 stand elsewhere."""
    if dimensions == wanted:
        return index
    rest = iter([x for x, size in zip(index, dimensions, strict=True) if size != 1])
    return tuple([ZERO if size == 1 else next(rest) for size in wanted])


def _place(elements: Elements, frame: CallFrame, output: KernelOutput, index: Index) -> Index:
    if output.update is None:
        return index
    return updated_place(elements, frame, output.update, index)


def updated_place(elements: Elements, frame: CallFrame, update: Instruction, index: Index) -> Index:
    """Return where a dynamic-update-slice writes element `index` of what it writes."""
    target, what = update.operands[0].shape, update.operands[1].shape
    found = []
    for d, position in enumerate(index):
        start = elements.all_at(update.operands[2 + d], (), frame)
        free = target.dimensions[d] - what.dimensions[d] + 1
        found.append(position + elements.indices.looked_up(start, free))
    return tuple(found)
