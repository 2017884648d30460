"""The program of one device of a module with shardings, whose memory the commands report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.arguments import option

if TYPE_CHECKING:
    from lowtide.frontend.files import ModuleInput

WholeOption = Annotated[bool, typer.Option("--whole", help="Whole arrays, not one device's.")]
DeviceCountOption = Annotated[
    int | None,
    option("N", "Devices of a module with shardings; else its num_partitions.", "--devices", min=1),
]


def of_one_device(found: ModuleInput, devices: int | None, *, whole: bool) -> ModuleInput:
    """Return a module as one device has it, and say so; one without shardings is itself.

    So is one that is scheduled, since that is taken as it is, and any with `whole`. Where it cannot
    be partitioned, that is said, too, and whole arrays are reported. Raises UsageError for devices
    where the module has no shardings, InputError for more devices than there can be, and for
    shardings that contradict each other.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.ir import UnsupportedOpError
    from lowtide.ir.partitioning import check_device_count, first_sharded, is_divided

    module = found.module
    if devices is not None:
        if whole:
            raise UsageError("--devices is for the program of one device, --whole for all arrays")
        module.num_partitions = devices
        check_device_count(module)
    if module.num_partitions == 1 or first_sharded(module) is None:
        if devices is not None and devices > 1:
            raise UsageError(
                f"{module.name} has no shardings: `lowtide shard MODULE --devices {devices}` "
                "searches for some"
            )
        return found
    if whole or not is_divided(module):
        return found
    from lowtide.spmd.partitioner import partition  # It loads more than most modules need.

    try:
        with progress(f"partitioning {module.name}"):
            made = partition(module).module
    except UnsupportedOpError as error:
        console.note(f"whole arrays are reported, since the module is not partitioned: {error}")
        return found
    console.note(
        f"one of {made.num_partitions} devices is reported; --whole reports the arrays as written"
    )
    return replace(found, module=made)
