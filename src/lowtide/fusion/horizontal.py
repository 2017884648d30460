"""Horizontal fusion: small loops that do not depend on each other, in one launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from lowtide.fusion.cluster import ClusterRead, KernelKind
from lowtide.fusion.kernel_graph import KernelGraph
from lowtide.fusion.kernels import FusedKernel
from lowtide.fusion.legality import add_read
from lowtide.fusion.merging import merge_kernels
from lowtide.fusion.order_memory import Scheduler
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Instruction, Module
from lowtide.passes.interface import Pass, example

_MOST_BYTES: Final = 1 << 13
"""Bytes of the largest array of a small kernel: to move it takes less time than a launch."""

_GROWTH: Final = 1 / 1024
"""The part by which the peak may grow: small arrays are kept until the last of them is there."""


def fuse_small_kernels(
    module: Module, scheduler: Scheduler | None = None, target: TargetRecord = CPU_TARGET
) -> int:
    """Merge small independent loops in all computations that run; return how many vanished.

    Merged are those from which paths of equal length lead to the end of the computation: so no
    cycle can arise. The `scheduler` gives the order in which the peak is looked at.
    """
    return merge_kernels(module, scheduler, target, _merge_small, _GROWTH)


def _merge_small(graph: KernelGraph, banned: Collection[int]) -> int:
    heights = graph.order.heights()
    levels: dict[int, list[int]] = defaultdict(list)
    for node in sorted(graph.kernels, key=graph.order.rank.__getitem__):
        if node not in banned and _is_small(graph.kernels[node]):
            levels[heights[node]].append(node)
    groups = [group for nodes in levels.values() for group in _groups(graph, nodes)]
    graph.unite(groups, [_side_by_side([graph.kernels[x] for x in group]) for group in groups])
    return sum([len(group) - 1 for group in groups])


def _is_small(kernel: FusedKernel) -> bool:
    return kernel.kind is KernelKind.LOOP and max(kernel.moved(), default=0) <= _MOST_BYTES


def _groups(graph: KernelGraph, nodes: list[int]) -> Iterator[list[int]]:
    """Yield groups of nodes in turn, each as large as a kernel may be.

    What one of a group overwrites no other one reads.
    """
    group: list[int] = []
    target = graph.target
    size = arrays = 0
    read: set[int] = set()
    overwritten: set[int] = set()
    for node in nodes:
        kernel = graph.kernels[node]
        own = len(kernel.inputs) + len(kernel.outputs)
        reads, writes = set(graph.read(kernel)), graph.overwritten_by(kernel)
        is_full = size + kernel.size > target.most_members or arrays + own > target.most_arrays
        if is_full or not read.isdisjoint(writes) or not overwritten.isdisjoint(reads):
            if len(group) > 1:
                yield group
            group, size, arrays, read, overwritten = [], 0, 0, set(), set()
        group.append(node)
        size += kernel.size
        arrays += own
        read |= reads
        overwritten |= writes
    if len(group) > 1:
        yield group


def _side_by_side(kernels: list[FusedKernel]) -> FusedKernel:
    """Return the kernel that runs several, one after the other."""
    same = len({x.space for x in kernels}) == 1
    outputs = {x: y if same else None for kernel in kernels for x, y in kernel.outputs.items()}
    inputs: dict[Instruction, ClusterRead] = {}
    for kernel in kernels:
        for value, read in kernel.inputs.items():
            add_read(inputs, value, read)
    parts = [x for kernel in kernels for x in kernel.parts]
    first = kernels[0]
    size = sum([x.size for x in kernels])
    return FusedKernel(
        KernelKind.LOOP, first.space, first.kept, first.rows, outputs, inputs, parts, size
    )


PASSES: Final = (
    Pass(
        "horizontal-fusion",
        fuse_small_kernels,
        "Makes one kernel of small loops that do not depend on each other.",
        *example(
            """
HloModule m
+
+body {
+ param_0 = f32[8] parameter(0)
+ s = f32[8] sine(param_0)
+ param_1 = f32[5] parameter(1)
+ c = f32[5] cosine(param_1)
+ ROOT results = (f32[8], f32[5]) tuple(s, c)
+}

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[5] parameter(1)
- s = f32[8] sine(x)
- c = f32[5] cosine(y)
+ f = (f32[8], f32[5]) fusion(x, y), kind=kLoop, calls=body, backend_config={"kernel":"loops"}
+ s = f32[8] get-tuple-element(f), index=0
+ c = f32[5] get-tuple-element(f), index=1
  ROOT both = (f32[8], f32[5]) tuple(s, c)
}
"""
        ),
    ),
)
