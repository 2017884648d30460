"""`lowtide shard` with a cap on memory: the search for a division of the arguments."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.options import SHARDING_SECONDS
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cost.devices import DeviceRecord
    from lowtide.ir import Module
    from lowtide.sharding_search.mesh import SearchMesh


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """What is searched: devices or a mesh, the bytes that a device may hold, whose times, limits.

    `link` are bytes per second, None for those of the device.
    """

    devices: int | None
    mesh: str | None
    memory: int | None
    device: str | None
    link: float | None
    deadline: float | None
    output: Path | None
    json: bool

    def search_mesh(self, module: Module) -> SearchMesh:
        """Return the mesh; raises UsageError where none is given, or two that differ."""
        from lowtide.cli.exit_codes import UsageError
        from lowtide.sharding_search.mesh import mesh_of_devices, mesh_of_text

        if self.mesh is None:
            count = self.devices if self.devices is not None else module.num_partitions
            if count == 1:
                raise UsageError(f"{module.name} is for one partition: give --devices N or --mesh")
            return mesh_of_devices(count)
        mesh = mesh_of_text(self.mesh)
        if self.devices is not None and self.devices != mesh.count:
            raise UsageError(
                f"--mesh {self.mesh} has {mesh.count} devices, --devices says {self.devices}; give "
                "one of the two"
            )
        return mesh

    def record(self) -> DeviceRecord:
        """Return the device and its links; raises UsageError for a device that there is not."""
        from lowtide.cli.partition import device_named

        record = device_named(self.device)
        if self.link is None:
            return record
        inner, outer = [replace(x, bytes_per_second=self.link) for x in record.links]
        return replace(record, links=(inner, outer))


def bytes_per_second(text: str) -> float:
    """Return the rate of a text such as `300GB/s`; raises typer.BadParameter for any other."""
    import typer

    from lowtide.cli.arguments import size_in_bytes

    size, slash, second = text.strip().rpartition("/")
    if not slash or second != "s":
        raise typer.BadParameter(f"expected a rate such as 300GB/s, found {text!r}")
    rate = size_in_bytes(size)
    if not rate:
        raise typer.BadParameter(f"a link sends more than nothing, found {text!r}")
    return float(rate)


def search(module: Module, request: ShardRequest) -> None:
    """Search divisions of a module and write them; raises OverBudgetError where none fits."""
    from lowtide.cli import console
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.cli.progress import progress
    from lowtide.client.executable.anew import options_of_each_device
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.options import display_for
    from lowtide.report.shardings import sharding_lines
    from lowtide.search.interrupts import ending_at
    from lowtide.sharding_search.program import annotated_module
    from lowtide.sharding_search.search import search_shardings

    mesh, device, output = request.search_mesh(module), request.record(), request.output
    console.check_outputs(output)
    with progress(f"dividing {module.name}") as line, ending_at(request.deadline) as ends:
        ends.guard(SHARDING_SECONDS)
        report = search_shardings(
            module,
            mesh,
            request.memory,
            device,
            options_of_each_device(),
            deadline=ends,
            progress=line.show_part,
        )
    if report.best is not None and output is not None:
        program = to_text(annotated_module(module, report.best), COMPLETE)
        console.write_file(output, lambda stream: stream.write(program.encode()))
    if request.json:
        console.write_json(report.to_json())
    elif report.choices:
        display = display_for(sys.stdout)
        console.write("\n".join(sharding_lines(report, display.width, color=display.color)))
    if ends.was_interrupted:
        raise KeyboardInterrupt
    if report.failure():
        raise OverBudgetError(f"{module.name}: {report.failure()}")
