"""Pieces that several reports share: of their JSON documents, and of how notebooks show them."""

from __future__ import annotations

from lowtide.ir import SourceLocation

Json = dict[str, object]


class TextReport:
    """A report whose text is a screen; a notebook shows the same."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from lowtide.report.drawing import notebook_html

        return notebook_html(str(self))


def source_json(source: SourceLocation | None) -> Json | None:
    """Return a place in the user's program as an object, None for none."""
    if source is None:
        return None
    return {"file": source.file, "line": source.line, "function": source.function}
