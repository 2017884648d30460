"""Arrays untiled and unpacked: the layouts that native code reads and writes.

There are two memories, that of the device and that of the host, which has an arena of its own.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import unsupported
from lowtide.ir.shape import HOST_MEMORY, Layout, ProgramShape, Shape, tuple_shape


def to_plain_memory(module: Module) -> int:
    """Leave of all layouts the order of dimensions; return how many shapes changed.

    Only the host's memory stays one of its own, that of other units becomes ordinary. Tiles go,
    packed elements get a byte each, and a buffer is the array in it. Values stay: they depend on
    layouts only where a bitcast reads the bytes of such an array in another form. Raises
    UnsupportedOpError there.
    """
    plain: dict[Shape, Shape] = {}
    changes = 0
    for computation in module.computations.values():
        for x in computation.instructions.values():
            _refuse_bitcast(x)
    for computation in module.computations.values():
        for x in computation.instructions.values():
            shape = _plain(x.shape, plain)
            if shape is not x.shape:
                x.set_shape(shape)
                changes += 1
            if isinstance(x.attributes, CustomCall) and x.attributes.operand_layouts is not None:
                layouts = tuple([_plain(y, plain) for y in x.attributes.operand_layouts])
                if layouts != x.attributes.operand_layouts:
                    x.set_attributes(replace(x.attributes, operand_layouts=layouts))
    program = module.entry_layout
    if program is not None:
        parameters = tuple([_plain(x, plain) for x in program.parameters])
        result = _plain(program.result, plain)
        module.entry_layout = ProgramShape(parameters, result, program.parameter_names)
    return changes


def _refuse_bitcast(x: Instruction) -> None:
    """Raise UnsupportedOpError for a bitcast between forms that do not become one."""
    if x.opcode is not Opcode.BITCAST:
        return
    before, after = x.operands[0].shape, x.shape
    known: dict[Shape, Shape] = {}
    if _plain(before, known) is before and _plain(after, known) is after:
        return
    if _plain(before, known) is not _plain(after, known):
        reason = f"native code knows no tiles or packed elements, as in {before} read as {after}"
        raise unsupported(x, f"{reason}; use a reshape, a transpose or a bitcast-convert")


def _plain(shape: Shape, known: dict[Shape, Shape]) -> Shape:
    found = known.get(shape)
    if found is None:
        found = known[shape] = _new(shape, known)
    return found


def _new(shape: Shape, known: dict[Shape, Shape]) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_plain(x, known) for x in shape.tuple_shapes])
    if shape.is_buffer:
        return _plain(shape.tuple_shapes[0], known)
    layout = shape.layout
    if layout is None or layout.dimension_levels:
        return shape
    space = layout.memory_space if layout.memory_space == HOST_MEMORY else 0
    return shape.with_layout(Layout(layout.minor_to_major, memory_space=space))
