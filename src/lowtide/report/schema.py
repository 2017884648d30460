"""Pieces of the JSON documents that several reports share."""

from __future__ import annotations

from lowtide.ir import SourceLocation

Json = dict[str, object]


def source_json(source: SourceLocation | None) -> Json | None:
    """Return a place in the user's program as an object, None for none."""
    if source is None:
        return None
    return {"file": source.file, "line": source.line, "function": source.function}
