"""An instruction as a kernel: the loops of its body, and how they read and store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from lowtide.fusion.access import Access, composed, identity
from lowtide.fusion.cluster import Cluster, ClusterRead, KernelKind
from lowtide.fusion.kernels import REDUCING, FusedKernel, aligned
from lowtide.fusion.legality import add_read, seed
from lowtide.fusion.target_record import TargetRecord
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Fusion, GetTupleElement
from lowtide.ir.kept import kept
from lowtide.ir.traversal import post_order
from lowtide.ops.cost import read_bytes
from lowtide.ops.in_place import EPILOGUE, ONE_PASS, ROWS, works_in_rows
from lowtide.records import dataclass

_KIND_NAMES: Final[Mapping[str, frozenset[KernelKind]]] = {
    "kLoop": frozenset({KernelKind.LOOP, KernelKind.UPDATE}),
    "kInput": frozenset({KernelKind.REDUCTION, KernelKind.ROWS}),
    "kOutput": frozenset({KernelKind.CONTRACTION}),
}

_VIEWS: Final = frozenset({Opcode.BITCAST, Opcode.CONSTANT, Opcode.IOTA, Opcode.RESHAPE})
"""Instructions that are no kernels by themselves: they store nothing, or next to nothing."""


_Frame: TypeAlias = tuple[KernelKind, tuple[int, ...], Access, tuple[int, ...]]
"""Kind, space, kept and rows."""


def _frame_of(cluster: Cluster) -> _Frame:
    rows = cluster.root.shape.dimensions if cluster.kind in REDUCING else cluster.space
    return cluster.kind, cluster.space, cluster.kept, rows


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a fusion: its loops, the reads of its parameters, the stores of its results."""

    frame: _Frame
    reads: tuple[ClusterRead, ...]
    results: tuple[Access, ...]
    size: int


def kernel_of(instruction: Instruction, target: TargetRecord) -> FusedKernel | None:
    """Return what an instruction is as a kernel, None where it is none that can be merged.

    Bodies of fusions are read once, as long as they do not change.
    """
    if instruction.opcode is Opcode.FUSION:
        return _fused(instruction, target)
    if instruction.opcode in _VIEWS:
        return None
    cluster = seed(instruction, 0, target)
    if cluster is None:
        return None
    access = None if cluster.kind is KernelKind.UPDATE else cluster.root_access
    inputs = dict(cluster.inputs)
    return FusedKernel(*_frame_of(cluster), {instruction: access}, inputs, [instruction], 1)


def _fused(fusion: Instruction, target: TargetRecord) -> FusedKernel | None:
    outputs = _outputs(fusion)
    attributes = fusion.attributes_as(Fusion)
    if outputs is None or attributes.output_to_operand_aliasing:
        return None
    callee = fusion.called_computations[0]
    if not _fits(fusion, callee):
        return None
    key = (_Body, attributes.kind, fusion.annotations.backend_config, target)
    body = kept(callee, key, lambda: _body(fusion, callee, target))
    if body is None:
        return None
    inputs: dict[Instruction, ClusterRead] = {}
    for read, operand in zip(body.reads, fusion.operands, strict=True):
        add_read(inputs, operand, read)
    found = {value: body.results[i] for value, i in outputs.items()}
    return FusedKernel(*body.frame, found, inputs, [fusion], body.size)


def _fits(fusion: Instruction, callee: Computation) -> bool:
    """Whether it has the layouts of its body, and a configuration that we know."""
    if fusion.annotations.backend_config not in _CONFIGURATIONS:
        return False
    pairs = zip(fusion.operands, callee.parameters, strict=True)
    return fusion.shape is callee.root.shape and all(x.shape is y.shape for x, y in pairs)


_CONFIGURATIONS: Final = ("", EPILOGUE, ONE_PASS, ROWS)


def _body(fusion: Instruction, callee: Computation, target: TargetRecord) -> _Body | None:
    members = _members(callee, target)
    if members is None:
        return None
    roots = _roots(callee)
    frame = _frame(fusion, roots, members)
    if frame is None or frame[0] not in _KIND_NAMES.get(fusion.attributes_as(Fusion).kind, ()):
        return None
    accesses = _accesses(frame, members, roots)
    if accesses is None:
        return None
    unread = ClusterRead(None, 0)
    reads = [accesses.get(x, unread)._replace(nbytes=read_bytes(x)) for x in callee.parameters]
    results = [_root_access(frame, x) for x in roots]
    return _Body(frame, tuple(reads), tuple(results), len(members))


def _outputs(fusion: Instruction) -> dict[Instruction, int] | None:
    """The values that others read, with the numbers of the roots; None if read as a tuple."""
    if fusion.has_control_edges:
        return None
    if fusion.shape.is_array:
        return {fusion: 0}
    if fusion.is_root or not all(x.opcode is Opcode.GET_TUPLE_ELEMENT for x in fusion.users):
        return None
    if any(x.has_control_edges for x in fusion.users):
        return None
    return {x: x.attributes_as(GetTupleElement).index for x in fusion.users}


def _roots(callee: Computation) -> tuple[Instruction, ...]:
    root = callee.root
    return root.operands if root.opcode is Opcode.TUPLE else (root,)


def _members(callee: Computation, target: TargetRecord) -> dict[Instruction, Cluster] | None:
    """The instructions of a body, operands first; None where one of them is not ours."""
    members: dict[Instruction, Cluster] = {}
    for x in post_order(callee):
        if x.opcode is Opcode.PARAMETER or (x.opcode is Opcode.TUPLE and x is callee.root):
            continue
        cluster = seed(x, 0, target)
        if cluster is None:
            return None
        members[x] = cluster
    return members if all(x in members for x in _roots(callee)) else None


def _frame(
    fusion: Instruction, roots: tuple[Instruction, ...], members: Mapping[Instruction, Cluster]
) -> _Frame | None:
    """The loops of a body: those of its reductions, its contraction or its updates, if any."""
    heroes = [x for x in members.values() if x.kind is not KernelKind.LOOP]
    kind, space, kept, rows = _frame_of(heroes[0] if heroes else members[roots[0]])
    if any(_frame_of(x) != (kind, space, kept, rows) for x in heroes):
        return None
    if kind is KernelKind.CONTRACTION and len(heroes) > 1:
        return None
    if kind is KernelKind.UPDATE and not all(_is_last(x.root, roots) for x in heroes):
        return None
    if kind is KernelKind.REDUCTION and works_in_rows(fusion):
        kind = KernelKind.ROWS
    return kind, space, kept, rows


def _is_last(update: Instruction, roots: tuple[Instruction, ...]) -> bool:
    """Whether nothing in its body reads what an update makes."""
    return update in roots and all(x.is_root and x.opcode is Opcode.TUPLE for x in update.users)


def _accesses(
    frame: _Frame, members: Mapping[Instruction, Cluster], roots: tuple[Instruction, ...]
) -> dict[Instruction, ClusterRead] | None:
    """How each value of a body is read, None where a root or a hero is not of its frame."""
    found: dict[Instruction, ClusterRead] = {}
    for root in roots:
        access = _root_access(frame, root)
        if access is None and members[root].kind is not KernelKind.UPDATE:
            return None
        add_read(found, root, ClusterRead(access, 0))
    for x, cluster in reversed(list(members.items())):
        if x not in found:
            continue
        access = found[x].access
        if cluster.kind in (KernelKind.REDUCTION, KernelKind.CONTRACTION) and access != frame[2]:
            return None
        for operand, read in cluster.inputs.items():
            seen = composed(access, read.access) if cluster.kind is KernelKind.LOOP else read.access
            add_read(found, operand, read._replace(access=seen))
    return found


def _root_access(frame: _Frame, root: Instruction) -> Access:
    """How a result is stored: at each point of the space, or at each of the kept ones.

    An update may have more or fewer dimensions of size 1 than what is stored beside it.
    """
    kind, space, kept, rows = frame
    if root.opcode in _IN_PLACE:
        return None
    if root.shape.dimensions == space:
        return identity(space)
    if kind is KernelKind.UPDATE:
        return aligned(space, root.shape.dimensions)
    return kept if kind in REDUCING and root.shape.dimensions == rows else None


_IN_PLACE: Final = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER})
