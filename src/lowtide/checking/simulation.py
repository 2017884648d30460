"""Runs a program on names: which value every byte of its plan holds at every step.

Each operation reads its operands, which have to be there, and puts its results into their places.
Loops and conditionals are run once: before a loop, all that its body may write is taken for
unknown except for its state, so that what holds then holds in each iteration, the first, a later
one, or none (the least fixed point of the loop, for contents that are known or unknown).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.checking.elements import CheckedElement, CheckedElements
from lowtide.checking.findings import Findings, Origin
from lowtide.checking.forwarding import ENDS, STARTS, may_forward
from lowtide.checking.in_place import Pair, in_place_pairs
from lowtide.checking.memory import NOTHING, Contents, Piece
from lowtide.checking.order import CheckedOrder
from lowtide.checking.overwriting import may_overwrite
from lowtide.checking.sites import CheckedSite
from lowtide.checking.values import ComputationValues
from lowtide.checking.violation import ViolationKind
from lowtide.checking.written import Range, WrittenRanges
from lowtide.ir import Computation, Instruction, Opcode, ShapeIndex
from lowtide.ir.buffer import AllocationKind, BufferAssignment, BufferSlice

Steps = Generator["Steps", None, None]
"""A part of the program: it yields the parts that have to run before it goes on."""


@dataclass(eq=False, slots=True)
class SimulatedFrame:
    """The values of one run of a computation: content and place of each; None for no bytes."""

    contents: list[int]
    places: list[BufferSlice | None]


@dataclass(eq=False, slots=True)
class Pending:
    """What an asynchronous operation still needs: places, with contents."""

    held: list[tuple[int, Piece]]


class PlanSimulation:
    """The state of the memory, and what all parts of the program do to it."""

    def __init__(
        self,
        order: CheckedOrder,
        values: Mapping[Computation, ComputationValues],
        elements: CheckedElements,
        assignment: BufferAssignment,
        writable: frozenset[int],
        findings: Findings,
    ) -> None:
        self.order = order
        self.values = values
        self.elements = elements
        self.assignment = assignment
        self.writable = writable
        self.findings = findings
        self.memory = [Contents() for _ in assignment.allocations]
        self.frames: dict[int, SimulatedFrame] = {}
        self.pending: dict[tuple[int, Instruction], Pending] = {}
        self._constants: dict[tuple[int, Instruction], int] = {}
        self._reads: dict[Instruction, tuple[int, ...]] = {}
        self._permissions: dict[tuple[Instruction, int, ShapeIndex, ShapeIndex], bool] = {}
        self._pairs: dict[Instruction, tuple[Pair, ...]] = {}
        self._blamed: set[tuple[Instruction, int]] = set()
        self.written = WrittenRanges(values, elements, assignment)

    # -- frames --------------------------------------------------------------------------------

    def enter(
        self, site: CheckedSite, arguments: Sequence[tuple[int, BufferSlice | None]]
    ) -> SimulatedFrame:
        """Return the frame of a callee whose parameters are the arguments."""
        values = self.values[site.computation]
        frame = SimulatedFrame([0] * values.count, [None] * values.count)
        for value, (content, place) in zip(values.parameters, arguments, strict=True):
            frame.contents[value] = content
            frame.places[value] = place
        self.frames[site.number] = frame
        for parameter in site.computation.parameters:
            self.check_given(site, frame, parameter)
        return frame

    def enter_entry(
        self, site: CheckedSite, arguments: Iterable[tuple[Instruction, int, BufferSlice]]
    ) -> None:
        """Make the frame of the entry, with the arguments (parameter, element, place) in it."""
        values = self.values[site.computation]
        frame = SimulatedFrame([0] * values.count, [None] * values.count)
        self.frames[site.number] = frame
        for parameter, number, place in arguments:
            step = self.findings.step(site, parameter)
            content = self.findings.value(Origin(site, parameter, number, step))
            value = values.of[parameter][number]
            frame.contents[value] = content
            frame.places[value] = place
            self.memory[place.allocation].write(place.offset, place.offset + place.nbytes, content)

    def leave(self, site: CheckedSite) -> list[tuple[int, BufferSlice | None]]:
        """Return contents and places of the result, and forget the frame."""
        frame = self.frames.pop(site.number)
        values = self.values[site.computation].of[site.computation.root]
        return [(frame.contents[x], frame.places[x]) for x in values]

    def held(
        self, frame: SimulatedFrame, values: Iterable[int]
    ) -> list[tuple[int, BufferSlice | None]]:
        """Return contents and places of some values."""
        return [(frame.contents[x], frame.places[x]) for x in values]

    def check_given(
        self, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
    ) -> None:
        """Check that elements which are passed on have no other place than before."""
        values = self.values[site.computation].of[instruction]
        for number, element in enumerate(self.elements.of(instruction.shape)):
            given = site.place(instruction, element)
            place = frame.places[values[number]]
            if given is None or place is None or same_place(given, place):
                continue
            name = self.findings.name(site, instruction, number)
            origin = self.findings.origin(frame.contents[values[number]])
            is_merged = origin.is_state or origin.instruction is instruction
            self.findings.add(
                ViolationKind.COLOCATION if is_merged else ViolationKind.MISPLACED,
                f"{name} is {self.findings.describe(origin)} which lies in "
                f"{self.findings.where(place)}, but has {self.findings.where(given)}",
                (name, self.findings.origin_name(origin)),
                (self.findings.step(site, instruction),),
                (given, place),
            )

    # -- reading and writing -------------------------------------------------------------------

    def read(self, content: int, place: BufferSlice | None, reader: str, step: int) -> bool:
        """Check that a value is still in its place; whether it is."""
        if place is None or self.is_there(content, place):
            return True
        self.findings.lost(self.memory[place.allocation], content, place, reader, step)
        return False

    def write(self, origin: Origin, content: int, place: BufferSlice) -> Sequence[int]:
        """Put a value into its place, and return the contents that it replaces."""
        allocation = self.assignment.allocations[place.allocation]
        if allocation.kind is AllocationKind.CONSTANT or (
            allocation.kind is AllocationKind.ARGUMENT and allocation.index not in self.writable
        ):
            self._blame(origin, place)
        return self.memory[place.allocation].write(
            place.offset, place.offset + place.nbytes, content
        )

    def _blame(self, origin: Origin, place: BufferSlice) -> None:
        key = (origin.instruction, place.allocation)
        if key in self._blamed:
            return
        self._blamed.add(key)
        allocation = self.assignment.allocations[place.allocation]
        owner = "a constant" if allocation.kind is AllocationKind.CONSTANT else "an argument"
        self.findings.add(
            ViolationKind.READ_ONLY,
            f"{self.findings.describe(origin)} is written to {self.findings.where(place)}, "
            f"{owner} that nothing may overwrite",
            (self.findings.origin_name(origin),),
            (origin.step,),
            (place,),
        )

    def place_for(
        self, site: CheckedSite, instruction: Instruction, element: CheckedElement
    ) -> BufferSlice | None:
        """Return the place of a value that is made; None, and a violation if it has bytes."""
        if not element.nbytes:
            return None
        given = site.place(instruction, element)
        if given is None:
            number = self.elements.of(instruction.shape).index(element)
            name = self.findings.name(site, instruction, number)
            self.findings.add(
                ViolationKind.MISSING,
                f"{name} has {element.nbytes:,} bytes but no place",
                (name,),
                (self.findings.step(site, instruction),),
            )
            return None
        return at_least(given, element.nbytes)

    # -- running -------------------------------------------------------------------------------

    def run(self, part: Steps) -> None:
        """Run a part of the program with all that it yields; nesting may be of any depth."""
        stack = [part]
        while stack:
            try:
                stack.append(next(stack[-1]))
            except StopIteration:
                stack.pop()

    def computation(self, site: CheckedSite) -> Steps:
        """Run a computation whose frame is there."""
        from lowtide.checking.control_flow import HANDLERS

        frame = self.frames[site.number]
        for instruction in self.order.sequences[site.computation]:
            handler = HANDLERS.get(instruction.opcode)
            if handler is not None:
                yield handler(self, site, frame, instruction)
                self.check_given(site, frame, instruction)
            elif instruction.opcode is Opcode.CONSTANT:
                self._constant(site, frame, instruction)
            elif instruction.opcode is not Opcode.PARAMETER:
                self._plain(site, frame, instruction)

    def _plain(self, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction) -> None:
        step = self.findings.step(site, instruction)
        values = self.values[site.computation]
        reads = self.reads(values, instruction)
        for value in reads:
            if frame.places[value] is not None:
                reader = f"{site.prefix}{instruction.name}"
                self.read(frame.contents[value], frame.places[value], reader, step)
        if instruction.opcode in ENDS:
            self._end(site, instruction, step)
        made = values.made.get(instruction, ())
        if made:
            self._check_pairs(site, frame, instruction)
            self.make(site, frame, instruction, made, {frame.contents[x] for x in reads})
        if len(made) < len(values.of[instruction]):
            self.check_given(site, frame, instruction)
        if instruction.opcode in STARTS:
            touched = self.held(frame, (*reads, *values.of[instruction]))
            pieces = [x for content, place in touched for x in self.piece(content, place)]
            self.pending[site.number, instruction] = Pending(pieces)

    def is_there(self, content: int, place: BufferSlice | None) -> bool:
        """Whether a value is still in its place."""
        if place is None:
            return True
        return self.memory[place.allocation].holds(
            place.offset, place.offset + place.nbytes, content
        )

    def piece(self, content: int, place: BufferSlice | None) -> list[tuple[int, Piece]]:
        """A value that is still in its place: what an asynchronous operation relies on."""
        if place is None or not self.is_there(content, place):
            return []
        return [(place.allocation, (place.offset, place.offset + place.nbytes, content))]

    def reads(self, values: ComputationValues, instruction: Instruction) -> tuple[int, ...]:
        """Return the values whose bytes an instruction reads."""
        found = self._reads.get(instruction)
        if found is None:
            found = self._reads[instruction] = self._find_reads(values, instruction)
        return found

    def _find_reads(self, values: ComputationValues, instruction: Instruction) -> tuple[int, ...]:
        opcode = instruction.opcode
        if opcode in ENDS:
            return tuple(dict.fromkeys(values.of[instruction]))
        if opcode is Opcode.GET_TUPLE_ELEMENT or (
            opcode is Opcode.COPY and instruction.shape.is_tuple
        ):
            return values.of[instruction.operands[0]][:1] if self.elements.tables else ()
        if opcode in _NAMES_ONLY:
            return ()
        if may_forward(instruction) and instruction not in values.made:
            return ()
        operands = [value for x in instruction.operands for value in values.of[x]]
        return tuple(dict.fromkeys(operands))

    def make(
        self,
        site: CheckedSite,
        frame: SimulatedFrame,
        instruction: Instruction,
        made: Sequence[int],
        reads: set[int],
    ) -> None:
        """Write the elements `made` of a result; `reads` are the contents that the step reads."""
        elements = self.elements.of(instruction.shape)
        values = self.values[site.computation].of[instruction]
        step = self.findings.step(site, instruction)
        mine: set[int] = set()
        for number in made:
            element = elements[number]
            origin = Origin(site, instruction, number, step)
            content = self.findings.value(origin)
            place = self.place_for(site, instruction, element)
            frame.contents[values[number]] = content
            frame.places[values[number]] = place
            if place is None:
                continue
            for before in self.write(origin, content, place):
                if before in mine:
                    self.two_results(origin, self.findings.origin(before), place)
                elif before > NOTHING and before in reads:
                    self._over_operand(site, frame, origin, place, before)
            mine.add(content)

    def _check_pairs(
        self, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction
    ) -> None:
        """Check that an operation which changes an operand has its result in that place."""
        pairs = self._pairs.get(instruction)
        if pairs is None:
            pairs = self._pairs[instruction] = in_place_pairs(instruction)
        values = self.values[site.computation].of
        for operand, index, output in pairs:
            source = instruction.operands[operand]
            start = self.elements.part(source.shape, index).start
            number = self.elements.part(instruction.shape, output).start
            held = frame.places[values[source][start]]
            given = site.place(instruction, self.elements.of(instruction.shape)[number])
            if held is None or given is None or same_place(held, given):
                continue
            name = self.findings.name(site, instruction, number)
            self.findings.add(
                ViolationKind.COLOCATION,
                f"{name} replaces operand {operand} in {self.findings.where(held)}, but has "
                f"{self.findings.where(given)}",
                (name, self.findings.name(site, source, start)),
                (self.findings.step(site, instruction),),
                (given, held),
            )

    def two_results(self, origin: Origin, other: Origin, place: BufferSlice) -> None:
        """Record that two values which are made together lie over one another."""
        names = (self.findings.origin_name(origin), self.findings.origin_name(other))
        self.findings.add(
            ViolationKind.OVERLAP,
            f"{names[0]} and {names[1]}, made at step {origin.step:,} by one operation, lie over "
            f"one another in {self.findings.where(place)}",
            names,
            (origin.step,),
            (place,),
        )

    def _over_operand(
        self,
        site: CheckedSite,
        frame: SimulatedFrame,
        origin: Origin,
        place: BufferSlice,
        content: int,
    ) -> None:
        """A result lies over what the same step reads: each such operand has to allow that."""
        instruction = origin.instruction
        output = self.elements.of(instruction.shape)[origin.element].index
        values = self.values[site.computation]
        for number, operand in enumerate(instruction.operands):
            for i, value in enumerate(values.of[operand]):
                if frame.contents[value] != content:
                    continue
                held = frame.places[value]
                index = self.elements.of(operand.shape)[i].index
                if held == place and self._permits(instruction, number, index, output):
                    continue
                if self.findings.forget(content):
                    self._report_operand(origin, place, content, number, held)
                return

    def _permits(
        self, instruction: Instruction, operand: int, index: ShapeIndex, output: ShapeIndex
    ) -> bool:
        key = (instruction, operand, index, output)
        answer = self._permissions.get(key)
        if answer is None:
            answer = may_overwrite(instruction, operand, index, output)
            self._permissions[key] = answer
        return answer

    def _report_operand(
        self,
        origin: Origin,
        place: BufferSlice,
        content: int,
        operand: int,
        held: BufferSlice | None,
    ) -> None:
        findings = self.findings
        victim = findings.origin(content)
        how = "in part" if held != place else "which this operation cannot do in place"
        findings.add(
            ViolationKind.OVERLAP,
            f"{findings.describe(origin)} overwrites operand {operand}, "
            f"{findings.describe(victim)} {how}: {findings.where(place)}",
            (findings.origin_name(origin), findings.origin_name(victim)),
            (victim.step, origin.step),
            (place,) if held is None else (place, held),
        )

    # -- constants -----------------------------------------------------------------------------

    def load_constant(self, site: CheckedSite, instruction: Instruction) -> None:
        """Put a constant where the plan has it, before the program starts."""
        element = self.elements.of(instruction.shape)
        for number, part in enumerate(element):
            place = site.place(instruction, part)
            if place is None or not part.nbytes:
                continue
            place = at_least(place, part.nbytes)
            key = (place.allocation, instruction)
            if key not in self._constants:
                step = self.findings.step(site, instruction)
                content = self.findings.value(Origin(site, instruction, number, step))
                self._constants[key] = content
                self.memory[place.allocation].write(
                    place.offset, place.offset + place.nbytes, content
                )

    def _constant(self, site: CheckedSite, frame: SimulatedFrame, instruction: Instruction) -> None:
        values = self.values[site.computation].of[instruction]
        step = self.findings.step(site, instruction)
        for number, element in enumerate(self.elements.of(instruction.shape)):
            place = self.place_for(site, instruction, element)
            content = 0 if place is None else self._constants[place.allocation, instruction]
            if place is None:
                content = self.findings.value(Origin(site, instruction, number, step))
            frame.contents[values[number]] = content
            frame.places[values[number]] = place

    # -- asynchronous operations ---------------------------------------------------------------

    def _end(self, site: CheckedSite, instruction: Instruction, step: int) -> None:
        start = instruction.operands[0]
        while start.opcode is Opcode.ASYNC_UPDATE:
            start = start.operands[0]
        pending = self.pending.pop((site.number, start), None)
        if pending is None:
            return
        reader = f"{site.prefix}{start.name}, which goes on until {instruction.name},"
        for allocation, (first, end, content) in pending.held:
            if content > 0:
                self.read(content, BufferSlice(allocation, first, end - first), reader, step)

    # -- parts of the memory -------------------------------------------------------------------

    def pieces(self, ranges: Iterable[Range]) -> list[tuple[int, Piece]]:
        """Return the contents of some ranges."""
        return [
            (allocation, piece)
            for allocation, start, end in ranges
            for piece in self.memory[allocation].pieces(start, end)
        ]

    def restore(self, pieces: Iterable[tuple[int, Piece]]) -> None:
        """Put contents back."""
        for allocation, piece in pieces:
            self.memory[allocation].restore((piece,))

    def fill(self, ranges: Iterable[Range], content: int) -> None:
        """Take some ranges for unknown."""
        for allocation, start, end in ranges:
            self.memory[allocation].write(start, end, content)


def same_place(a: BufferSlice, b: BufferSlice) -> bool:
    """Whether two slices begin at one byte; sizes are checked elsewhere."""
    return a.allocation == b.allocation and a.offset == b.offset


def at_least(place: BufferSlice, nbytes: int) -> BufferSlice:
    """Return the slice, or one of `nbytes` where it is too small for its value."""
    if place.nbytes >= nbytes:
        return place
    return BufferSlice(place.allocation, place.offset, nbytes)


_NAMES_ONLY: Final = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.ASYNC_UPDATE,
        Opcode.BITCAST,
        Opcode.DOMAIN,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.TUPLE,
    }
)
"""Operations that read no bytes."""
