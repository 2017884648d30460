"""Metadata in protobuf: sources of instructions, and the stack frame tables."""

from __future__ import annotations

from typing import Any, Final, final

from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.ir.metadata import NO_METADATA, FileLocation, Metadata, StackFrame, StackFrames

_PLAIN: Final = (
    "op_type",
    "op_name",
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "deduplicated_name",
    "scheduling_name",
    "stack_frame_id",
    "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes",
)
"""The fields which have the same name and type in both forms."""


@final
class PayloadReader:
    """Resolves payloads, which stand in place or in the table of the module."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def read(self, proto: Any, path: str) -> bytes:
        """Return the bytes; raises FieldError for an entry that the table lacks."""
        if proto.WhichOneof("source") != "id":
            return bytes(proto.value)
        number = proto.id
        if not 0 <= number < len(self._table):
            raise FieldError(
                f"the module has {len(self._table)} payloads, none with number {number}",
                f"{path}.id",
            )
        return bytes(self._table[number])


@final
class PayloadWriter:
    """Collects payloads in the table of the module, each once."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._numbers: dict[bytes, int] = {}

    def write(self, payload: bytes, proto: Any) -> None:
        """Write a payload as its number in the table."""
        number = self._numbers.get(payload)
        if number is None:
            number = self._numbers[payload] = len(self._table)
            self._table.append(payload)
        proto.id = number


def read_metadata(proto: Any, payloads: PayloadReader) -> Metadata:
    """Return the metadata of an instruction or a sharding."""
    values = {field.name: value for field, value in proto.ListFields()}
    if not values:
        return NO_METADATA
    if "profile_type" in values:
        values["profile_type"] = tuple(values["profile_type"])
    payload = values.pop("metadata_payload", None)
    if payload is not None:
        values["payload"] = payloads.read(payload, "metadata_payload")
    return Metadata(**values)


def write_metadata(metadata: Metadata, proto: Any, payloads: PayloadWriter) -> None:
    """Write metadata into an OpMetadata."""
    for name in _PLAIN:
        value = getattr(metadata, name)
        if value:
            write_scalar(proto, name, value)
    proto.profile_type.extend(metadata.profile_type)
    if metadata.payload:
        payloads.write(metadata.payload, proto.metadata_payload)


def write_scalar(proto: Any, field: str, value: Any) -> None:
    """Set a field; raises FieldError for text that is not UTF-8 and numbers out of range."""
    try:
        setattr(proto, field, value)
    except UnicodeEncodeError:
        raise FieldError("protobuf cannot hold text that is not UTF-8", field) from None
    except ValueError as error:
        raise FieldError(str(error), field) from None


def read_stack_frames(proto: Any) -> StackFrames:
    """Return the stack frame tables."""
    locations = [
        FileLocation(x.file_name_id, x.function_name_id, x.line, x.end_line, x.column, x.end_column)
        for x in proto.file_locations
    ]
    frames = []
    for i, frame in enumerate(proto.stack_frames):
        if not 0 <= frame.parent_frame_id <= len(proto.stack_frames):
            raise FieldError(
                f"there is no frame {frame.parent_frame_id}", f"stack_frames[{i}].parent_frame_id"
            )
        frames.append(StackFrame(frame.file_location_id, frame.parent_frame_id))
    return StackFrames(
        tuple(proto.file_names), tuple(proto.function_names), tuple(locations), tuple(frames)
    )


def write_stack_frames(frames: StackFrames, proto: Any) -> None:
    """Write the stack frame tables into a StackFrameIndexProto."""
    for field, names in (
        ("file_names", frames.file_names),
        ("function_names", frames.function_names),
    ):
        try:
            getattr(proto, field).extend(names)
        except UnicodeEncodeError:
            raise FieldError("protobuf cannot hold text that is not UTF-8", field) from None
    for location in frames.file_locations:
        proto.file_locations.add(
            file_name_id=location.file_name_id,
            function_name_id=location.function_name_id,
            line=location.line,
            end_line=location.end_line,
            column=location.column,
            end_column=location.end_column,
        )
    for frame in frames.frames:
        proto.stack_frames.add(
            file_location_id=frame.file_location_id, parent_frame_id=frame.parent_frame_id
        )
