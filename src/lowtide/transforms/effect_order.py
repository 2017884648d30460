"""Side effects in the order in which the program was written.

Calls of Python functions print and count, and whoever reads that expects the order of the program,
also where nothing but the text says it. It is read off before any pass changes it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from lowtide.host_calls.instructions import is_python_call
from lowtide.ir import Computation, Instruction, Module
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.passes.interface import Pass, example


def order_effects(module: Module) -> int:
    """Add control edges that keep side effects in their order; return how many.

    Each instruction with a side effect, or that calls what has one, runs after the one before it.
    Only in modules that call Python functions with side effects, and that have no schedule yet.
    """
    if module.is_scheduled or not _has_python_effects(module):
        return 0
    return sum([_order(x) for x in module.computations.values()])


def _has_python_effects(module: Module) -> bool:
    return any(
        is_python_call(x) and has_side_effect(x)
        for computation in module.computations.values()
        for x in computation.instructions.values()
    )


def _order(computation: Computation) -> int:
    effects = _in_order(computation)
    added = 0
    for before, after in pairwise(effects):
        if before not in after.control_predecessors:
            after.add_control_predecessor(before)
            added += 1
    return added


def _in_order(computation: Computation) -> list[Instruction]:
    """The side effects as they are written; where one reads a later one, operands first."""
    effects = [x for x in computation.instructions.values() if has_side_effect(x)]
    number = {x: i for i, x in enumerate(effects)}
    latest: dict[Instruction, int] = {}
    for x in post_order(computation):
        needed = [latest[y] for y in (*x.operands, *x.control_predecessors)]
        latest[x] = max([number.get(x, -1), *needed])
        if latest[x] > number.get(x, len(effects)):
            return [y for y in post_order(computation) if y in number]
    return effects


PASSES: Final = (
    Pass(
        "effect-order",
        order_effects,
        "Keeps side effects in the order of the program where Python functions are called.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[] parameter(0)
  ROOT y = f32[] negate(x)
  a = () custom-call(y), custom_call_target="lowtide_python_function", \
custom_call_has_side_effect=true, backend_config={number = 1 : ui64}
- b = () custom-call(x), custom_call_target="lowtide_python_function", \
custom_call_has_side_effect=true, backend_config={number = 2 : ui64}
+ b = () custom-call(x), custom_call_target="lowtide_python_function", \
custom_call_has_side_effect=true, backend_config={number = 2 : ui64}, control-predecessors={a}
}
"""
        ),
    ),
)
