"""The order of computations in a module that was read from text."""

from __future__ import annotations

from typing import Final

from lowtide.ir.module import Module
from lowtide.ir.printer import CANONICAL, COMPLETE, to_text
from lowtide.ir.traversal import (
    callees_come_first,
    computation_post_order,
    order_as_created,
    post_order,
)

PRINTS: Final = (CANONICAL, COMPLETE)
"""What texts that come back the same are printed with."""


def order_computations(module: Module, *, says_layout: bool) -> None:
    """Have the computations printed in the order in which XLA prints them.

    XLA goes by the order of the instructions in the text, which its print does not keep, so that
    it prints some texts of its own in yet another order. Here a text that is a print stays as it
    is. `says_layout` tells whether the header has the layout of the entry, as prints do.
    """
    created = order_as_created(module)
    module.print_order = tuple(module.computations.values())
    if list(module.print_order) == created or (says_layout and _is_print(module)):
        created = list(module.print_order)
    module.print_order = () if created == computation_post_order(module) else tuple(created)


def _is_print(module: Module) -> bool:
    """Whether the text that was read is a print in the order in which it has the computations."""
    source = module.source_text
    if source is None or not callees_come_first(module.print_order):
        return False
    if module.schedule is None:
        for computation in module.computations.values():
            if list(computation.instructions.values()) != post_order(computation):
                return False
    return any(to_text(module, x).strip() == source.text.strip() for x in PRINTS)
