"""Plans for the tests of runs in memory: made by hand from offsets, or broken on purpose."""

from collections.abc import Mapping
from dataclasses import replace

from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
    CallSite,
)
from lowtide.ir.clone import clone_module


def hand_made(
    text: str, offsets: Mapping[str, int], size: int, aliased: int | None = None
) -> tuple[Module, BufferAssignment]:
    """Return a module without calls, and its plan: arrays by name at offsets in one arena.

    The parameters and constants have allocations of their own, in order; `aliased` is the number
    of the parameter that the result overwrites. What has no offset passes its operand on.
    """
    module = parse_hlo(text)
    allocations: list[Allocation] = []
    slices: dict = {}

    def allocate(kind: AllocationKind, nbytes: int, **more: object) -> int:
        allocations.append(Allocation(len(allocations), kind, nbytes, **more))
        return len(allocations) - 1

    for number, parameter in enumerate(module.entry.parameters):
        output = () if number == aliased else None
        nbytes = parameter.shape.nbytes
        index = allocate(AllocationKind.ARGUMENT, nbytes, parameter=(number, ()), output=output)
        slices[parameter] = (BufferSlice(index, 0, nbytes),)
    for constant in module.entry.instructions.values():
        if constant.opcode is Opcode.CONSTANT:
            nbytes = constant.shape.nbytes
            index = allocate(AllocationKind.CONSTANT, nbytes, constant=constant)
            slices[constant] = (BufferSlice(index, 0, nbytes),)
    arena = allocate(AllocationKind.ARENA, size)
    for name, offset in offsets.items():
        instruction = module.entry.instructions[name]
        slices[instruction] = (BufferSlice(arena, offset, instruction.shape.nbytes),)
    site = CallSite(module.entry, None, -1, slices)
    return module, BufferAssignment(tuple(allocations), (site,), slices[module.entry.root])


def only_values(text: str) -> tuple[Module, BufferAssignment]:
    """Return a module and its plan, without the places of what only passes a value on."""
    planned = compiler.plan(clone_module(parse_hlo(text)), compiler.PlanOptions("input"))
    assignment = planned.assignment
    rows: list[dict] = [{} for _ in assignment.call_sites]
    for value in assignment.values:
        _set(rows, assignment, value, value.place)
    sites = [replace(x, slices=row) for x, row in zip(assignment.call_sites, rows, strict=True)]
    return planned.module, replace(assignment, call_sites=tuple(sites))


def _set(
    rows: list[dict], assignment: BufferAssignment, value: AssignedValue, place: BufferSlice
) -> None:
    old = assignment.call_sites[value.site].slices[value.instruction]
    row = list(rows[value.site].get(value.instruction, [None] * len(old)))
    indices = [index for index, _ in value.instruction.shape.leaves()]
    row[indices.index(value.index)] = place
    rows[value.site][value.instruction] = tuple(row)


def moved(assignment: BufferAssignment, buffer: int, offset: int) -> BufferAssignment:
    """Return the plan with all values of one buffer at another offset in their allocation."""
    rows = [dict(site.slices) for site in assignment.call_sites]
    for value in assignment.values:
        if value.buffer == buffer:
            _set(rows, assignment, value, replace(value.place, offset=offset))
    sites = [replace(x, slices=row) for x, row in zip(assignment.call_sites, rows, strict=True)]
    return replace(assignment, call_sites=tuple(sites))
