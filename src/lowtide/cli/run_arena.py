"""`lowtide run --arena`: the evaluator inside a memory plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.cli.runs import Runs
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir import Module
    from lowtide.ir.buffer import BufferAssignment
    from lowtide.ir.schedule import PartialOrder
    from lowtide.options import Options


@dataclass(frozen=True, slots=True)
class ArenaTarget:
    """A module to run inside a plan, and the order that instructions keep, None for one of all.

    The plan was in `file`, and is said to be one of `program`.
    """

    module: Module
    assignment: BufferAssignment
    order: PartialOrder | None = None
    order_name: str | None = None
    program: Module | None = None
    file: str = ""

    @property
    def arena_bytes(self) -> int:
        """What the plan takes beyond arguments, also where outputs lie by themselves."""
        from lowtide.ir.buffer import AllocationKind

        kinds = (AllocationKind.ARENA, AllocationKind.OUTPUT)
        return sum([x.nbytes for x in self.assignment.allocations if x.kind in kinds])


def target_of(
    module: Module, plan: Path | None, order: str | None, options: Options
) -> ArenaTarget:
    """Return the plan in a file, that for an order, or the usual one, as the options limit it.

    Raises OverMemoryError where no plan of the last kind is known to fit the memory.
    """
    from lowtide.autopsy.assigners import plan_for_order
    from lowtide.budgeting.planner import plan_within
    from lowtide.cli.exit_codes import UsageError
    from lowtide.compiler import PlanOptions

    is_share = options.memory is not None and not isinstance(options.memory, int)
    if is_share and (order is not None or plan is not None):
        raise UsageError(
            f"--memory {options.memory} is a share of lowtide's own plan; with --plan or --order "
            "give it in bytes, such as 512MiB"
        )
    if order is None:
        if plan is None:
            planned = plan_within(module, options.memory, PlanOptions.of(options))
            module, assignment = planned.module, planned.assignment
        else:
            planned_module, assignment = _plan_in(plan, module)
            return ArenaTarget(planned_module, assignment, program=module, file=str(plan))
        return ArenaTarget(module, assignment)
    if plan is not None:
        raise UsageError("--order makes a plan of its own; leave out --plan")
    made = plan_for_order(module, order)
    return ArenaTarget(made.module, made.assignment, made.order, order)


def runs_in_arena(
    target: ArenaTarget, arguments: Any, seed: int, repeat: int, *, sanitize: bool
) -> Runs:
    """Run inside a plan; raises VerificationError where it is at fault."""
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.evaluator.in_arena import ArenaError
    from lowtide.inspection.arena import run_planned
    from lowtide.ir.errors import InputError

    try:
        runs = [
            run_planned(
                target.module,
                arguments,
                target.assignment,
                order=target.order,
                sanitize=sanitize,
                seed=seed,
                program=target.program,
            )
            for _ in range(repeat)
        ]
    except ArenaError as error:
        raise VerificationError(str(error)) from None
    except InputError as error:
        raise InputError(error.message, file=target.file) from None
    checked = ", each byte read was checked" if sanitize else ""
    overlapping = (
        "" if target.order_name is None else f", overlapping as {target.order_name} allows"
    )
    return Runs(
        "arena",
        runs[0].result,
        [run.seconds for run in runs],
        f"inside an arena of {target.arena_bytes:,} bytes",
        remarks=[f"equal to the reference evaluator bit for bit{checked}{overlapping}"],
        document={
            "arena_bytes": target.arena_bytes,
            "sanitized": sanitize,
            "order": target.order_name,
        },
    )


def _plan_in(plan: Path, module: Module) -> tuple[Module, BufferAssignment]:
    """The plan in a file, and the scheduled module that it is for.

    That is the one in the file, where it has one: planning adds an order and copies to a module.
    """
    from lowtide.frontend.plan_files import needs_module, plan_from, read_plan_bytes
    from lowtide.ir.errors import InputError
    from lowtide.ir.shape import Shape

    data = read_plan_bytes(str(plan))
    found = plan_from(data, str(plan), module if needs_module(data) else None)
    ours = [parameter.shape for parameter in module.entry.parameters]
    theirs = [parameter.shape for parameter in found.module.entry.parameters]
    if len(ours) != len(theirs) or not all(map(Shape.compatible, ours, theirs)):
        raise InputError("is the plan of another module: its parameters differ", file=str(plan))
    return found.module, found.assignment
