"""The plan that a HloProto brings along with its module."""

from __future__ import annotations

from collections.abc import Callable

from lowtide.frontend.hlo_proto.buffer_assignment import read_buffer_assignment
from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.messages import parse_message
from lowtide.frontend.hlo_proto.reader import read_hlo_proto
from lowtide.frontend.hlo_proto.wire import kind_of
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.errors import HloProtoError
from lowtide.ir.module import Module


def holds_plan(data: bytes) -> bool:
    """Return whether binary data are a HloProto with a plan beside its module."""
    if kind_of(data) != "HloProto":
        return False
    try:
        return bool(parse_message("HloProto", data).buffer_assignment)
    except FieldError:
        return False


def read_hlo_proto_plan(
    data: bytes, file: str = "", check: Callable[[Module], None] | None = None
) -> tuple[Module, BufferAssignment]:
    """Return the module of a HloProto and its plan, as in XLA's dumps "after optimizations".

    `check` sees the module before the plan is read: it raises what is to be raised for a module
    that breaks a rule of HLO, and else IndexError may come of it. Raises HloProtoError, also where
    there is no plan.
    """
    kind = kind_of(data)
    if kind != "HloProto":
        raise HloProtoError(f"expected a HloProto with a plan, found a {kind}", file=file)
    module = read_hlo_proto(data, file)
    if check is not None:
        check(module)
    return module, read_plan_of_hlo_proto(data, module, file)


def read_plan_of_hlo_proto(data: bytes, module: Module, file: str = "") -> BufferAssignment:
    """Return the plan in a HloProto, for a module that is the one in it or a copy of that.

    Raises HloProtoError, also where there is no plan.
    """
    try:
        blob = parse_message("HloProto", data).buffer_assignment
    except FieldError as error:
        raise HloProtoError(error.message, file=file, position=error.path) from None
    if not blob:
        raise HloProtoError("there is no plan", file=file, position="buffer_assignment")
    try:
        return read_buffer_assignment(blob, module)
    except HloProtoError as error:
        position = f"buffer_assignment.{error.position}".removesuffix(".")
        raise HloProtoError(error.message, file=file, position=position) from None
