"""Strings of ONNX's messages that are not UTF-8, which protobuf hands out as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from lowtide.frontend.graphs.graph import GraphError


def name_of(value: str | bytes) -> str:
    """Return a name; raises GraphError for bytes that are not UTF-8, which protobuf hands out."""
    if not isinstance(value, str):
        raise GraphError(f"the model has a name that is not UTF-8 text: {value!r}")
    return value


def names_of(values: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return names; raises GraphError as `name_of`."""
    return tuple([name_of(x) for x in values])


def find_bad_string(message: Any) -> str:
    """Return the path to the first string that is not UTF-8, "" where there is none."""
    stack: list[tuple[Any, str]] = [(message, "")]
    while stack:
        found, path = stack.pop()
        for descriptor, value in found.ListFields():
            at = f"{path}.{descriptor.name}" if path else descriptor.name
            if descriptor.message_type is not None:
                stack += _each(value, at, isinstance(value, Message))
            elif descriptor.type == descriptor.TYPE_STRING:
                for text, place in _each(value, at, isinstance(value, str | bytes)):
                    if not isinstance(text, str):
                        return place
    return ""


def _each(value: Any, path: str, is_single: bool) -> list[tuple[Any, str]]:
    if is_single:
        return [(value, path)]
    return [(x, f"{path}[{i}]") for i, x in enumerate(value)]
