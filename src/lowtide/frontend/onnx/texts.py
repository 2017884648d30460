"""Names in ONNX models, which broken files have as bytes that are no text."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.frontend.graphs.errors import GraphError


def name_of(value: str | bytes) -> str:
    """Return a name; raises GraphError for bytes that are not UTF-8, which protobuf hands out."""
    if not isinstance(value, str):
        raise GraphError(f"the model has a name that is not UTF-8 text: {value!r}")
    return value


def names_of(values: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return names; raises GraphError as `name_of`."""
    return tuple([name_of(x) for x in values])
