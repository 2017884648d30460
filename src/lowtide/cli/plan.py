"""`lowtide plan`: where every value of a module lies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument

if TYPE_CHECKING:
    from lowtide.client.assigners import AssignedPlan
    from lowtide.ir.buffer import AssignedValue, BufferAssignment
    from lowtide.report.drawing import Paint

_GRAPHS = (".csv", ".json")
_OUTPUT_HELP = (
    "Write the plan and the scheduled module to FILE: as JSON; as protobuf, XLA's HloProto, if it "
    "ends in .pb; as XLA's text of a buffer assignment if it ends in .txt."
)


def plan(
    module: ModuleArgument,
    json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help=_OUTPUT_HELP),
    ] = None,
    assigner: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who gives out the memory: `arena`, or as XLA does it today, `xla`, or did it in "
            "TensorFlow 1.14, `xla1.14`.",
        ),
    ] = "arena",
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the largest values to list.")
    ] = 12,
) -> None:
    """Give every value its place in memory.

    The plan has one arena for outputs and temporaries; a value that overwrites a donated argument
    lies in that. The other assigners get the same order and copies, and give each output an
    allocation of its own. With --json it is the document of `explain --json` with `allocations` and
    the `offsets` of all values; with -o the module that was planned stands in it too.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.client.assigners import plan_with
    from lowtide.options import display_for

    _refuse_graph(module)
    found = load(module)
    with progress(f"planning {found.module.name}"):
        planned = plan_with(found.module, assigner)
    if output is not None:
        console.write_file(output, lambda stream: stream.write(_file(planned, output)))
    if json:
        console.write_json(_document(planned))
        return
    display = display_for(sys.stdout)
    lines = _screen(planned, limit, display.width, color=display.color)
    console.write("\n".join(lines))


def _refuse_graph(path: str) -> None:
    from lowtide.cli.exit_codes import UsageError

    if path.lower().removesuffix(".xz").removesuffix(".gz").endswith(_GRAPHS):
        raise UsageError(f"{path}: not supported yet: CSV and graphs; works: HLO text and protobuf")


# -- files -------------------------------------------------------------------------------------


def _document(planned: AssignedPlan) -> dict[str, object]:
    from lowtide.report.plan_document import plan_document

    document = {**planned.report.to_json(), **plan_document(planned.assignment)}
    document["budget"] = None
    document["assigner"] = planned.assigner
    return document


def _file(planned: AssignedPlan, path: Path) -> bytes:
    """Return what a file of that name holds."""
    suffix = path.suffix.lower()
    if suffix == ".pb":
        from lowtide.frontend.hlo_proto import write_hlo_proto_plan

        return write_hlo_proto_plan(planned.module, planned.assignment)
    if suffix == ".txt":
        from lowtide.report.xla.buffer_assignment import buffer_assignment_text

        return buffer_assignment_text(planned.module, planned.assignment).encode()
    from lowtide.cli.console import json_text
    from lowtide.report.plan_document import self_contained

    document = self_contained(_document(planned), planned.module)
    return f"{json_text(document)}\n".encode()


# -- text --------------------------------------------------------------------------------------


def _screen(planned: AssignedPlan, limit: int, width: int, *, color: bool) -> list[str]:
    """The headline of explain, and the table of the largest values in the arena."""
    from lowtide.report.drawing import Paint
    from lowtide.report.text import headline

    paint = Paint(color=color)
    lines = [*headline(planned.report, width=width, color=color), ""]
    rows = list(_arena_values(planned.assignment))
    lines += _arena_lines(planned, len(rows))
    rows.sort(key=lambda x: (-x[1].place.nbytes, x[1].place.offset, x[0]))
    return lines + _table(rows[:limit], len(rows), width, paint)


def _arena_lines(planned: AssignedPlan, count: int) -> list[str]:
    """What is in the arena and what is not, and how that compares with our own plan."""
    from lowtide.client.assigners import ARENA

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
