"""The written form of each field of an attribute record, as data that stands with the field.

Printer, parser, protobuf reader and protobuf writer each have one table of forms, and take a field
from what is said here. A field of a simple form needs nothing else there.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from enum import Enum
from typing import Any, TypedDict, TypeVar, Unpack, dataclass_transform

from lowtide.ir.opcode import Opcode
from lowtide.records import dataclass

T = TypeVar("T")


class Form(Enum):
    """The kind of a value, which decides how it is written."""

    BOOLEAN = "`true` or `false`"
    INTEGER = "an integer"
    NATURAL = "an integer that protobuf must give as 0 or more"
    COUNT = "an integer of at least 1; a 0 in protobuf stands for 1"
    DIMENSION = "one integer in braces, `{1}`"
    INTEGERS = "integers in braces, `{1,2}`, which protobuf must give as 0 or more"
    SINGLE = "a decimal number in single precision"
    WORD = "one of `words`; in protobuf the word, or its number where `enums.py` has a table"
    STRING = "a string in quotes"
    BYTES = "bytes, in quotes as Latin-1"

    # What follows has functions of its own where it is read or written.
    ALIASING = "which outputs overwrite which operands"
    CARRIES = "how many operands are carries: not more than there are operands"
    CHANNEL = "a channel, in old protobuf in another field"
    COLLECTIVE_DIMENSION = "the dimension of a collective, which some opcodes need"
    COMPARISON_TYPE = "the order of a comparison, by default that of the element type"
    CONVOLUTION_DIMENSIONS = "dimension labels, `b01f_01io->b01f`"
    DIMENSIONS = "dimensions, for some opcodes exactly one"
    DIRECTION = "the direction of a comparison, in old protobuf in the opcode"
    DOT_DIMENSIONS = "four lists of dimensions"
    ELEMENT = "the number of an element of operand 0"
    GLOBAL_IDS = "a boolean, which reduce-scatter shows before its dimension"
    GROUPS = "replica groups"
    INTEGER_GROUPS = "lists of integers, `{{1,2},{3,4}}`"
    LAYOUTS = "shapes with layouts, one per operand"
    LITERAL = "a literal"
    PADDING = "padding per dimension, `0_1x0_1_2`"
    PADDING_TYPE = "a word, of which one stands for none"
    PAIRS = "pairs of source and target, `{{0,1},{1,0}}`"
    PRECISION = "the precision of operands and the algorithm of a dot"
    PREDICATED = "what follows from operand 0, and is not written"
    SHAPE = "a shape, by default that of operand 0"
    SPARSITY = "the sparsity of both operands, raw in braces"
    THREAD = "the name of a thread, which only async-start shows"
    TRI_STATE = "`true`, `false` or `unknown`; false where text does not say"
    WINDOW = "a window"


class Shown(Enum):
    """The cases in which text shows a field; without a default a field is always shown."""

    UNLESS_DEFAULT = "where the value is not the default"
    ALWAYS = "always"
    NEVER = "never, or by the printer itself; the parser takes it"


class Written(TypedDict, total=False):
    """Further statements that a field may make besides its form.

    `text` is the name of the attribute in text, by default the name of the field, and empty for
    what is not among the attributes there. `proto` is the path from a HloInstructionProto, by
    default `text`; where it ends in a period, `text` follows. Forms with functions of their own may
    know both without being told.

    Text shows fields in the order of the record, a field with `after` behind the one of that name.
    Text takes the attribute of `opcodes` only, by default of all opcodes that have the record. A
    WORD is one of `words`; errors call it `what`; with `any_case` capital letters do not matter.
    """

    text: str
    proto: str
    shown: Shown
    after: str
    opcodes: tuple[Opcode, ...]
    words: tuple[str, ...]
    what: str
    any_case: bool


@dataclass(frozen=True, slots=True)
class AttributeField:
    """One field of a record: its name and default, and what it says of itself, see Written."""

    form: Form
    name: str
    default: Any
    text: str
    proto: str
    shown: Shown = Shown.UNLESS_DEFAULT
    after: str = ""
    opcodes: tuple[Opcode, ...] = ()
    words: tuple[str, ...] = ()
    what: str = ""
    any_case: bool = False

    @property
    def required(self) -> bool:
        """Whether the field has no default."""
        return self.default is MISSING


def attribute(form: Form, *, default: Any = MISSING, **how: Unpack[Written]) -> Any:
    """Return a field of a record class, which is written in a form."""
    return field(default=default, metadata={"form": form, **how})


@dataclass_transform(frozen_default=True, field_specifiers=(attribute,))
def attribute_record(record: type[T]) -> type[T]:
    """Return the class as a frozen dataclass with slots, whose fields `attribute` may make."""
    return dataclass(frozen=True, slots=True)(record)


def attribute_fields(record: type) -> tuple[AttributeField, ...]:
    """Return the fields of a record class in the order of the text.

    Raises TypeError for a field that does not say how it is written.
    """
    found = []
    for x in fields(record):
        if "form" not in x.metadata:
            raise TypeError(f"{record.__name__}.{x.name} does not say how it is written")
        text = x.metadata.get("text", x.name)
        proto = x.metadata.get("proto", text)
        proto += text if proto.endswith(".") else ""
        said = {**x.metadata, "text": text, "proto": proto}
        found.append(AttributeField(name=x.name, default=x.default, **said))
    order = [how for how in found if not how.after]
    for how in found:
        if how.after:
            order.insert([x.name for x in order].index(how.after) + 1, how)
    return tuple(order)
