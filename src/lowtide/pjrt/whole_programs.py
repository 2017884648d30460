"""Programs for several devices, each of which does the same with all of every array."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.partitioning import check_one_device
from lowtide.pjrt.errors import UNIMPLEMENTED, PluginError
from lowtide.pjrt.program_options import CompileOptions

_DIVIDING: Final = frozenset(
    {
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    }
)
"""Custom calls between whole arrays and the parts of one device."""


def make_whole(module: Module, options: CompileOptions) -> None:
    """Make a module for several devices one that runs on each of them by itself.

    Raises PluginError where the devices do not all do the same with whole arrays.
    """
    count = len(options.devices)
    if count == 1:
        return
    module.num_partitions, module.replica_count = options.partitions, options.replicas
    try:
        check_one_device(module)
        _check_whole(module)
    except UnsupportedOpError as error:
        raise PluginError(
            UNIMPLEMENTED,
            f"the program is for {count} devices and divides its work between them, which lowtide "
            "does not do yet: place its arrays on one device, or have all of each on every device "
            f"({error})",
        ) from error
    module.num_partitions = module.replica_count = 1


def _check_whole(module: Module) -> None:
    """Raise UnsupportedOpError where an array becomes the part of one device, or the other way."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is not Opcode.CUSTOM_CALL:
                continue
            if x.attributes_as(CustomCall).target in _DIVIDING and not x.shape.compatible(
                x.operands[0].shape
            ):
                raise unsupported(x, "each device has a part of the array")
