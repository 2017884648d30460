"""Checks of each slice by itself: size, borders, alignment, memory space."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Final

from lowtide.checking.violation import PlanMismatchError, Violation, ViolationKind
from lowtide.ir import Instruction, Shape, ShapeIndex
from lowtide.ir.buffer import BufferAssignment, BufferSlice, CallSite
from lowtide.ir.shape import index_text

ALIGNMENT: Final = 64
"""Offsets are multiples of the largest common divisor of this and the size."""


def check_slices(assignment: BufferAssignment) -> list[Violation]:
    """Return what is wrong with slices whatever else happens in the program.

    Raises PlanMismatchError for a slice of an allocation that does not exist.
    """
    _check_allocations(assignment)
    found = list(_check_values(assignment))
    checked: set[tuple[BufferSlice, Instruction, ShapeIndex]] = set()
    spaces: dict[int, dict[int, str]] = {}
    for site in assignment.call_sites:
        for instruction, index, shape, place in _slices_of(site):
            key = (place, instruction, index)
            if key in checked:
                continue
            checked.add(key)
            name = _name(instruction, index)
            found += _check_slice(assignment, place, shape, name)
            space = shape.memory_space
            named = spaces.setdefault(place.allocation, {space: name})
            if space not in named:
                (other, first), *_ = named.items()
                named[space] = name
                text = (
                    f"{name} of memory space {space} lies in allocation {place.allocation}, as "
                    f"does {first} of memory space {other}"
                )
                names = (name, first)
                found.append(Violation(ViolationKind.MEMORY_SPACE, text, names, (), (place,)))
    return found


def _check_allocations(assignment: BufferAssignment) -> None:
    for index, allocation in enumerate(assignment.allocations):
        if allocation.index != index:
            raise PlanMismatchError(
                f"allocation {index} of the plan calls itself number {allocation.index}"
            )
        if allocation.nbytes < 0:
            raise PlanMismatchError(f"allocation {index} has {allocation.nbytes} bytes")


def _check_values(assignment: BufferAssignment) -> Iterator[Violation]:
    """Check that the list of values and the rows of the call sites say the same."""
    leaves: dict[Shape, dict[ShapeIndex, int]] = {}
    for value in assignment.values:
        if value.site < 0:
            continue
        if value.site >= len(assignment.call_sites):
            raise PlanMismatchError(
                f"value {value.number} is of call site {value.site}; the plan has "
                f"{len(assignment.call_sites)}"
            )
        site, shape = assignment.call_sites[value.site], value.instruction.shape
        if shape not in leaves:
            leaves[shape] = {index: i for i, (index, _) in enumerate(shape.leaves())}
        leaf = leaves[shape].get(value.index)
        row = site.slices.get(value.instruction)
        table = site.tables.get((value.instruction, value.index))
        place = row[leaf] if row is not None and leaf is not None else table
        if place is not None and place != value.place:
            name = _name(value.instruction, value.index)
            text = f"the plan lists value {value.number}, {name}, at {value.place}, and at {place}"
            places = (value.place, place)
            yield Violation(ViolationKind.MISPLACED, text, (name,), (), places)


def _slices_of(site: CallSite) -> Iterator[tuple[Instruction, ShapeIndex, Shape, BufferSlice]]:
    """Yield the slices of values that lie on the device and have bytes."""
    for instruction, places in site.slices.items():
        if not instruction.shape.is_tuple:
            if places and places[0] is not None and places[0].allocation >= 0:
                yield instruction, (), instruction.shape, places[0]
            continue
        for (index, shape), place in zip(instruction.shape.leaves(), places, strict=False):
            if place is not None and place.allocation >= 0:
                yield instruction, index, shape, place
    for (instruction, index), place in site.tables.items():
        yield instruction, index, instruction.shape.at(index), place


def _check_slice(
    assignment: BufferAssignment, place: BufferSlice, shape: Shape, name: str
) -> Iterator[Violation]:
    if place.allocation >= len(assignment.allocations):
        raise PlanMismatchError(
            f"the plan puts {name} into allocation {place.allocation}, but has "
            f"{len(assignment.allocations)} allocations"
        )
    allocation = assignment.allocations[place.allocation]
    end = place.offset + place.nbytes
    where = f"bytes {place.offset:,} to {end:,} of allocation {allocation.index}"
    if place.nbytes < shape.nbytes:
        text = f"{name} has {shape.nbytes:,} bytes but a slice of {place.nbytes:,}: {where}"
        yield Violation(ViolationKind.SIZE, text, (name,), (), (place,))
    if place.offset < 0 or end > allocation.nbytes:
        text = f"{name} reaches out of its allocation of {allocation.nbytes:,} bytes: {where}"
        yield Violation(ViolationKind.BOUNDS, text, (name,), (), (place,))
    unit = gcd(place.nbytes, ALIGNMENT)
    if place.nbytes and place.offset % unit:
        text = f"the offset of {name} is no multiple of {unit}: {where}"
        yield Violation(ViolationKind.ALIGNMENT, text, (name,), (), (place,))


def _name(instruction: Instruction, index: ShapeIndex) -> str:
    if not instruction.shape.is_tuple:
        return instruction.name
    return instruction.name + index_text(index)
