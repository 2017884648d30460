"""Random modules: the table of what can be drawn, and the entry computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.random_modules import (
    branches,
    call_sites,
    calls,
    contraction,
    data_movement,
    elementwise,
    in_place,
    loops,
    outputs,
)
from tests.random_modules.drawing import Drawing
from tests.random_modules.recipe import Choices, Recipe, SeededChoices

from lowtide.builder import Builder, Op
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.schedule import Schedule
from lowtide.ir.traversal import fused_computations

Maker = Callable[[Drawing], Op | None]
CallMaker = Callable[[Drawing, calls.Steps], Op | None]

PLAIN: Final[Mapping[str, tuple[Maker, ...]]] = {
    "elementwise": (
        elementwise.binary,
        elementwise.unary,
        elementwise.scalar_operand,
        elementwise.compare,
        elementwise.select,
        elementwise.clamp,
    ),
    "transcendental": (elementwise.transcendental,),
    "conversion": (elementwise.convert, elementwise.bitcast_convert, elementwise.reduce_precision),
    "data movement": (
        data_movement.broadcast,
        data_movement.reshape,
        data_movement.transpose,
        data_movement.slice_part,
        data_movement.pad,
        data_movement.concatenate,
        data_movement.reverse,
        data_movement.iota,
        data_movement.bitcast,
    ),
    "indexing": (
        data_movement.dynamic_slice,
        data_movement.dynamic_update_slice,
        data_movement.gather,
        data_movement.scatter,
    ),
    "contraction": (contraction.dot, contraction.convolution),
    "reduction": (
        contraction.reduce,
        contraction.reduce_pair,
        contraction.reduce_window,
        contraction.select_and_scatter,
    ),
    "sorting": (contraction.sort,),
    "tuples": (calls.make_tuple, calls.element, calls.barrier),
    "in place": (
        in_place.updates,
        in_place.scatters,
        in_place.sorted_together,
        in_place.updating_fusion,
        in_place.aliased_fusion,
        in_place.aliased_custom_call,
        in_place.all_reduce,
        in_place.triangular_solve,
    ),
}
"""What each family draws; families that call computations follow in `_calls`."""

ON_SCALARS: Final = ("elementwise", "transcendental")
FUSIBLE: Final = (*ON_SCALARS, "conversion", "data movement", "indexing", "reduction")


CALLING: Final[Mapping[str, tuple[CallMaker, ...]]] = {
    "loops": (loops.carried_loop,),
    "branches": (branches.choice_of_values,),
    "call sites": (call_sites.chained_calls,),
    "asynchronous": (call_sites.asynchronous_call, call_sites.asynchronous_copy),
}
"""What families draw that need steps for the computations that they call."""


def draw_steps(drawing: Drawing, most: int, families: tuple[str, ...] | None = None) -> None:
    """Draw up to `most` operations of some families (default: those of the recipe).

    Before each one the simplest choice is to stop, so that any step can be left out.
    """
    chosen = [x for x in drawing.recipe.families if families is None or x in families]
    makers = [PLAIN[x] if x in PLAIN else _calls(drawing, x) for x in chosen]
    makers = [group for group in makers if group]
    for _ in range(most if makers else 0):
        if drawing.integer(0, most) == 0:
            break
        op = drawing.choice(drawing.choice(makers))(drawing)
        if op is None:
            continue
        drawing.add(op)
        if op.shape.is_tuple and not drawing.chance(3):
            drawing.pool += list(op)


def _calls(drawing: Drawing, family: str) -> tuple[Maker, ...]:
    if drawing.depth <= 0:
        return ()
    if family == "fusion":
        return (partial(calls.fusion, steps=partial(draw_steps, families=FUSIBLE)),)
    if family in CALLING:
        return tuple([_with_steps(maker) for maker in CALLING[family]])
    return (
        partial(calls.call, steps=draw_steps),
        partial(calls.while_loop, steps=draw_steps),
        partial(calls.conditional, steps=draw_steps),
        partial(calls.map_scalars, steps=_scalar_steps),
    )


def _with_steps(maker: CallMaker) -> Maker:
    return lambda drawing: maker(drawing, draw_steps)


def _scalar_steps(drawing: Drawing, most: int) -> None:
    """Draw operations on scalars only, as the computation of a map must have them."""
    drawing.max_rank = 0
    draw_steps(drawing, most, ON_SCALARS)


def draw_module(choices: Choices, recipe: Recipe) -> Module:
    """Return a valid module drawn by a recipe."""
    drawing = Drawing(Builder("random"), choices, recipe)
    if recipe.shared_results:
        outputs.draw_parameters(drawing)
    draw_steps(drawing, recipe.max_instructions)
    if not drawing.pool:
        drawing.array()
    root = outputs.draw_root(drawing)
    if recipe.aliases:
        outputs.draw_aliases(drawing, root)
    module = drawing.builder.build(root)
    if recipe.control_dependencies:
        _draw_control_dependencies(drawing, module)
    if recipe.is_scheduled:
        fused = fused_computations(module)
        module.schedule = Schedule(
            {
                c: tuple(c.instructions.values())
                for c in module.computations.values()
                if c not in fused
            }
        )
    return module


def random_module(seed: int, recipe: Recipe | None = None) -> Module:
    """Return a valid module that follows from a seed."""
    return draw_module(SeededChoices(seed), recipe or Recipe())


def _draw_control_dependencies(drawing: Drawing, module: Module) -> None:
    instructions = list(module.entry.instructions.values())
    for _ in range(drawing.integer(0, min(4, len(instructions) - 1))):
        later = drawing.integer(1, len(instructions) - 1)
        earlier = drawing.integer(0, later - 1)
        instructions[later].add_control_predecessor(instructions[earlier])


def random_schedule(module: Module, choices: Choices) -> Schedule:
    """Return an order for each computation that is not fused, any of those that are legal."""
    fused = fused_computations(module)
    return Schedule(
        {x: _any_order(x, choices) for x in module.computations.values() if x not in fused}
    )


def _any_order(computation: Computation, choices: Choices) -> tuple[Instruction, ...]:
    waits = {x: len(_predecessors(x)) for x in computation.instructions.values()}
    ready = [instruction for instruction, count in waits.items() if not count]
    order: list[Instruction] = []
    while ready:
        chosen = choices.integer(0, len(ready) - 1)
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        order.append(ready.pop())
        for follower in dict.fromkeys((*order[-1].users, *order[-1].control_successors)):
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    return tuple(order)


def _predecessors(instruction: Instruction) -> dict[Instruction, None]:
    return dict.fromkeys((*instruction.operands, *instruction.control_predecessors))
