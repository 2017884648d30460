"""The attributes of operations that communicate, read from protobuf."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.hlo_proto.fields import natural, naturals, only
from lowtide.frontend.hlo_proto.instruction_source import Source
from lowtide.ir.attribute_fields import AttributeField
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape


def read_channel(source: Source, how: AttributeField) -> int | None:
    """Return the channel, which older modules have in another field; None where there is none."""
    proto = source.proto
    if proto.HasField("channel_id") and proto.channel_id >= 0:
        channel_id = proto.channel_id
    else:
        channel_id = proto.all_reduce_id if proto.all_reduce_id > 0 else None
    assert channel_id is None or isinstance(channel_id, int)
    return channel_id


_WITH_DIMENSION: Final = frozenset(
    {Opcode.ALL_GATHER, Opcode.ALL_GATHER_START, Opcode.REDUCE_SCATTER}
)


def read_collective_dimension(source: Source, how: AttributeField) -> int | None:
    """Return the dimension of a collective; None where there is none and need not be."""
    dimensions = source.proto.dimensions
    if source.opcode in _WITH_DIMENSION or dimensions:
        return only(dimensions, "dimensions")
    return None


def read_pairs(source: Source, how: AttributeField) -> tuple[tuple[int, int], ...]:
    """Return the pairs of source and target of a collective-permute."""
    pairs = [
        (
            natural(x.source, f"source_target_pairs[{i}].source"),
            natural(x.target, f"source_target_pairs[{i}].target"),
        )
        for i, x in enumerate(source.proto.source_target_pairs)
    ]
    return tuple(pairs)


def read_slice_sizes(source: Source, how: AttributeField) -> tuple[tuple[int, ...], ...]:
    """Return one list of sizes for each list of start indices; else, one for each size."""
    sizes = naturals(source.proto.dynamic_slice_sizes, "dynamic_slice_sizes")
    if not sizes:
        return ()
    counts = _start_index_counts(source.operands[2].shape) if len(source.operands) > 2 else []
    if sum(counts) != len(sizes):
        counts = [1] * len(sizes)
    lists = []
    for count in counts:
        lists.append(sizes[:count])
        sizes = sizes[count:]
    return tuple(lists)


def _start_index_counts(shape: Shape) -> list[int]:
    """Return how many indices stand in each innermost tuple of a tuple."""
    return [
        len(inner.tuple_shapes)
        for _, inner in shape.subshapes()
        if inner.is_tuple and not any(x.is_tuple for x in inner.tuple_shapes)
    ]
