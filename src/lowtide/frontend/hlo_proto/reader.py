"""Protobuf to Module."""

from __future__ import annotations

import gc
from typing import Any, Final

from lowtide.frontend.hlo_proto.computation_reader import ComputationReader
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.header import (
    read_config,
    read_entry_layout,
    read_header,
    read_unknown_fields,
)
from lowtide.frontend.hlo_proto.literals import read_literal, to_value
from lowtide.frontend.hlo_proto.messages import parse_message
from lowtide.frontend.hlo_proto.shapes import ShapeReader
from lowtide.frontend.hlo_proto.shardings import ShardingReader
from lowtide.frontend.hlo_proto.sources import PayloadReader
from lowtide.frontend.hlo_proto.wire import kind_of
from lowtide.ir.computation import Computation
from lowtide.ir.errors import HloProtoError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.names import sanitize
from lowtide.ir.schedule import Schedule
from lowtide.ir.shape import ProgramShape

_MODULE_PATHS: Final = {
    "HloModuleProto": (),
    "HloProto": ("hlo_module",),
    "HloModuleProtoWithConfig": ("hlo_module",),
    "HloSnapshot": ("hlo", "hlo_module"),
}
_DEEPEST: Final = 4
"""How deep modules may nest by way of their recovery tables."""


def read_hlo_proto(data: bytes, file: str = "") -> Module:
    """Return the module in a HloModuleProto, HloProto, HloModuleProtoWithConfig or HloSnapshot.

    `lowtide.frontend.hlo_proto.wire.kind_of` says how they are told apart. Names and ids are kept;
    names that HLO text cannot spell are sanitized. Fields of the module that lowtide does not
    interpret stay in `Module.unknown_fields`; the buffer assignment of a HloProto and the parts of
    a configuration that say how to compile are left out. As in XLA, callees stand before their
    callers and operands before their users.

    Raises HloProtoError with the path of the bad field, `UnsupportedOpError` for a literal that
    does not fill its dynamic shape. `file` is named in errors.
    """
    return _read(data, file)[0]


def read_snapshot(data: bytes, file: str = "") -> tuple[Module, list[Any]]:
    """Return the module of a HloSnapshot and its arguments.

    An argument is an array, a list of arguments for a tuple, or None for a token. Other kinds of
    file have no arguments. Raises what `read_hlo_proto` raises.
    """
    module, message = _read(data, file)
    shapes = ShapeReader()
    arguments = []
    for i, literal in enumerate(getattr(message, "arguments", ())):
        try:
            arguments.append(to_value(read_literal(literal, shapes)))
        except FieldError as error:
            fault = error.under(f"arguments[{i}]")
            raise HloProtoError(fault.message, file=file, position=fault.path) from None
    return module, arguments


def _read(data: bytes, file: str) -> tuple[Module, Any]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        kind = kind_of(data)
        message = parse_message(kind, data)
        return _read_message(kind, message), message
    except FieldError as error:
        raise HloProtoError(error.message, file=file, position=error.path) from None
    finally:
        if enabled:
            gc.enable()


def _read_message(kind: str, message: Any) -> Module:
    proto = message
    path = _MODULE_PATHS[kind]
    for field in path:
        proto = getattr(proto, field)
    shapes = ShapeReader()
    try:
        module = read_module_message(proto, 0, shapes)
    except FieldError as error:
        raise error.under(".".join(path)) if path else error from None
    if kind == "HloModuleProtoWithConfig":
        try:
            read_config(message.config, module, shapes)
        except FieldError as error:
            raise error.under("config") from None
    return module


def read_module_message(proto: Any, depth: int, shapes: ShapeReader | None = None) -> Module:
    """Return the module of a HloModuleProto, whose message is of no use afterwards.

    `depth` is the number of recovery tables around it. Raises FieldError.
    """
    if depth > _DEEPEST:
        raise FieldError(f"modules nest deeper than {_DEEPEST} levels")
    shapes = shapes or ShapeReader()
    shardings = ShardingReader(PayloadReader(proto.payloads))
    module = Module(sanitize(proto.name))
    if not proto.computations:
        raise FieldError("a module has at least one computation", "computations")
    computations = _read_computations(proto, module, shapes, shardings)
    module.adopt([computations[number].computation for number in sorted(computations)])
    module.entry = _entry(proto, computations)
    entry = module.entry.program_shape
    module.entry_layout = ProgramShape(entry.parameters, entry.result)
    read_entry_layout(proto, module, shapes, "host_program_shape")
    if proto.HasField("schedule"):
        module.schedule = _read_schedule(proto.schedule, computations)
    read_header(proto, module, shardings, depth)
    read_unknown_fields(proto, module)
    return module


def _read_computations(
    proto: Any, module: Module, shapes: ShapeReader, shardings: ShardingReader
) -> dict[int, ComputationReader]:
    """Return the computations by id, in the order of the message."""
    readers: dict[int, ComputationReader] = {}
    names: set[str] = set()
    instruction_names: set[str] = set()
    for i, message in enumerate(proto.computations):
        try:
            if message.id in readers:
                raise FieldError(f"another computation has id {message.id}", "id")
            if message.name in names:
                raise FieldError(f"another computation is named {message.name[:60]!r}", "name")
            names.add(message.name)
            reader = ComputationReader(message, module, shapes, shardings)
            reader.read(readers, instruction_names)
        except FieldError as error:
            raise error.under(f"computations[{i}]") from None
        readers[message.id] = reader
    return readers


def _entry(proto: Any, computations: dict[int, ComputationReader]) -> Computation:
    reader = computations.get(proto.entry_computation_id)
    if reader is None:
        raise FieldError(
            f"no computation has id {proto.entry_computation_id}", "entry_computation_id"
        )
    return reader.computation


def _read_schedule(proto: Any, computations: dict[int, ComputationReader]) -> Schedule:
    sequences = {}
    for i, entry in enumerate(proto.sequences):
        path = f"schedule.sequences[{i}]"
        reader = computations.get(entry.key)
        if reader is None:
            raise FieldError(f"no computation has id {entry.key}", f"{path}.key")
        if reader.computation in sequences:
            raise FieldError(f"computation {entry.key} has two sequences", f"{path}.key")
        ids = entry.value.instruction_ids
        sequences[reader.computation] = _sequence(reader, ids, f"{path}.value.instruction_ids")
    return Schedule(sequences)


def _sequence(reader: ComputationReader, ids: Any, path: str) -> tuple[Instruction, ...]:
    """Return the instructions of a sequence, each of which comes once and after its operands."""
    order: dict[Instruction, None] = {}
    for i, number in enumerate(ids):
        instruction = reader.find(number, f"{path}[{i}]")
        if instruction in order:
            raise FieldError(f"{instruction.name} is scheduled twice", f"{path}[{i}]")
        for before in (*instruction.operands, *instruction.control_predecessors):
            if before not in order:
                raise FieldError(
                    f"{instruction.name} is scheduled before {before.name}", f"{path}[{i}]"
                )
        order[instruction] = None
    missing = len(reader.computation.instructions) - len(order)
    if missing:
        raise FieldError(f"{missing} instructions are not scheduled", path)
    return tuple(order)
