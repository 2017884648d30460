"""`lowtide plan` of a module: the place of every value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.autopsy.assigners import AssignedPlan
    from lowtide.cli.plan_request import PlanRequest
    from lowtide.compiler import PlanOptions
    from lowtide.ir import Module
    from lowtide.ir.buffer import AssignedValue, BufferAssignment
    from lowtide.report.drawing import Paint
    from lowtide.search.deadline import Deadline


@dataclass(frozen=True, slots=True)
class ModuleRequest:
    """How a module is to be planned: the options that a packing problem does not have."""

    stage: str = DEFAULT_STAGE
    assigner: str = "arena"
    packing: str | None = None
    reoptimize: bool = False
    whole: bool = False
    target: str = "cpu"

    def options(self) -> PlanOptions:
        """Return options of a plan for the target, and say by which machine it is modelled.

        Raises UsageError for a target that is not known.
        """
        from lowtide.cli import console
        from lowtide.cli.targets import for_gpu, for_processor
        from lowtide.compiler import DEFAULT_PLAN, PlanOptions
        from lowtide.ir.gpu_names import is_gpu_target
        from lowtide.options import Options

        is_gpu = is_gpu_target(self.target)
        named = for_gpu if is_gpu else for_processor
        record = PlanOptions.of(named(Options(), self.target)).target
        if is_gpu:
            console.note(f"planned by figures of {record.machine.name}: nothing was measured")
        return replace(DEFAULT_PLAN, target=record)

    def loaded(self, path: str) -> Module:
        """Return the module in a file, as one device has it where it has shardings."""
        from lowtide.cli.modules import load
        from lowtide.cli.one_device import of_one_device

        found = load(path, reoptimize=self.reoptimize)
        return of_one_device(found, None, whole=self.whole).module


def plan_module(module: Module, wanted: ModuleRequest, request: PlanRequest) -> None:
    """Plan a module and write the plan.

    Raises LowtideError for an unknown assigner or packing strategy, KeyboardInterrupt once what was
    found is written, else as `compiler.plan` does.
    """
    from lowtide.autopsy.assigners import plan_with
    from lowtide.cli.progress import progress
    from lowtide.compiler import DEFAULT_PACKING
    from lowtide.search.interrupts import ending_at

    packing = wanted.packing or DEFAULT_PACKING
    with ending_at(request.deadline) as deadline, ExitStack() as rest:
        with progress(f"planning {module.name}"):
            search = request.search(deadline)
            stage, base = wanted.stage, wanted.options()
            planned = plan_with(module, wanted.assigner, packing, search, stage, base)
            rest.enter_context(deadline.held())
            if wanted.packing is not None:
                check_planned(planned)
        deliver_plan(planned, request, lines=clock_lines(deadline))
    if deadline.was_interrupted:
        raise KeyboardInterrupt


def clock_lines(deadline: Deadline) -> list[str]:
    """Return what people are told of a search that did not end by itself, behind an empty line."""
    return [line for x in deadline.remarks() for line in ("", f"{x[0].upper()}{x[1:]}.")]


def deliver_plan(
    planned: AssignedPlan,
    request: PlanRequest,
    fields: Mapping[str, object] | None = None,
    lines: Sequence[str] = (),
    certificate: Callable[[], bytes] | None = None,
    *,
    with_table: bool = True,
) -> None:
    """Write a plan to the files that are asked for, and to the screen.

    `fields` are added to the document, `lines` to what people see, with the table of offsets or
    without. `certificate` makes that of the plan where it is not the one of the module alone.
    """
    from lowtide.cli import console
    from lowtide.cli.plan_request import write_pictures
    from lowtide.options import display_for
    from lowtide.packing.pictures import plan_picture

    least, name = planned.report.least_arena_bytes, planned.module.name
    write_pictures(request, lambda: plan_picture(name, planned.assignment, least))
    output = request.output
    if output is not None:
        content = _file(planned, output, fields or {}, certificate)
        console.write_file(output, lambda stream: stream.write(content))
    if request.json:
        console.write_json({**_document(planned), **(fields or {})})
        return
    display = display_for(sys.stdout)
    limit = request.limit if with_table else None
    screen = _screen(planned, limit, display.width, color=display.color)
    console.write("\n".join([*screen, *lines]))


def check_planned(planned: AssignedPlan) -> None:
    """Raise VerificationError for a plan that the verifier, which shares no code, finds wrong."""
    from lowtide.checking import check_plan
    from lowtide.cli.exit_codes import VerificationError

    violations = check_plan(planned.module, planned.assignment)
    if violations:
        raise VerificationError(f"the plan is wrong, which is a fault of lowtide: {violations[0]}")


# -- files -------------------------------------------------------------------------------------


def _document(planned: AssignedPlan) -> dict[str, object]:
    from lowtide.report.plan_document import plan_document

    document = {**planned.report.to_json(), **plan_document(planned.assignment)}
    document["budget"] = None
    document["assigner"] = planned.assigner
    return document


def _file(
    planned: AssignedPlan,
    path: Path,
    fields: Mapping[str, object],
    certificate: Callable[[], bytes] | None,
) -> bytes:
    """Return what a file of that name holds."""
    from lowtide.cli.certificate_files import is_certificate_file, of_module

    suffix = path.suffix.lower()
    if is_certificate_file(path):
        return of_module(planned) if certificate is None else certificate()
    if suffix == ".pb":
        from lowtide.frontend.hlo_proto import write_hlo_proto_plan

        return write_hlo_proto_plan(planned.module, planned.assignment)
    if suffix == ".txt":
        from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

        return buffer_assignment_text(planned.module, planned.assignment).encode()
    from lowtide.cli.console import json_text
    from lowtide.report.plan_document import self_contained

    document = {**_document(planned), **fields}
    document = self_contained(document, planned.module)
    return f"{json_text(document)}\n".encode()


# -- text --------------------------------------------------------------------------------------


def _screen(planned: AssignedPlan, limit: int | None, width: int, *, color: bool) -> list[str]:
    """The headline of explain, and the table of the largest values in the arena, if limited."""
    from lowtide.report.drawing import Paint
    from lowtide.report.text import headline

    paint = Paint(color=color)
    lines = headline(planned.report, width=width, color=color)
    if limit is None:
        return lines
    lines.append("")
    rows = list(_arena_values(planned.assignment))
    lines += _arena_lines(planned, len(rows))
    rows.sort(key=lambda x: (-x[1].place.nbytes, x[1].place.offset, x[0]))
    return lines + _table(rows[:limit], len(rows), width, paint)


def _arena_lines(planned: AssignedPlan, count: int) -> list[str]:
    """What is in the arena and what is not, and how that compares with our own plan."""
    from lowtide.autopsy.assigners import ARENA

    if planned.assigner == ARENA:
        kept = planned.assignment.kept_bytes
        return [f"The arena holds {count:,} values; {kept:,} bytes of it are the outputs."]
    ladder = planned.report.ladder
    return [
        f"{count:,} values are temporaries; outputs have allocations of their own.",
        f"Beyond the arguments {planned.assigner} takes {ladder.arena_bytes:,} bytes, "
        f"{ARENA} {planned.own_arena_bytes:,} for the same order.",
    ]


def _arena_values(assignment: BufferAssignment) -> Iterator[tuple[str, AssignedValue]]:
    """Yield the values in the arena with their names."""
    from lowtide.ir.buffer import AllocationKind
    from lowtide.report.plan_document import value_names

    for name, value in zip(value_names(assignment), assignment.values, strict=True):
        if assignment.allocations[value.place.allocation].kind is AllocationKind.ARENA:
            yield name, value


def _table(
    rows: list[tuple[str, AssignedValue]], count: int, width: int, paint: Paint
) -> list[str]:
    from lowtide.report.drawing import elide_start

    if not rows:
        return []
    cells = [
        (f"{value.place.offset:,}", f"{value.place.nbytes:,}", _shape(value), name)
        for name, value in rows
    ]
    header = ("offset", "bytes", "shape", "value")
    widths = [max([len(row[i]) for row in (header, *cells)]) for i in range(3)]
    room = width - sum(widths) - 6
    lines = []
    for row in (header, *cells):
        line = f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  "
        lines.append(line + elide_start(row[3], room))
    lines[0] = paint("dim", lines[0])
    if count > len(rows):
        lines.append(paint("dim", f"and {count - len(rows):,} more; --json lists all"))
    return lines


def _shape(value: AssignedValue) -> str:
    from lowtide.report.drawing import elide

    return elide(value.instruction.shape.at(value.index).text(layout=False), 30)
