"""Check a plan against its module: every slice, every step, every value."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.checking.borders import (
    check_arguments,
    check_constant,
    check_outputs,
    writable_allocations,
)
from lowtide.checking.elements import CheckedElements
from lowtide.checking.findings import Findings
from lowtide.checking.order import CheckedOrder
from lowtide.checking.simulation import PlanSimulation
from lowtide.checking.sites import CheckedSite, find_sites, renamed
from lowtide.checking.slices import check_slices
from lowtide.checking.values import ComputationValues, find_values
from lowtide.checking.violation import Violation
from lowtide.ir import Computation, Module, Opcode
from lowtide.ir.buffer import BufferAssignment, BufferSlice


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """The violations of a plan, and how much was checked.

    `values` counts the values with a place of their own, once per call site; `steps` the
    instructions of the flattened schedule; `nbytes` all allocations.
    """

    violations: tuple[Violation, ...]
    values: int
    steps: int
    nbytes: int


def check_plan(module: Module, assignment: BufferAssignment) -> tuple[Violation, ...]:
    """Return what is wrong with the plan of a scheduled module; nothing for a right one.

    Nothing of the plan is believed but where the values lie: what each byte holds at each step of
    the flattened schedule is worked out anew. The violations stand in order: slices by themselves,
    then the program from the first step to the last, then its outputs. A value that is lost is
    reported once. Raises PlanMismatchError where the module has no schedule or the plan belongs to
    another module.
    """
    return inspect_plan(module, assignment).violations


def inspect_plan(module: Module, assignment: BufferAssignment) -> PlanCheck:
    """Do what `check_plan` does, and count."""
    order = CheckedOrder(module)
    elements = CheckedElements(tables=any(site.tables for site in assignment.call_sites))
    entry = find_sites(module, order, assignment)
    violations = check_slices(assignment)
    sites: dict[Computation, list[CheckedSite]] = {}
    for site in entry.subtree():
        sites.setdefault(site.computation, []).append(site)
    values = find_values(order, elements, lambda x: renamed(sites, elements, x))
    findings = Findings(assignment, order, elements)
    writable = writable_allocations(module, assignment)
    machine = PlanSimulation(order, values, elements, assignment, writable, findings)
    outputs = _run(machine, entry, sites)
    check_outputs(module, entry, elements, outputs, findings)
    return PlanCheck(
        (*violations, *findings.violations),
        _count_values(sites, values, elements),
        order.length[module.entry],
        sum([x.nbytes for x in assignment.allocations]),
    )


def _run(
    machine: PlanSimulation, entry: CheckedSite, sites: dict[Computation, list[CheckedSite]]
) -> list[BufferSlice | None]:
    """Run the program, and return where its outputs lie in the end."""
    findings, elements = machine.findings, machine.elements
    values = machine.values[entry.computation]
    machine.enter_entry(entry, check_arguments(entry, elements, machine.assignment, findings))
    for computation, found in sites.items():
        for instruction in computation.instructions.values():
            if instruction.opcode is Opcode.CONSTANT:
                for site in found:
                    check_constant(site, instruction, elements, findings)
                    machine.load_constant(site, instruction)
    machine.run(machine.computation(entry))
    frame = machine.frames[entry.number]
    root = entry.computation.root
    end = machine.order.length[entry.computation]
    for number, value in enumerate(values.of[root]):
        reader = f"the caller, as output {findings.name(entry, root, number)},"
        machine.read(frame.contents[value], frame.places[value], reader, end)
    return [frame.places[value] for value in values.of[root]]


def _count_values(
    sites: dict[Computation, list[CheckedSite]],
    values: dict[Computation, ComputationValues],
    elements: CheckedElements,
) -> int:
    count = 0
    for computation, found in sites.items():
        for instruction, made in values[computation].made.items():
            if instruction.opcode is Opcode.CALL:
                continue
            if instruction.opcode is Opcode.PARAMETER and not computation.is_entry:
                continue
            parts = elements.of(instruction.shape)
            count += len(found) * sum(1 for x in made if parts[x].nbytes)
    return count
