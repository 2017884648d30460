"""Arguments and results of a random program, and the aliases between them."""

from __future__ import annotations

from tests.random_modules.drawing import Drawing

from lowtide.builder import Op
from lowtide.ir.attributes import Parameter
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, ShapeIndex, tuple_shape

Leaf = tuple[int, ShapeIndex]
"""The number of a parameter, and the index of an array in it."""


def draw_parameters(drawing: Drawing) -> None:
    """Draw some arguments of common shapes, a few of them in a tuple."""
    for _ in range(drawing.integer(0, 3)):
        drawing.parameter(drawing.common_shape())
    if drawing.chance(4):
        shapes = [drawing.common_shape() for _ in range(drawing.integer(1, 3))]
        drawing.parameter(tuple_shape(shapes))


def draw_root(drawing: Drawing) -> Op:
    """Return the last value, or a tuple of the values that nothing reads yet and some others."""
    if drawing.chance(4):
        return drawing.pool[-1]
    outputs = [op for op in drawing.pool if not op.instruction.users and not drawing.chance(4)]
    outputs += [drawing.choice(drawing.pool) for _ in range(drawing.integer(0, 2))]
    if drawing.recipe.shared_results:
        outputs += _shared(drawing, outputs)
        outputs = [outputs[i] for i in drawing.permutation(len(outputs))]
    return drawing.builder.tuple(outputs or drawing.pool[-1:])


def _shared(drawing: Drawing, outputs: list[Op]) -> list[Op]:
    """Return arguments, constants, repeated values and tuples of them, or none of these."""
    sources = [
        op for op in drawing.pool if op.instruction.opcode in (Opcode.PARAMETER, Opcode.CONSTANT)
    ]
    found = [drawing.choice(sources) for _ in range(drawing.integer(0, 2)) if sources]
    found += [drawing.choice(outputs) for _ in range(drawing.integer(0, 1)) if outputs]
    if found and drawing.chance(4):
        found.append(drawing.builder.tuple(found))
    return found


def draw_aliases(drawing: Drawing, root: Op) -> None:
    """Let outputs be written over arguments of their shape, and give further arguments away."""
    free = _argument_leaves(drawing)
    for index, shape in root.shape.leaves():
        fitting = [leaf for leaf, argument in free.items() if argument is shape]
        if fitting and _is_wanted(drawing):
            number, inside = leaf = drawing.choice(fitting)
            del free[leaf]
            drawing.builder.alias(index, number, inside, must=drawing.chance(4))
    for number, inside in free:
        if drawing.chance(8):
            drawing.builder.donate(number, inside)


def _is_wanted(drawing: Drawing) -> bool:
    return drawing.integer(0, 2) > 0 if drawing.recipe.shared_results else drawing.chance(3)


def _argument_leaves(drawing: Drawing) -> dict[Leaf, Shape]:
    parameters = {
        op.instruction.attributes_as(Parameter).number: op
        for op in drawing.pool
        if op.instruction.opcode is Opcode.PARAMETER
    }
    return {
        (number, index): shape
        for number, op in parameters.items()
        for index, shape in op.shape.leaves()
        if shape.is_array
    }
