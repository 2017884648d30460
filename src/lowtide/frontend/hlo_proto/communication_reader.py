"""The attributes of operations that communicate, read from protobuf."""

from __future__ import annotations

from typing import Final

import lowtide.ir.attributes as ir
from lowtide.frontend.hlo_proto.fields import natural, naturals, only
from lowtide.frontend.hlo_proto.groups import read_groups
from lowtide.frontend.hlo_proto.instruction_source import Source
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape


def _channel_id(source: Source) -> int | None:
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


def read_collective(source: Source) -> ir.Attributes:
    """Return the attributes of collectives over replica groups."""
    proto = source.proto
    dimension = None
    if source.opcode in _WITH_DIMENSION or proto.dimensions:
        dimension = only(proto.dimensions, "dimensions")
    return ir.Collective(
        read_groups(proto),
        _channel_id(source),
        dimension,
        proto.constrain_layout,
        proto.use_global_device_ids,
        proto.has_dynamic_root,
    )


def read_permute(source: Source) -> ir.Attributes:
    """Return the attributes of collective-permute."""
    pairs = [
        (
            natural(x.source, f"source_target_pairs[{i}].source"),
            natural(x.target, f"source_target_pairs[{i}].target"),
        )
        for i, x in enumerate(source.proto.source_target_pairs)
    ]
    return ir.CollectivePermute(tuple(pairs), _channel_id(source), _slice_sizes(source))


def _slice_sizes(source: Source) -> tuple[tuple[int, ...], ...]:
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


def read_channel(source: Source) -> ir.Attributes:
    """Return the attributes of send and recv."""
    return ir.Channel(_channel_id(source), source.proto.is_host_transfer)


def read_infeed(source: Source) -> ir.Attributes:
    """Return the attributes of infeed."""
    return ir.Infeed(source.proto.infeed_config)


def read_outfeed(source: Source) -> ir.Attributes:
    """Return the attributes of outfeed."""
    shape = source.operands[0].shape
    if source.proto.HasField("outfeed_shape"):
        shape = source.shapes.read_field(source.proto, "outfeed_shape")
    return ir.Outfeed(shape, source.proto.outfeed_config)
