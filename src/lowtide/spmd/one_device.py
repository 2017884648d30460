"""Modules that ask for shardings, and the program of one device."""

from __future__ import annotations

from lowtide.ir import Module
from lowtide.ir.attributes import Collective, CollectivePermute, CustomCall
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.partitioning import is_divided
from lowtide.ir.tilings.shardy import MESHES_KEY, SHARDY_KEY
from lowtide.spmd.annotations import CONSTRAINT_TARGETS
from lowtide.spmd.manual import is_entrance
from lowtide.spmd.partitioner import partition


def asks_for_shardings(module: Module) -> bool:
    """Return whether a module names meshes or shardings, or is written for each device."""
    if any(key == MESHES_KEY for key, _ in module.frontend_attributes):
        return True
    for computation in module.computations.values():
        for x in computation.instructions.values():
            attributes = x.attributes
            if x.annotations.sharding is not None or is_entrance(x):
                return True
            if isinstance(attributes, Collective | CollectivePermute):
                return True
            if isinstance(attributes, CustomCall) and attributes.target in CONSTRAINT_TARGETS:
                return True
            if any(key == SHARDY_KEY for key, _ in x.annotations.frontend_attributes):
                return True
    return False


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
