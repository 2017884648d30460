"""`lowtide shard`: the sharding of each instruction, why, and the bytes that it moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument
from lowtide.cli.shapes import ShapesOption
from lowtide.cli.sizes import SizesOption

if TYPE_CHECKING:
    from lowtide.ir import Module
    from lowtide.spmd.partitioner import Partitioned

DevicesOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Devices to partition for; else num_partitions of the module."
    ),
]


def shard(
    module: ModuleArgument,
    devices: DevicesOption = None,
    moves: Annotated[
        bool, typer.Option("--moves", help="Only instructions that send something.")
    ] = False,
    sizes: SizesOption = None,
    shapes: ShapesOption = None,
    json: JsonOption = False,
) -> None:
    """Show how instructions are split over devices, and why.

    Bytes are those that one device sends on a ring to bring operands where the instruction takes
    them, for one run of it.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.spmd.wire import wire_traffic

    found = load(module).module
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
