"""Modules that ask for shardings, told from those that ask for none."""

from __future__ import annotations

from lowtide.ir import Module
from lowtide.ir.attributes import Collective, CollectivePermute, CustomCall
from lowtide.ir.tilings.shardy import MESHES_KEY, SHARDY_KEY
from lowtide.spmd.annotations import CONSTRAINT_TARGETS
from lowtide.spmd.manual import is_entrance


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
