"""The time of all kernels of a computation together, by the cost model."""

from __future__ import annotations

from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import X86_SERVER
from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.ir import Instruction, Opcode
from lowtide.ops.cost import cost

_CONTRACTIONS = frozenset({Opcode.CONVOLUTION, Opcode.DOT})


def total_seconds(graph: ClusterGraph) -> float:
    """Return the seconds of one run: to start kernels, to move what they read and make, to compute.

    What an instruction does that is in no cluster counts only where it is a contraction, so loops
    and calls are left out.
    """
    total = sum([_seconds(x) for x in graph.owner.values()])
    return total + sum([_contracting(x) for x in graph.alone])


def _seconds(cluster: Cluster) -> float:
    moved = sum([move_seconds(read.nbytes) for read in cluster.inputs.values()])
    hero = 0.0 if cluster.hero is None else _contracting(cluster.hero)
    return (
        X86_SERVER.launch_seconds
        + moved
        + move_seconds(cluster.root.shape.nbytes)
        + cluster.seconds
        + hero
    )


def _contracting(x: Instruction) -> float:
    return cost(x).flops * X86_SERVER.flop_seconds if x.opcode in _CONTRACTIONS else 0.0
