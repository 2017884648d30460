"""Message classes made from the schema, and bytes to messages and back."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.schema import MESSAGES
from lowtide.records import dataclass

PACKAGE: Final = "lowtide.hlo"
_FIELD: Final = re.compile(r"(\w+)=(\d+):(\w+)(\*|\?|@\w+)?")
SCALARS: Final = frozenset({"bool", "bytes", "double", "float", "string"}) | {
    "int32",
    "int64",
    "uint32",
    "uint64",
}


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field of a message; `mark` is `*`, `?`, `@oneof` or empty."""

    name: str
    number: int
    type: str
    mark: str


@functools.cache
def fields_of(message: str) -> Mapping[int, MessageField]:
    """Return the fields of a message by number."""
    return declared_fields(message, MESSAGES[message])


def declared_fields(message: str, declaration: str) -> Mapping[int, MessageField]:
    """Return the fields that the line of a schema declares, by number; raises ValueError."""
    fields = {}
    for text in declaration.split():
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"{message}: {text!r} is not a field of the schema")
        name, number, kind, mark = match.groups()
        fields[int(number)] = MessageField(name, int(number), kind, mark or "")
    return fields


def field_at(path: str) -> MessageField:
    """Return the field of an instruction at a path such as `cholesky_options.lower`.

    Raises ValueError where the schema has none.
    """
    message, found = "HloInstructionProto", None
    for name in path.split("."):
        found = next((x for x in fields_of(message).values() if x.name == name), None)
        if found is None:
            raise ValueError(f"{path}: the schema has no field {name!r} in {message}")
        message = found.type
    assert found is not None
    return found


@functools.cache
def message_classes() -> Mapping[str, Any]:
    """Return the message classes by name; builds them, and loads protobuf, on first use."""
    return classes_of(PACKAGE, {name: fields_of(name) for name in MESSAGES})


def classes_of(
    package: str, messages: Mapping[str, Mapping[int, MessageField]]
) -> Mapping[str, Any]:
    """Return the classes of the messages of a package, given by their fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        _describe(file.message_type.add(name=name), package, list(fields.values()))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _describe(message: Any, package: str, fields: Sequence[MessageField]) -> None:
    groups = list(dict.fromkeys([f.mark[1:] for f in fields if f.mark.startswith("@")]))
    for group in groups:
        message.oneof_decl.add(name=group)
    for field in fields:
        described = message.field.add(name=field.name, number=field.number)
        described.label = described.LABEL_OPTIONAL
        if field.mark == "*":
            described.label = described.LABEL_REPEATED
        if field.type in SCALARS:
            described.type = getattr(described, f"TYPE_{field.type.upper()}")
        else:
            described.type = described.TYPE_MESSAGE
            described.type_name = f".{package}.{field.type}"
        if field.mark.startswith("@"):
            described.oneof_index = groups.index(field.mark[1:])
    for field in fields:
        if field.mark == "?":
            described = next(f for f in message.field if f.name == field.name)
            described.proto3_optional = True
            described.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def new_message(name: str) -> Any:
    """Return an empty message."""
    return message_classes()[name]()


def parse_message(name: str, data: bytes) -> Any:
    """Return the message that `data` encodes; raises FieldError at the field that is bad."""
    from google.protobuf.message import DecodeError

    from lowtide.frontend.hlo_proto.wire import find_fault

    try:
        return message_classes()[name].FromString(data)
    except DecodeError:
        raise find_fault(name, data) from None


def serialize(message: Any) -> bytes:
    """Return the bytes of a message, the same for equal messages.

    Raises FieldError where it is over 2 GiB or nested too deeply.
    """
    from google.protobuf.message import EncodeError

    try:
        data = message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise FieldError(f"the message cannot be encoded: {error}") from None
    assert isinstance(data, bytes)
    return data
