"""Attributes of what exchanges data with other devices and the host."""

from __future__ import annotations

from typing import Final

from lowtide.ir.attribute_fields import Form, Shown, attribute, attribute_record
from lowtide.ir.attributes.base import Attributes
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ListReplicaGroups, ReplicaGroups
from lowtide.ir.shape import Shape
from lowtide.ir.sharding import Sharding
from lowtide.records import dataclass

_REDUCING_OR_GATHERING: Final = (
    Opcode.ALL_GATHER,
    Opcode.ALL_GATHER_START,
    Opcode.ALL_REDUCE,
    Opcode.ALL_REDUCE_START,
    Opcode.REDUCE_SCATTER,
)
_WITH_DIMENSION: Final = (
    Opcode.ALL_GATHER,
    Opcode.ALL_GATHER_START,
    Opcode.REDUCE_SCATTER,
    Opcode.ALL_TO_ALL,
    Opcode.RAGGED_ALL_TO_ALL,
)


@attribute_record
class Collective(Attributes):
    """Of all-gather, all-reduce, reduce-scatter, all-to-all and collective-broadcast.

    `dimension` is the one that is gathered, scattered or split; None for operations without one
    (and for all-to-all over a tuple). `channel_id` is None where absent.
    """

    replica_groups: ReplicaGroups = attribute(
        Form.GROUPS, default=ListReplicaGroups(), after="channel_id", shown=Shown.ALWAYS
    )
    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    dimension: int | None = attribute(
        Form.COLLECTIVE_DIMENSION,
        default=None,
        after="constrain_layout",
        text="dimensions",
        opcodes=_WITH_DIMENSION,
    )
    constrain_layout: bool = attribute(
        Form.BOOLEAN, default=False, opcodes=(*_REDUCING_OR_GATHERING, Opcode.ALL_TO_ALL)
    )
    use_global_device_ids: bool = attribute(
        Form.GLOBAL_IDS, default=False, opcodes=_REDUCING_OR_GATHERING
    )
    has_dynamic_root: bool = attribute(
        Form.BOOLEAN, default=False, opcodes=(Opcode.COLLECTIVE_BROADCAST,)
    )


@attribute_record
class CollectivePermute(Attributes):
    """Of `collective-permute`: pairs of source and target device.

    `slice_sizes` is empty but in the form with four operands, which updates in place.
    """

    source_target_pairs: tuple[tuple[int, int], ...] = attribute(Form.PAIRS, after="channel_id")
    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    slice_sizes: tuple[tuple[int, ...], ...] = attribute(Form.INTEGER_GROUPS, default=())


@attribute_record
class Channel(Attributes):
    """Of send, recv and their -done: the channel (None where absent), and whether to the host."""

    channel_id: int | None = attribute(Form.CHANNEL, default=None)
    is_host_transfer: bool = attribute(Form.BOOLEAN, default=False)


@attribute_record
class Infeed(Attributes):
    """Of `infeed`: opaque configuration."""

    config: bytes = attribute(Form.BYTES, default=b"", text="infeed_config")


@attribute_record
class Outfeed(Attributes):
    """Of `outfeed`: opaque configuration, and the shape (with layout) that is sent."""

    shape: Shape = attribute(Form.SHAPE, text="outfeed_shape")
    config: bytes = attribute(Form.BYTES, default=b"", text="outfeed_config")


@dataclass(frozen=True, slots=True)
class Domain(Attributes):
    """Of `domain`: the shardings on both sides of a border (None where there is none)."""

    kind: str
    entry: Sharding | None = None
    exit: Sharding | None = None
