"""Running a module inside its plan, beside the evaluator, whose result it has to have."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from lowtide import compiler
from lowtide.checking.tolerances import worst_difference
from lowtide.evaluator import Token, Value, evaluate, value_leaves
from lowtide.evaluator.in_arena import ArenaError, differing_leaves, run_in_arena
from lowtide.ir import InputError, Module, Shape
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.schedule import PartialOrder
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ArenaRun:
    """The result of a run inside a plan, which is that of the evaluator bit for bit.

    `seconds` is the wall time inside the plan.
    """

    result: Value
    module: Module
    assignment: BufferAssignment
    seconds: float


def run_planned(
    module: Module,
    arguments: Sequence[Any],
    assignment: BufferAssignment | None = None,
    *,
    order: PartialOrder | None = None,
    sanitize: bool = False,
    seed: int = 0,
    program: Module | None = None,
) -> ArenaRun:
    """Return what a module computes inside a plan; without one, inside the plan made here.

    Raises ArenaError where the plan is at fault, also where the result differs in any bit from the
    evaluator's; InputError where it is not what `program` computes, of which the module is said to
    be the planned form; else as `compiler.plan` and `evaluate` do.
    """
    if assignment is None:
        planned = compiler.plan(module)
        module, assignment = planned.module, planned.assignment
    start = perf_counter()
    result = run_in_arena(module, assignment, arguments, order=order, sanitize=sanitize, seed=seed)
    seconds = perf_counter() - start
    wrong = differing_leaves(module, result, evaluate(module, arguments, seed=seed))
    if wrong:
        raise ArenaError(_difference(wrong, sanitize=sanitize))
    if program is not None and program is not module:
        _compare(program, module, result, evaluate(program, arguments, seed=seed))
    return ArenaRun(result, module, assignment, seconds)


def _compare(program: Module, module: Module, result: Value, expected: Value) -> None:
    """Raise InputError where the result of a plan's module is not that of the program.

    Passes may change the last bits of numbers.
    """
    shape = program.entry.root.shape
    if module.entry.root.shape.compatible(shape) and _is_close(result, expected, shape):
        return
    raise InputError(
        f"is the plan of another program: its module {module.name} does not compute what "
        f"{program.name} does; give the module that the plan was made of"
    )


def _is_close(result: Value, expected: Value, shape: Shape) -> bool:
    pairs = zip(value_leaves(result), value_leaves(expected), shape.leaves(), strict=True)
    return all(
        isinstance(got, Token)
        or isinstance(want, Token)
        or worst_difference(got, want, leaf.element_type) is None
        for got, want, (_, leaf) in pairs
    )


def _difference(wrong: list[tuple[int, ...]], *, sanitize: bool) -> str:
    index = ",".join(map(str, wrong[0]))
    more = f" and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
    hint = "" if sanitize else "; sanitize finds the values that lie over one another"
    return f"output {{{index}}}{more} of the run inside the plan differs from the evaluator's{hint}"
