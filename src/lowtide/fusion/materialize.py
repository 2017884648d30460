"""From clusters to fusion instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.fusion.cluster import Cluster, Kind
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Fusion, Parameter
from lowtide.ops.in_place import ATTENTION, ROWS

_KINDS: Final[Mapping[Kind, str]] = {
    Kind.LOOP: "kLoop",
    Kind.REDUCTION: "kInput",
    Kind.ROWS: "kInput",
    Kind.CONTRACTION: "kOutput",
    Kind.UPDATE: "kLoop",
    Kind.ATTENTION: "kCustom",
}
_CONFIGURATIONS: Final[Mapping[Kind, str]] = {Kind.ROWS: ROWS, Kind.ATTENTION: ATTENTION}


def materialize(
    computation: Computation,
    clusters: Sequence[Cluster],
    order: Mapping[Instruction, int],
) -> int:
    """Make one fusion of each cluster of several instructions; return how many.

    `order` numbers the instructions, operands first. Members that nobody else reads are left
    without users, for dead code elimination.
    """
    replaced: dict[Instruction, Instruction] = {}
    for cluster in sorted(clusters, key=lambda x: order[x.root]):
        if _is_worth_it(cluster):
            replaced[cluster.root] = _fuse(computation, cluster, order, replaced)
    for root, fusion in replaced.items():
        root.replace_all_uses_with(fusion)
    return len(replaced)


def _is_worth_it(cluster: Cluster) -> bool:
    """Whether it computes anything beside one instruction and its scalar constants."""
    real = [x for x in cluster.members if x.opcode is not Opcode.CONSTANT]
    return len(real) > 1


def _fuse(
    computation: Computation,
    cluster: Cluster,
    order: Mapping[Instruction, int],
    replaced: Mapping[Instruction, Instruction],
) -> Instruction:
    members = sorted(cluster.members, key=order.__getitem__)
    body = computation.module.add_computation("fused_computation")
    inside: dict[Instruction, Instruction] = {}
    outside: list[Instruction] = []
    for member in members:
        operands = []
        for operand in member.operands:
            if operand not in inside:
                parameter = Parameter(len(outside))
                name = f"param_{len(outside)}"
                inside[operand] = body.add(
                    Opcode.PARAMETER, operand.shape, (), parameter, name=name
                )
                outside.append(replaced.get(operand, operand))
            operands.append(inside[operand])
        inside[member] = _copied(member, body, tuple(operands))
    body.root = inside[cluster.root]
    root = cluster.root
    name = f"{root.opcode.value.replace('-', '_')}_fusion"
    fusion = computation.add(
        Opcode.FUSION, root.shape, tuple(outside), Fusion(_KINDS[cluster.kind]), (body,), name
    )
    fusion.set_metadata(root.raw_metadata)
    config = _CONFIGURATIONS.get(cluster.kind, "")
    fusion.set_annotations(replace(root.annotations, backend_config=config))
    return fusion


def _copied(
    member: Instruction, body: Computation, operands: tuple[Instruction, ...]
) -> Instruction:
    copy = body.add(
        member.opcode,
        member.shape,
        operands,
        member.attributes,
        member.called_computations,
        name=member.name,
    )
    copy.set_metadata(member.raw_metadata)
    copy.set_annotations(member.annotations)
    return copy
