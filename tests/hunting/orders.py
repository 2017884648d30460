"""Bounds attacked from below: the least that orders of a module need, beside its bound."""

from __future__ import annotations

from tests.hunting.order_machine import Sequences, needed_bytes
from tests.random_modules import SeededChoices, random_schedule

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.live_range import needs_no_copies
from lowtide.ir import Module
from lowtide.scheduling.module_bound import module_bounds
from lowtide.scheduling.module_search import Searches


class BoundAttack:
    """A scheduled module with its copies: its bound, and the least that an order was seen to need.

    Both are bytes beyond the arguments. `legal` counts the orders that need no other copies.
    """

    def __init__(self, module: Module) -> None:
        assert module.schedule is not None
        self.module = module
        self.flows = dataflow(module.entry)
        self._aliases = aliases(module)
        bounds = module_bounds(module, Searches(), self.flows)
        self.bound = bounds[module.entry].beyond_arguments
        self.least = needed_bytes(module, module.schedule.sequences)
        self.legal = 1

    def try_order(self, sequences: Sequences) -> None:
        """Run the module in an order, if it is a legal one."""
        if needs_no_copies(self.module.entry, sequences, self.flows, self._aliases):
            self.least = min(self.least, needed_bytes(self.module, sequences))
            self.legal += 1

    def try_random(self, seed: int, count: int) -> None:
        """Run the module in some orders that follow from a seed."""
        for number in range(count):
            choices = SeededChoices(1000 * seed + number)
            self.try_order(random_schedule(self.module, choices).sequences)
