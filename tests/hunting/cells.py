"""Cells of coverage that a module reaches: which operation met which type, layout and neighbour."""

from __future__ import annotations

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.shape import Shape, major_to_minor

Cell = tuple[str, ...]

_PLUMBING = frozenset({Opcode.PARAMETER, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.CONSTANT})


def cells_of(module: Module) -> set[Cell]:
    """Return the cells of a module: `type`, `layout`, and `fused` for pairs within a fusion."""
    found: set[Cell] = set()
    fused = {
        callee
        for c in module.computations.values()
        for x in c.instructions.values()
        if x.opcode is Opcode.FUSION
        for callee in x.called_computations
    }
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode in _PLUMBING:
                continue
            name = x.opcode.value
            for shape in _arrays(x):
                found.add(("type", name, shape.element_type.value))
            found.add(("layout", name, layout_kind(x)))
            if computation in fused:
                for operand in x.operands:
                    if operand.opcode not in _PLUMBING:
                        found.add(("fused", *sorted((name, operand.opcode.value))))
    return found


def _arrays(x: Instruction) -> list[Shape]:
    return [leaf for y in (x, *x.operands[:1]) for _, leaf in y.shape.leaves() if leaf.is_array]


def layout_kind(x: Instruction) -> str:
    """Return the kind of the layouts of an operation's operands and results."""
    shapes = [leaf for y in (x, *x.operands) for _, leaf in y.shape.leaves() if leaf.is_array]
    if any(0 in shape.dimensions for shape in shapes):
        return "empty"
    permuted = [_is_permuted(shape) for shape in shapes if shape.rank > 1]
    if not any(permuted):
        return "row-major"
    return "permuted" if all(permuted) else "some"


def _is_permuted(shape: Shape) -> bool:
    layout = shape.layout
    return layout is not None and layout.minor_to_major != major_to_minor(shape.rank).minor_to_major
