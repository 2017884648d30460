"""The live ranges of a module as a packing problem by itself."""

from __future__ import annotations

from lowtide import compiler
from lowtide.buffers.packing import packing_problems
from lowtide.ir import Module
from lowtide.ir.buffer import AssignedValue
from lowtide.options import DEFAULT_STAGE
from lowtide.packing.named import NamedProblem
from lowtide.packing.pictures import value_details
from lowtide.planning import ARENA, max_live
from lowtide.report.plan_document import value_names


def module_problem(module: Module, stage: str = DEFAULT_STAGE) -> NamedProblem:
    """Return what is packed where a module is planned: its buffers after copies and scheduling.

    A module that is not scheduled is taken to a stage first. Where there are several memory spaces,
    it is the one with most bytes live. Raises LowtideError as `compiler.plan` does.
    """
    planned = compiler.plan(module, compiler.PlanOptions(stage))
    assignment = planned.assignment
    first: dict[int, tuple[AssignedValue, str]] = {}
    for value, name in zip(assignment.values, value_names(assignment), strict=True):
        before = first.get(value.buffer)
        if before is None or (value.live or (0, 0)) < (before[0].live or (0, 0)):
            first[value.buffer] = value, name
    problems = packing_problems(planned.ranges)
    space, chosen, problem = max(problems, key=lambda x: (max_live(x[2]), -x[0]))
    notes = []
    if len(problems) > 1:
        notes.append(f"only memory space {space} of {len(problems)} is packed here")
    donated = int((problem.region_of != ARENA).sum())
    if donated:
        notes.append(f"{donated:,} buffers are arguments that outputs overwrite, and stay there")
    makers = [first[buffer] for buffer in chosen.tolist()]
    return NamedProblem(
        module.name,
        tuple([name for _, name in makers]),
        problem,
        tuple(notes),
        tuple([value_details(value) for value, _ in makers]),
    )
