"""Copies where a value is handed on in another layout than it has, or written over in one.

Tuples, calls, loops and branches leave arrays where they are, and so does what writes in place: all
of them need one layout on both sides. So do callers of the module: arguments come and results go in
the layouts of `entry_computation_layout`. Values do not depend on layouts, so that a copy serves
where a module says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lowtide.ir import Computation, Instruction, Module, Opcode, Shape, tuple_shape
from lowtide.ir.attributes import CustomCall
from lowtide.ir.schedule import Schedule
from lowtide.ir.shape import Layout, ShapeIndex, major_to_minor
from lowtide.ops.in_place import in_place_pairs
from lowtide.passes.editing import element_index, settle
from lowtide.transforms.layout.row_major import row_major, with_layouts, with_layouts_of


def obey_layouts(module: Module) -> int:
    """Insert the copies that layouts ask for; return how many places needed some.

    A schedule stays one: copies run just before what reads them. The layouts of loops and branches
    that do not agree become row-major.
    """
    changes = settle(_step, module)
    if changes and module.schedule is not None:
        sequences = module.schedule.sequences.items()
        module.schedule = Schedule({x: _completed(x, order) for x, order in sequences})
    return changes


def _step(module: Module) -> int:
    changes = _obey_callers(module)
    for computation in module.computations.values():
        for x in list(computation.instructions.values()):
            rule = _RULES.get(x.opcode, _write_in_place)
            changes += rule(x)
    return changes


def _completed(computation: Computation, order: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """A schedule with what was added, each instruction just before the first that reads it."""
    known, done = set(order), dict.fromkeys(order[:0])
    for x in (*order, computation.root):
        waiting = [x]
        while waiting:
            at = waiting[-1]
            missing = [y for y in at.operands if y not in known and y not in done]
            if missing:
                waiting += missing
                continue
            done[waiting.pop()] = None
    return tuple(done)


# -- shapes ----------------------------------------------------------------------------------------


def _order(shape: Shape) -> tuple[int, ...]:
    return (shape.layout or major_to_minor(shape.rank)).minor_to_major


def _laid_as(shape: Shape, model: Shape) -> Shape:
    """Return a shape with its dimensions in the order of a model, which has as many."""
    if shape.is_tuple:
        pairs = zip(shape.tuple_shapes, model.tuple_shapes, strict=True)
        parts = [_laid_as(x, y) for x, y in pairs]
        return shape if tuple(parts) == shape.tuple_shapes else tuple_shape(parts)
    if not shape.is_array or shape.rank != model.rank or _order(shape) == _order(model):
        return shape
    return shape.with_layout(replace(shape.layout or Layout(()), minor_to_major=_order(model)))


def _replaced(shape: Shape, index: ShapeIndex, part: Shape) -> Shape:
    """Return a shape with another part at an index."""
    if not index:
        return part
    parts = list(shape.tuple_shapes)
    parts[index[0]] = _replaced(parts[index[0]], index[1:], part)
    return tuple_shape(parts)


# -- values ----------------------------------------------------------------------------------------


def _take(x: Instruction, number: int, model: Shape) -> int:
    """Have an instruction read an operand in the layout of a model."""
    operand = x.operands[number]
    wanted = _laid_as(operand.shape, model)
    if wanted is operand.shape:
        return 0
    x.replace_operand(number, with_layouts(operand, wanted))
    return 1


def _give(x: Instruction, model: Shape) -> int:
    """Have an instruction make its result in the layout of a model; users read a copy."""
    wanted = _laid_as(x.shape, model)
    if wanted is x.shape:
        return 0
    _remake(x, wanted)
    return 1


def _remake(x: Instruction, shape: Shape) -> None:
    """Give an instruction another shape; its users read a copy in the one that it had."""
    before, users, is_root = x.shape, list(x.users), x.is_root
    x.set_shape(shape)
    if not users and not is_root:
        return
    copy = with_layouts(x, before)
    for user in users:
        for number, operand in enumerate(user.operands):
            if operand is x:
                user.replace_operand(number, copy)
    if is_root:
        x.parent.root = copy


def _return(computation: Computation, model: Shape) -> int:
    """Have a computation return its result in the layout of a model."""
    root = computation.root
    wanted = _laid_as(root.shape, model)
    if wanted is root.shape:
        return 0
    computation.root = with_layouts(root, wanted)
    return 1


def _obey_callers(module: Module) -> int:
    """Take arguments and return results in the layouts and the memory that callers use."""
    program, entry = module.entry_layout, module.entry
    if program is None:
        return 0
    changes = 0
    for x, model in zip(entry.parameters, program.parameters, strict=True):
        wanted = with_layouts_of(x.shape, model)
        if wanted is not x.shape:
            _remake(x, wanted)
            changes += 1
    wanted = with_layouts_of(entry.root.shape, program.result)
    if wanted is not entry.root.shape:
        entry.root = with_layouts(entry.root, wanted)
        changes += 1
    return changes


# -- rules -----------------------------------------------------------------------------------------


def _call(x: Instruction) -> int:
    callee = x.called_computations[0]
    changes = 0
    for number, parameter in enumerate(callee.parameters):
        changes += _take(x, number, parameter.shape)
    return changes + _give(x, callee.root.shape)


def _while(x: Instruction) -> int:
    condition, body = x.called_computations
    inner = (condition.parameters[0], body.parameters[0])
    shapes = [y.shape for y in (x.operands[0], x, *inner, body.root)]
    if all(_laid_as(shape, x.shape) is shape for shape in shapes):
        return 0
    one = row_major(x.shape)
    changes = _take(x, 0, one) + _give(x, one) + _return(body, one)
    return changes + sum([_give(y, one) for y in inner])


def _conditional(x: Instruction) -> int:
    changes = 0
    for number, callee in enumerate(x.called_computations):
        changes += _take(x, number + 1, callee.parameters[0].shape)
    shapes = [callee.root.shape for callee in x.called_computations]
    if all(_laid_as(shape, x.shape) is shape for shape in shapes):
        return changes
    one = row_major(x.shape)
    return changes + _give(x, one) + sum([_return(y, one) for y in x.called_computations])


def _start(x: Instruction) -> int:
    """The first half of an asynchronous operation, whose shape has operands and result."""
    callee = x.called_computations[0]
    changes = sum([_take(x, number, y.shape) for number, y in enumerate(callee.parameters)])
    given, told = tuple_shape([y.shape for y in callee.parameters]), x.shape.tuple_shapes
    if told[1].is_tuple and not told[1].tuple_shapes:  # No result is told: that of the computation.
        x.set_shape(tuple_shape([told[0], callee.root.shape, *told[2:]]))
    return changes + _reshaped(x, tuple_shape([given, callee.root.shape, *told[2:]]))


def _update(x: Instruction) -> int:
    return _reshaped(x, x.operands[0].shape)


def _reshaped(x: Instruction, model: Shape) -> int:
    wanted = _laid_as(x.shape, model)
    if wanted is x.shape:
        return 0
    x.set_shape(wanted)
    return 1


def _done(x: Instruction) -> int:
    """The second half of an operation whose first half has the result behind the operands."""
    return _give(x, x.operands[0].shape.tuple_shapes[1])


def _copy_done(x: Instruction) -> int:
    """The second half of a copy, whose first half has the result in front."""
    return _give(x, x.operands[0].shape.tuple_shapes[0])


def _tuple(x: Instruction) -> int:
    return sum([_take(x, number, shape) for number, shape in enumerate(x.shape.tuple_shapes)])


def _element(x: Instruction) -> int:
    return _give(x, x.operands[0].shape.tuple_shapes[element_index(x)])


def _pass_on(x: Instruction) -> int:
    return _give(x, x.operands[0].shape)


def _in_rows(x: Instruction) -> int:
    """Operations of whole arrays whose kernels read and write them in row-major order."""
    changes = _give(x, row_major(x.shape))
    for number, operand in enumerate(x.operands):
        changes += _take(x, number, row_major(operand.shape))
    return changes


def _write_in_place(x: Instruction) -> int:
    """What is written over has the layout of the result."""
    changes = 0
    for (number, index), output in in_place_pairs(x):
        shape = x.operands[number].shape
        part = shape.at(index)
        model = _laid_as(part, x.shape.at(output))
        if model is not part:
            changes += _take(x, number, _replaced(shape, index, model))
    return changes


def _custom_call(x: Instruction) -> int:
    """What a foreign function reads has the layouts that the call names, row-major ones without."""
    from lowtide.host_calls.instructions import is_foreign_call  # Few programs have such calls.

    if not is_foreign_call(x):
        return _write_in_place(x)
    layouts = x.attributes_as(CustomCall).operand_layouts
    changes = 0
    for number, operand in enumerate(x.operands):
        shape = operand.shape
        model = row_major(shape) if layouts is None else _laid_as(shape, layouts[number])
        if model is not shape:
            changes += _take(x, number, model)
    return changes


_RULES: Final[dict[Opcode, Callable[[Instruction], int]]] = {
    Opcode.ADD_DEPENDENCY: _pass_on,
    Opcode.ALL_GATHER_DONE: _done,
    Opcode.ALL_REDUCE_DONE: _pass_on,
    Opcode.ASYNC_DONE: _done,
    Opcode.ASYNC_START: _start,
    Opcode.ASYNC_UPDATE: _update,
    Opcode.CALL: _call,
    Opcode.COLLECTIVE_PERMUTE_DONE: _done,
    Opcode.COPY_DONE: _copy_done,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DOMAIN: _pass_on,
    Opcode.FFT: _in_rows,
    Opcode.FUSION: _call,
    Opcode.GET_TUPLE_ELEMENT: _element,
    Opcode.OPTIMIZATION_BARRIER: _pass_on,
    Opcode.RAGGED_ALL_TO_ALL: _in_rows,
    Opcode.RNG_BIT_GENERATOR: _in_rows,
    Opcode.TUPLE: _tuple,
    Opcode.WHILE: _while,
}
"""By opcode how layouts come to agree; others may write in place."""
