"""Operations that apply a computation to elements: reduce, windows, map, scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.ir.attributes import Dimensions, ReduceWindow, Scan, Window
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape, array_shape, tuple_shape
from lowtide.ops.checks import (
    all_in_range,
    array,
    dimensions_of,
    in_range,
    listed,
    make_array,
    one_or_tuple,
    plain,
    same_sizes,
    same_type,
    scalar,
)
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched
from lowtide.ops.windows import padded, slide, window_size

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]


def scalars_of(shape: Shape) -> tuple[Shape, ...]:
    """Return the elements of a tuple, or the shape itself."""
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def reducer_types(
    reducer: ProgramShape, inputs: Shapes, inits: Shapes | None, role: str = "the reducer"
) -> list[ElementType]:
    """Return the types in which `reducer` accumulates, one per input.

    It must take one scalar accumulator per input, then one scalar element per input, and return
    the accumulators.
    """
    count = len(inputs)
    results = scalars_of(reducer.result)
    if len(reducer.parameters) != 2 * count:
        raise ShapeError(
            f"{role} must take {2 * count} parameters, but takes {len(reducer.parameters)}"
        )
    if len(results) != count:
        raise ShapeError(f"{role} must return {count} scalars, but returns {plain(reducer.result)}")
    for number in range(count):
        accumulator = scalar(reducer.parameters[number], f"parameter {number} of {role}")
        element = scalar(
            reducer.parameters[count + number], f"parameter {count + number} of {role}"
        )
        _check_type(results[number], accumulator, f"result {number} of {role}")
        _check_type(element, accumulator, f"element {number} of {role}")
        _check_type(element, inputs[number], f"element {number} of {role}", rank=False)
        if inits is not None:
            _check_type(inits[number], accumulator, f"initial value {number} of {role}")
    return [x.element_type for x in results]


def _check_type(shape: Shape, model: Shape, what: str, *, rank: bool = True) -> None:
    if rank:
        scalar(shape, what)
    if not same_type(shape.element_type, model.element_type):
        raise ShapeError(f"{what} is {plain(shape)}, but must have the type of {plain(model)}")


def _split(operands: Shapes) -> tuple[Shapes, Shapes]:
    count = len(operands) // 2
    if not count or len(operands) != 2 * count:
        raise ShapeError(
            f"expected inputs and as many initial values, not {len(operands)} operands"
        )
    inputs, inits = operands[:count], operands[count:]
    for number, shape in enumerate(inputs):
        if not same_sizes(array(shape, f"input {number}"), inputs[0]):
            raise ShapeError(f"the inputs differ in size: {plain(inputs[0])} and {plain(shape)}")
    return inputs, inits


def _accumulated(reducer: ProgramShape, results: list[Shape]) -> Shape:
    """Return the results as the reducer returns its accumulators: alone, or as a tuple."""
    return tuple_shape(results) if reducer.result.is_tuple else results[0]


def _infer_reduce(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    inputs, inits = _split(operands)
    all_in_range(attributes.dimensions, inputs[0], "reduced dimension")
    types = reducer_types(called[0], inputs, inits)
    kept = [x for i, x in enumerate(dimensions_of(inputs[0])) if i not in attributes.dimensions]
    return _accumulated(called[0], [make_array(element_type, kept) for element_type in types])


def _check_window(window: Window, base: Shape) -> None:
    if len(window.dimensions) != base.rank:
        found = len(window.dimensions)
        raise ShapeError(f"a window over {plain(base)} needs {base.rank} dimensions, not {found}")


def _infer_reduce_window(operands: Shapes, attributes: ReduceWindow, called: Called) -> Shape:
    inputs, inits = _split(operands)
    _check_window(attributes.window, inputs[0])
    reducer_types(called[0], inputs, inits)
    slid = slide(dimensions_of(inputs[0]), attributes.window)
    return _accumulated(called[0], [make_array(init.element_type, slid) for init in inits])


def _infer_select_and_scatter(operands: Shapes, attributes: ReduceWindow, called: Called) -> Shape:
    operand, source, init = operands
    array(operand, "the operand")
    array(source, "the source")
    scalar(init, "the initial value")
    select, scatter = called
    _check_window(attributes.window, operand)
    if len(select.parameters) != 2:
        raise ShapeError(f"select must take 2 parameters, but takes {len(select.parameters)}")
    if scalar(select.result, "the result of select").element_type is not ElementType.PRED:
        raise ShapeError(f"select must return pred[], but returns {plain(select.result)}")
    for parameter in select.parameters:
        if not same_type(
            scalar(parameter, "a parameter of select").element_type, operand.element_type
        ):
            raise ShapeError(f"select takes {plain(parameter)}, the operand is {plain(operand)}")
    reducer_types(scatter, (source,), (init,), "scatter")
    expected = make_array(operand.element_type, slide(dimensions_of(operand), attributes.window))
    if not same_sizes(expected, source):
        raise ShapeError(f"the source must be {plain(expected)}, not {plain(source)}")
    return operand


def _infer_map(operands: Shapes, attributes: Dimensions, called: Called) -> Shape:
    if not operands:
        raise ShapeError("map needs at least one operand")
    first = array(operands[0], "operand 0")
    for operand in operands[1:]:
        if not same_sizes(array(operand, "an operand"), first):
            raise ShapeError(f"the operands differ in size: {plain(first)} and {plain(operand)}")
    if attributes.dimensions not in ((), tuple(range(first.rank))):
        raise ShapeError(
            f"map must name all dimensions, {listed(range(first.rank))}, "
            f"not {listed(attributes.dimensions)}"
        )
    body = called[0]
    if len(body.parameters) != len(operands):
        raise ShapeError(
            f"to_apply must take {len(operands)} parameters, not {len(body.parameters)}"
        )
    for parameter, operand in zip(body.parameters, operands, strict=True):
        if not same_type(scalar(parameter, "a parameter").element_type, operand.element_type):
            raise ShapeError(f"to_apply takes {plain(parameter)}, the operand is {plain(operand)}")
    result = scalar(body.result, "the result of to_apply")
    return array_shape(result.element_type, first.dimensions, dynamic=first.dynamic)


def _infer_scan(operands: Shapes, attributes: Scan, called: Called) -> Shape:
    carries = attributes.num_carries
    if not 0 <= carries <= len(operands):
        raise ShapeError(f"num_carries {carries} exceeds {len(operands)} operands")
    inputs = operands[: len(operands) - carries]
    if not inputs:
        raise ShapeError("scan needs at least one input beside its carries")
    for operand in inputs:
        in_range(attributes.dimension, array(operand, "an input"), "scanned dimension")
    size = dimensions_of(inputs[0])[attributes.dimension]
    steps = scalars_of(called[0].result)
    if len(steps) < carries:
        raise ShapeError(f"to_apply must return {carries} carries, but returns {len(steps)} values")
    outputs = []
    for step in steps[: len(steps) - carries]:
        dimensions = dimensions_of(array(step, "a result of to_apply"))
        at = attributes.dimension
        if at > len(dimensions):
            raise ShapeError(f"results {plain(step)} of to_apply cannot be stacked along {at}")
        outputs.append(make_array(step.element_type, [*dimensions[:at], size, *dimensions[at:]]))
    return one_or_tuple([*outputs, *steps[len(steps) - carries :]])


# -- cost --------------------------------------------------------------------------------------


def _first(shape: Shape) -> Shape:
    return shape.tuple_shapes[0] if shape.is_tuple else shape


def _reduce_cost(
    result: Shape, operands: Shapes, attributes: Dimensions, called: Sequence[Cost]
) -> Cost:
    applied = operands[0].element_count - _first(result).element_count
    return called[0].times(applied) + Cost(bytes_accessed=bytes_touched(result, operands))


def _reduce_window_cost(
    result: Shape, operands: Shapes, attributes: ReduceWindow, called: Sequence[Cost]
) -> Cost:
    outputs = _first(result).element_count
    applied = (window_size(attributes.window) - 1) * outputs
    whole = _reduced_dimension(attributes.window, result)
    if whole is not None:
        applied = outputs // max(whole, 1) + whole - 1
    return called[0].times(applied) + Cost(bytes_accessed=bytes_touched(result, operands))


def _reduced_dimension(window: Window, result: Shape) -> int | None:
    """Return the size of the one dimension along which results accumulate, if there is one.

    Such a reduce-window is a cumulative sum, or a reduce and a broadcast of its result.
    """
    wide = [i for i, dimension in enumerate(window.dimensions) if dimension.size != 1]
    if len(wide) != 1 or len(list(padded(window))) != 1 or result.is_tuple:
        return None
    dimension = window.dimensions[wide[0]]
    size = result.dimensions[wide[0]]
    return size if dimension.padding_low == dimension.padding_high == size - 1 else None


def _select_and_scatter_cost(
    result: Shape, operands: Shapes, attributes: ReduceWindow, called: Sequence[Cost]
) -> Cost:
    select, scatter = called
    source = operands[1].element_count
    selected = select.times(source * (window_size(attributes.window) - 1))
    return selected + scatter.times(source) + Cost(bytes_accessed=bytes_touched(result, operands))


def _map_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    applied = called[0].times(result.element_count)
    return applied + Cost(bytes_accessed=bytes_touched(result, operands))


def _scan_cost(result: Shape, operands: Shapes, attributes: Scan, called: Sequence[Cost]) -> Cost:
    steps = operands[0].dimensions[attributes.dimension]
    return called[0].times(steps) + Cost(bytes_accessed=bytes_touched(result, operands))


OPERATIONS: Final = (
    OpDefinition(
        Opcode.REDUCE,
        "folds dimensions of the inputs with a computation, from initial values",
        arity=(2, UNLIMITED),
        attributes=Dimensions,
        calls=("to_apply",),
        infer=_infer_reduce,
        cost=_reduce_cost,
        factors="computing.reduce",
    ),
    OpDefinition(
        Opcode.REDUCE_WINDOW,
        "folds each position of a sliding window with a computation",
        arity=(2, UNLIMITED),
        attributes=ReduceWindow,
        calls=("to_apply",),
        infer=_infer_reduce_window,
        cost=_reduce_window_cost,
        factors="windows.reduce_window",
    ),
    OpDefinition(
        Opcode.SELECT_AND_SCATTER,
        "adds each source element to the element that its window selects (pooling's gradient)",
        arity=(3, 3),
        attributes=ReduceWindow,
        calls=("select", "scatter"),
        infer=_infer_select_and_scatter,
        cost=_select_and_scatter_cost,
        factors="windows.select_and_scatter",
    ),
    OpDefinition(
        Opcode.MAP,
        "a computation applied to the elements at each position",
        arity=(1, UNLIMITED),
        attributes=Dimensions,
        calls=("to_apply",),
        infer=_infer_map,
        cost=_map_cost,
        elementwise=True,
    ),
    OpDefinition(
        Opcode.SCAN,
        "a computation applied step by step along a dimension, carrying values",
        arity=(1, UNLIMITED),
        attributes=Scan,
        calls=("to_apply",),
        infer=_infer_scan,
        cost=_scan_cost,
    ),
)
