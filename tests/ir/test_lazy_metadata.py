"""Metadata that is put together when somebody reads it."""

from dataclasses import replace

from lowtide.ir.lazy_metadata import LazyMetadata, NestedMetadata
from lowtide.ir.metadata import Metadata

DEPTH = 5_000
"""More calls in calls than Python nests."""


def joined(own: Metadata, outer: Metadata) -> Metadata:
    return replace(own, source_line=own.source_line + outer.source_line)


def test_calls_nested_deeply_on_either_side_are_put_together() -> None:
    one = Metadata(op_name="f", source_line=1)
    inner: Metadata | LazyMetadata = one
    outer: Metadata | LazyMetadata = one
    for _ in range(DEPTH):
        inner = NestedMetadata(inner, one, 0, joined)
        outer = NestedMetadata(one, outer, 0, joined)
    assert isinstance(inner, LazyMetadata) and isinstance(outer, LazyMetadata)
    assert inner.decode() == outer.decode() == Metadata(op_name="f", source_line=DEPTH + 1)


def test_it_is_put_together_once_and_only_if_read() -> None:
    asked: list[str] = []

    def decode(fields: str) -> Metadata:
        asked.append(fields)
        return Metadata(op_name="inner")

    inner = LazyMetadata('op_name="inner"', 0, decode)
    nested = NestedMetadata(inner, Metadata(op_name="f", stack_frame_id=3), 3, _below)
    assert nested.stack_frame_id == 3 and not asked
    assert nested.text() == 'op_name="f/inner" stack_frame_id=3'
    assert nested.with_stack_frame(4).stack_frame_id == 4
    assert nested.decode() is nested.decode() and len(asked) == 1


def _below(own: Metadata, outer: Metadata) -> Metadata:
    return replace(outer, op_name=f"{outer.op_name}/{own.op_name}")
