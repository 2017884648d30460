"""Calls with effects outside of the program: which devices make them, and how one of them does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.ir import Instruction, Opcode, Shape, tuple_shape
from lowtide.ir.attributes import Conditional, GetTupleElement, Parameter
from lowtide.ir.computation import Computation
from lowtide.ir.sharding import REPLICATED, Sharding, ShardingKind, TileSharding, TupleSharding
from lowtide.ir.tilings.shardy import SHARDY_KEY
from lowtide.ir.tilings.shardy_reader import read_shardings
from lowtide.ops.effects import has_side_effect
from lowtide.passes.matching import identity_of
from lowtide.spmd.annotations import TILES_KEY, AnnotationReader
from lowtide.spmd.emitter import Emitter

MANUAL_BODY: Final = "xla.sdy.manual_computation_body"
"""How names of computations begin that are written for one device."""

_MANUAL: Final = TileSharding(ShardingKind.MANUAL)


def mark_manual(computation: Computation) -> None:
    """Say of calls with effects, in what a manual region calls, that each device makes them."""
    pending, seen = [computation], {computation}
    while pending:
        for x in pending.pop().instructions.values():
            if x.opcode is Opcode.CUSTOM_CALL and has_side_effect(x):
                kept = [a for a in x.annotations.frontend_attributes if a[0] != SHARDY_KEY]
                x.set_annotations(
                    replace(x.annotations, sharding=_MANUAL, frontend_attributes=tuple(kept))
                )
            fresh = [callee for callee in x.called_computations if callee not in seen]
            seen.update(fresh)
            pending.extend(fresh)


def calling_device(x: Instruction, reader: AnnotationReader) -> int | None:
    """Return the only device that makes a call with effects, None where each device makes it.

    It is the one that its sharding names, and device 0 where there is no sharding.
    """
    text = dict(x.annotations.frontend_attributes).get(SHARDY_KEY)
    if reader.is_shardy and text is not None:
        for given in read_shardings(text):
            mesh = reader.meshes.get(given.mesh) if isinstance(given.mesh, str) else given.mesh
            if mesh is not None and mesh.maximal_device is not None:
                return mesh.maximal_device
        return None
    return _named_device(x.annotations.sharding)


def _named_device(sharding: Sharding | None) -> int | None:
    if sharding is None:
        return 0
    if isinstance(sharding, TupleSharding):
        return _named_device(sharding.elements[0] if sharding.elements else REPLICATED)
    if isinstance(sharding, TileSharding) and sharding.kind is ShardingKind.MAXIMAL:
        return sharding.devices[0] if isinstance(sharding.devices, tuple) else 0
    return None


def has_tiles(x: Instruction) -> bool:
    """Whether each device makes a call with effects, with its own tiles of the operands."""
    return any(name == TILES_KEY for name, _ in x.annotations.frontend_attributes)


def call_on(
    emitter: Emitter, x: Instruction, operands: Sequence[Instruction], device: int
) -> Instruction:
    """Add a call that one device makes, on whole arrays; the results of all others are zeros."""
    inputs = tuple_shape([operand.shape for operand in operands])
    branches = []
    for is_caller in (True, False):
        made = emitter.target.module.add_computation(f"{x.name}_{'made' if is_caller else 'left'}")
        branch = Emitter(emitter.target, made)
        branch.origin = x
        parameter = made.add(Opcode.PARAMETER, inputs, (), Parameter(0))
        if is_caller:
            given = [
                branch.add(Opcode.GET_TUPLE_ELEMENT, (parameter,), GetTupleElement(i))
                for i in range(len(operands))
            ]
            made.root = branch.like(x, given, x.shape)
        else:
            made.root = _nothing(branch, x.shape)
        branches.append(made)
    here = emitter.compare(emitter.device(), emitter.number(device), "EQ")
    both = emitter.add(Opcode.TUPLE, tuple(operands), shape=inputs)
    return emitter.add(
        Opcode.CONDITIONAL, (here, both, both), Conditional(is_predicated=True), branches, x.shape
    )


def _nothing(emitter: Emitter, shape: Shape) -> Instruction:
    """Return zeros of a shape; a token where it has one."""
    if shape.is_tuple:
        parts = tuple([_nothing(emitter, element) for element in shape.tuple_shapes])
        return emitter.add(Opcode.TUPLE, parts, shape=shape)
    if not shape.is_array:
        return emitter.add(Opcode.AFTER_ALL, (), shape=shape)
    made = emitter.broadcast(
        emitter.constant(identity_of(Opcode.ADD, shape.element_type)), shape.dimensions
    )
    return made if made.shape is shape else emitter.add(Opcode.COPY, (made,), shape=shape)
