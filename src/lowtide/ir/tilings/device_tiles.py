"""The tile that each device holds: of any sharding, in whatever order its devices stand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.sharding import NamedSharding, Sharding, ShardingKind, TileSharding, TupleSharding
from lowtide.ir.tilings.grid import DeviceGrid, prime_factors
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass

Devices = Sequence[int] | IotaDevices


@dataclass(frozen=True, slots=True)
class DeviceTiles:
    """An array cut in `counts` tiles per dimension, of whose values there are `terms` to sum.

    `places` has of each device the number of its tile along each dimension, then that of its term.
    """

    counts: tuple[int, ...]
    terms: int
    places: tuple[tuple[int, ...], ...]

    @property
    def holders(self) -> dict[tuple[int, ...], list[int]]:
        """The devices of each place, in growing order."""
        found: dict[tuple[int, ...], list[int]] = {}
        for device, place in enumerate(self.places):
            found.setdefault(place, []).append(device)
        return found

    def as_sharding(self) -> TileSharding:
        """Return the sharding that lists the devices."""
        holders = self.holders
        order = itertools.product(*[range(count) for count in (*self.counts, self.terms)])
        devices = tuple([device for place in order for device in holders[place]])
        copies = len(self.places) // len(holders)
        kinds = {ShardingKind.UNREDUCED: self.terms, ShardingKind.REPLICATED: copies}
        sized = {kind: size for kind, size in kinds.items() if size > 1}
        return TileSharding(
            ShardingKind.TILED,
            (*self.counts, *sized.values()),
            devices,
            replicate_on_last_tile_dim=copies > 1 and self.terms == 1,
            last_tile_dims=tuple(sized) if self.terms > 1 else (),
        )


def device_tiles(sharding: Sharding, devices: int, rank: int) -> DeviceTiles | None:
    """Return what each of so many devices holds of an array; None for several arrays.

    Manual and unknown subgroups count as replicated, and so does a value on one device.
    """
    if isinstance(sharding, TupleSharding):
        return None
    if isinstance(sharding, NamedSharding):
        if sharding.whole == ShardingKind.UNREDUCED.value:
            return _terms_only(devices, rank)
        if sharding.whole or sharding.mesh.maximal_device is not None:
            return tiles_on_mesh(Mesh((), (), None), [], [], devices, rank)
        dims = [dimension.axes for dimension in sharding.dimensions]
        return tiles_on_mesh(sharding.mesh, dims, sharding.unreduced, devices, rank)
    if sharding.kind is ShardingKind.UNREDUCED:
        return _terms_only(devices, rank)
    if sharding.kind is not ShardingKind.TILED:
        return DeviceTiles((1,) * rank, 1, ((0,) * (rank + 1),) * devices)
    sizes = sharding.tile_dimensions
    subgroups = sharding.last_tile_dims or (ShardingKind.REPLICATED,) * (len(sizes) - rank)
    summed = [i for i, kind in enumerate(subgroups, rank) if kind is ShardingKind.UNREDUCED]
    places: list[tuple[int, ...]] = [()] * devices
    indices = itertools.product(*[range(size) for size in sizes])
    for device, index in zip(_listed(sharding.devices), indices, strict=True):
        term = _mixed([(index[i], sizes[i]) for i in summed])
        places[device] = (*index[:rank], term)
    return DeviceTiles(sizes[:rank], math.prod([sizes[i] for i in summed]), tuple(places))


def tiles_on_mesh(
    mesh: Mesh,
    dimensions: Sequence[Sequence[AxisRef]],
    unreduced: Sequence[AxisRef],
    devices: int,
    rank: int,
) -> DeviceTiles:
    """Return what each device holds of an array whose dimensions are split by axes of a mesh."""
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    listed = range(devices) if mesh.devices is None else _listed(mesh.devices)
    indices = itertools.product(*[range(size) for size in mesh.axis_sizes])
    if not sizes:
        return DeviceTiles((1,) * rank, 1, ((0,) * (rank + 1),) * devices)
    lists = [*dimensions, *[()] * (rank - len(dimensions)), unreduced]
    places: list[tuple[int, ...]] = [()] * devices
    for device, index in zip(listed, indices, strict=True):
        at = dict(zip(mesh.axis_names, index, strict=True))
        digits = [[_digit(at[r.name], sizes[r.name], r.sub_axis) for r in refs] for refs in lists]
        places[device] = tuple([_mixed(own) for own in digits])
    parts = [[_digit(0, sizes[r.name], r.sub_axis)[1] for r in refs] for refs in lists]
    *counts, terms = [math.prod(own) for own in parts]
    return DeviceTiles(tuple(counts), terms, tuple(places))


def nearest_tiling(tiles: DeviceTiles, grid: DeviceGrid) -> tuple[Tiling, tuple[int, ...]]:
    """Return a tiling of the grid into as many tiles, and the device that stands for each there.

    Device d holds what device `order[d]` holds by the tiling; as many as can stay are themselves.
    """
    free = list(range(len(grid.sizes)))
    lists = []
    for count in (*tiles.counts, tiles.terms):
        own = []
        for prime in prime_factors(count):
            axis = next(axis for axis in free if grid.sizes[axis] == prime)
            free.remove(axis)
            own.append(axis)
        lists.append(tuple(own))
    *axes, partial = lists
    tiling = Tiling(tuple(axes), tuple(sorted(partial)))
    on_grid = DeviceTiles(
        tiles.counts,
        tiles.terms,
        tuple(
            [
                tuple([grid.position(device, own) for own in (*axes, tiling.partial)])
                for device in range(grid.count)
            ]
        ),
    ).holders
    order = [0] * grid.count
    for place, devices in tiles.holders.items():
        theirs = on_grid[place]
        staying = [device for device in devices if device in theirs]
        others = [device for device in theirs if device not in staying]
        moving = [device for device in devices if device not in staying]
        for device, other in (
            *zip(staying, staying, strict=True),
            *zip(moving, others, strict=True),
        ):
            order[device] = other
    return tiling, tuple(order)


def _terms_only(devices: int, rank: int) -> DeviceTiles:
    return DeviceTiles((1,) * rank, devices, tuple([(*(0,) * rank, i) for i in range(devices)]))


def _listed(devices: Devices) -> Sequence[int]:
    return devices.as_list() if isinstance(devices, IotaDevices) else devices


def _digit(place: int, size: int, part: tuple[int, int] | None) -> tuple[int, int]:
    """Return the place along the part `(product before it, size)` of an axis, and its size."""
    if part is None:
        return place, size
    before, own = part
    return place // (size // (before * own)) % own, own


def _mixed(digits: Sequence[tuple[int, int]]) -> int:
    """Return the number of (digit, base) pairs, major first."""
    number = 0
    for digit, base in digits:
        number = number * base + digit
    return number
