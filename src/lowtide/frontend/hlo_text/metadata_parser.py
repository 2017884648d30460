"""Instruction metadata and the stack frame tables in HLO text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar

from lowtide.frontend.hlo_text.lexer import Lexer, TokenKind
from lowtide.ir.metadata import FileLocation, Metadata, StackFrame, StackFrames
from lowtide.records.late import late_pattern

T = TypeVar("T")

_STRINGS: Final = {
    "op_type": "op_type",
    "op_name": "op_name",
    "source_file": "source_file",
    "deduplicated_name": "deduplicated_name",
    "scheduling_name": "scheduling_name",
}
_INTEGERS: Final = {
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "stack_frame_id",
    "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes",
}
_LARGEST_LINE: Final = 2**31 - 1


def parse_metadata(lexer: Lexer) -> Metadata:
    """Take metadata in braces; its parts are separated by spaces or commas."""
    lexer.expect("{", "at the start of the metadata")
    metadata = _parse_fields(lexer)
    lexer.expect("}", "at the end of the metadata")
    return metadata


def _parse_fields(lexer: Lexer) -> Metadata:
    fields: dict[str, object] = {}
    while lexer.kind is TokenKind.ATTRIBUTE_NAME:
        start = lexer.start
        key = lexer.attribute_name()
        known = [*_STRINGS, *_INTEGERS, "profile_type", "metadata_payload"]
        lexer.choice(key, known, "metadata field", start)
        if key in fields:
            lexer.fail(f"the metadata has {key} twice", start)
        if key in _STRINGS:
            fields[_STRINGS[key]] = lexer.string()
        elif key == "metadata_payload":
            fields["payload"] = lexer.string().encode("utf-8", "surrogateescape")
        elif key == "profile_type":
            fields["profile_type"] = lexer.integers("{}")
        else:
            fields[key] = lexer.integer()
        lexer.eat(",")
    return Metadata(**fields)  # type: ignore[arg-type]


def parse_metadata_list(lexer: Lexer) -> tuple[Metadata, ...]:
    """Take `{...}` or `{{...}, {...}}`."""
    lexer.expect("{")
    if not lexer.at("{"):
        single = _parse_fields(lexer)
        lexer.expect("}")
        return (single,)
    entries = []
    while lexer.at("{"):
        entries.append(parse_metadata(lexer))
        if not lexer.eat(","):
            break
    lexer.expect("}")
    return tuple(entries)


_TEXT: Final = (
    r'"[^"\\\x00-\x1f\x7f-\U0010ffff\']*+(?:\\[\'"\\nrt][^"\\\x00-\x1f\x7f-\U0010ffff\']*+)*+"'
)
_NUMBER: Final = r"[1-9]\d{0,8}"
_FIELDS: Final = (
    *((key, _TEXT) for key in ("op_type", "op_name", "source_file")),
    *(
        (key, _NUMBER)
        for key in ("source_line", "source_end_line", "source_column", "source_end_column")
    ),
)
_SEPARATOR: Final = r"(?: (?=[a-z])|(?=\}))"


@cache
def canonical() -> re.Pattern[str]:
    """Return the form of metadata as XLA prints it, up to the closing brace.

    Such text may be kept as it is. Group 1 is all but the frame id, which is group 2. To compile
    the pattern takes ten milliseconds, which text without metadata does not need.
    """
    return re.compile(
        r"(?=op_|source_file=|stack_frame_id=)("
        + "".join([f"(?:{key}={form}{_SEPARATOR})?" for key, form in _FIELDS])
        + rf")(?:stack_frame_id=({_NUMBER}))?(?=\}})"
    )


def decode_canonical(text: str) -> Metadata:
    """Return the metadata for text of the form `canonical`."""
    lexer = Lexer(text)
    return _parse_fields(lexer)


# -- tables ------------------------------------------------------------------------------------


def parse_stack_frames(lexer: Lexer) -> StackFrames:
    """Take the tables FileNames, FunctionNames, FileLocations and StackFrames, if they are there.

    In the text a parent frame id is one more than the id, so that 1 means no parent.
    """
    file_names = _parse_names(lexer, "FileNames")
    function_names = _parse_names(lexer, "FunctionNames")
    locations: list[FileLocation] = []
    if lexer.at_keyword("FileLocations"):
        lexer.advance()
        _take_rows(lexer, _LOCATION_ROW, locations, FileLocation)
        while lexer.kind is TokenKind.INTEGER:
            locations.append(_parse_location(lexer, len(locations) + 1))
    frames: list[StackFrame] = []
    if lexer.at_keyword("StackFrames"):
        lexer.advance()
        _take_rows(lexer, _FRAME_ROW, frames, _frame)
        while lexer.kind is TokenKind.INTEGER:
            frames.append(_parse_frame(lexer, len(frames) + 1))
    return StackFrames(file_names, function_names, tuple(locations), tuple(frames))


def _row(keys: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a row as XLA prints it: the fast path, other rows go by tokens."""
    fields = " ".join([rf"{key}=(\d{{1,9}})" for key in keys])
    return late_pattern(rf"(\d{{1,9}}) \{{{fields}\}}\s*+", re.ASCII)


_LOCATION_KEYS: Final = (
    "file_name_id",
    "function_name_id",
    "line",
    "end_line",
    "column",
    "end_column",
)
_LOCATION_ROW: Final = _row(_LOCATION_KEYS)
_FRAME_ROW: Final = _row(("file_location_id", "parent_frame_id"))


def _take_rows(
    lexer: Lexer, pattern: re.Pattern[str], rows: list[T], make: Callable[..., T]
) -> None:
    """Append the rows that are next and numbered in order."""
    position = lexer.start
    while (match := pattern.match(lexer.text, position)) is not None:
        number, *values = map(int, match.groups())
        if number != len(rows) + 1:
            break
        rows.append(make(*values))
        position = match.end()
    lexer.seek(position)


def _frame(location: int, parent: int) -> StackFrame:
    return StackFrame(location, max(parent - 1, 0))


def _parse_names(lexer: Lexer, table: str) -> tuple[str, ...]:
    if not lexer.at_keyword(table):
        return ()
    lexer.advance()
    names: list[str] = []
    while lexer.kind is TokenKind.INTEGER:
        _expect_number(lexer, len(names) + 1)
        names.append(lexer.string())
    return tuple(names)


def _expect_number(lexer: Lexer, number: int) -> None:
    start = lexer.start
    if lexer.integer() != number:
        lexer.fail(f"expected entry number {number} of the table", start)


def _parse_location(lexer: Lexer, number: int) -> FileLocation:
    _expect_number(lexer, number)
    fields = _parse_table_fields(lexer, _LOCATION_KEYS)
    return FileLocation(**fields)


def _parse_frame(lexer: Lexer, number: int) -> StackFrame:
    _expect_number(lexer, number)
    fields = _parse_table_fields(lexer, ("file_location_id", "parent_frame_id"))
    return _frame(fields.get("file_location_id", 0), fields.get("parent_frame_id", 0))


def _parse_table_fields(lexer: Lexer, keys: tuple[str, ...]) -> dict[str, int]:
    lexer.expect("{")
    fields: dict[str, int] = {}
    while not lexer.at("}"):
        start = lexer.start
        key = lexer.attribute_name()
        lexer.choice(key, keys, "field", start)
        fields[key] = lexer.integer()
        lexer.eat(",")
        if not 0 <= fields[key] <= _LARGEST_LINE:
            lexer.fail(f"{key} is out of range", start)
    lexer.expect("}")
    return fields
