"""Products at the peak that are stored as what all their readers make of them.

The queue computes a value such as the sum of a product and a residual in each of its readers, which
then read both. Stored by the kernel of the product itself, the sum takes the place of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.peak import Estimate, PeakView
from lowtide.ir import Instruction


def store_behind_products(graph: ClusterGraph, estimate: Estimate) -> int:
    """Store at a peak, instead of products, what is made of them; return how many."""
    work = _Epilogues(graph, estimate)
    return sum([work.run(at) for at in estimate.peaks])


@final
class _Epilogues:
    def __init__(self, graph: ClusterGraph, estimate: Estimate) -> None:
        self.graph = graph
        self.view = view = PeakView(graph, estimate)
        self.large = [x for x in view.memory.nodes if x in graph.owner and view.is_large(x)]

    def run(self, at: int) -> int:
        """Look at each product that lives at a position."""
        self.view.at = at
        owner, stored = self.graph.owner, 0
        for root in self.large:
            product = owner.get(root)  # One stored before may have given it other operands.
            if product is not None and self._is_wanted(product):
                stored += self._store(product)
        return stored

    def _is_wanted(self, product: Cluster) -> bool:
        """Whether a large value is a product that several clusters keep alive at the peak."""
        view, root = self.view, product.root
        if product.kind is not KernelKind.CONTRACTION or root in self.graph.opaque:
            return False
        buffer = view.memory.buffers.of(root)
        if buffer is None or not view.is_before(root) or view.last[buffer] < view.at:
            return False
        return len(self.graph.readers.get(root, ())) > 1

    def _store(self, product: Cluster) -> bool:
        """Store the last value that all readers make of a product, if there is one."""
        readers = self.graph.reading(product.root)
        values = self._made_by_all(product.root, readers)
        return any(self.graph.split(x, readers, product) for x in reversed(values))

    def _made_by_all(self, root: Instruction, readers: Sequence[Cluster]) -> list[Instruction]:
        """The values no larger than a product that all its readers make of it, in order."""
        reached = {root}
        found = []
        for member in sorted(readers[0].members, key=self.graph.order.__getitem__):
            if reached.isdisjoint(member.operands):
                continue
            reached.add(member)
            if member.shape.nbytes <= root.shape.nbytes and all(
                member in x.members for x in readers[1:]
            ):
                found.append(member)
        return found
