"""Names of the computations that asynchronous sugar stands for, which the text does not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.ir.module import Module
from lowtide.ir.names import NameUniquer
from lowtide.ir.printer import sugared_computations
from lowtide.ir.traversal import computation_post_order

WRAPPED: Final = "async_wrapped"
"""The name of a computation that is made of sugar."""


def parameter_name(number: int) -> str:
    """Return the name of a parameter of such a computation; its root is named after its opcode."""
    return f"async_param.{number}" if number else "async_param"


def keep_names(module: Module) -> None:
    """Number names anew if, when the printed text is read, sugar would take one that it shows.

    As a rule names are given as they come, as in XLA. But in printed text no name may change.
    """
    order = computation_post_order(module)
    hidden = sugared_computations(order)
    own = {x: [*map(parameter_name, range(len(x.parameters))), x.root.opcode.value] for x in hidden}
    read = [own.get(x, list(x.instructions)) for x in order]
    if not _stay(read, [x not in hidden for x in order]):
        module.instruction_names = _taken([own[x] for x in order if x in hidden])
        for computation in module.computations.values():
            computation.rename_uniquely()
    read = [[WRAPPED if x in hidden else x.name] for x in order]
    if not _stay(read, [x not in hidden for x in order]):
        module.computation_names = _taken([[WRAPPED]] * len(hidden))
        computations = list(module.computations.values())
        for computation in computations:
            computation.name = module.computation_names.unique(computation.name)
        module.computations = {x.name: x for x in computations}


def _taken(groups: Sequence[Sequence[str]]) -> NameUniquer:
    names = NameUniquer()
    for group in groups:
        for name in group:
            names.unique(name)
    return names


def _stay(groups: Sequence[Sequence[str]], shown: Sequence[bool]) -> bool:
    """Return whether the names that are shown stay as they are when all are read in order."""
    names = NameUniquer()
    for group, is_shown in zip(groups, shown, strict=True):
        given = [names.unique(name) for name in group]
        if is_shown and given != list(group):
            return False
    return True
