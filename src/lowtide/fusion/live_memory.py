"""The memory that the clusters of a computation need, as the graph that schedulers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.dataflow import ComputationDataflow, ValueKind
from lowtide.analysis.donation import Alias
from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.fusion.access import Access, identity
from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.records import dataclass


def is_kept_by_caller(value: Instruction, computation: Computation) -> bool:
    """Whether a value lives throughout whatever is done: an argument, or a constant."""
    return value.opcode in (Opcode.PARAMETER, Opcode.CONSTANT) and computation.is_entry


def _elementwise_access(cluster: Cluster) -> Access:
    """How a kernel reads what its result may lie over; None where it may lie over nothing."""
    if cluster.kind is KernelKind.CONTRACTION:
        return cluster.root_access
    return identity(cluster.space) if cluster.kind is KernelKind.LOOP else None


@dataclass(frozen=True, slots=True)
class Buffers:
    """The buffers of arrays that clusters read.

    `stored` has that of each value that a cluster of several instructions stores, `of_value` those
    of the values of the dataflow.
    """

    flow: ComputationDataflow
    stored: dict[Instruction, int] = field(default_factory=dict)
    of_value: dict[int, int] = field(default_factory=dict)

    def of(self, value: Instruction) -> int | None:
        """Return the buffer of an array; None where nothing is made for it."""
        if value in self.stored:
            return self.stored[value]
        return self.of_value.get(self.flow.leaves_of(value)[0])


@dataclass(frozen=True, slots=True)
class LiveMemory:
    """The memory graph of clusters; its node of each instruction that stands for one."""

    graph: MemoryGraph
    nodes: Sequence[Instruction]
    number: Mapping[Instruction, int]
    buffers: Buffers


def live_memory(
    clusters: ClusterGraph,
    flow: ComputationDataflow,
    aliases: Sequence[Alias],
    inner_bytes: Mapping[Instruction, int],
) -> LiveMemory:
    """Return what clusters need; `flow` is the dataflow of the instructions they are made of.

    Parameters in `aliases` count, others and constants do not. `inner_bytes` is what the callees of
    an instruction need beyond its operands and results.
    """
    return _Maker(clusters, flow).run(aliases, inner_bytes)


@final
class _Maker:
    """The buffers of the nodes: those of the dataflow, and one for each cluster of several."""

    def __init__(self, clusters: ClusterGraph, flow: ComputationDataflow) -> None:
        self.clusters, self.flow = clusters, flow
        owner, alone = clusters.owner, clusters.alone
        self.nodes = [x for x in clusters.order if x in owner or x in alone]
        self.several = {x: cluster for x, cluster in owner.items() if len(cluster.members) > 1}
        self.number = {x: i for i, x in enumerate(self.nodes)}
        self.buffers = Buffers(flow)
        self.stored, self.of_value = self.buffers.stored, self.buffers.of_value
        self.producer: list[int] = []
        self.bytes: list[int] = []
        self.consumers: list[list[int]] = []
        self.shares: list[tuple[int, int, int]] = []

    def run(self, aliases: Sequence[Alias], inner_bytes: Mapping[Instruction, int]) -> LiveMemory:
        counted = {self.flow.parameters[alias.parameter] for alias in aliases}
        for node, instruction in enumerate(self.nodes):
            self._make(node, instruction, counted)
        for node, instruction in enumerate(self.nodes):
            self._read(node, instruction)
        inner = np.zeros(len(self.nodes), np.int64)
        for instruction, nbytes in inner_bytes.items():
            inner[self.number[instruction]] = nbytes
        graph = self._graph(aliases, inner)
        return LiveMemory(graph, self.nodes, self.number, self.buffers)

    def _make(self, node: int, instruction: Instruction, counted: set[int]) -> None:
        flow = self.flow
        if instruction in self.several:
            self.stored[instruction] = self._buffer(node, instruction.shape.nbytes)
            self.of_value.setdefault(flow.leaves_of(instruction)[0], self.stored[instruction])
            return
        for value in flow.makes[flow.number[instruction]]:
            is_parameter = flow.value_kind[value] is ValueKind.PARAMETER
            free = flow.value_read_only[value] or (is_parameter and value not in counted)
            nbytes = 0 if free else flow.value_bytes[value]
            self.of_value[value] = self._buffer(-1 if is_parameter else node, nbytes)

    def _buffer(self, node: int, nbytes: int) -> int:
        self.producer.append(node)
        self.bytes.append(nbytes)
        self.consumers.append([])
        return len(self.bytes) - 1

    def _read(self, node: int, instruction: Instruction) -> None:
        cluster = self.several.get(instruction)
        if cluster is None:
            self._read_alone(node, instruction)
            return
        whole = _elementwise_access(cluster)
        made = self.stored[instruction]
        leaves, number, stored, of_value = (
            self.flow.leaves,
            self.flow.number,
            self.stored,
            self.of_value,
        )
        for operand, read in cluster.inputs.items():
            buffer = stored.get(operand)
            if buffer is None:
                buffer = of_value.get(leaves[number[operand]][0])
            if buffer is None:
                continue
            self.consumers[buffer].append(node)
            over = read.target or (whole is not None and read.access == whole and not read.inner)
            if over and self.bytes[buffer] == self.bytes[made]:
                self.shares.append((node, buffer, made))

    def _read_alone(self, node: int, instruction: Instruction) -> None:
        number = self.flow.number[instruction]
        replaced = {
            self.flow.leaves_of(x)[0]: self.stored[x]
            for x in instruction.operands
            if x in self.stored
        }
        buffers = [replaced.get(v, self.of_value.get(v)) for v in self.flow.reads[number]]
        for buffer in dict.fromkeys(buffers):
            if buffer is not None:
                self.consumers[buffer].append(node)
        for read, made in self.flow.shares[number]:
            pair = replaced.get(read, self.of_value.get(read)), self.of_value.get(made)
            if pair[0] is None or pair[1] is None:
                continue
            if 0 < self.bytes[pair[0]] == self.bytes[pair[1]]:
                self.shares.append((node, pair[0], pair[1]))

    def _operands(self, instruction: Instruction) -> list[int]:
        cluster = self.several.get(instruction)
        if cluster is not None:
            return [self.number[x] for x in cluster.inputs]
        return list(dict.fromkeys([self.number[x] for x in instruction.operands]))

    def _graph(self, aliases: Sequence[Alias], inner: npt.NDArray[np.int64]) -> MemoryGraph:
        count, buffers = len(self.nodes), len(self.bytes)
        live_out = np.zeros(buffers, np.bool_)
        alias_set = np.full(buffers, -1, np.int32)
        bins = np.full(buffers, -1, np.int32)
        root = [self.of_value.get(v) for v in self.flow.root]
        for leaf, buffer in reversed(list(enumerate(root))):
            if buffer is not None:
                live_out[buffer], bins[buffer] = True, leaf
        for number, alias in enumerate(aliases):
            parameter = self.of_value.get(self.flow.parameters[alias.parameter])
            for buffer in (parameter, root[alias.output]):
                if buffer is not None:
                    alias_set[buffer] = number
        control = [
            [self.number[y] for y in x.control_predecessors if y in self.number]
            if x.control_predecessors
            else ()
            for x in self.nodes
        ]
        leaves = (Opcode.PARAMETER, Opcode.CONSTANT)
        return MemoryGraph(
            operands=lists([self._operands(x) for x in self.nodes]),
            control=lists(control),
            scratch_bytes=np.zeros(count, np.int64),
            inner_bytes=inner,
            name_rank=np.arange(count, dtype=np.int32),
            is_scalar=np.array([x.shape.is_array and not x.shape.rank for x in self.nodes], bool),
            is_leaf=np.array([x.opcode in leaves for x in self.nodes], bool),
            urgency=np.zeros(count, np.int32),
            root=self.number[self.clusters.computation.root],
            buffer_bytes=np.array(self.bytes, np.int64),
            producer=np.array(self.producer, np.int32),
            consumers=lists(self.consumers),
            live_out=live_out,
            alias_set=alias_set,
            colour=np.zeros(buffers, np.int32),
            bin=bins,
            shares=np.array(self.shares, np.int32).reshape(-1, 3),
        )
