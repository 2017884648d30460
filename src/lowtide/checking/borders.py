"""Borders of a program, as its caller relies on them: arguments, constants, outputs, aliases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.checking.elements import CheckedElement, CheckedElements
from lowtide.checking.findings import Findings, overlap
from lowtide.checking.simulation import same_place
from lowtide.checking.sites import CheckedSite
from lowtide.checking.violation import PlanMismatchError, ViolationKind
from lowtide.ir import Instruction, Module, ShapeIndex
from lowtide.ir.buffer import Allocation, AllocationKind, BufferAssignment, BufferSlice
from lowtide.ir.shape import index_text

Place = tuple[int, ShapeIndex]
"""A parameter's number and the index of its element."""


def effective_aliases(module: Module) -> dict[ShapeIndex, Place]:
    """Return for output leaves the parameter leaves that they overwrite, as the module says.

    A pair of unequal bytes cannot be, nor a second output for one parameter, nor a second parameter
    for one output: these have no effect.
    """
    parameters = module.entry.parameters
    found: dict[ShapeIndex, Place] = {}
    taken: set[Place] = set()
    for alias in module.input_output_aliases:
        place = (alias.parameter, alias.parameter_index)
        shape = parameters[alias.parameter].shape.at(alias.parameter_index)
        output = module.entry.root.shape.at(alias.output_index)
        if output.is_tuple or shape.nbytes != output.nbytes:
            continue
        if place in taken or alias.output_index in found:
            continue
        found[alias.output_index] = place
        taken.add(place)
    return found


def writable_allocations(module: Module, assignment: BufferAssignment) -> frozenset[int]:
    """Return the allocations of arguments that the program may overwrite.

    The caller has to allow it, and the plan to say which output lies there in the end.
    """
    given = _given(module)
    return frozenset(
        [x.index for x in assignment.allocations if x.parameter in given and x.output is not None]
    )


def _given(module: Module) -> set[Place]:
    """The arguments that the caller gives away."""
    given = set(effective_aliases(module).values())
    return given | {(x.parameter, x.parameter_index) for x in module.buffer_donors}


def check_arguments(
    site: CheckedSite, elements: CheckedElements, assignment: BufferAssignment, findings: Findings
) -> Iterator[tuple[Instruction, int, BufferSlice]]:
    """Yield (parameter, element, slice) of all that is there before the program starts.

    Each lies at the front of an allocation of its own, which has just its size.
    """
    allocations = {x.parameter: x for x in assignment.allocations if x.parameter is not None}
    for number, parameter in enumerate(site.computation.parameters):
        for i, element in enumerate(elements.of(parameter.shape)):
            if not element.nbytes:
                continue
            own = allocations.get((number, element.index))
            place = site.place(parameter, element)
            name = findings.name(site, parameter, i)
            if own is None:
                findings.add(ViolationKind.MISSING, f"argument {name} has no allocation", (name,))
                continue
            _check_size(findings, own, element.nbytes, f"argument {name}", name)
            expected = BufferSlice(own.index, 0, element.nbytes)
            if place is not None and not same_place(place, expected):
                findings.add(
                    ViolationKind.MISPLACED,
                    f"argument {name} comes in {findings.where(expected)}, but has "
                    f"{findings.where(place)}",
                    (name,),
                    (findings.step(site, parameter),),
                    (expected, place),
                )
            yield parameter, i, expected


def _check_size(
    findings: Findings, allocation: Allocation, nbytes: int, what: str, name: str
) -> None:
    if allocation.nbytes != nbytes:
        findings.add(
            ViolationKind.SIZE,
            f"{what} has {nbytes:,} bytes, its allocation {allocation.index} has "
            f"{allocation.nbytes:,}",
            (name,),
        )


def check_constant(
    site: CheckedSite, instruction: Instruction, elements: CheckedElements, findings: Findings
) -> None:
    """Check that a constant lies alone in an allocation for constants."""
    for number, element in enumerate(elements.of(instruction.shape)):
        place = site.place(instruction, element)
        if place is None or not element.nbytes:
            continue
        allocation = findings.assignment.allocations[place.allocation]
        name = findings.name(site, instruction, number)
        is_other = allocation.constant is not None and allocation.constant is not instruction
        if allocation.kind is not AllocationKind.CONSTANT or is_other:
            findings.add(
                ViolationKind.READ_ONLY,
                f"constant {name} lies in {findings.where(place)}, which is not its own: the "
                "program never writes it there",
                (name,),
                (findings.step(site, instruction),),
                (place,),
            )
            continue
        _check_size(findings, allocation, element.nbytes, f"constant {name}", name)


def check_outputs(
    module: Module,
    site: CheckedSite,
    elements: CheckedElements,
    places: Sequence[BufferSlice | None],
    findings: Findings,
) -> None:
    """Check that outputs lie where the plan and the module say; `places` is where they are."""
    assignment = findings.assignment
    shape = site.computation.root.shape
    rows = [
        (number, element, place)
        for number, (element, place) in enumerate(zip(elements.of(shape), places, strict=True))
        if element.leaf >= 0
    ]
    if len(rows) != len(assignment.outputs):
        raise PlanMismatchError(
            f"the plan has {len(assignment.outputs)} outputs, the module has {len(rows)}"
        )
    wanted = effective_aliases(module)
    taken: list[tuple[CheckedElement, BufferSlice]] = []
    for number, element, place in rows:
        if place is None:
            continue
        name = findings.name(site, site.computation.root, number)
        _check_declared(findings, name, assignment.outputs[element.leaf], place)
        allocation = assignment.allocations[place.allocation]
        _check_alias(findings, name, element, place, allocation, wanted)
        taken.append((element, place))
    _check_disjoint(findings, taken)
    _check_kept(findings, taken)
    _check_allocations(module, findings, taken)


def _check_declared(
    findings: Findings, name: str, declared: BufferSlice, place: BufferSlice
) -> None:
    if declared.allocation < 0 or not same_place(declared, place):
        where = "nowhere" if declared.allocation < 0 else f"in {findings.where(declared)}"
        findings.add(
            ViolationKind.MISPLACED,
            f"output {name} is left in {findings.where(place)}, but the caller looks {where}",
            (name,),
            (),
            (declared, place),
        )


def _check_alias(
    findings: Findings,
    name: str,
    element: CheckedElement,
    place: BufferSlice,
    allocation: Allocation,
    wanted: dict[ShapeIndex, Place],
) -> None:
    parameter = wanted.get(element.index)
    problem = ""
    if parameter is not None:
        if allocation.parameter != parameter or place.offset:
            number, index = parameter
            which = f"{number} at {list(index)}" if index else f"{number}"
            problem = f"has to overwrite argument {which}, but lies in {findings.where(place)}"
    elif allocation.kind is AllocationKind.CONSTANT:
        problem = f"lies in {findings.where(place)}, which belongs to the program"
    elif allocation.kind is AllocationKind.ARGUMENT and allocation.output != element.index:
        problem = f"lies in {findings.where(place)}, which it is not said to overwrite"
    elif allocation.kind is AllocationKind.THREAD_LOCAL:
        problem = f"lies in {findings.where(place)}, which is gone by then"
    if problem:
        text = f"output {name} {problem}"
        findings.add(ViolationKind.ALIAS, text, (name,), (), (place,))


def _check_disjoint(
    findings: Findings, outputs: Sequence[tuple[CheckedElement, BufferSlice]]
) -> None:
    """No two outputs share a byte, even if they have equal values: the caller owns each."""
    ordered = sorted(outputs, key=lambda x: (x[1].allocation, x[1].offset, x[0].leaf))
    last: tuple[CheckedElement, BufferSlice] | None = None
    for element, place in ordered:
        if last is not None and overlap(last[1], place):
            names = tuple([index_text(x.index) for x in (last[0], element)])
            findings.add(
                ViolationKind.ALIAS,
                f"outputs {names[0]} and {names[1]} lie over one another: "
                f"{findings.where(last[1])}, {findings.where(place)}",
                names,
                (),
                (last[1], place),
            )
        if last is None or place.allocation != last[1].allocation or _end(place) > _end(last[1]):
            last = (element, place)


_HOST_MEMORY: Final = 5
"""The memory space whose arena a plan counts apart."""


def _check_kept(findings: Findings, outputs: Sequence[tuple[CheckedElement, BufferSlice]]) -> None:
    """Check that the plan counts right how much of the arena the caller keeps."""
    assignment = findings.assignment
    inside = [
        place.nbytes
        for _, place in outputs
        if assignment.allocations[place.allocation].kind is AllocationKind.ARENA
        and assignment.allocations[place.allocation].colour != _HOST_MEMORY
    ]
    if sum(inside) != assignment.kept_bytes:
        findings.add(
            ViolationKind.SIZE,
            f"outputs take {sum(inside):,} bytes of the arena, the plan counts "
            f"{assignment.kept_bytes:,}",
        )


def _end(place: BufferSlice) -> int:
    return place.offset + place.nbytes


def _check_allocations(
    module: Module, findings: Findings, outputs: Sequence[tuple[CheckedElement, BufferSlice]]
) -> None:
    """Check that allocations of arguments say rightly by which output they are overwritten."""
    overwritten = {parameter: output for output, parameter in effective_aliases(module).items()}
    given = _given(module)
    places = {element.index: place for element, place in outputs}
    seen: dict[Place, int] = {}
    for allocation in findings.assignment.allocations:
        if allocation.parameter is None:
            continue
        number, index = allocation.parameter
        argument = f"argument {number} at {list(index)}" if index else f"argument {number}"
        other = seen.setdefault(allocation.parameter, allocation.index)
        if other != allocation.index:
            text = f"{argument} has two allocations, {other} and {allocation.index}"
            findings.add(ViolationKind.ALIAS, text)
        said = allocation.output
        wanted = overwritten.get(allocation.parameter)
        problem = ""
        if wanted is not None and said != wanted:
            named = "none" if said is None else f"{list(said)}"
            problem = f"is overwritten by output {list(wanted)}; its allocation names {named}"
        elif said is not None and allocation.parameter not in given:
            problem = f"belongs to the caller; its allocation gives it to output {list(said)}"
        elif said is not None and wanted is None:
            place = places.get(said)
            if place is None or not same_place(place, BufferSlice(allocation.index, 0, 0)):
                problem = f"is said to be overwritten by output {list(said)}, which lies elsewhere"
        if problem:
            findings.add(ViolationKind.ALIAS, f"{argument} {problem}")
