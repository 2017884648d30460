"""Between tilings of a grid and HLO's own form of shardings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.errors import InputError
from lowtide.ir.mesh import Mesh
from lowtide.ir.sharding import (
    REPLICATED,
    NamedSharding,
    Sharding,
    ShardingKind,
    TileSharding,
    TupleSharding,
)
from lowtide.ir.sharding_normal_form import normalize_sharding
from lowtide.ir.tilings.grid import DeviceGrid, prime_factors
from lowtide.ir.tilings.tiling import Tiling, replicated


def sharding_of(tiling: Tiling, grid: DeviceGrid) -> TileSharding:
    """Return a tiling in HLO's form; terms of sums are `unreduced` there, whatever reduces them."""
    if tiling.is_replicated:
        return REPLICATED
    used = [axis for axes in tiling.axes for axis in axes]
    free = [axis for axis in range(len(grid.sizes)) if axis not in (*used, *tiling.partial)]
    groups = {ShardingKind.UNREDUCED: tiling.partial, ShardingKind.REPLICATED: tuple(free)}
    sized = {kind: grid.extent(axes) for kind, axes in groups.items() if axes}
    sharding = TileSharding(
        ShardingKind.TILED,
        (*tiling.tiles(grid), *sized.values()),
        IotaDevices(grid.sizes, (*used, *tiling.partial, *free)),
        replicate_on_last_tile_dim=bool(free) and not tiling.partial,
        last_tile_dims=tuple(sized) if tiling.partial else (),
    )
    normal = normalize_sharding(sharding)
    return normal if isinstance(normal, TileSharding) else sharding


def steps_of(sharding: TileSharding) -> list[list[tuple[int, int]]] | None:
    """Return, per tile dimension, the steps (size, stride) through the devices, major first.

    None where the devices stand in no order that steps describe.
    """
    devices = sharding.devices
    if isinstance(devices, IotaDevices):
        dims = devices.reshape_dims
        order = devices.permutation or tuple(range(len(dims)))
        steps = [(dims[i], math.prod(dims[i + 1 :])) for i in order]
        return _dealt(steps, sharding.tile_dimensions)
    found = _steps_of_list(devices, sharding.tile_dimensions)
    return None if found is None else _dealt(found, sharding.tile_dimensions)


def _prime_steps(size: int, stride: int) -> list[tuple[int, int]]:
    steps = []
    for prime in prime_factors(size):
        size //= prime
        steps.append((prime, stride * size))
    return steps


def _steps_of_list(
    devices: tuple[int, ...], tile_dimensions: Sequence[int]
) -> list[tuple[int, int]] | None:
    sizes = [prime for size in tile_dimensions for prime in prime_factors(size)]
    if math.prod(sizes) != len(devices):
        return None
    steps = []
    below = len(devices)
    for size in sizes:
        below //= size
        steps.append((size, devices[below] - devices[0]))
    expected = [devices[0]]
    for size, stride in steps:
        expected = [d + i * stride for d in expected for i in range(size)]
    return steps if tuple(expected) == devices and devices[0] == 0 else None


def _dealt(
    steps: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> list[list[tuple[int, int]]] | None:
    """Return steps, of prime sizes, dealt to dimensions of these sizes; None if they do not fit."""
    dealt: list[list[tuple[int, int]]] = []
    left = list(reversed(steps))
    for size in sizes:
        own: list[tuple[int, int]] = []
        while size > 1:
            if not left:
                return None
            step, stride = left.pop()
            common = math.gcd(size, step)
            if common == 1 < step:
                return None
            own += _prime_steps(common, stride * (step // common))
            if step > common:
                left.append((step // common, stride))
            size //= common
        dealt.append(own)
    return dealt


def check_sharding(sharding: Sharding, rank: int, devices: int, where: str) -> None:
    """Raise InputError where a sharding cannot be one of an array of this rank on the devices."""
    if isinstance(sharding, TupleSharding):
        return
    if isinstance(sharding, NamedSharding):
        count = math.prod(sharding.mesh.axis_sizes)
        if sharding.mesh.maximal_device is None and count != devices:
            raise InputError(
                f"{where}: {sharding.mesh} has {count} devices, the module {devices}: "
                "make the mesh one of all devices, or correct num_partitions"
            )
        return
    if sharding.kind is ShardingKind.MAXIMAL:
        listed = sharding.devices
        device = listed[0] if isinstance(listed, tuple) else 0
        if device >= devices:
            raise InputError(f"{where}: device={device}, but devices are 0 to {devices - 1}")
        return
    if sharding.kind is not ShardingKind.TILED:
        return
    extra = 1 if sharding.replicate_on_last_tile_dim else len(sharding.last_tile_dims)
    found = len(sharding.tile_dimensions) - extra
    if found != rank:
        raise InputError(
            f"{where}: {sharding} tiles {found} dimensions, the array has {rank}: "
            "give one tile count per dimension, then one per subgroup"
        )
    count = math.prod(sharding.tile_dimensions)
    if count != devices:
        raise InputError(
            f"{where}: {sharding} has {count} tiles, the module {devices} devices: "
            "add last_tile_dim_replicate, or correct num_partitions"
        )


def tiling_of(sharding: Sharding, grid: DeviceGrid, rank: int) -> Tiling | None:
    """Return a sharding of one array as a tiling, None where its devices are not on the grid.

    Manual and unknown subgroups count as replicated, and so does a value on one device: what
    asks for them looks at the sharding itself.
    """
    if isinstance(sharding, TupleSharding):
        return None
    if isinstance(sharding, NamedSharding):
        return _of_named(sharding, grid, rank)
    if sharding.kind is ShardingKind.UNREDUCED:
        return Tiling(((),) * rank, tuple(range(len(grid.sizes))))
    if sharding.kind is not ShardingKind.TILED:
        return replicated(rank)
    steps = steps_of(sharding)
    if steps is None:
        return None
    axes = [grid.axes_of(own) for own in steps]
    if any(one is None for one in axes):
        return None
    found = tuple([one for one in axes[:rank] if one is not None])
    subgroups = sharding.last_tile_dims
    terms = [
        axis
        for kind, one in zip(subgroups, axes[rank:], strict=False)
        if kind is ShardingKind.UNREDUCED
        for axis in one or ()
    ]
    return Tiling(found, tuple(sorted(terms)))


def _of_named(sharding: NamedSharding, grid: DeviceGrid, rank: int) -> Tiling | None:
    if sharding.whole == ShardingKind.UNREDUCED.value:
        return Tiling(((),) * rank, tuple(range(len(grid.sizes))))
    if sharding.whole or sharding.mesh.maximal_device is not None:
        return replicated(rank)
    names = mesh_axes(sharding.mesh, grid)
    if names is None:
        return None
    axes = []
    for dimension in sharding.dimensions:
        own: tuple[int, ...] = ()
        for ref in dimension.axes:
            part = sub_axes(names[ref.name], grid, ref.sub_axis)
            if part is None:
                return None
            own += part
        axes.append(own)
    axes += [()] * (rank - len(axes))
    terms: tuple[int, ...] = ()
    for ref in sharding.unreduced:
        part = sub_axes(names[ref.name], grid, ref.sub_axis)
        if part is None:
            return None
        terms += part
    return Tiling(tuple(axes), tuple(sorted(terms)))


def mesh_axes(mesh: Mesh, grid: DeviceGrid) -> dict[str, tuple[int, ...]] | None:
    """Return the axes of the grid that make up each axis of a mesh, None where they do not."""
    sizes = mesh.axis_sizes
    devices = IotaDevices(sizes or (1,)) if mesh.devices is None else mesh.devices
    steps = steps_of(TileSharding(ShardingKind.TILED, sizes, devices))
    if steps is None:
        return None
    found: dict[str, tuple[int, ...]] = {}
    for name, own in zip(mesh.axis_names, steps, strict=True):
        axes = grid.axes_of(own)
        if axes is None:
            return None
        found[name] = axes
    return found


def sub_axes(
    axes: tuple[int, ...], grid: DeviceGrid, part: tuple[int, int] | None
) -> tuple[int, ...] | None:
    """Return the factor `(product before it, size)` of axes; None where it cuts one of them."""
    if part is None:
        return axes
    before, size = part
    taken: list[int] = []
    for axis in axes:
        if before > 1:
            if before % grid.sizes[axis]:
                return None
            before //= grid.sizes[axis]
        elif size > 1:
            if size % grid.sizes[axis]:
                return None
            size //= grid.sizes[axis]
            taken.append(axis)
    return tuple(taken) if size == 1 and before == 1 else None
