"""Plans of XLA from the text of its dumps, `...-buffer-assignment.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from lowtide.frontend.hlo_proto.buffer_assignment_sites import is_phi, sites_of
from lowtide.frontend.hlo_proto.buffer_assignment_tables import SliceTables
from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
)
from lowtide.ir.errors import InputError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ShapeIndex
from lowtide.suggestions import nearest

TITLE: Final = "BufferAssignment:"
"""The first line of such a text."""

_ALLOCATION: Final = re.compile(r"allocation (\d+): size (\d+)((?:, .*)?):$")
_VALUE: Final = re.compile(
    r" value: <(?:(?P<number>\d+) )?(?P<name>\S+?)(?:\{(?P<index>[\d,]*)\})?(?: \(phi\))? @(\d+)> "
    r"\(size=(?P<size>\d+),offset=(?P<offset>\d+)\)"
)
_SHAPES: Final = re.compile(r"\|[^|]*\|")
_PARAMETER: Final = re.compile(r"\bparameter (\d+), shape  at ShapeIndex \{([\d,]*)\}")
_COLOUR: Final = re.compile(r"\bcolor (\d+)")


def read_buffer_assignment_text(text: str, module: Module, file: str = "") -> BufferAssignment:
    """Return the plan in a text, which names the instructions of the scheduled `module`.

    The text ends at the first line that is about something else, such as totals. Raises InputError
    with the line of the first thing that is malformed or contradicts the module, and LowtideError
    where an output has no place.
    """
    return _TextReader(module, file).read(text)


class _TextReader:
    def __init__(self, module: Module, file: str) -> None:
        self.module = module
        self.file = file
        self.sites = sites_of(module)
        self.site_of = {x.computation: i for i, x in reversed(list(enumerate(self.sites)))}
        self.instructions = {
            name: x for c in module.computations.values() for name, x in c.instructions.items()
        }
        self.allocations: list[Allocation] = []
        self.values: list[AssignedValue] = []

    def read(self, text: str) -> BufferAssignment:
        lines = text.splitlines()
        if not lines or lines[0].strip() != TITLE:
            raise self._error(1, f"expected {TITLE!r}")
        for number, line in enumerate(lines[1:], 2):
            if header := _ALLOCATION.match(line):
                self.allocations.append(self._allocation(header, number))
            elif line.startswith(" value:"):
                self._add(line, number)
            else:
                break
        tables = SliceTables(self.module, self.sites, self.values)
        outputs = tables.outputs()
        kept = list(self._kept_bytes(outputs))
        return BufferAssignment(
            tuple([self._with_kind(*x) for x in zip(self.allocations, kept, strict=True)]),
            tables.call_sites(),
            outputs,
            kept_bytes=sum(
                [
                    nbytes
                    for allocation, nbytes in zip(self.allocations, kept, strict=True)
                    if _holds_more(allocation, nbytes)
                ]
            ),
            values=tuple(self.values),
        )

    def _error(self, line: int, message: str) -> InputError:
        place = f"{self.file}:{line}" if self.file else f"line {line}"
        return InputError(message, file=place)

    # -- lines -----------------------------------------------------------------------------------

    def _allocation(self, header: re.Match[str], line: int) -> Allocation:
        number, nbytes = int(header[1]), int(header[2])
        if number != len(self.allocations):
            message = f"expected allocation {len(self.allocations)}, found {number}"
            raise self._error(line, message)
        about = _SHAPES.sub("", header[3])
        words = about.split(", ")
        colour = _COLOUR.search(about)
        parameter = _PARAMETER.search(about)
        kind = AllocationKind.ARENA
        if parameter is not None:
            kind = AllocationKind.ARGUMENT
        elif "constant" in words:
            kind = AllocationKind.CONSTANT
        elif "thread-local" in words:
            kind = AllocationKind.THREAD_LOCAL
        elif "maybe-live-out" in words:
            kind = AllocationKind.OUTPUT
        return Allocation(
            number,
            kind,
            nbytes,
            0 if colour is None else int(colour[1]),
            None if parameter is None else self._parameter(parameter, line),
            maybe_live_out="maybe-live-out" in words,
        )

    def _parameter(self, found: re.Match[str], line: int) -> tuple[int, ShapeIndex]:
        number, index = int(found[1]), _index(found[2])
        parameters = self.module.entry.parameters
        if number >= len(parameters):
            raise self._error(line, f"the module has {len(parameters)} parameters, none {number}")
        self._check_index(parameters[number], index, line)
        return number, index

    def _check_index(self, instruction: Instruction, index: ShapeIndex, line: int) -> None:
        try:
            instruction.shape.at(index)
        except IndexError as error:
            raise self._error(line, f"{instruction.name}: {error}") from None

    def _add(self, line: str, number: int) -> None:
        """Add the value in a line to the last allocation."""
        found = _VALUE.match(line)
        if found is None or not self.allocations:
            raise self._error(number, f"expected a value or an allocation, found {line.strip()!r}")
        instruction = self.instructions.get(found["name"])
        if instruction is None:
            close = nearest(found["name"], list(self.instructions))
            message = f"module {self.module.name} has no instruction {found['name']}{close}"
            raise self._error(number, message)
        index = _index(found["index"] or "")
        self._check_index(instruction, index, number)
        place = BufferSlice(len(self.allocations) - 1, int(found["offset"]), int(found["size"]))
        allocation = self.allocations[-1]
        if place.offset + place.nbytes > allocation.nbytes:
            message = f"{found['name']} ends behind its allocation of {allocation.nbytes} bytes"
            raise self._error(number, message)
        is_table = instruction.shape.at(index).is_tuple
        holds_constant = allocation.kind is AllocationKind.CONSTANT
        self.allocations[-1] = replace(
            allocation,
            is_tuple=allocation.is_tuple or (is_table and allocation.nbytes == place.nbytes),
            constant=instruction
            if holds_constant and instruction.opcode is Opcode.CONSTANT
            else allocation.constant,
        )
        site = self.site_of.get(instruction.parent, -1)
        phi = site >= 0 and is_phi(self.sites[site], instruction)
        key = int(found["number"] or len(self.values))
        self.values.append(AssignedValue(key, site, instruction, index, place, key, phi))

    # -- outputs ---------------------------------------------------------------------------------

    def _kept_bytes(self, outputs: Sequence[BufferSlice]) -> Iterator[int]:
        """Yield what results take of each allocation."""
        kept = [0] * len(self.allocations)
        for place in dict.fromkeys(outputs):
            if place.allocation >= 0:
                kept[place.allocation] += place.nbytes
        yield from kept

    def _with_kind(self, allocation: Allocation, kept: int) -> Allocation:
        """An allocation, as an arena where it holds more than results, with what overwrites it."""
        if _holds_more(allocation, kept):
            return replace(allocation, kind=AllocationKind.ARENA)
        if allocation.kind is not AllocationKind.ARGUMENT:
            return allocation
        for alias in self.module.input_output_aliases:
            if allocation.parameter == (alias.parameter, alias.parameter_index):
                return replace(allocation, output=alias.output_index)
        return allocation


def _holds_more(allocation: Allocation, kept: int) -> bool:
    """Whether an allocation with results holds temporaries beside them, as lowtide's arena does."""
    is_output = allocation.kind is AllocationKind.OUTPUT and not allocation.is_tuple
    return is_output and 0 < kept < allocation.nbytes


def _index(text: str) -> ShapeIndex:
    return tuple([int(x) for x in text.split(",") if x])
