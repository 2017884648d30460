"""Named device meshes and references to their axes."""

from __future__ import annotations

import itertools
import math

from lowtide.ir.device_list import IotaDevices
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh by name, `'a'`, or a factor of it, `'a':(2)4`.

    `sub_axis` is (product of the factors before it, size); None for the whole axis.
    """

    name: str
    sub_axis: tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.sub_axis is None:
            return f"'{self.name}'"
        return f"'{self.name}':({self.sub_axis[0]}){self.sub_axis[1]}"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices arranged in named axes; `devices` is None where they are numbered row major."""

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    devices: IotaDevices | tuple[int, ...] | None = None
    maximal_device: int | None = None

    def __str__(self) -> str:
        if self.maximal_device is not None:
            return f"maximal_mesh[device_id={self.maximal_device}]"
        pairs = zip(self.axis_names, self.axis_sizes, strict=True)
        parts = [f"'{name}'={size}" for name, size in pairs]
        text = f"mesh[{','.join(parts)}]"
        if isinstance(self.devices, IotaDevices):
            ids = str(self.devices).removeprefix("<=")
            text += f", device_ids=({ids})"
        elif self.devices is not None:
            text += f", device_ids=({','.join(map(str, self.devices))})"
        return text

    def device_list(self) -> list[int]:
        """Return the device at each position of the mesh, row major."""
        if self.devices is None:
            return list(range(math.prod(self.axis_sizes)))
        if isinstance(self.devices, IotaDevices):
            return self.devices.as_list()
        return list(self.devices)

    def check_axes(self, axes: tuple[AxisRef, ...]) -> None:
        """Raise ValueError where an axis is not one of the mesh."""
        _split_axes(self, axes)

    def groups(self, axes: tuple[AxisRef, ...]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of devices which differ only along `axes`, the last one fastest.

        Raises ValueError where an axis is not one of the mesh.
        """
        factors = _split_axes(self, axes)
        sizes = [size for _, size, _ in factors]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        inner = [
            next(i for i, (name, _, before) in enumerate(factors) if (name, before) == key)
            for key in [(axis.name, axis.sub_axis[0] if axis.sub_axis else 1) for axis in axes]
        ]
        outer = [i for i in range(len(factors)) if i not in inner]
        devices = self.device_list()
        within = _positions(inner, sizes, strides)
        bases = _positions(outer, sizes, strides)
        return tuple([tuple([devices[base + p] for p in within]) for base in bases])


def _positions(axes: list[int], sizes: list[int], strides: list[int]) -> list[int]:
    positions = [0]
    for axis in axes:
        positions = [p + i * strides[axis] for p in positions for i in range(sizes[axis])]
    return positions


def _split_axes(mesh: Mesh, axes: tuple[AxisRef, ...]) -> list[tuple[str, int, int]]:
    """Return (name, size, product of the factors before) for each factor of each mesh axis."""
    factors = []
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        cuts = {1, size}
        for axis in axes:
            if axis.name == name and axis.sub_axis is not None:
                before, length = axis.sub_axis
                cuts |= {before, before * length}
        ordered = sorted(cuts)
        pairs = list(itertools.pairwise(ordered)) or [(1, 1)]
        if any(low < 1 or high % low or size % high for low, high in pairs):
            raise ValueError(f"axis '{name}' of size {size} cannot be split at {ordered}")
        factors.extend([(name, high // low, low) for low, high in pairs])
    known = {(name, before) for name, _, before in factors}
    for axis in axes:
        if (axis.name, axis.sub_axis[0] if axis.sub_axis else 1) not in known:
            raise ValueError(f"{axis} is not an axis of {mesh}")
    return factors
