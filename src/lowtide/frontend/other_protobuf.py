"""Protobuf of other programs, told by the fields that it begins with."""

from __future__ import annotations

from typing import Final

from lowtide.ir import InputError
from lowtide.records import dataclass

_NUMBER: Final = 0
_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class _Message:
    """A message: the fields that each file has, all that it may have, and what to do with it.

    A field is its number and its wire type.
    """

    has: frozenset[tuple[int, int]]
    may_have: frozenset[tuple[int, int]]
    words: str


_ONNX_FIELDS: Final = frozenset(
    {(1, _NUMBER), (5, _NUMBER), *[(x, _BYTES) for x in (2, 3, 4, 6, 7, 8, 14, 20, 25, 26)]}
)
_MESSAGES: Final = (
    _Message(
        frozenset({(1, _NUMBER), (7, _BYTES), (8, _BYTES)}),
        _ONNX_FIELDS,
        "this is an ONNX model, which is told by its name: rename it to end in .onnx",
    ),
    _Message(
        frozenset({(1, _NUMBER), (2, _BYTES)}),
        frozenset({(1, _NUMBER), (2, _BYTES)}),
        "this is the graph of a SavedModel of TensorFlow: give the SavedModel, the folder "
        "in which it is saved_model.pb",
    ),
)


def refuse_other_protobuf(data: bytes, file: str) -> None:
    """Raise InputError where the bytes are a model of another program, and say what to do."""
    words = other_protobuf(data)
    if words:
        raise InputError(words, file=file)


def other_protobuf(data: bytes) -> str:
    """Return what to do with bytes that are a model of another program; "" for others."""
    from lowtide.frontend.hlo_proto.wire import WireError, raw_fields

    try:
        fields = {(x.number, x.kind) for x in raw_fields(data, 0, len(data))}
    except WireError:
        return ""
    return next((x.words for x in _MESSAGES if x.has <= fields <= x.may_have), "")
