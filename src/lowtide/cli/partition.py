"""`lowtide partition`: the program of one device, and its simulated step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lowtide.cli.arguments import JsonOption, ModuleArgument, option, size_in_bytes, taking
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.cli.shard import DevicesOption, partitioned
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.checking.communication import CommunicationCheck
    from lowtide.compiler import ModulePlan
    from lowtide.cost.devices import DeviceRecord
    from lowtide.overlap.hiding import HiddenStep
    from lowtide.spmd.partitioner import Partitioned


@dataclass(frozen=True, slots=True)
class _PartitionArguments:
    """The arguments and options of `lowtide partition`."""

    module: ModuleArgument
    devices: DevicesOption = None
    output: Annotated[Path | None, option("FILE", "Write the HLO text here.", "--output", "-o")] = (
        None
    )
    overlap: Annotated[
        bool,
        option(
            None,
            "Write it optimized, collectives in halves, in the order of the shortest step.",
            "--overlap",
        ),
    ] = False
    memory: Annotated[
        int | None,
        option(
            "SIZE",
            "Most that a device may hold; else the order of a step may take a tenth more "
            "than the least.",
            parser=size_in_bytes,
        ),
    ] = None
    trace: Annotated[
        Path | None, option("FILE", "Write the simulated step, for Perfetto or chrome://tracing.")
    ] = None
    device: Annotated[
        str | None, option("NAME", "Whose times: accelerator, x86-server.", "--device")
    ] = None
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False

    @property
    def is_about_steps(self) -> bool:
        """Whether a step is simulated, for what is asked for."""
        files = self.trace, self.memory
        return self.json or self.overlap or any(x is not None for x in files)


@taking(_PartitionArguments)
def partition(given: _PartitionArguments) -> None:
    """Write the program of one device of a sharded module.

    Prints HLO text, whose entry has the shapes of one device, once a checker that shares no code
    with the partitioner has found that all collectives come about. With --json: what it sends
    (bytes of one device on a ring, loop bodies times their trips), the memory that it needs, the
    simulated step in which collectives run beside what computes, and the loops and branches of
    which it is assumed that all devices choose alike.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.overlap.summary import step_line

    record = device_named(given.device)
    found = load(given.module).module
    with progress(f"partitioning {found.name}"):
        parts = partitioned(found, given.devices)
    made = parts.module
    checked = _checked(str(given.module), parts)
    plan, hidden = None, None
    if given.is_about_steps:
        plan, hidden = _planned(given, found.name, parts, record)
    if given.trace is not None and hidden is not None:
        _write_trace(given.trace, hidden, record)
    written = hidden.plan.module if given.overlap and hidden is not None else made
    program = to_text(written, COMPLETE)
    if given.output is not None:
        console.write_file(given.output, lambda stream: stream.write(program.encode()))
    if given.json and plan is not None and hidden is not None:
        console.write_json(_document(parts, checked, plan, hidden))
    elif given.output is None and given.trace is None:
        console.write_exact(program.removesuffix("\n"))
    elif hidden is not None:
        console.write(step_line(hidden))
    if given.memory is not None and hidden is not None and not hidden.fits:
        raise OverBudgetError(
            f"{given.module}: a device needs {hidden.needed_bytes:,} bytes, {given.memory:,} were "
            f"allowed: for shardings that fit, `lowtide shard {given.module} --devices "
            f"{parts.grid.count} --memory {given.memory}`"
        )


def _planned(
    given: _PartitionArguments, name: str, parts: Partitioned, record: DeviceRecord
) -> tuple[ModulePlan, HiddenStep]:
    """Return the plan of one device's program, and its step with communication hidden."""
    from lowtide import compiler
    from lowtide.cli.progress import progress
    from lowtide.overlap.hiding import hide_communication

    with progress(f"planning {name}"):
        plan = compiler.plan(parts.module)
        hidden = hide_communication(plan, given.memory, record)
    _checked(str(given.module), parts, hidden)
    return plan, hidden


def _write_trace(path: Path, hidden: HiddenStep, record: DeviceRecord) -> None:
    """Write the simulated step."""
    from lowtide.cli import console
    from lowtide.cli.trace import step_trace_json
    from lowtide.overlap.summary import step_slices

    text = step_trace_json(*step_slices(hidden, record))
    console.write_file(path, lambda stream: stream.write(text.encode()))


def device_named(name: str | None) -> DeviceRecord:
    """Return the record of a device; raises UsageError for a name that there is not."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cost.devices import DEVICES
    from lowtide.suggestions import nearest

    if name is None:
        return next(iter(DEVICES.values()))
    if name not in DEVICES:
        raise UsageError(
            f"no device {name!r}; there are: {', '.join(DEVICES)}{nearest(name, DEVICES)}"
        )
    return DEVICES[name]


def _checked(name: str, parts: Partitioned, hidden: HiddenStep | None = None) -> CommunicationCheck:
    """What the checker of collectives finds; raises VerificationError for a fault."""
    from lowtide.checking.communication import check_communication
    from lowtide.cli.exit_codes import VerificationError

    checked = check_communication([parts.module if hidden is None else hidden.plan.module])
    if checked.faults:
        raise VerificationError(f"{name}: the program is wrong: {checked.faults[0]}")
    return checked


def _document(
    parts: Partitioned, checked: CommunicationCheck, plan: ModulePlan, hidden: HiddenStep
) -> dict[str, Any]:
    from lowtide.overlap.summary import step_json
    from lowtide.spmd.wire import wire_traffic

    traffic = wire_traffic(parts.module)
    return {
        "schema": "lowtide.partition/1",
        "devices": parts.grid.count,
        "wire_bytes": traffic.wire_bytes,
        "unknown_loops": traffic.unknown_loops,
        "combined": parts.combined,
        "collectives": {kind: asdict(kinds) for kind, kinds in sorted(traffic.collectives.items())},
        "parameters": [str(x) for x in parts.parameters],
        "results": [str(x) for x in parts.results],
        "free_of_deadlock": checked.is_free_of_deadlock,
        "assumed": list(checked.assumed),
        "memory": plan.report.to_json(),
        "step": step_json(hidden),
    }
