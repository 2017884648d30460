"""Module to protobuf."""

from __future__ import annotations

from typing import Any

from lowtide.frontend.hlo_proto.attribute_writer import InstructionTarget, write_attributes
from lowtide.frontend.hlo_proto.computation_reader import in_other_order
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.header import entry_layout, write_config, write_header
from lowtide.frontend.hlo_proto.messages import new_message, parse_message, serialize
from lowtide.frontend.hlo_proto.notes import write_annotations
from lowtide.frontend.hlo_proto.shapes import ShapeWriter
from lowtide.frontend.hlo_proto.shardings import write_sharding
from lowtide.frontend.hlo_proto.sources import PayloadWriter, write_metadata, write_scalar
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import MAIN_THREAD
from lowtide.ir.computation import Computation
from lowtide.ir.errors import HloProtoError
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import NO_METADATA
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.sharding import Sharding
from lowtide.ir.traversal import computation_post_order, fused_computations, post_order


def write_hlo_module_proto(module: Module) -> bytes:
    """Return a module as a HloModuleProto: what XLA reads, equal bytes for equal modules.

    As XLA's own, it carries the entry layout as the host program shape, and loses replica_count,
    num_partitions, alias_passthrough_params and the permission to propagate shardings;
    `write_hlo_module_with_config` keeps these. Constants whose value is not known are written as
    zeros, with a mark that XLA skips. Raises HloProtoError with the path of a field that protobuf
    cannot hold.
    """
    return _encode("HloModuleProto", (), module)


def write_hlo_proto(module: Module) -> bytes:
    """Return a module as a HloProto without a buffer assignment; else as the function above."""
    return _encode("HloProto", ("hlo_module",), module)


def write_hlo_proto_with_ids(module: Module) -> tuple[bytes, dict[Instruction, int]]:
    """Return what `write_hlo_proto` returns, and the ids that the instructions have there."""
    ids: dict[Instruction, int] = {}
    return _encode("HloProto", ("hlo_module",), module, ids), ids


def write_hlo_module_with_config(module: Module) -> bytes:
    """Return a module as a HloModuleProtoWithConfig, which holds everything HLO text says."""
    return _encode("HloModuleProtoWithConfig", ("hlo_module",), module)


def write_sharding_proto(sharding: Sharding) -> bytes:
    """Return a sharding as an OpSharding, without the metadata that a module's table would have."""
    message = new_message("OpSharding")
    payloads = PayloadWriter(new_message("HloModuleProto").payloads)
    write_sharding(sharding, message, payloads)
    return serialize(message)


def _encode(
    kind: str, path: tuple[str, ...], module: Module, ids: dict[Instruction, int] | None = None
) -> bytes:
    message = new_message(kind)
    proto = message
    for field in path:
        proto = getattr(proto, field)
    try:
        write_module_message(module, proto, ids)
        if kind == "HloModuleProtoWithConfig":
            write_config(module, message.config, ShapeWriter())
        return serialize(message)
    except FieldError as error:
        fault = error.under(".".join(path)) if path else error
        raise HloProtoError(fault.message, position=fault.path) from None


def write_module_message(
    module: Module, proto: Any, ids: dict[Instruction, int] | None = None
) -> None:
    """Write a module into an empty HloModuleProto; raises FieldError.

    `ids` receives the ids of the instructions.
    """
    if module.unknown_fields:
        proto.CopyFrom(parse_message("HloModuleProto", module.unknown_fields))
    write_scalar(proto, "name", module.name)
    shapes = ShapeWriter()
    payloads = PayloadWriter(proto.payloads)
    writer = _ComputationWriter(module, shapes, payloads)
    for i, computation in enumerate(writer.order):
        try:
            writer.write(computation, proto.computations.add())
        except FieldError as error:
            raise error.under(f"computations[{i}]") from None
    if ids is not None:
        ids.update(writer.instruction_ids)
    proto.entry_computation_name = module.entry.name
    proto.entry_computation_id = writer.ids[module.entry]
    shapes.write_program_shape(entry_layout(module), proto.host_program_shape)
    if module.schedule is not None:
        proto.schedule.SetInParent()
        writer.write_schedule(proto.schedule)
    write_header(module, proto, payloads)


def _callees_first(module: Module) -> list[Computation]:
    """Return the computations as the module has them, if callees stand before callers there."""
    done: set[Computation] = set()
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if not done.issuperset(instruction.called_computations):
                return computation_post_order(module)
        done.add(computation)
    return list(module.computations.values())


class _ComputationWriter:
    """Writes computations, callees first and numbered so; instructions keep their numbers."""

    def __init__(self, module: Module, shapes: ShapeWriter, payloads: PayloadWriter) -> None:
        self.module = module
        self.shapes = shapes
        self.payloads = payloads
        self.order = _callees_first(module)
        self.ids = {x: i for i, x in enumerate(self.order)}
        self.fused = fused_computations(module)
        self.instruction_ids: dict[Instruction, int] = {}

    def write(self, computation: Computation, proto: Any) -> None:
        """Write one computation, whose callees have been written."""
        number = self.ids[computation]
        write_scalar(proto, "name", computation.name)
        proto.id = number
        order = post_order(computation)
        base = number << 32
        for i, instruction in enumerate(computation.instructions.values()):
            self.instruction_ids[instruction] = base | i
        for i, instruction in enumerate(order):
            try:
                self._write_instruction(instruction, proto.instructions.add())
            except FieldError as error:
                raise error.under(f"instructions[{i}]") from None
        self.shapes.write_program_shape(computation.program_shape, proto.program_shape)
        proto.root_id = self.instruction_ids[computation.root]
        proto.is_fusion_computation = computation in self.fused
        if computation.execution_thread != MAIN_THREAD:
            write_scalar(proto, "execution_thread", computation.execution_thread)

    def _write_instruction(self, instruction: Instruction, proto: Any) -> None:
        ids = self.instruction_ids
        write_scalar(proto, "name", instruction.name)
        proto.opcode = instruction.opcode.value
        self.shapes.write(instruction.shape, proto.shape)
        proto.id = ids[instruction]
        if instruction.operands:
            proto.operand_ids.extend([ids[x] for x in instruction.operands])
        if instruction.control_predecessors:
            proto.control_predecessor_ids.extend([ids[x] for x in instruction.control_predecessors])
        if instruction.called_computations:
            self._write_called(instruction, proto)
        write_attributes(InstructionTarget(proto, instruction, self.shapes, self.payloads))
        metadata = instruction.metadata
        if metadata is not NO_METADATA:
            try:
                write_metadata(metadata, proto.metadata, self.payloads)
            except FieldError as error:
                raise error.under("metadata") from None
        if instruction.annotations is not NO_ANNOTATIONS:
            write_annotations(instruction.annotations, proto, self.payloads)

    def _write_called(self, instruction: Instruction, proto: Any) -> None:
        """Write the callees; an async-update or -done takes them from its start."""
        if instruction.opcode in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
            return
        called = in_other_order(instruction.opcode, instruction.called_computations)
        proto.called_computation_ids.extend([self.ids[x] for x in called])

    def write_schedule(self, proto: Any) -> None:
        """Write the sequences of the computations, in the order of their ids."""
        schedule = self.module.schedule
        assert schedule is not None
        for computation in self.order:
            sequence = schedule.sequences.get(computation)
            if sequence is not None:
                entry = proto.sequences.add(key=self.ids[computation])
                entry.value.instruction_ids.extend([self.instruction_ids[x] for x in sequence])
