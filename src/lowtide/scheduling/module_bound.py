"""A proven bound on every order of a scheduled module, for each of its computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.analysis.scratch import ScratchBytes
from lowtide.ir import Computation, Instruction, Module
from lowtide.records import dataclass
from lowtide.scheduling.module_model import model_graphs, program_order
from lowtide.scheduling.module_search import OrderBound, Searches


@dataclass(frozen=True, eq=False, slots=True)
class ComputationBound:
    """A computation of a module in its model, and what every order of it needs there.

    Bytes include those of the arguments that are written over: the state of a loop, donations.
    """

    model: ComputationGraph
    found: OrderBound

    @property
    def bytes(self) -> int:
        """What no order of the computation, and of all that it runs, goes below."""
        return self.found.bytes

    @property
    def given_bytes(self) -> int:
        """The bytes that are there from the start, which the caller has."""
        graph = self.model.graph
        return int(graph.buffer_bytes[graph.producer < 0].sum())

    @property
    def beyond_arguments(self) -> int:
        """The bound without the arguments that are written over, from 0 on."""
        return max(0, self.bytes - self.given_bytes)

    def lower_orders(self) -> list[tuple[Instruction, ...]]:
        """Return orders of lower peaks in the model, best first, as sequences of instructions."""
        nodes = self.model.flow.nodes
        return [
            tuple([nodes[x] for x in program_order(order, self.model)])
            for order in self.found.lower
        ]


Bounds: TypeAlias = Mapping[Computation, ComputationBound]


def module_bounds(
    module: Module,
    searches: Searches,
    flows: Dataflow | None = None,
    scratch_bytes: ScratchBytes | None = None,
    models: Sequence[ComputationGraph] | None = None,
) -> dict[Computation, ComputationBound]:
    """Return the bounds of all that a scheduled module runs, callees first.

    Each one holds for all orders of the computation and of what it runs in which the module needs
    no other copies. Callees count with their own bounds. `models` are what `model_graphs` makes of
    the rest, where that is known.
    """
    assert module.schedule is not None
    needs: list[int] = []
    found: dict[Computation, ComputationBound] = {}
    for model in models or model_graphs(module, flows, scratch_bytes):
        order = np.array(model.order, np.int64)
        bound = searches.bound(model.holding(needs), order)
        needs.append(bound.bytes)
        found[model.computation] = ComputationBound(model, bound)
    return found
