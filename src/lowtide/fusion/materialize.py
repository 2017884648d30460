"""From clusters to fusion instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.fusion.bodies import Bodies
from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.annotations import Annotations
from lowtide.ir.attributes import Fusion
from lowtide.ops.in_place import ATTENTION, EPILOGUE, ROWS

FUSION_KINDS: Final[Mapping[KernelKind, str]] = {
    KernelKind.LOOP: "kLoop",
    KernelKind.REDUCTION: "kInput",
    KernelKind.ROWS: "kInput",
    KernelKind.CONTRACTION: "kOutput",
    KernelKind.UPDATE: "kLoop",
    KernelKind.ATTENTION: "kCustom",
}
"""What XLA calls a fusion of each kind."""

_CONFIGURATIONS: Final[Mapping[KernelKind, str]] = {
    KernelKind.ROWS: ROWS,
    KernelKind.CONTRACTION: EPILOGUE,
    KernelKind.ATTENTION: ATTENTION,
}


def materialize(
    computation: Computation,
    clusters: Sequence[Cluster],
    order: Mapping[Instruction, int],
    bodies: Bodies,
    copies: Mapping[Instruction, Instruction] | None = None,
) -> int:
    """Make one fusion of each cluster of several instructions; return how many.

    `order` numbers the instructions, operands first; `bodies` makes what the fusions call. `copies`
    says which instructions of the computation stand for those of the clusters, where these are of
    a module that it is a copy of. Members that nobody else reads are left without users, for dead
    code elimination.
    """
    replaced: dict[Instruction, Instruction] = {}
    for cluster in sorted(clusters, key=lambda x: order[x.root]):
        if _is_worth_it(cluster):
            members = sorted(cluster.members, key=order.__getitem__)
            root = cluster.root
            if copies is not None:
                members, root = [copies[x] for x in members], copies[root]
            replaced[root] = _fuse(computation, cluster.kind, members, root, replaced, bodies)
    rewire(computation, replaced)
    return len(replaced)


def rewire(computation: Computation, made: Mapping[Instruction, Instruction]) -> None:
    """Have all readers of some values read others; each reader, however long, is changed once."""
    for reader in {user: None for value in made for user in value.users}:
        reader.set_operands(tuple([made.get(x, x) for x in reader.operands]))
    if computation.root in made:
        computation.root = made[computation.root]


def _is_worth_it(cluster: Cluster) -> bool:
    """Whether it computes anything beside one instruction and its scalar constants."""
    real = [x for x in cluster.members if x.opcode is not Opcode.CONSTANT]
    return len(real) > 1


def _fuse(
    computation: Computation,
    kind: KernelKind,
    members: Sequence[Instruction],
    root: Instruction,
    replaced: Mapping[Instruction, Instruction],
    bodies: Bodies,
) -> Instruction:
    body, outside = bodies.of(members, root)
    operands = tuple([replaced.get(x, x) for x in outside])
    name = f"{root.opcode.value.replace('-', '_')}_fusion"
    fusion = computation.add(
        Opcode.FUSION, root.shape, operands, Fusion(FUSION_KINDS[kind]), (body,), name
    )
    fusion.set_metadata(origin(root, members).raw_metadata)
    config = _CONFIGURATIONS.get(kind, "")
    fusion.set_annotations(with_config(root.annotations, config))
    return fusion


def origin(result: Instruction, members: Sequence[Instruction]) -> Instruction:
    """Return what tells where a result comes from: itself, or the last member with a source line.

    `members` stand in order, operands first.
    """
    return next((x for x in (result, *reversed(members)) if x.source is not None), result)


def with_config(annotations: Annotations, config: str) -> Annotations:
    """Return the same annotations with another backend configuration."""
    if annotations.backend_config == config:
        return annotations
    return replace(annotations, backend_config=config)
