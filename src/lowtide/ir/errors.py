"""The exceptions of the public interface and of shape inference: where, and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.ir.instruction import Instruction


class LowtideError(Exception):
    """The base of all errors that a user of the library is meant to catch."""


class InputError(LowtideError):
    """An input is malformed. `position` is a path in protobuf input, e.g. `computations[2]`."""

    def __init__(self, message: str, *, file: str = "", position: str = "") -> None:
        self.message = message
        self.file = file
        self.position = position
        super().__init__(": ".join([part for part in (file, position, message) if part]))


class HloTextError(InputError):
    """The text is not valid HLO. `line` and `column` count from 1."""

    def __init__(
        self, message: str, *, line: int, column: int, excerpt: str = "", file: str = ""
    ) -> None:
        self.line = line
        self.column = column
        self.excerpt = excerpt
        where = f"{file or '<text>'}:{line}:{column}"
        shown = f"\n{excerpt}" if excerpt else ""
        super().__init__(f"{message}{shown}", position=where)


class HloProtoError(InputError):
    """The bytes are not a valid HLO protobuf; `position` is the path of the bad field."""


class InvalidModuleError(LowtideError):
    """The module breaks a rule of HLO.

    `line` is its line in the text, 0 where unknown, `position` the character there, else -1.
    """

    def __init__(
        self,
        message: str,
        *,
        instruction: str = "",
        where: str = "",
        line: int = 0,
        position: int = -1,
    ):
        self.message = message
        self.instruction = instruction
        self.line = line
        self.position = position
        super().__init__(": ".join([part for part in (where, instruction, message) if part]))


class UnsupportedOpError(LowtideError, NotImplementedError):
    """A valid operation that this part of lowtide cannot do; the message says what works."""


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


class ShapeError(LowtideError):
    """Operands, attributes and called computations do not fit; says what was expected and found."""


class CannotInferError(LowtideError):
    """The result shape is a free choice of the program and has to be declared."""


def check_class(given: object, wanted: type) -> None:
    """Raise TypeError, which names both classes, unless something is of the wanted one."""
    if not isinstance(given, wanted):
        article = "an" if wanted.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"expected {article} {wanted.__name__}, found {type(given).__name__}")
