"""The kernels of a module, and others that have a lower peak: all of them from one fusion.

The queue and what lowers the peak at next to no cost do not depend on how much time may be spent on
memory. They are done once; a choice only adds what its allowance pays for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, final

from lowtide.fusion.bodies import Bodies
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.materialize import materialize
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.peak_lowering import Allowance, PeakLowering
from lowtide.fusion.priority_queue import fused_clusters
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Computation, Module
from lowtide.ir.clone import CloneMap, clone_module
from lowtide.ir.traversal import running_computations
from lowtide.passes.dead_code import remove_dead_code

Choice: TypeAlias = Mapping[Computation, ClusterGraph]
"""The clusters of each computation that runs by itself, callees first."""


@final
class KernelChoices:
    """The kernels that a module may have, which stays as it is until one choice is written.

    Without a `scheduler`, which tells where most is live, there is one choice only.
    """

    def __init__(self, module: Module, scheduler: Scheduler | None, target: TargetRecord) -> None:
        self._module = module
        run = running_computations(module)
        self._fused = {x: fused_clusters(x, target) for x in run}
        self._lowering = None if scheduler is None else PeakLowering(module, scheduler)

    def within(self, allowance: Allowance) -> Choice:
        """Return the clusters with the lowest peak that an allowance pays for."""
        if self._lowering is None:
            return self._fused
        return self._lowering.lowered(self._fused, allowance)

    def write(self, module: Module, choice: Choice, copies: CloneMap | None = None) -> int:
        """Make fusions of the clusters of a choice; return how many.

        `module` is the one that the choices are of, or a copy, of which `copies` has the parts.
        """
        bodies = Bodies(module)
        made = 0
        for computation, graph in choice.items():
            clusters = list(graph.owner.values())
            if copies is None:
                made += materialize(computation, clusters, graph.order, bodies)
            else:
                own, parts = copies.computations[computation], copies.instructions
                made += materialize(own, clusters, graph.order, bodies, parts)
        if made:
            remove_dead_code(module)
        return made

    def written(self, choice: Choice) -> tuple[Module, int]:
        """Return a copy of the module with the kernels of a choice, and how many fusions it has."""
        copies = CloneMap()
        copy = clone_module(self._module, copies)
        return copy, self.write(copy, choice, copies)
