"""Kernels of several results, and the pairs of them that can be one.

`legality.py` is about values that are computed where they are read. Here every kernel keeps its
results. Two kernels become one where they run over the same space and visit each point of it once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from lowtide.fusion.access import FIRST, Access, composed, identity
from lowtide.fusion.cluster import Cluster, ClusterRead, KernelKind
from lowtide.fusion.legality import add_read, has_short_rows
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Instruction
from lowtide.records import dataclass

REDUCING: Final = frozenset({KernelKind.REDUCTION, KernelKind.ROWS})


@dataclass(eq=False, slots=True)
class FusedKernel:
    """A kernel made of fusions and plain instructions, `parts`, operands first.

    `space` are the dimensions of the loops, `kept` the access to the results of its reductions and
    `rows` their dimensions; without reductions these are those of the space. `outputs` has the
    access to each value that others may read, None where it is stored in no order of the space.
    `inputs` are the values from outside; `size` is the number of instructions.
    """

    kind: KernelKind
    space: tuple[int, ...]
    kept: Access
    rows: tuple[int, ...]
    outputs: dict[Instruction, Access]
    inputs: dict[Instruction, ClusterRead]
    parts: list[Instruction]
    size: int

    def moved(self) -> Iterator[int]:
        """Yield the bytes of each array that is read or written."""
        yield from [read.nbytes for read in self.inputs.values()]
        yield from [value.shape.nbytes for value in self.outputs]


# -- two kernels as one ------------------------------------------------------------------------


def merged(
    first: FusedKernel,
    second: FusedKernel,
    target: TargetRecord,
    inner: Collection[Instruction] = (),
) -> FusedKernel | FusionRefusal:
    """Return the kernel of two, of which only the second may read the first, or why there is none.

    Both run over one space, or one is a loop over what the reductions of the other keep. Each value
    that goes from one to the other is read at the point where it is made. Results of a reduction
    or contraction come first; values in `inner` are no results, since nobody else reads them.
    """
    size = first.size + second.size
    if size > target.most_members:
        return FusionRefusal(RefusalKind.MEMBERS, size, target.most_members)
    most = max(len(first.inputs), len(second.inputs)) + len(first.outputs) + len(second.outputs)
    if most - 2 * len(inner) > target.most_arrays:
        return FusionRefusal(RefusalKind.ARRAYS, most - 2 * len(inner), target.most_arrays)
    base = first if second.kind is KernelKind.LOOP else second
    if not _is_frame_of(base, first) or not _is_frame_of(base, second):
        return FusionRefusal(RefusalKind.LOOPS)
    maps = [_view(base, x) for x in (first, second)]
    between = [value for value in first.outputs if value in second.inputs]
    for value in between:
        made = composed(maps[0], first.outputs[value])
        if made is None or composed(maps[1], second.inputs[value].access) != made:
            return FusionRefusal(RefusalKind.ELSEWHERE, by=value)
    kind = _kind(base, first, second, maps, between, target)
    inputs = _inputs(first, second, maps, between)
    if kind is None:
        return FusionRefusal(RefusalKind.LOOPS)
    if kind not in target.kinds:
        return FusionRefusal(RefusalKind.TARGET)
    if isinstance(inputs, FusionRefusal):
        return inputs
    sides = sorted(zip((first, second), maps, strict=True), key=lambda x: x[0] is not base)
    outputs = {
        x: composed(view, y)
        for kernel, view in sides
        for x, y in kernel.outputs.items()
        if x not in inner
    }
    arrays = len(inputs) + len(outputs)
    if arrays > target.most_arrays:
        return FusionRefusal(RefusalKind.ARRAYS, arrays, target.most_arrays)
    parts = first.parts + second.parts
    return FusedKernel(kind, base.space, base.kept, base.rows, outputs, inputs, parts, size)


def _is_frame_of(base: FusedKernel, kernel: FusedKernel) -> bool:
    """Whether a kernel can run in the loops of another one."""
    if kernel.kind is KernelKind.LOOP:
        return _view(base, kernel) is not None
    if kernel is base:
        return True
    same = kernel.space == base.space and kernel.kept == base.kept and kernel.rows == base.rows
    if kernel.kind in REDUCING:
        return base.kind in REDUCING and same
    return kernel.kind is KernelKind.UPDATE and base.kind is KernelKind.UPDATE and same


def _view(base: FusedKernel, kernel: FusedKernel) -> Access:
    """How the space of a kernel looks from that of another one, None where it does not fit."""
    if kernel.space == base.space:
        return identity(base.space)
    if base.kind is KernelKind.UPDATE:
        return aligned(base.space, kernel.space)
    return base.kept if kernel.space == base.rows else None


def aligned(space: tuple[int, ...], dimensions: tuple[int, ...]) -> Access:
    """Return the access by a space to an array of dimensions that differ in those of size 1 only.

    None where they differ in more.
    """
    places = [i for i, size in enumerate(space) if size != 1]
    if [space[i] for i in places] != [size for size in dimensions if size != 1]:
        return None
    following = iter(places)
    return tuple([FIRST if size == 1 else next(following) for size in dimensions])


def _kind(
    base: FusedKernel,
    first: FusedKernel,
    second: FusedKernel,
    maps: list[Access],
    between: list[Instruction],
    target: TargetRecord,
) -> KernelKind | None:
    """Rows, where what a reduction yields is read along the row; else that of the reductions."""
    kinds = (first.kind, second.kind)
    if KernelKind.ROWS in kinds:
        return KernelKind.ROWS
    if base.kind is not KernelKind.REDUCTION:
        return base.kind
    full = identity(base.space)
    if maps[1] != full or all(composed(maps[0], first.outputs[x]) == full for x in between):
        return KernelKind.REDUCTION
    if first.kind is KernelKind.LOOP or not has_short_rows(_as_cluster(base), target):
        return None
    return KernelKind.ROWS


def _as_cluster(kernel: FusedKernel) -> Cluster:
    root = next(iter(kernel.outputs))
    return Cluster(
        kernel.kind, root, kernel.space, _known(kernel.kept), kernel.kept, {}, kernel.inputs
    )


def _known(access: Access) -> tuple[int, ...]:
    return () if access is None else access


def _inputs(
    first: FusedKernel, second: FusedKernel, maps: list[Access], between: list[Instruction]
) -> dict[Instruction, ClusterRead] | FusionRefusal:
    """What both read from outside, unless one of them overwrites what the other one reads."""
    inputs: dict[Instruction, ClusterRead] = {}
    for kernel, view in zip((first, second), maps, strict=True):
        for value, read in kernel.inputs.items():
            if value in between and kernel is second:
                continue
            known = inputs.get(value)
            if known is not None and (known.target or read.target):
                return FusionRefusal(RefusalKind.SHARED_TARGET, by=value)
            access = composed(view, read.access)
            add_read(inputs, value, read if access == read.access else read._replace(access=access))
    return inputs


# -- what is shared ----------------------------------------------------------------------------


def shared_reads(first: FusedKernel, second: FusedKernel, both: FusedKernel) -> Iterator[int]:
    """Yield for each value that the kernel of both reads once instead of twice its bytes.

    A value counts where both read it at the same points; what one makes for the other is left out.
    """
    fewer, more = sorted((first, second), key=lambda x: len(x.inputs))
    for value, read in fewer.inputs.items():
        other = more.inputs.get(value)
        if other is not None and value in both.inputs and both.inputs[value].access is not None:
            yield min(read.nbytes, other.nbytes)
