"""`lowtide partition`: the program of one device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli.arguments import JsonOption, ModuleArgument
from lowtide.cli.shard import DevicesOption, partitioned
from lowtide.cli.sizes import SizesOption


def partition(
    module: ModuleArgument,
    devices: DevicesOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the HLO text here."),
    ] = None,
    sizes: SizesOption = None,
    json: JsonOption = False,
) -> None:
    """Write the program of one device of a sharded module.

    Prints HLO text, whose entry has the shapes of one device, once a checker that shares no code
    with the partitioner has found that all collectives come about. With --json: what it sends
    (bytes of one device on a ring, loop bodies times their trips), the memory that it needs, and
    the loops and branches of which it is assumed that all devices choose alike.
    """
    from lowtide import compiler
    from lowtide.checking.communication import check_communication
    from lowtide.cli import console
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.spmd.wire import wire_traffic

    found = load(module).module
    with progress(f"partitioning {found.name}"):
        parts = partitioned(found, devices)
    checked = check_communication([parts.module])
    if checked.faults:
        raise VerificationError(f"{module}: the program is wrong: {checked.faults[0]}")
    text = to_text(parts.module, COMPLETE)
    if output is not None:
        console.write_file(output, lambda stream: stream.write(text.encode()))
    if json:
        traffic = wire_traffic(parts.module)
        with progress(f"planning {found.name}"):
            memory = compiler.explain(parts.module).to_json()
        document = {
            "schema": "lowtide.partition/1",
            "devices": parts.grid.count,
            "wire_bytes": traffic.wire_bytes,
            "unknown_loops": traffic.unknown_loops,
            "combined": parts.combined,
            "collectives": {
                kind: asdict(kinds) for kind, kinds in sorted(traffic.collectives.items())
            },
            "parameters": [str(x) for x in parts.parameters],
            "results": [str(x) for x in parts.results],
            "free_of_deadlock": checked.is_free_of_deadlock,
            "assumed": list(checked.assumed),
            "memory": memory,
        }
        console.write_json(document)
    elif output is None:
        console.write_exact(text.removesuffix("\n"))
