"""Shardings: how a value is spread over devices, in all the forms of XLA."""

from __future__ import annotations

from enum import StrEnum

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.metadata import Metadata
from lowtide.records import dataclass


class ShardingKind(StrEnum):
    """The kinds of a sharding of one array; also the kinds of subgroup dimensions."""

    REPLICATED = "replicated"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"
    MAXIMAL = "maximal"
    TILED = "tiled"


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Values which must be sharded the same way: `shard_as 3` or `shard_like 3`."""

    like: bool
    id: int

    def __str__(self) -> str:
        return f"{'shard_like' if self.like else 'shard_as'} {self.id}"


@dataclass(frozen=True, slots=True)
class TileSharding:
    """A sharding of one array.

    `tile_dimensions` are the tile counts per dimension; behind those of the array stand one per
    entry of `last_tile_dims` (subgroups), or one more if `replicate_on_last_tile_dim`. `devices`
    lists the device of each tile, row major; a maximal sharding names its one device there.
    """

    kind: ShardingKind
    tile_dimensions: tuple[int, ...] = ()
    devices: IotaDevices | tuple[int, ...] = ()
    replicate_on_last_tile_dim: bool = False
    last_tile_dims: tuple[ShardingKind, ...] = ()
    metadata: tuple[Metadata, ...] = ()
    shard_group: ShardGroup | None = None

    def __str__(self) -> str:
        parts = []
        if self.kind is ShardingKind.MAXIMAL:
            device = self.devices[0] if isinstance(self.devices, tuple) else 0
            parts.append(f"maximal device={device}")
        elif self.kind is ShardingKind.TILED:
            parts.append(self._tiles())
        else:
            parts.append(self.kind.value)
        if self.replicate_on_last_tile_dim:
            parts.append("last_tile_dim_replicate")
        if self.last_tile_dims:
            parts.append(f"last_tile_dims={{{', '.join(self.last_tile_dims)}}}")
        if self.shard_group is not None:
            parts.append(str(self.shard_group))
        if self.metadata:
            parts.append(metadata_list_text(self.metadata))
        return "{" + " ".join(parts) + "}"

    def _tiles(self) -> str:
        dimensions = ",".join(map(str, self.tile_dimensions))
        if isinstance(self.devices, IotaDevices):
            return f"devices=[{dimensions}]{self.devices}"
        return f"devices=[{dimensions}]{','.join(map(str, self.devices))}"


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The axes that split one dimension; an open one may be split further by propagation."""

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False

    def __str__(self) -> str:
        parts = [str(axis) for axis in self.axes]
        if self.is_open:
            parts.append("?")
        return "{" + ", ".join(parts) + "}"


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """A sharding by the axes of a named mesh."""

    mesh: Mesh
    dimensions: tuple[DimensionSharding, ...] = ()
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()
    manual: tuple[AxisRef, ...] = ()
    reduction: str = "sum"
    whole: str = ""
    metadata: tuple[Metadata, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.mesh)]
        if self.whole:
            parts.append(self.whole)
        elif self.mesh.maximal_device is None:
            parts.append(f"[{', '.join(map(str, self.dimensions))}]")
        if self.replicated:
            parts.append(f"replicated={_axes_text(self.replicated)}")
        if self.unreduced:
            kind = "" if self.reduction == "sum" else self.reduction
            parts.append(f"unreduced={kind}{_axes_text(self.unreduced)}")
        if self.manual:
            parts.append(f"manual={_axes_text(self.manual)}")
        if self.metadata:
            entries = [f"{{{x.text()}}}" for x in self.metadata]
            parts.append(f"metadata={{{', '.join(entries)}}}")
        return "{" + ", ".join(parts) + "}"


def _axes_text(axes: tuple[AxisRef, ...]) -> str:
    return "{" + ", ".join(map(str, axes)) + "}"


@dataclass(frozen=True, slots=True)
class TupleSharding:
    """The shardings of the leaves of a tuple."""

    elements: tuple[Sharding, ...]

    def __str__(self) -> str:
        parts = []
        for i, element in enumerate(self.elements):
            mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(f"{mark}{element}")
        return "{" + ", ".join(parts) + "}"


Sharding = TileSharding | NamedSharding | TupleSharding

REPLICATED = TileSharding(ShardingKind.REPLICATED)


def metadata_list_text(metadata: tuple[Metadata, ...]) -> str:
    """Return `metadata={...}` for one entry, `metadata={{...}, {...}}` for several."""
    if len(metadata) == 1:
        return f"metadata={{{metadata[0].text()}}}"
    return f"metadata={{{', '.join([f'{{{m.text()}}}' for m in metadata])}}}"
