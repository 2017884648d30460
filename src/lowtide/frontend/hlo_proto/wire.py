"""The wire format itself: what kind of message some bytes are, and where bad ones break."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.frontend.hlo_proto.messages import SCALARS, MessageField, fields_of

FieldsOf: TypeAlias = Callable[[str], Mapping[int, MessageField]]

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_DEEPEST: Final = 100
"""How deep protobuf's runtime lets messages nest."""
_OPCODE: Final = re.compile(rb"[a-z][a-z0-9-]{1,63}")


class RawField(NamedTuple):
    """A field on the wire: its number, wire type, and where its value stands (end excluded)."""

    number: int
    kind: int
    start: int
    end: int


class WireError(Exception):
    """The bytes break the wire format.

    `number` is that of the field where they do, 0 if none; `start` is where the value of a field
    begins that is longer than the data, -1 if there is none.
    """

    def __init__(self, message: str, number: int = 0, start: int = -1) -> None:
        self.number = number
        self.start = start
        super().__init__(message)


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return a varint and the position behind it; raises WireError."""
    value = shift = 0
    while True:
        if position >= end:
            raise WireError("the data end inside of a number")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift >= 70:
            raise WireError("a number takes more than 10 bytes")


def raw_fields(data: bytes, start: int, end: int) -> Iterator[RawField]:
    """Yield the fields between two positions; raises WireError. Groups are skipped."""
    position = start
    depth = 0
    while position < end:
        tag, position = read_varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if number == 0 or number >= 2**29 or kind > _FIXED32:
            raise WireError(f"{tag} is not the tag of a field")
        value_start = position
        if kind in (_GROUP, _GROUP_END):
            depth += 1 if kind == _GROUP else -1
            if not 0 <= depth <= _DEEPEST:
                raise WireError("groups do not match", number)
            continue
        try:
            value_start, position = _skip(data, position, end, kind)
        except WireError as error:
            raise WireError(str(error), number, error.start) from None
        if not depth:
            yield RawField(number, kind, value_start, position)
    if depth:
        raise WireError("a group does not end")


def _skip(data: bytes, position: int, end: int, kind: int) -> tuple[int, int]:
    """Return where the value starts and ends."""
    if kind == _VARINT:
        return position, read_varint(data, position, end)[1]
    size = 8 if kind == _FIXED64 else 4
    if kind == _BYTES:
        size, position = read_varint(data, position, end)
    if position + size > end:
        missing = position + size - end
        start = position if kind == _BYTES else -1
        raise WireError(f"the data end {missing} bytes too early", start=start)
    return position, position + size


# -- telling the kinds of file apart -----------------------------------------------------------


def kind_of(data: bytes) -> str:
    """Return the name of the message that `data` hold.

    A HloModuleProto has, in field 3, computations, with instructions in field 2, whose field 2 is
    an opcode. A HloProto and a HloModuleProtoWithConfig have a module in field 1, the latter also
    a field 2; a HloSnapshot has a HloProto in field 1. Anything else is taken for a
    HloModuleProto. Data that break off are told by what is there.
    """
    end = len(data)
    if _has_opcode(data, 0, end, (3, 2, 2)):
        return "HloModuleProto"
    if _has_opcode(data, 0, end, (1, 3, 2, 2)):
        numbers = _numbers(data)
        return "HloModuleProtoWithConfig" if 2 in numbers else "HloProto"
    if _has_opcode(data, 0, end, (1, 1, 3, 2, 2)):
        return "HloSnapshot"
    return "HloModuleProto"


def _has_opcode(data: bytes, start: int, end: int, path: tuple[int, ...]) -> bool:
    """Whether the first fields along a path of field numbers lead to an opcode."""
    return has_word(data, start, end, path, _OPCODE)


def has_word(
    data: bytes, start: int, end: int, path: tuple[int, ...], pattern: re.Pattern[bytes]
) -> bool:
    """Whether the first fields along a path of field numbers lead to bytes of a pattern."""
    for number in path:
        found = _first(data, start, end, number)
        if found is None:
            return False
        start, end = found
    return pattern.fullmatch(data, start, end) is not None


def _first(data: bytes, start: int, end: int, number: int) -> tuple[int, int] | None:
    """Return where the value of the first field with a number stands, cut off if need be."""
    try:
        for field in raw_fields(data, start, end):
            if field.number == number and field.kind == _BYTES:
                return field.start, field.end
    except WireError as error:
        if error.number == number and error.start >= 0:
            return error.start, end
    return None


def _numbers(data: bytes) -> set[int]:
    numbers = set()
    try:
        for field in raw_fields(data, 0, len(data)):
            numbers.add(field.number)
    except WireError as error:
        numbers.add(error.number)
    return numbers


# -- where it breaks ---------------------------------------------------------------------------


def find_fault(message: str, data: bytes, fields_of: FieldsOf = fields_of) -> FieldError:
    """Return the first fault of `data` as a message of that name, with the path to its field.

    `fields_of` gives the fields of each message by number.
    """
    fault = _find(fields_of, message, data, 0, len(data), 0)
    return fault or FieldError(f"the data are not a {message}")


def _find(
    fields_of: FieldsOf, message: str, data: bytes, start: int, end: int, depth: int
) -> FieldError | None:
    if depth > _DEEPEST:
        return FieldError(f"messages nest deeper than {_DEEPEST} levels")
    fields = fields_of(message)
    counts: dict[int, int] = {}
    try:
        for raw in raw_fields(data, start, end):
            field = fields.get(raw.number)
            if field is None:
                continue
            index = counts.get(raw.number, 0)
            counts[raw.number] = index + 1
            fault = _find_in_field(fields_of, field, raw, data, depth)
            if fault is not None:
                return fault.under(_path(field, index))
    except WireError as error:
        field = fields.get(error.number)
        if field is None:
            return FieldError(str(error))
        fault = None
        if error.start >= 0 and field.type not in SCALARS:
            fault = _find(fields_of, field.type, data, error.start, end, depth + 1)
        fault = fault or FieldError(str(error))
        return fault.under(_path(field, counts.get(error.number, 0)))
    return None


def _path(field: MessageField, index: int) -> str:
    return f"{field.name}[{index}]" if field.mark == "*" else field.name


def _find_in_field(
    fields_of: FieldsOf, field: MessageField, raw: RawField, data: bytes, depth: int
) -> FieldError | None:
    if raw.kind != _BYTES:
        return None
    if field.type not in SCALARS:
        return _find(fields_of, field.type, data, raw.start, raw.end, depth + 1)
    if field.type == "string":
        try:
            data[raw.start : raw.end].decode()
        except UnicodeDecodeError as error:
            return FieldError(f"the string is not UTF-8: {error.reason}")
    if field.mark == "*" and field.type not in ("bytes", "string"):
        return _find_in_packed(field, raw, data)
    return None


def _find_in_packed(field: MessageField, raw: RawField, data: bytes) -> FieldError | None:
    size = {"float": 4, "double": 8}.get(field.type)
    if size is not None:
        if (raw.end - raw.start) % size:
            return FieldError("the packed numbers end inside of a number")
        return None
    position = raw.start
    try:
        while position < raw.end:
            _, position = read_varint(data, position, raw.end)
    except WireError as error:
        return FieldError(str(error))
    return None
