"""The time of all kernels of a computation together, by the cost model."""

from __future__ import annotations

from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import Machine
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
    machine = graph.target.machine
    total = sum([_seconds(x, machine) for x in graph.owner.values()])
    return total + sum([_contracting(x, machine) for x in graph.alone])


def _seconds(cluster: Cluster, machine: Machine) -> float:
    moved = sum([move_seconds(read.nbytes, machine) for read in cluster.inputs.values()])
    hero = 0.0 if cluster.hero is None else _contracting(cluster.hero, machine)
    return (
        machine.launch_seconds
        + moved
        + move_seconds(cluster.root.shape.nbytes, machine)
        + cluster.seconds
        + hero
    )


def _contracting(x: Instruction, machine: Machine) -> float:
    return cost(x).flops * machine.flop_seconds if x.opcode in _CONTRACTIONS else 0.0
