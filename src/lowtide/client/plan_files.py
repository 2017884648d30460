"""Plans from files: what XLA writes, and what `lowtide plan -o` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.hlo_proto import (
    read_buffer_assignment,
    read_hlo_proto_plan,
    read_plan_of_hlo_proto,
)
from lowtide.frontend.hlo_proto.wire import kind_of
from lowtide.frontend.plan_json import read_plan_json
from lowtide.ir import InputError, Module
from lowtide.ir.buffer import BufferAssignment


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan, the module that it is a plan of, and whether XLA made it."""

    module: Module
    assignment: BufferAssignment
    made_by_xla: bool


def read_plan(path: str, module: Module | None = None) -> PlanFile:
    """Return the plan in a file.

    The file holds a BufferAssignmentProto, which needs `module`, a HloProto with a plan, or a
    document of `lowtide plan -o`, perhaps compressed. Where a module is given and the file has one
    too, the one given counts. Raises InputError, or HloProtoError with the first field that is
    malformed or contradicts the module.
    """
    try:
        with Path(path).open("rb") as stream:
            data = read_bytes(stream, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=path) from error
    if not data:
        raise InputError("expected a plan; the file is empty", file=path)
    if data.lstrip()[:1] == b"{":
        return PlanFile(*_from_json(data, path, module), made_by_xla=False)
    if kind_of(data) == "HloProto":
        return PlanFile(*_from_hlo_proto(data, path, module), made_by_xla=True)
    if module is None:
        raise InputError(
            "a plan without its module: give the module too, as protobuf of the same executable",
            file=path,
        )
    return PlanFile(module, read_buffer_assignment(data, module, path), made_by_xla=True)


def _from_json(data: bytes, path: str, module: Module | None) -> tuple[Module, BufferAssignment]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason}", file=path) from None
    return read_plan_json(text, module, path)


def _from_hlo_proto(
    data: bytes, path: str, module: Module | None
) -> tuple[Module, BufferAssignment]:
    if module is None:
        return read_hlo_proto_plan(data, path)
    return module, read_plan_of_hlo_proto(data, module, path)
