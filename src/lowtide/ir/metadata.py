"""Sources of an instruction in the user's program, in both of XLA's forms."""

from __future__ import annotations

from dataclasses import field, replace

from lowtide.ir.strings import quote, quote_readable
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Metadata:
    """The origin of an instruction in the user's program; empty strings and 0 where unknown.

    `stack_frame_id` points into `Module.stack_frames` (from 1; 0 for none) and, in newer modules,
    stands for the source fields.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    payload: bytes = b""
    size_of_generated_code_in_bytes: int = 0
    size_of_memory_working_set_in_bytes: int = 0

    def with_stack_frame(self, number: int) -> Metadata:
        """Return the same metadata with another frame id."""
        return replace(self, stack_frame_id=number)

    def text(self) -> str:
        """Return the HLO text between the braces of `metadata={...}`.

        As in XLA's print there is none where only line numbers, columns, a profile or the
        deduplicated name are known.
        """
        if not (
            self.op_type
            or self.op_name
            or self.source_file
            or self.scheduling_name
            or self.stack_frame_id
            or self.payload
        ):
            return ""
        parts = [f"{key}={quote(value)}" for key, value in self._strings() if value]
        parts += [f"{key}={value}" for key, value in self._integers() if value]
        if self.profile_type:
            parts.append(f"profile_type={{{','.join(map(str, self.profile_type))}}}")
        for key, value in (
            ("deduplicated_name", self.deduplicated_name),
            ("scheduling_name", self.scheduling_name),
        ):
            if value:
                parts.append(f"{key}={quote_readable(value)}")
        if self.stack_frame_id:
            parts.append(f"stack_frame_id={self.stack_frame_id}")
        if self.payload:
            payload = self.payload.decode("utf-8", "surrogateescape")
            parts.append(f"metadata_payload={quote(payload)}")
        return " ".join(parts)

    def _strings(self) -> tuple[tuple[str, str], ...]:
        return (
            ("op_type", self.op_type),
            ("op_name", self.op_name),
            ("source_file", self.source_file),
        )

    def _integers(self) -> tuple[tuple[str, int], ...]:
        return (
            ("source_line", self.source_line),
            ("source_end_line", self.source_end_line),
            ("source_column", self.source_column),
            ("source_end_column", self.source_end_column),
        )


NO_METADATA = Metadata()


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """An entry of the location table; the ids are positions in the name tables, from 1."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrame:
    """An entry of the frame table; `parent_frame_id` is 0 for the outermost frame."""

    file_location_id: int
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The tables that `Metadata.stack_frame_id` points into; every id counts from 1."""

    file_names: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    file_locations: tuple[FileLocation, ...] = ()
    frames: tuple[StackFrame, ...] = ()
    _cache: dict[int, SourceLocation | None] = field(
        default_factory=dict, compare=False, hash=False, repr=False
    )

    def __bool__(self) -> bool:
        return bool(self.frames or self.file_locations or self.file_names or self.function_names)

    def location(self, frame_id: int) -> SourceLocation | None:
        """Return the place of the innermost call of a frame, or None for an unknown id."""
        if frame_id not in self._cache:
            self._cache[frame_id] = self._locate(frame_id)
        return self._cache[frame_id]

    def calls(self, frame_id: int) -> tuple[SourceLocation, ...]:
        """Return the places of a frame and of its callers, innermost first; none if unknown."""
        places = [self.location(x) for x in self._chain(frame_id)]
        return tuple([x for x in places if x is not None])

    def ranges(self, frame_id: int) -> tuple[FileLocation, ...]:
        """Return what `calls` does with the columns of each place."""
        numbers = [self.frames[x - 1].file_location_id for x in self._chain(frame_id)]
        return tuple([self.file_locations[x - 1] for x in numbers])

    def _chain(self, frame_id: int) -> tuple[int, ...]:
        """The ids of a frame and of its callers, innermost first.

        Tables in which a frame is its own caller end where a frame would come again.
        """
        found: dict[int, None] = {}
        while frame_id not in found and self.location(frame_id) is not None:
            found[frame_id] = None
            frame_id = self.frames[frame_id - 1].parent_frame_id
        return tuple(found)

    def _locate(self, frame_id: int) -> SourceLocation | None:
        if not 1 <= frame_id <= len(self.frames):
            return None
        location_id = self.frames[frame_id - 1].file_location_id
        if not 1 <= location_id <= len(self.file_locations):
            return None
        place = self.file_locations[location_id - 1]
        file = _at(self.file_names, place.file_name_id)
        return SourceLocation(file, place.line, _at(self.function_names, place.function_name_id))


def _at(names: tuple[str, ...], number: int) -> str:
    return names[number - 1] if 1 <= number <= len(names) else ""
