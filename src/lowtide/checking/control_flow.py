"""Calls, loops, conditionals and asynchronous computations, run on names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lowtide.checking.findings import Origin, Region
from lowtide.checking.simulation import (
    Pending,
    PlanSimulation,
    SimulatedFrame,
    Steps,
    at_least,
    same_place,
)
from lowtide.checking.sites import CheckedSite
from lowtide.checking.violation import ViolationKind
from lowtide.ir import Instruction, Opcode
from lowtide.ir.buffer import BufferSlice

Held = tuple[int, BufferSlice | None]
"""The content of a value and its place."""


def _arguments(
    machine: PlanSimulation, frame: SimulatedFrame, site: CheckedSite, instruction: Instruction
) -> list[Held]:
    values = machine.values[site.computation]
    return [x for operand in instruction.operands for x in machine.held(frame, values.of[operand])]


def _call(
    machine: PlanSimulation, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
) -> Steps:
    """The callee works on the caller's values; what it makes is the caller's."""
    inner = site.inner[instruction][0]
    machine.enter(inner, _arguments(machine, frame, site, instruction))
    yield machine.computation(inner)
    _take(machine, site, frame, instruction, machine.leave(inner), 0)


def _take(
    machine: PlanSimulation,
    site: CheckedSite,
    frame: SimulatedFrame,
    instruction: Instruction,
    returned: Sequence[Held],
    shift: int,
) -> None:
    """Make what a callee returned the elements from `shift` on of a result."""
    values = machine.values[site.computation].of[instruction]
    for value, (content, place) in zip(values[shift:], returned, strict=False):
        frame.contents[value] = content
        frame.places[value] = place


def _async_start(
    machine: PlanSimulation, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
) -> Steps:
    """The callee may run at any time up to the done: all that it touches stays until then."""
    inner = site.inner[instruction][0]
    arguments = _arguments(machine, frame, site, instruction)
    machine.enter(inner, arguments)
    yield machine.computation(inner)
    returned = machine.leave(inner)
    part = machine.elements.part(instruction.shape, (1,))
    _take(machine, site, frame, instruction, returned, part.start)
    values = machine.values[site.computation]
    made = values.made.get(instruction, ())
    rest = [x for x in made if not part.start <= x < part.stop]
    machine.make(site, frame, instruction, rest, set())
    touched = machine.pieces(machine.written.within([inner]))
    for content, place in arguments:
        touched += machine.piece(content, place)
    machine.pending[site.number, instruction] = Pending(touched)


# -- loops -------------------------------------------------------------------------------------


def _while(
    machine: PlanSimulation, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
) -> Steps:
    condition, body = site.inner[instruction]
    loop = _Loop(machine, site, frame, instruction)
    loop.begin()
    machine.enter(condition, loop.state)
    yield machine.computation(condition)
    root = condition.computation.root
    step = machine.findings.step(condition, root)
    for content, place in machine.leave(condition):
        machine.read(content, place, f"{site.prefix}{instruction.name}", step)
    survives = loop.surviving()
    machine.enter(body, loop.state)
    yield machine.computation(body)
    loop.repeat(machine.leave(body))
    loop.end(survives)


class _Loop:
    """The state of a loop while it runs.

    `changed` are the elements of the state that the body changes. Each has one place, from the
    initial value to the result; the others are values from outside.
    """

    def __init__(
        self,
        machine: PlanSimulation,
        site: CheckedSite,
        frame: SimulatedFrame,
        instruction: Instruction,
    ) -> None:
        self.machine = machine
        self.site = site
        self.frame = frame
        self.instruction = instruction
        self.inner = site.inner[instruction]
        self.elements = machine.elements.of(instruction.shape)
        self.changed = machine.values[site.computation].made.get(instruction, ())
        self.state = _arguments(machine, frame, site, instruction)
        self.ranges = machine.written.within(self.inner)
        self.name = f"{site.prefix}{instruction.name}"
        self.step = self.inner[0].first_step

    def begin(self) -> None:
        """Check the initial state, and make what the loop writes unknown but for its state."""
        for number in self.changed:
            content, place = self.state[number]
            self.machine.read(content, place, self.name, self.step)
        findings = self.machine.findings
        region = Region(self.site, self.instruction, tuple(self.inner))
        self.machine.fill(self.ranges, findings.region(region))
        mine: set[int] = set()
        for number in self.changed:
            place = self._place(number)
            origin = Origin(self.site, self.instruction, number, self.step, is_state=True)
            content = findings.value(origin)
            self._expect(number, "the initial value", self.state[number][1], place)
            self.state[number] = (content, place)
            if place is None:
                continue
            for before in self.machine.write(origin, content, place):
                if before in mine:
                    self.machine.two_results(origin, findings.origin(before), place)
            mine.add(content)

    def _place(self, number: int) -> BufferSlice | None:
        """The place of an element of the state: the first that the plan names."""
        element = self.elements[number]
        if not element.nbytes:
            return None
        named = (*self._named(number), self.state[number][1])
        place = next((x for x in named if x is not None), None)
        if place is None:
            return self.machine.place_for(self.site, self.instruction, element)
        return at_least(place, element.nbytes)

    def _named(self, number: int) -> Iterator[BufferSlice | None]:
        """The places that the plan names; that they agree is checked where values get there."""
        element = self.elements[number]
        for inner in reversed(self.inner):
            yield inner.place(inner.computation.parameters[0], element)
        yield self.site.place(self.instruction, element)

    def _expect(
        self, number: int, what: str, given: BufferSlice | None, place: BufferSlice | None
    ) -> None:
        if given is None or place is None or same_place(given, place):
            return
        findings = self.machine.findings
        name = findings.name(self.site, self.instruction, number)
        findings.add(
            ViolationKind.COLOCATION,
            f"the state {name} of a loop lies in {findings.where(place)}, but {what} in "
            f"{findings.where(given)}",
            (name,),
            (self.step, findings.step(self.site, self.instruction)),
            (place, given),
        )

    def surviving(self) -> list[bool]:
        """Return which elements of the state the condition leaves as they are."""
        return [self.machine.is_there(*self.state[number]) for number in self.changed]

    def repeat(self, returned: Sequence[Held]) -> None:
        """Check that the body leaves the new state in the place of the old one."""
        step = self.machine.findings.step(self.site, self.instruction) - 1
        for number in self.changed:
            content, place = returned[number]
            self._expect(number, "the value for the next iteration", place, self.state[number][1])
            self.machine.read(content, place, f"the next iteration of {self.name}", step)

    def end(self, survives: Sequence[bool]) -> None:
        """Leave the state as the result."""
        findings = self.machine.findings
        step = findings.step(self.site, self.instruction)
        region = Region(self.site, self.instruction, tuple(self.inner))
        self.machine.fill(self.ranges, findings.region(region))
        values = self.machine.values[self.site.computation].of[self.instruction]
        for number, is_there in zip(self.changed, survives, strict=True):
            place = self.state[number][1]
            origin = Origin(self.site, self.instruction, number, step)
            content = findings.value(origin)
            self.frame.contents[values[number]] = content
            self.frame.places[values[number]] = place
            if place is not None and is_there:
                self.machine.write(origin, content, place)


# -- conditionals ------------------------------------------------------------------------------


def _conditional(
    machine: PlanSimulation, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
) -> Steps:
    """Each branch runs on the memory as it was before; behind it, what any wrote is unknown."""
    findings = machine.findings
    values = machine.values[site.computation]
    name = f"{site.prefix}{instruction.name}"
    branches = site.inner[instruction]
    for content, place in machine.held(frame, values.of[instruction.operands[0]]):
        machine.read(content, place, name, branches[0].first_step)
    made = values.made.get(instruction, ())
    elements = machine.elements.of(instruction.shape)
    places = [machine.place_for(site, instruction, elements[number]) for number in made]
    for operand, branch in zip(instruction.operands[1:], branches, strict=True):
        before = machine.pieces(machine.written.within([branch]))
        machine.enter(branch, machine.held(frame, values.of[operand]))
        yield machine.computation(branch)
        returned = machine.leave(branch)
        for number, place in zip(made, places, strict=True):
            _branch_result(machine, site, instruction, branch, number, returned[number], place)
        machine.restore(before)
    region = findings.region(Region(site, instruction, tuple(branches)))
    machine.fill(machine.written.within(branches), region)
    step = findings.step(site, instruction)
    for number, place in zip(made, places, strict=True):
        origin = Origin(site, instruction, number, step)
        content = findings.value(origin)
        frame.contents[values.of[instruction][number]] = content
        frame.places[values.of[instruction][number]] = place
        if place is not None:
            machine.write(origin, content, place)


def _branch_result(
    machine: PlanSimulation,
    site: CheckedSite,
    instruction: Instruction,
    branch: CheckedSite,
    number: int,
    returned: Held,
    place: BufferSlice | None,
) -> None:
    content, found = returned
    findings = machine.findings
    step = branch.first_step + machine.order.length[branch.computation] - 1
    machine.read(content, found, f"{site.prefix}{instruction.name}", step)
    if place is None or found is None or same_place(place, found):
        return
    name = findings.name(site, instruction, number)
    findings.add(
        ViolationKind.COLOCATION,
        f"the result {name} of a conditional lies in {findings.where(place)}, but what "
        f"{branch.computation.name} returns in {findings.where(found)}",
        (name, findings.origin_name(findings.origin(content))),
        (step,),
        (place, found),
    )


HANDLERS: Final[
    dict[Opcode, Callable[[PlanSimulation, CheckedSite, SimulatedFrame, Instruction], Steps]]
] = {
    Opcode.ASYNC_START: _async_start,
    Opcode.CALL: _call,
    Opcode.CONDITIONAL: _conditional,
    Opcode.WHILE: _while,
}
