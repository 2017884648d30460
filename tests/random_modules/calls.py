"""Random calls, loops, branches, maps, fusions and tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.random_modules.drawing import Drawing

from lowtide.builder import Op, SubComputation
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import Shape, array_shape, tuple_shape

Steps = Callable[[Drawing, int], None]
"""Draws operations into a drawing, up to a number of them."""


def _operands(drawing: Drawing, most: int = 3) -> list[Op]:
    count = drawing.integer(1, most)
    found = [drawing.find(lambda shape: True) for _ in range(count)]
    return [op for op in found if op is not None] or [drawing.source(array_shape(ElementType.F32))]


def body(
    drawing: Drawing,
    name: str,
    shapes: Sequence[Shape],
    steps: Steps,
    results: Sequence[Shape] | None = None,
) -> SubComputation:
    """Return a random computation.

    Without `results` it returns any of its values; else a tuple of values of these shapes.
    """
    child = Drawing(
        drawing.builder.sub_builder(name), drawing.choices, drawing.recipe, parent=drawing
    )
    for number, shape in enumerate(shapes):
        op = child.add(child.builder.parameter(number, shape))
        if shape.is_tuple:
            child.pool += list(op)
    steps(child, 4)
    if results is not None:
        root = child.builder.tuple([child.like(shape) for shape in results])
    else:
        root = (
            child.choice(child.pool) if child.pool else child.source(array_shape(ElementType.S32))
        )
    return child.builder.build_computation(root)


# -- calls and fusions -------------------------------------------------------------------------


def call(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a call of a new computation, or of one that was called before."""
    known = drawing.callees
    if known and drawing.chance(3):
        shapes, callee = drawing.choice(known)
        return drawing.builder.call([drawing.like(shape) for shape in shapes], callee)
    operands = _operands(drawing)
    shapes = tuple([op.shape for op in operands])
    callee = body(drawing, "callee", shapes, steps)
    known.append((shapes, callee))
    return drawing.builder.call(operands, callee)


def fusion(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a fusion of random operations."""
    operands = [op for op in _operands(drawing) if op.shape.is_array]
    if not operands:
        return None
    fused = body(drawing, "fused", [op.shape for op in operands], steps)
    kind = drawing.choice(("kLoop", "kInput", "kOutput"))
    return drawing.builder.fusion(operands, fused, kind)


def map_scalars(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a map of a computation of scalars."""
    operand = drawing.array(ranks=(0, 3))
    if operand is None:
        return None
    operands = [operand]
    for _ in range(drawing.integer(0, 1)):
        element_type = drawing.element_type(
            lambda t: t is operand.element_type or not t.is_floating
        )
        if element_type is not None:
            operands.append(drawing.like(array_shape(element_type, operand.dimensions)))
    scalars = [array_shape(op.element_type) for op in operands]
    mapped = body(drawing, "mapped", scalars, steps)
    return drawing.builder.map(operands, mapped)


# -- loops and branches ------------------------------------------------------------------------


def while_loop(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a loop of 0 to 3 steps over a counter and some values."""
    operands = _operands(drawing)
    counter = array_shape(ElementType.S32)
    shapes = [op.shape for op in operands]
    state = tuple_shape([counter, *shapes])
    limit = drawing.integer(0, 3)
    condition = drawing.builder.sub_computation("condition", [state], lambda s: s[0].lt(limit))
    child = Drawing(
        drawing.builder.sub_builder("body"), drawing.choices, drawing.recipe, parent=drawing
    )
    first, *rest = child.builder.parameter(0, state)
    child.pool += rest
    steps(child, 4)
    results = [child.like(shape) for shape in shapes]
    stepped = child.builder.build_computation(child.builder.tuple([first + 1, *results]))
    init = drawing.builder.tuple([drawing.builder.constant(0), *operands])
    return drawing.builder.while_(condition, stepped, init)


def conditional(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a choice between branches, each with an operand of its own."""
    by_index = drawing.chance(2)
    count = drawing.integer(1, 3) if by_index else 2
    selector = drawing.like(array_shape(ElementType.S32 if by_index else ElementType.PRED))
    operands = [_operands(drawing, 1)[0] for _ in range(count)]
    results = [op.shape for op in _operands(drawing, 2)]
    branches = [body(drawing, "branch", [op.shape], steps, results) for op in operands]
    return drawing.builder.conditional(selector, operands, branches)


# -- tuples ------------------------------------------------------------------------------------


def make_tuple(drawing: Drawing) -> Op | None:
    """Draw a tuple of any values."""
    return drawing.builder.tuple(_operands(drawing))


def element(drawing: Drawing) -> Op | None:
    """Draw an element of a tuple."""
    operand = drawing.find(lambda shape: shape.is_tuple and bool(shape.tuple_shapes))
    if operand is None:
        return None
    return operand[drawing.integer(0, len(operand.shape.tuple_shapes) - 1)]


def barrier(drawing: Drawing) -> Op | None:
    """Draw a value through which no optimization looks."""
    return drawing.builder.opt_barrier(_operands(drawing, 1)[0])
