"""Meshes, shardings and replica groups."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final, final

from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals, permutation
from lowtide.frontend.hlo_proto.sources import (
    PayloadReader,
    PayloadWriter,
    read_metadata,
    write_metadata,
    write_scalar,
)
from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.sharding import (
    DimensionSharding,
    NamedSharding,
    ShardGroup,
    Sharding,
    ShardingKind,
    TileSharding,
    TupleSharding,
)
from lowtide.ir.sharding_normal_form import normalize_named, normalize_sharding

MOST_DEVICES: Final = 2**20
"""More devices than this are taken for damage."""
_MOST_LISTED: Final = 2**24
_TUPLE: Final = 2
_KINDS: Final = {
    0: ShardingKind.REPLICATED,
    1: ShardingKind.MAXIMAL,
    3: ShardingKind.TILED,
    4: ShardingKind.MANUAL,
    5: ShardingKind.UNKNOWN,
    6: ShardingKind.UNREDUCED,
}
_KIND_NUMBERS: Final = {kind: number for number, kind in _KINDS.items()}
_REDUCTIONS: Final = {0: "sum", 1: "max", 2: "min"}
_REDUCTION_NUMBERS: Final = {name: number for number, name in _REDUCTIONS.items()}


# -- device lists and meshes -------------------------------------------------------------------


def count_devices(sizes: tuple[int, ...], path: str) -> int:
    """Return the product of sizes, each of which is at least 1."""
    total = 1
    for i, size in enumerate(sizes):
        if size < 1:
            raise FieldError(f"expected a size of at least 1, found {size}", f"{path}[{i}]")
        total *= size
        if total > MOST_DEVICES:
            raise FieldError(f"more than {MOST_DEVICES} devices", f"{path}[{i}]")
    return total


def read_iota(sizes: Any, order: Any, sizes_path: str, order_path: str) -> IotaDevices:
    """Return devices that are given as a reshaped and transposed iota."""
    reshape_dims = tuple(sizes)
    count_devices(reshape_dims, sizes_path)
    found = permutation(order or range(len(reshape_dims)), len(reshape_dims), order_path)
    return IotaDevices(reshape_dims, found if len(reshape_dims) > 1 else ())


def iota_order(devices: IotaDevices) -> tuple[int, ...]:
    """Return the permutation of an iota, written out."""
    return devices.permutation or tuple(range(len(devices.reshape_dims)))


def read_mesh(proto: Any) -> Mesh:
    """Return a mesh; raises FieldError."""
    names = tuple([axis.name for axis in proto.axes])
    sizes = tuple([axis.size for axis in proto.axes])
    ids = naturals(proto.device_ids, "device_ids")
    if not names and len(ids) == 1 and not proto.HasField("iota_transform"):
        return Mesh((), (), None, ids[0])
    if len(set(names)) != len(names):
        raise FieldError("the mesh names an axis twice", "axes")
    total = count_devices(sizes, "axes")
    devices: IotaDevices | tuple[int, ...] | None = ids or None
    if proto.HasField("iota_transform"):
        iota = proto.iota_transform
        devices = read_iota(
            iota.reshape_dims,
            iota.transpose_perm,
            "iota_transform.reshape_dims",
            "iota_transform.transpose_perm",
        )
        listed = math.prod(devices.reshape_dims)
    else:
        listed = len(ids) or total
    if listed != total:
        raise FieldError(f"the mesh has {total} places, but {listed} devices", "device_ids")
    return Mesh(names, sizes, devices)


def write_mesh(mesh: Mesh, proto: Any) -> None:
    """Write a mesh into a MeshProto."""
    proto.SetInParent()
    if mesh.maximal_device is not None:
        proto.device_ids.append(mesh.maximal_device)
        return
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        axis = proto.axes.add(size=size)
        write_scalar(axis, "name", name)
    if isinstance(mesh.devices, IotaDevices):
        proto.iota_transform.reshape_dims.extend(mesh.devices.reshape_dims)
        proto.iota_transform.transpose_perm.extend(iota_order(mesh.devices))
    elif mesh.devices is not None:
        proto.device_ids.extend(mesh.devices)


def read_axes(protos: Any, mesh: Mesh, path: str) -> tuple[AxisRef, ...]:
    """Return references to axes of a mesh."""
    axes = []
    for i, proto in enumerate(protos):
        here = f"{path}[{i}]"
        if not 0 <= proto.mesh_axis_index < len(mesh.axis_names):
            raise FieldError(
                f"the mesh has no axis number {proto.mesh_axis_index}", f"{here}.mesh_axis_index"
            )
        name = mesh.axis_names[proto.mesh_axis_index]
        sub_axis = None
        if proto.HasField("sub_axis_info"):
            before, size = proto.sub_axis_info.pre_size, proto.sub_axis_info.size
            whole = mesh.axis_sizes[proto.mesh_axis_index]
            if before < 1 or size < 1 or whole % (before * size):
                raise FieldError(
                    f"an axis of size {whole} has no part ({before}){size}", f"{here}.sub_axis_info"
                )
            sub_axis = (before, size)
        axes.append(AxisRef(name, sub_axis))
    return tuple(axes)


def check_factors(axes: tuple[AxisRef, ...], mesh: Mesh, path: str) -> None:
    """Raise FieldError where axes overlap or cannot be factors of one mesh together."""
    if len(set(axes)) != len(axes):
        raise FieldError("an axis stands twice", path)
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    cuts: dict[str, set[int]] = {}
    for axis in axes:
        before, size = axis.sub_axis or (1, sizes[axis.name])
        cuts.setdefault(axis.name, {1, sizes[axis.name]}).update((before, before * size))
    for name, places in cuts.items():
        if any(high % low for low, high in pairwise(sorted(places))):
            raise FieldError(f"axis {name!r} cannot be cut in these places", path)


def write_axes(axes: tuple[AxisRef, ...], mesh: Mesh, protos: Any) -> None:
    """Write references to axes into a repeated AxisRefProto."""
    for axis in axes:
        proto = protos.add(mesh_axis_index=mesh.axis_names.index(axis.name))
        if axis.sub_axis is not None:
            proto.sub_axis_info.pre_size, proto.sub_axis_info.size = axis.sub_axis


# -- reading shardings -------------------------------------------------------------------------


@final
class ShardingReader:
    """Reads shardings; remembers those which it has seen."""

    def __init__(self, payloads: PayloadReader) -> None:
        self.payloads = payloads
        self._known: dict[bytes, Sharding] = {}
        self._devices = 0

    def read(self, proto: Any) -> Sharding:
        """Return a sharding in normal form; raises FieldError."""
        key = proto.SerializeToString()
        sharding = self._known.get(key)
        if sharding is None:
            sharding = normalize_sharding(self._read(proto))
            self._known[key] = sharding
        return sharding

    def read_field(self, message: Any, field: str) -> Sharding:
        """Return the sharding in a field of a message."""
        try:
            return self.read(getattr(message, field))
        except FieldError as error:
            raise error.under(field) from None

    def _read(self, proto: Any) -> Sharding:
        if proto.HasField("named_sharding"):
            try:
                return _read_named(proto.named_sharding, self.payloads)
            except FieldError as error:
                raise error.under("named_sharding") from None
        if proto.type != _TUPLE:
            tiles = _read_tiles(proto, self.payloads)
            self._count(tiles)
            return tiles
        elements = []
        for i, element in enumerate(proto.tuple_shardings):
            try:
                elements.append(self._read(element))
            except FieldError as error:
                raise error.under(f"tuple_shardings[{i}]") from None
        return TupleSharding(tuple(elements))

    def _count(self, tiles: TileSharding) -> None:
        """Keep the work for normal forms, which may list all devices, within bounds."""
        self._devices += math.prod(tiles.tile_dimensions)
        if self._devices > _MOST_LISTED:
            raise FieldError(
                f"the different shardings of the module list more than {_MOST_LISTED} devices"
            )


def _read_tiles(proto: Any, payloads: PayloadReader) -> TileSharding:
    kind = lookup(_KINDS, proto.type, "type")
    group = None
    if proto.is_shard_group:
        like = lookup({0: False, 1: True}, proto.shard_group_type, "shard_group_type")
        group = ShardGroup(like, natural(proto.shard_group_id, "shard_group_id"))
    metadata = _read_metadata_list(proto.metadata, payloads)
    if kind is ShardingKind.MAXIMAL:
        devices = naturals(proto.tile_assignment_devices, "tile_assignment_devices")
        if len(devices) != 1:
            raise FieldError(
                f"a maximal sharding has 1 device, found {len(devices)}", "tile_assignment_devices"
            )
        return TileSharding(kind, (), devices, metadata=metadata, shard_group=group)
    if kind is not ShardingKind.TILED:
        return TileSharding(kind, metadata=metadata, shard_group=group)
    dimensions = tuple(proto.tile_assignment_dimensions)
    tiles = count_devices(dimensions, "tile_assignment_dimensions")
    kinds = [lookup(_KINDS, x, f"last_tile_dims[{i}]") for i, x in enumerate(proto.last_tile_dims)]
    return TileSharding(
        kind,
        dimensions,
        _read_devices(proto, tiles),
        proto.replicate_on_last_tile_dim,
        tuple(kinds),
        metadata,
        group,
    )


def _read_devices(proto: Any, tiles: int) -> IotaDevices | tuple[int, ...]:
    devices: IotaDevices | tuple[int, ...]
    if proto.iota_reshape_dims:
        path = "iota_reshape_dims"
        devices = read_iota(
            proto.iota_reshape_dims, proto.iota_transpose_perm, path, "iota_transpose_perm"
        )
        listed = math.prod(devices.reshape_dims)
    else:
        path = "tile_assignment_devices"
        devices = naturals(proto.tile_assignment_devices, path)
        listed = len(devices)
    if listed != tiles and isinstance(devices, tuple):
        raise FieldError(f"the sharding has {tiles} tiles, but {listed} devices", path)
    return devices


def _read_metadata_list(protos: Any, payloads: PayloadReader) -> tuple[Any, ...]:
    return tuple([read_metadata(x, payloads) for x in protos])


def _read_named(proto: Any, payloads: PayloadReader) -> NamedSharding:
    try:
        mesh = read_mesh(proto.mesh)
    except FieldError as error:
        raise error.under("mesh") from None
    dimensions = []
    for i, x in enumerate(proto.dim_shardings):
        axes = read_axes(x.axes, mesh, f"dim_shardings[{i}].axes")
        dimensions.append(DimensionSharding(axes, not x.is_closed))
    replicated = read_axes(proto.replicated_axes, mesh, "replicated_axes")
    unreduced = read_axes(proto.unreduced_axes, mesh, "unreduced_axes")
    manual = read_axes(proto.manual_axes, mesh, "manual_axes")
    reduction = lookup(_REDUCTIONS, proto.reduction_op, "reduction_op")
    metadata = _read_metadata_list(proto.metadata, payloads)
    named = NamedSharding(
        mesh, tuple(dimensions), replicated, unreduced, manual, reduction, "", metadata
    )
    return normalize_named(named)


# -- writing shardings -------------------------------------------------------------------------


def write_sharding(sharding: Sharding, proto: Any, payloads: PayloadWriter) -> None:
    """Write a sharding into an OpSharding."""
    if isinstance(sharding, TupleSharding):
        proto.type = _TUPLE
        for element in sharding.elements:
            write_sharding(element, proto.tuple_shardings.add(), payloads)
    elif isinstance(sharding, NamedSharding):
        _write_named(sharding, proto.named_sharding, payloads)
    else:
        _write_tiles(sharding, proto, payloads)


def _write_tiles(sharding: TileSharding, proto: Any, payloads: PayloadWriter) -> None:
    proto.type = _KIND_NUMBERS[sharding.kind]
    proto.tile_assignment_dimensions.extend(sharding.tile_dimensions)
    if isinstance(sharding.devices, IotaDevices):
        proto.iota_reshape_dims.extend(sharding.devices.reshape_dims)
        proto.iota_transpose_perm.extend(iota_order(sharding.devices))
    else:
        proto.tile_assignment_devices.extend(sharding.devices)
    proto.replicate_on_last_tile_dim = sharding.replicate_on_last_tile_dim
    proto.last_tile_dims.extend([_KIND_NUMBERS[kind] for kind in sharding.last_tile_dims])
    for metadata in sharding.metadata:
        write_metadata(metadata, proto.metadata.add(), payloads)
    if sharding.shard_group is not None:
        proto.is_shard_group = True
        proto.shard_group_id = sharding.shard_group.id
        proto.shard_group_type = int(sharding.shard_group.like)


def _write_named(sharding: NamedSharding, proto: Any, payloads: PayloadWriter) -> None:
    mesh = sharding.mesh
    write_mesh(mesh, proto.mesh)
    everything = tuple([AxisRef(name) for name in mesh.axis_names])
    for dimension in sharding.dimensions:
        written = proto.dim_shardings.add(is_closed=not dimension.is_open)
        write_axes(dimension.axes, mesh, written.axes)
    write_axes(sharding.replicated, mesh, proto.replicated_axes)
    for whole, axes, field in (
        ("unreduced", sharding.unreduced, proto.unreduced_axes),
        ("manual", sharding.manual, proto.manual_axes),
    ):
        write_axes(everything if sharding.whole == whole else axes, mesh, field)
    proto.reduction_op = _REDUCTION_NUMBERS[sharding.reduction]
    for metadata in sharding.metadata:
        write_metadata(metadata, proto.metadata.add(), payloads)
