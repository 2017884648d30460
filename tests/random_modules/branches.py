"""Random conditionals whose branches pass values on, repeat them or make new ones."""

from __future__ import annotations

from collections.abc import Sequence

from tests.random_modules import in_place
from tests.random_modules.calls import Steps
from tests.random_modules.drawing import Drawing
from tests.random_modules.elementwise import changed

from lowtide.builder import Op, SubComputation
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import Shape, array_shape, tuple_shape


def choice_of_values(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a choice between branches that take one tuple of values, or some of them another one."""
    by_index = drawing.chance(2)
    count = drawing.integer(1, 3) if by_index else 2
    selector = drawing.like(array_shape(ElementType.S32 if by_index else ElementType.PRED))
    results = [drawing.common_shape() for _ in range(drawing.integer(1, 3))]
    shared = _operand(drawing)
    operands = [_operand(drawing) if drawing.chance(3) else shared for _ in range(count)]
    branches = [_branch(drawing, op.shape, results, steps) for op in operands]
    return drawing.builder.conditional(selector, operands, branches)


def _operand(drawing: Drawing) -> Op:
    values = [drawing.like(drawing.common_shape()) for _ in range(drawing.integer(1, 3))]
    return values[0] if len(values) == 1 else drawing.builder.tuple(values)


def _branch(
    drawing: Drawing, operand: Shape, results: Sequence[Shape], steps: Steps
) -> SubComputation:
    child = Drawing(
        drawing.builder.sub_builder("branch"), drawing.choices, drawing.recipe, parent=drawing
    )
    parameter = child.builder.parameter(0, operand)
    child.pool += list(parameter) if operand.is_tuple else [parameter]
    steps(child, 3)
    returned = [_result(child, shape) for shape in results]
    root = child.builder.tuple(returned)
    assert root.shape is tuple_shape(list(results))
    return child.builder.build_computation(root)


def _result(child: Drawing, shape: Shape) -> Op:
    """Return a value passed on, changed or updated in place, a constant, or any other one."""
    kind = child.integer(0, 4)
    if kind == 1:
        return child.add(changed(child, child.like(shape)))
    if kind == 2:
        return child.add(in_place.update(child, child.like(shape)))
    return child.source(shape) if kind == 3 else child.like(shape)
