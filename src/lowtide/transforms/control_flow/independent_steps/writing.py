"""A loop of independent steps written anew: all steps at once, or a loop over many at a time."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder import Builder
from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Computation, ElementType, Instruction, Opcode, Shape
from lowtide.ir.attributes import Dimensions
from lowtide.ir.shape import array_shape
from lowtide.passes.call_sites import mark
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import (
    element_index,
    read_elements_at_once,
    remove_with_operands,
    substitute,
)
from lowtide.passes.matching import identity_of
from lowtide.transforms.control_flow.independent_steps.kinds import StepKind, StepNumber
from lowtide.transforms.control_flow.independent_steps.lanes import StepLanes
from lowtide.transforms.control_flow.independent_steps.loop import IndependentLoop
from lowtide.transforms.control_flow.independent_steps.rules import rule_of
from lowtide.transforms.control_flow.while_unroller import KEPT


def run_together(found: IndependentLoop, together: int) -> None:
    """Replace a loop by one that runs `together` of its steps at a time, or by no loop for all.

    Where that does not divide the number of steps, the last ones are some that were run before.
    """
    x = found.loop.instruction
    build = Builder.inside(x.parent)
    starts = found.loop.starts
    first = [build.value(starts[i]) for i in range(len(found.loop.shapes))]
    if together >= found.count:
        results = _steps(found, build, x.parent, first)
    else:
        results = _loop(found, build, first, together)
    for index, counter in found.counters.items():
        after = counter.first + counter.by * found.count
        results[index] = build.constant(after, first[index].element_type)
    made = build.tuple(results).instruction
    made.set_metadata(x.raw_metadata)
    operand, parent = x.operands[0], x.parent
    substitute(x, made)
    parent.remove(x)
    remove_with_operands(operand)
    read_elements_at_once(made)
    sweep(parent)


def _loop(found: IndependentLoop, build: Builder, first: Sequence[Op], together: int) -> list[Op]:
    """The elements after a loop over `together` steps at a time."""
    count, module = found.count, found.loop.body.module
    state = [build.constant(0, ElementType.S32), *first]
    given = build.tuple(state)
    computation = module.add_computation("steps")
    body = Builder.inside(computation)
    number, *elements = body.parameter(0, given.shape)
    base = number * together
    if count % together:
        base = body.minimum(base, body.constant(count - together, ElementType.S32))
    results = _steps(found, body, computation, elements, (together, base))
    computation.root = body.tuple([number + 1, *results]).instruction
    sweep(computation)
    condition = _condition(module.add_computation("more_steps"), given.shape, -(-count // together))
    called = [SubComputation(condition), SubComputation(computation)]
    loop = build.emit(Opcode.WHILE, [given], called=called)
    loop.instruction.set_metadata(found.loop.instruction.raw_metadata)
    mark(loop.instruction, KEPT)
    return [build.get_tuple_element(loop, 1 + i) for i in range(len(first))]


def _condition(computation: Computation, state: Shape, limit: int) -> Computation:
    build = Builder.inside(computation)
    number = build.get_tuple_element(build.parameter(0, state), 0)
    computation.root = number.lt(limit).instruction
    return computation


def _steps(
    found: IndependentLoop,
    build: Builder,
    parent: Computation,
    elements: Sequence[Op],
    rounds: tuple[int, Op] | None = None,
) -> list[Op]:
    """What the elements are after all steps, or after a number of them from a certain one on."""
    steps = found.count
    count, base = (steps, None) if rounds is None else rounds
    lanes = StepLanes(build, found.kinds, steps, count, base)
    parameter = found.loop.body.parameters[0]
    ends = {y: i for i, y in enumerate(found.loop.results)}
    results = list(elements)
    for x, kind in found.kinds.items():
        if x.operands and x.operands[0] is parameter:
            if not isinstance(kind, StepNumber):
                lanes.made[x] = elements[element_index(x)]
        elif kind in (StepKind.STACK, StepKind.TOTAL):
            index = ends[x]
            with lanes.build.metadata(x.raw_metadata):
                made = _written(found, lanes, index, x, elements[index])
            results[index] = made
        elif kind is StepKind.ALIKE:
            operands = tuple([lanes.made[y].instruction for y in x.operands])
            lanes.made[x] = lanes.build.value(parent.add_like(x, operands))
        elif kind is StepKind.OWN:
            rule = rule_of(x)
            assert rule is not None
            with lanes.build.metadata(x.raw_metadata):
                values = rule.write(lanes, x)
            if values is not None:
                lanes.put(x, values)
    return results


def _written(
    found: IndependentLoop, lanes: StepLanes, index: int, x: Instruction, carried: Op
) -> Op:
    """What an element is after the steps that write their slices, or add their numbers, to it."""
    place = found.places.get(index)
    if place is not None:
        type_ = x.operands[place.operand].shape.element_type
        slices = lanes.own(x.operands[-1 if x.opcode is Opcode.SCATTER else 1])
        return lanes.stacked(carried, slices, place.dimension, place.kind, type_)
    (term,) = [y for y in x.operands if found.kinds[y] is not StepKind.TOTAL]
    element_type = x.shape.element_type
    build = lanes.build
    start = build.constant(identity_of(x.opcode, element_type), element_type)
    adding = build.scalar_computation(x.opcode, element_type)
    total = build.emit(
        Opcode.REDUCE,
        [lanes.own(term), start],
        Dimensions((0,)),
        [adding],
        array_shape(element_type, ()),
    )
    return build.emit(x.opcode, [carried, total])
