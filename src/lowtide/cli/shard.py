"""`lowtide shard`: the sharding of each instruction, or a division of the arguments that fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import (
    DeadlineOption,
    JsonOption,
    ModuleArgument,
    option,
    size_in_bytes,
    taking,
)
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.cli.shard_search import bytes_per_second
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.ir import Module
    from lowtide.spmd.partitioner import Partitioned

DevicesOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Devices to partition for; else num_partitions of the module."
    ),
]


@dataclass(frozen=True, slots=True)
class _ShardArguments:
    """The arguments and options of `lowtide shard`."""

    module: ModuleArgument
    devices: DevicesOption = None
    moves: Annotated[bool, option(None, "Only instructions that send something.", "--moves")] = (
        False
    )
    mesh: Annotated[
        str | None, option("4x2", "Search a division over this mesh; names as in data=4,model=2.")
    ] = None
    memory: Annotated[
        int | None,
        option(
            "SIZE",
            "Search a division that needs at most so much on each device.",
            parser=size_in_bytes,
        ),
    ] = None
    device: Annotated[
        str | None, option("NAME", "Whose times: accelerator, x86-server.", "--device")
    ] = None
    link: Annotated[
        float | None,
        option(
            "RATE",
            "What a device sends, such as 300GB/s; else that of --device.",
            parser=bytes_per_second,
        ),
    ] = None
    deadline: DeadlineOption = None
    output: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the module with the shardings of the quickest that is found.",
            "--output",
            "-o",
        ),
    ] = None
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False


@taking(_ShardArguments)
def shard(given: _ShardArguments) -> None:
    """Show how values are split over devices, or search a division.

    With --memory or --mesh, and for a module without shardings, divisions of the arguments are
    searched: the quickest simulated steps, and what less memory costs in time. What the module asks
    itself is left aside.

    Else its own shardings are shown. Bytes are those that one device sends on a ring to bring
    operands where the instruction takes them, for one run of it.
    """
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.modules import load
    from lowtide.cli.shard_search import ShardRequest, search
    from lowtide.spmd.one_device import asks_for_shardings

    found = load(given.module).module
    is_search = given.mesh is not None or given.memory is not None or not asks_for_shardings(found)
    if not is_search and any(
        x is not None for x in (given.device, given.link, given.deadline, given.output)
    ):
        raise UsageError("--device, --link, --deadline and -o are for a search: give --memory")
    if is_search and given.moves:
        raise UsageError("--moves shows the shardings of a module; leave out --memory and --mesh")
    if is_search:
        search(
            found,
            ShardRequest(
                given.devices,
                given.mesh,
                given.memory,
                given.device,
                given.link,
                given.deadline,
                given.output,
                given.json,
            ),
        )
    else:
        _show(found, given.devices, moves=given.moves, json=given.json)


def _show(found: Module, devices: int | None, *, moves: bool, json: bool) -> None:
    """Show the sharding of each instruction, or of those only that send something."""
    from lowtide.cli import console
    from lowtide.cli.progress import progress
    from lowtide.spmd.wire import wire_traffic

    with progress(f"partitioning {found.name}"):
        parts = partitioned(found, devices)
        traffic = wire_traffic(parts.module)
    rows = [x for x in parts.reasons if x.nbytes or not moves]
    if json:
        document = {
            "schema": "lowtide.shard/1",
            "module": found.name,
            "devices": parts.grid.count,
            "wire_bytes": traffic.wire_bytes,
            "parameters": [str(x) for x in parts.parameters],
            "results": [str(x) for x in parts.results],
            "instructions": [
                {
                    "name": x.instruction,
                    "opcode": x.opcode,
                    "sharding": x.sharding,
                    "bytes": round(x.nbytes),
                    "why": x.why,
                }
                for x in rows
            ],
        }
        console.write_json(document)
        return
    lines = [
        f"%{x.instruction} {x.opcode} {x.sharding or '{replicated}'}"
        f"  {round(x.nbytes):,} bytes  ({x.why})"
        for x in rows
    ]
    total = f"{parts.grid.count} devices, each sends {traffic.wire_bytes:,} bytes"
    console.write("\n".join([*lines, total]))


def partitioned(module: Module, devices: int | None) -> Partitioned:
    """Return the program of one device; raises InputError where there is one device only."""
    from lowtide.ir import InputError
    from lowtide.spmd.partitioner import partition

    if devices is not None:
        module.num_partitions = devices
    if module.num_partitions == 1:
        raise InputError(
            f"{module.name} is for one partition: give --devices N, or num_partitions=N in its "
            "header"
        )
    return partition(module)
