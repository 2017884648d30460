"""Where an instruction comes from, in words for an error."""

from __future__ import annotations

from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.instruction import Instruction


def place_of(instruction: Instruction) -> str:
    """Return where an instruction comes from: the user's program, else the HLO text."""
    source = instruction.source
    if source is not None:
        return f"{source.file}:{source.line}"
    module = instruction.parent.module
    text = module.source_text
    if text is not None and instruction.position >= 0:
        line, _ = text.line_and_column(instruction.position)
        return f"{text.file or module.name}:{line}"
    return f"computation {instruction.parent.name} of module {module.name}"


def unsupported(instruction: Instruction, reason: str) -> UnsupportedOpError:
    """Return the error to raise: which op, where it comes from, and why it cannot be done."""
    name = f"{instruction.opcode.value} (%{instruction.name})"
    return UnsupportedOpError(f"{place_of(instruction)}: {name}: {reason}")
