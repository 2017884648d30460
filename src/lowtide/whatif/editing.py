"""Edits of a copy of a planned module: other arguments, other forms of what is held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.shape import ProgramShape, tuple_shape
from lowtide.whatif.change import ImpossibleChangeError


def set_parameter_shape(parameter: Instruction, shape: Shape) -> None:
    """Give a parameter of the entry another shape, in the module's header too."""
    module = parameter.parent.module
    number = module.entry.parameters.index(parameter)
    parameter.set_shape(shape)
    layout = module.entry_layout
    if layout is not None:
        shapes = list(layout.parameters)
        shapes[number] = shape
        module.entry_layout = ProgramShape(tuple(shapes), layout.result, layout.parameter_names)


def replace_output(module: Module, number: int, output: Instruction) -> None:
    """Make `output` element `number` of the result, or the result where that is an array.

    Raises ImpossibleChangeError where the result is made in one piece.
    """
    root = module.entry.root
    if root.shape.is_array:
        module.entry.root = output
    elif root.opcode is Opcode.TUPLE and all(x.shape.is_array for x in root.operands):
        root.replace_operand(number, output)
        root.set_shape(tuple_shape([x.shape for x in root.operands]))
    else:
        raise ImpossibleChangeError("the results are made in one piece")
    layout = module.entry_layout
    if layout is not None:
        module.entry_layout = replace_result(layout, module.entry.root.shape)


def replace_result(layout: ProgramShape, result: Shape) -> ProgramShape:
    """Return a program shape with another result."""
    return replace(layout, result=result)


def read_instead(old: Instruction, new: Instruction, readers: Iterable[Instruction]) -> None:
    """Make some readers of a value read another one."""
    for reader in readers:
        for i, operand in enumerate(reader.operands):
            if operand is old:
                reader.replace_operand(i, new)
