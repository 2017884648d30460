"""The intermediate representation: every data structure that crosses a stage border.

A name is loaded when it is first asked for: what runs a program that is kept needs few of them.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

__all__ = [
    "NO_ANNOTATIONS",
    "NO_ATTRIBUTES",
    "TOKEN",
    "Annotations",
    "Attributes",
    "Computation",
    "ElementType",
    "HloProtoError",
    "HloTextError",
    "InputError",
    "Instruction",
    "InvalidModuleError",
    "Layout",
    "Literal",
    "LowtideError",
    "Metadata",
    "Module",
    "Opcode",
    "ProgramShape",
    "Schedule",
    "Shape",
    "ShapeIndex",
    "SourceLocation",
    "UnsupportedOpError",
    "array_shape",
    "tuple_shape",
]


if TYPE_CHECKING:
    from lowtide.ir.annotations import NO_ANNOTATIONS, Annotations
    from lowtide.ir.attributes import NO_ATTRIBUTES, Attributes
    from lowtide.ir.computation import Computation
    from lowtide.ir.element_type import ElementType
    from lowtide.ir.errors import (
        HloProtoError,
        HloTextError,
        InputError,
        InvalidModuleError,
        LowtideError,
        UnsupportedOpError,
    )
    from lowtide.ir.instruction import Instruction
    from lowtide.ir.literal import Literal
    from lowtide.ir.metadata import Metadata, SourceLocation
    from lowtide.ir.module import Module
    from lowtide.ir.opcode import Opcode
    from lowtide.ir.schedule import Schedule
    from lowtide.ir.shape import (
        TOKEN,
        Layout,
        ProgramShape,
        Shape,
        ShapeIndex,
        array_shape,
        tuple_shape,
    )
else:
    __getattr__ = late_names(
        __name__,
        annotations="Annotations NO_ANNOTATIONS",
        attributes="Attributes NO_ATTRIBUTES",
        computation="Computation",
        element_type="ElementType",
        errors="HloProtoError HloTextError InputError InvalidModuleError LowtideError"
        " UnsupportedOpError",
        instruction="Instruction",
        literal="Literal",
        metadata="Metadata SourceLocation",
        module="Module",
        opcode="Opcode",
        schedule="Schedule",
        shape="Layout ProgramShape Shape ShapeIndex TOKEN array_shape tuple_shape",
    )
