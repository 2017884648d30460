"""Random operations that write over an operand, with further readers before and after."""

from __future__ import annotations

from tests.random_modules.drawing import Drawing
from tests.random_modules.elementwise import changed

from lowtide.builder import Op
from lowtide.ir.attributes import Aliasing, CustomCall, Scatter
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import array_shape, tuple_shape

E = ElementType


def any_value(drawing: Drawing, ranks: tuple[int, int] = (0, 4)) -> Op | None:
    """Return a value of a common shape with some rank in range, or None."""
    value = drawing.like(drawing.common_shape())
    return value if ranks[0] <= value.rank <= ranks[1] else None


# -- parts written in place --------------------------------------------------------------------


def update(drawing: Drawing, target: Op, start: Op | None = None) -> Op:
    """Return the array with one part replaced, from `start` on along the first dimension.

    The part comes from anywhere, perhaps from the array itself, of which it may be all.
    """
    if not target.rank:
        return changed(drawing, target)
    sizes = tuple([drawing.integer(min(1, size), size) for size in target.dimensions])
    first = drawing.like(array_shape(E.S32)) if start is None else start
    starts = [first, *[drawing.builder.constant(0)] * (target.rank - 1)]
    shape = array_shape(target.element_type, sizes)
    if drawing.chance(3):
        part = drawing.builder.dynamic_slice(target, starts, list(sizes))
        part = changed(drawing, part) if drawing.chance(2) else part
    else:
        part = drawing.like(target.shape if sizes == target.dimensions else shape)
    return drawing.builder.dynamic_update_slice(target, part, starts)


def updates(drawing: Drawing) -> Op | None:
    """Draw one to three updates, in a chain or of one array, some with a reader in between."""
    target = any_value(drawing, (1, 3))
    if target is None:
        return None
    result = update(drawing, target)
    for _ in range(drawing.integer(0, 2)):
        drawing.add(result)
        if drawing.chance(3):
            drawing.add(changed(drawing, drawing.choice([target, result])))
        result = update(drawing, target if drawing.chance(3) else result)
    return result


def scatter_into(drawing: Drawing, target: Op) -> Op:
    """Return the array with rows added to some of its rows."""
    rows = drawing.size()
    indices = drawing.like(array_shape(E.S32, (rows, 1)))
    shape = array_shape(target.element_type, (rows, *target.dimensions[1:]))
    window = tuple(range(1, target.rank))
    opcode = Opcode.OR if target.element_type is E.PRED else Opcode.ADD
    reducer = drawing.reducer(opcode, target.element_type)
    attributes = Scatter(window, (0,), (0,), 1)
    return drawing.builder.scatter(target, indices, drawing.like(shape), reducer, attributes)


def scatters(drawing: Drawing) -> Op | None:
    """Draw one or two scatters into an array."""
    target = any_value(drawing, (1, 3))
    if target is None or not target.dimensions[0]:
        return None
    result = scatter_into(drawing, target)
    if drawing.chance(2):
        result = scatter_into(drawing, drawing.choice([drawing.add(result), target]))
    return result


def sorted_together(drawing: Drawing) -> Op | None:
    """Draw a sort of one to three arrays by the first, which may be the same ones."""
    keys = any_value(drawing, (1, 3))
    if keys is None or keys.element_type.is_complex:
        return None
    values = [keys, *[drawing.like(keys.shape) for _ in range(drawing.integer(0, 2))]]
    order = "TOTALORDER" if keys.element_type.is_floating else ""
    scalars = [array_shape(keys.element_type)] * (2 * len(values))
    comparator = drawing.builder.sub_computation(
        "comparator", scalars, lambda x, y, *rest: x.builder.compare(x, y, "LT", order)
    )
    return drawing.builder.sort(values, comparator, 0, is_stable=True)


def triangular_solve(drawing: Drawing) -> Op | None:
    """Draw a system of equations with a unit triangle, solved in place of its right-hand side."""
    target = any_value(drawing, (2, 2))
    if target is None or target.element_type not in (E.F32, E.F64) or 0 in target.dimensions:
        return None
    size = target.dimensions[0]
    triangle = drawing.like(array_shape(target.element_type, (size, size)))
    return drawing.builder.triangular_solve(triangle, target, unit_diagonal=True)


# -- aliases that an operation declares --------------------------------------------------------


def updating_fusion(drawing: Drawing) -> Op | None:
    """Draw a fusion that updates an operand, alone or together with other results."""
    target = any_value(drawing, (1, 3))
    if target is None or not target.dimensions[0]:
        return None
    operands = [target, *[drawing.like(drawing.common_shape()) for _ in range(2)]]
    child = Drawing(
        drawing.builder.sub_builder("updating"), drawing.choices, drawing.recipe, parent=drawing
    )
    inner, *rest = [
        child.add(child.builder.parameter(number, op.shape)) for number, op in enumerate(operands)
    ]
    root = scatter_into(child, inner) if child.chance(3) else update(child, inner)
    if child.chance(4):
        flat = array_shape(target.element_type, (target.shape.element_count,))
        root = child.builder.bitcast(root, flat)
    elif child.chance(3):
        others = [inner, *rest]
        root = child.builder.tuple([root, *[changed(child, x) for x in others if child.chance(2)]])
    return drawing.builder.fusion(operands, child.builder.build_computation(root))


def aliased_fusion(drawing: Drawing) -> Op | None:
    """Draw a fusion that declares to write over one of its operands."""
    shape = drawing.common_shape()
    operands = [drawing.like(shape) for _ in range(drawing.integer(1, 2))]
    child = Drawing(
        drawing.builder.sub_builder("aliased"), drawing.choices, drawing.recipe, parent=drawing
    )
    inner = [
        child.add(child.builder.parameter(number, op.shape)) for number, op in enumerate(operands)
    ]
    fused = child.builder.build_computation(changed(child, child.choice(inner)))
    overwritten = Aliasing((), drawing.integer(0, len(operands) - 1))
    kind = drawing.choice(("kLoop", "kCustom"))
    return drawing.builder.fusion(operands, fused, kind, [overwritten])


def aliased_custom_call(drawing: Drawing) -> Op | None:
    """Draw a custom call that declares to pass on some of its operands in place."""
    operands = [drawing.like(drawing.common_shape()) for _ in range(drawing.integer(1, 2))]
    shapes = [op.shape for op in operands]
    if len(shapes) == 1:
        call = CustomCall(_IDENTITY, output_to_operand_aliasing=(Aliasing((), 0),))
        return drawing.builder.custom_call(call, operands, shapes[0])
    aliasing = tuple([Aliasing((i,), i) for i in drawing.subset(len(shapes))])
    call = CustomCall(_IDENTITY, output_to_operand_aliasing=aliasing)
    return drawing.builder.custom_call(call, operands, tuple_shape(shapes))


_IDENTITY = "annotate_device_placement"


def all_reduce(drawing: Drawing) -> Op | None:
    """Draw an asynchronous sum over the one device there is, in place of the operand."""
    target = any_value(drawing)
    if target is None or target.element_type is E.PRED:
        return None
    add = drawing.reducer(Opcode.ADD, target.element_type)
    start = drawing.builder.all_reduce_start(target, add)
    if drawing.chance(2):
        drawing.add(changed(drawing, target))
    return drawing.builder.all_reduce_done(start)
