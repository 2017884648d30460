"""`...-buffer-assignment-values.txt`: where each value may be, and what reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from lowtide.ir import Instruction, Module, Shape, ShapeIndex
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.printer import to_text
from lowtide.ir.shape import index_text
from lowtide.xla.analysis.hlo_dataflow import HloDataflow
from lowtide.xla.analysis.hlo_value import HloPosition, HloValue, Use
from lowtide.xla.dumps.buffer_assignment import bytes_text, value_text

_FRAME: Final = re.compile(r"stack_frame_id=\d+")


def value_uses_text(module: Module, assignment: BufferAssignment, dataflow: HloDataflow) -> str:
    """Return the values of a plan by number, each with its positions and uses.

    `dataflow` is that of the planned module. A value that it does not know, such as the state of a
    loop that our own plans have, is at one position and has no uses there.
    """
    texts = _instruction_texts(module)
    total = sum([x.nbytes for x in assignment.allocations])
    lines = ["", f"Total bytes used: {total} ({bytes_text(total)})", "", "Used values:"]
    for value in sorted(assignment.values, key=lambda x: x.number):
        colour = assignment.allocations[value.place.allocation].colour
        lines.append(value_text(value, colour))
        found = dataflow.defined_at(value.instruction, value.index)
        lines += _details(HloPosition(value.instruction, value.index), found)
        lines.append(f" from instruction: {_definition(value.instruction, texts)}")
    return "\n".join(lines) + "\n"


def _details(position: HloPosition, value: HloValue | None) -> Iterator[str]:
    yield " positions:"
    for other in (position,) if value is None else value.positions:
        yield f"  {other.instruction.name}{_suffix(other.instruction.shape, other.index)}"
    yield " uses:"
    uses = () if value is None else value.uses
    for use in uses:
        yield f"  {_use(use)}"
    if not uses:
        yield "  (none)"


def _use(use: Use) -> str:
    shape = use.instruction.operands[use.operand_number].shape
    suffix = _suffix(shape, use.operand_index)
    return f"{use.instruction.name}, operand {use.operand_number}{suffix}"


def _suffix(shape: Shape, index: ShapeIndex) -> str:
    return f" {index_text(index)}" if shape.is_tuple else ""


def _instruction_texts(module: Module) -> Mapping[str, str]:
    """Return the line of the module's text that defines each instruction."""
    texts = {}
    for line in to_text(module).splitlines():
        text = line.strip().removeprefix("ROOT ")
        if line.startswith(" ") and text.startswith("%"):
            texts[text[1 : text.index(" ")]] = text
    return texts


def _definition(instruction: Instruction, texts: Mapping[str, str]) -> str:
    """The definition of an instruction; short for those of computations that are not printed.

    Stack frames have the numbers of the module, not those of its text.
    """
    short = f"%{instruction.name} = {instruction.shape} {instruction.opcode.value}(...)"
    text = texts.get(instruction.name, short)
    return _FRAME.sub(f"stack_frame_id={instruction.metadata.stack_frame_id}", text)
