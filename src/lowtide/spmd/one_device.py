"""The program of one device of a module that may have shardings."""

from __future__ import annotations

from lowtide.ir import Module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.partitioning import first_sharded
from lowtide.spmd.partitioner import partition


def is_divided(module: Module) -> bool:
    """Return whether a module is one on whole arrays that devices are to have parts of.

    What is scheduled is taken as it is.
    """
    is_for_several = module.num_partitions > 1 and not module.is_scheduled
    return is_for_several and first_sharded(module) is not None


def one_device(module: Module) -> Module:
    """Return the program of one device of a module that is divided, and any other as it is.

    So is one with operations that cannot be partitioned: its report says that arrays are whole.
    Raises InputError for shardings that contradict each other.
    """
    if not is_divided(module):
        return module
    try:
        return partition(module).module
    except UnsupportedOpError:
        return module
