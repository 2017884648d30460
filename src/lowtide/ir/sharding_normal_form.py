"""The normal form of tile shardings: one way to write each, the one that XLA prints."""

from __future__ import annotations

import math
from dataclasses import replace

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef
from lowtide.ir.sharding import NamedSharding, Sharding, ShardingKind, TileSharding, TupleSharding

_ORDER = {
    ShardingKind.MANUAL: 0,
    ShardingKind.UNREDUCED: 1,
    ShardingKind.UNKNOWN: 2,
    ShardingKind.MAXIMAL: 3,
    ShardingKind.TILED: 4,
    ShardingKind.REPLICATED: 5,
}
"""The order in which subgroup dimensions stand."""


def normalize_sharding(sharding: Sharding) -> Sharding:
    """Return the normal form of a sharding; one that contradicts itself comes back unchanged.

    Subgroup dimensions of one kind are joined and stand in a fixed order, devices that hold the
    same data are sorted, and an iota has as few dimensions as possible.
    """
    if isinstance(sharding, TupleSharding):
        return TupleSharding(tuple([normalize_sharding(x) for x in sharding.elements]))
    if isinstance(sharding, NamedSharding):
        return normalize_named(sharding)
    if not isinstance(sharding, TileSharding) or sharding.kind is not ShardingKind.TILED:
        return sharding
    if math.prod(sharding.tile_dimensions) != _device_count(sharding):
        return sharding
    return _normalize_subgroups(sharding)


def normalize_named(sharding: NamedSharding) -> NamedSharding:
    """Return the sharding with one word for all axes where it treats them alike."""
    mesh = sharding.mesh
    if sharding.whole or sharding.dimensions or sharding.replicated:
        return sharding
    if mesh.maximal_device is not None:
        return sharding
    everything = tuple([AxisRef(name) for name in mesh.axis_names])
    whole = {((), ()): "replicated", (everything, ()): "unreduced", ((), everything): "manual"}.get(
        (sharding.unreduced, sharding.manual), ""
    )
    if not whole:
        return sharding
    return replace(sharding, whole=whole, unreduced=(), manual=())


def _device_count(sharding: TileSharding) -> int:
    if isinstance(sharding.devices, IotaDevices):
        return math.prod(sharding.devices.reshape_dims)
    return len(sharding.devices)


def _normalize_subgroups(sharding: TileSharding) -> TileSharding:
    kinds = sharding.last_tile_dims
    if sharding.replicate_on_last_tile_dim:
        kinds = (ShardingKind.REPLICATED,)
    if not kinds:
        return replace(sharding, devices=_simplify(sharding.devices))
    dimensions = sharding.tile_dimensions
    data_rank = len(dimensions) - len(kinds)
    if data_rank < 0:
        return sharding
    order = sorted(range(len(kinds)), key=lambda i: _ORDER[kinds[i]])
    permutation = [*range(data_rank), *[data_rank + i for i in order]]
    devices = _transpose(sharding.devices, dimensions, permutation)
    joined: dict[ShardingKind, int] = {}
    for i in order:
        joined[kinds[i]] = joined.get(kinds[i], 1) * dimensions[data_rank + i]
    joined = {kind: size for kind, size in joined.items() if size > 1}
    tiles = dimensions[:data_rank]
    if math.prod(tiles) == 1 and len(joined) == 1:
        only = next(iter(joined))
        if only in (ShardingKind.REPLICATED, ShardingKind.MANUAL):
            return replace(
                sharding,
                kind=only,
                tile_dimensions=(),
                devices=(),
                replicate_on_last_tile_dim=False,
                last_tile_dims=(),
            )
    replicas = joined.get(ShardingKind.REPLICATED, 1)
    only_replicated = set(joined) == {ShardingKind.REPLICATED}
    return replace(
        sharding,
        tile_dimensions=(*tiles, *joined.values()),
        devices=_simplify(_sort_groups(devices, replicas)),
        replicate_on_last_tile_dim=only_replicated,
        last_tile_dims=() if only_replicated else tuple(joined),
    )


def _transpose(
    devices: IotaDevices | tuple[int, ...], dimensions: tuple[int, ...], permutation: list[int]
) -> IotaDevices | tuple[int, ...]:
    """Return the devices of tiles whose dimensions are permuted."""
    if permutation == list(range(len(dimensions))):
        return devices
    if isinstance(devices, tuple):
        strides = [math.prod(dimensions[i + 1 :]) for i in range(len(dimensions))]
        positions = [0]
        for axis in permutation:
            positions = [p + i * strides[axis] for p in positions for i in range(dimensions[axis])]
        return tuple([devices[p] for p in positions])
    factors = _split(devices, list(dimensions))
    if factors is None:
        return _transpose(tuple(devices.as_list()), dimensions, permutation)
    dims, parts = factors
    return IotaDevices(dims, tuple([axis for d in permutation for axis in parts[d]]))


def _split(
    devices: IotaDevices, sizes: list[int]
) -> tuple[tuple[int, ...], list[list[int]]] | None:
    """Split the iota's dimensions so that each size is a run of whole ones.

    Return the reshape dimensions and, for each size, its run of them; None where it cannot be.
    """
    axes = list(devices.permutation) or list(range(len(devices.reshape_dims)))
    pieces: list[list[tuple[int, int]]] = []
    queue = [(axis, devices.reshape_dims[axis]) for axis in axes]
    cuts: dict[int, list[int]] = {axis: [] for axis in axes}
    for size in sizes:
        run: list[tuple[int, int]] = []
        while size > 1:
            if not queue:
                return None
            axis, extent = queue.pop(0)
            common = math.gcd(extent, size)
            if common not in (extent, size):
                return None
            cuts[axis].append(common)
            run.append((axis, len(cuts[axis]) - 1))
            if common != extent:
                queue.insert(0, (axis, extent // common))
            size //= common
        pieces.append(run)
    numbers: dict[tuple[int, int], int] = {}
    dims: list[int] = []
    for axis in range(len(devices.reshape_dims)):
        for i, extent in enumerate(cuts.get(axis, [])):
            numbers[axis, i] = len(dims)
            dims.append(extent)
    return tuple(dims), [[numbers[key] for key in run] for run in pieces]


def _sort_groups(
    devices: IotaDevices | tuple[int, ...], size: int
) -> IotaDevices | tuple[int, ...]:
    """Sort each run of `size` devices, which hold the same data."""
    if size == 1:
        return devices
    if isinstance(devices, tuple):
        groups = [sorted(devices[i : i + size]) for i in range(0, len(devices), size)]
        return tuple([device for group in groups for device in group])
    factors = _split(devices, [math.prod(devices.reshape_dims) // size, size])
    if factors is None:
        return _sort_groups(tuple(devices.as_list()), size)
    dims, (outer, inner) = factors
    return IotaDevices(dims, (*outer, *sorted(inner)))


def _simplify(devices: IotaDevices | tuple[int, ...]) -> IotaDevices | tuple[int, ...]:
    return devices.simplified() if isinstance(devices, IotaDevices) else devices
