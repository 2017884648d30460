"""Random computations that run from several places, or while others run."""

from __future__ import annotations

from tests.random_modules import in_place
from tests.random_modules.calls import Steps
from tests.random_modules.drawing import Drawing
from tests.random_modules.elementwise import changed

from lowtide.builder import Op, SubComputation
from lowtide.ir.shape import Shape


def _callee(drawing: Drawing, name: str, shapes: list[Shape], steps: Steps) -> SubComputation:
    """Return a computation from values to values of the same shapes, in a tuple."""
    child = Drawing(
        drawing.builder.sub_builder(name), drawing.choices, drawing.recipe, parent=drawing
    )
    values = [child.add(child.builder.parameter(i, shape)) for i, shape in enumerate(shapes)]
    steps(child, 4)
    results = []
    for value in values:
        kind = child.integer(0, 3)
        if kind == 1:
            results.append(child.add(changed(child, value)))
        elif kind == 2:
            results.append(child.add(in_place.update(child, value)))
        else:
            results.append(child.like(value.shape) if kind else value)
    return child.builder.build_computation(child.builder.tuple(results))


# -- calls -------------------------------------------------------------------------------------


def chained_calls(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw two to four calls of one computation, of the results of others or of the same values."""
    values = [drawing.like(drawing.common_shape()) for _ in range(drawing.integer(1, 3))]
    callee = _callee(drawing, "layer", [value.shape for value in values], steps)
    result = drawing.builder.call(values, callee)
    for _ in range(drawing.integer(1, 3)):
        drawing.add(result)
        following = list(result)
        drawing.pool += following
        operands = values if drawing.chance(3) else following
        result = drawing.builder.call(operands, callee)
    return result


# -- what runs meanwhile -----------------------------------------------------------------------


def _meanwhile(drawing: Drawing, steps: Steps) -> None:
    """Draw a few steps, with one level of calls less, so that what is under way nests no deeper."""
    drawing.depth -= 1
    steps(drawing, 2)
    drawing.depth += 1


def asynchronous_call(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a computation on another thread, or the same, while others run."""
    values = [drawing.like(drawing.common_shape()) for _ in range(drawing.integer(1, 2))]
    child = Drawing(
        drawing.builder.sub_builder("task"), drawing.choices, drawing.recipe, parent=drawing
    )
    inner = [child.add(child.builder.parameter(i, op.shape)) for i, op in enumerate(values)]
    steps(child, 3)
    result = child.choice(child.pool)
    if len(child.pool) < len(inner) + 2:
        # The text of a task of one operation would leave out the name of that one.
        result = changed(child, child.add(changed(child, child.choice(inner))))
    start = drawing.builder.async_start(values, child.builder.build_computation(result))
    _meanwhile(drawing, steps)
    if drawing.chance(4):
        start = drawing.builder.async_update(start)
    return drawing.builder.async_done(start)


def asynchronous_copy(drawing: Drawing, steps: Steps) -> Op | None:
    """Draw a copy that is under way while others run."""
    start = drawing.builder.copy_start(drawing.like(drawing.common_shape()))
    _meanwhile(drawing, steps)
    return drawing.builder.copy_done(start)
