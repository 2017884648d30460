"""`lowtide plan`: where every value of a module lies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument

if TYPE_CHECKING:
    from lowtide.ir import Instruction, Module
    from lowtide.ir.buffer import Allocation, BufferAssignment
    from lowtide.report.drawing import Paint
    from lowtide.report.memory import MemoryReport

_GRAPHS = (".csv", ".json")


def plan(
    module: ModuleArgument,
    json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the plan to FILE, as JSON."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the largest values to list.")
    ] = 12,
) -> None:
    """Give every value its place in memory.

    The plan has one arena for outputs and temporaries; a value that overwrites a donated argument
    lies in that. With --json or -o it is the document of `explain --json` with `allocations` and
    the `offsets` of all values.
    """
    from lowtide import compiler
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.options import display_for

    _refuse_graph(module)
    found = load(module)
    with progress(f"planning {found.module.name}"):
        report = compiler.explain(found.module)
        planned = compiler.plan(found.module)
    assignment = planned.assignment
    document = _document(report, planned.module, assignment)
    if output is not None:
        console.write_text_file(output, console.json_text(document))
    if json:
        console.write_json(document)
        return
    display = display_for(sys.stdout)
    lines = _screen(report, planned.module, assignment, limit, display.width, color=display.color)
    console.write("\n".join(lines))


def _refuse_graph(path: str) -> None:
    from lowtide.cli.exit_codes import UsageError

    if path.lower().removesuffix(".xz").removesuffix(".gz").endswith(_GRAPHS):
        raise UsageError(f"{path}: not supported yet: CSV and graphs; works: HLO text and protobuf")


# -- the values --------------------------------------------------------------------------------


def _values(
    module: Module, assignment: BufferAssignment
) -> Iterator[tuple[str, Instruction, Allocation, int, int]]:
    """Yield (name, maker, allocation, offset, bytes) of each value that the program writes.

    The values of a computation stand once per call site, its callers before it in the name.
    """
    from lowtide.analysis.dataflow import ValueKind, dataflow
    from lowtide.ir.buffer import AllocationKind

    flows = dataflow(module.entry)
    prefixes: list[str] = []
    elements = _elements()
    for site in assignment.call_sites:
        prefix = ""
        if site.caller is not None:
            prefix = f"{prefixes[site.parent]}{site.caller.name}/"
        prefixes.append(prefix)
        flow = flows[site.computation]
        rows = zip(flow.value_node, flow.value_leaf, flow.value_kind, strict=True)
        for node, leaf, kind in rows:
            if kind is not ValueKind.MADE:
                continue
            maker = flow.nodes[node]
            place = site.slices[maker][leaf]
            if place is None or place.allocation < 0:
                continue
            allocation = assignment.allocations[place.allocation]
            if allocation.kind is not AllocationKind.CONSTANT:
                name = f"{prefix}{maker.name}{elements(maker, leaf)}"
                yield name, maker, allocation, place.offset, place.nbytes


def _elements() -> Callable[[Instruction, int], str]:
    """Return a function from an instruction and the number of a leaf to its index, `{1,0}`."""
    known: dict[Instruction, list[str]] = {}

    def element(maker: Instruction, leaf: int) -> str:
        if not maker.shape.is_tuple:
            return ""
        if maker not in known:
            indices = [index for index, _ in maker.shape.leaves()]
            known[maker] = ["{" + ",".join(map(str, index)) + "}" for index in indices]
        return known[maker][leaf]

    return element


# -- JSON --------------------------------------------------------------------------------------


def _document(
    report: MemoryReport, module: Module, assignment: BufferAssignment
) -> dict[str, object]:
    document = report.to_json()
    document["allocations"] = [_allocation(x) for x in assignment.allocations]
    document["offsets"] = [
        {
            "name": name,
            "instruction": maker.name,
            "allocation": allocation.index,
            "offset": offset,
            "bytes": nbytes,
        }
        for name, maker, allocation, offset, nbytes in _values(module, assignment)
    ]
    document["budget"] = None
    return document


def _allocation(allocation: Allocation) -> dict[str, object]:
    entry: dict[str, object] = {
        "index": allocation.index,
        "kind": allocation.kind.value,
        "bytes": allocation.nbytes,
    }
    if allocation.parameter is not None:
        number, index = allocation.parameter
        entry["parameter"] = {"number": number, "index": list(index)}
    if allocation.output is not None:
        entry["output"] = list(allocation.output)
    if allocation.constant is not None:
        entry["constant"] = allocation.constant.name
    return entry


# -- text --------------------------------------------------------------------------------------


def _screen(
    report: MemoryReport,
    module: Module,
    assignment: BufferAssignment,
    limit: int,
    width: int,
    *,
    color: bool,
) -> list[str]:
    """The headline of explain, and the table of the largest values in the arena."""
    from lowtide.ir.buffer import AllocationKind
    from lowtide.report.drawing import Paint
    from lowtide.report.text import headline

    paint = Paint(color=color)
    lines = [*headline(report, width=width, color=color), ""]
    rows = [x for x in _values(module, assignment) if x[2].kind is AllocationKind.ARENA]
    lines.append(
        f"The arena holds {len(rows):,} values; its first {assignment.kept_bytes:,} bytes are the "
        "outputs."
    )
    rows.sort(key=lambda x: (-x[4], x[3], x[0]))
    return lines + _table(rows[:limit], len(rows), width, paint)


def _table(
    rows: list[tuple[str, Instruction, Allocation, int, int]], count: int, width: int, paint: Paint
) -> list[str]:
    from lowtide.report.drawing import elide_start

    if not rows:
        return []
    cells = [(f"{x[3]:,}", f"{x[4]:,}", _shape(x[1]), x[0]) for x in rows]
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


def _shape(maker: Instruction) -> str:
    from lowtide.report.drawing import elide

    return elide(maker.shape.text(layout=False), 30)
