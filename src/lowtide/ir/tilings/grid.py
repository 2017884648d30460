"""The grid of devices that all shardings of a module are seen on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.replica_groups import IotaReplicaGroups
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class DeviceGrid:
    """Devices 0, 1, ... in rows and columns, row major; axes are numbered, each of prime size."""

    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)

    def stride(self, axis: int) -> int:
        """Return by how much the device number grows along an axis."""
        return math.prod(self.sizes[axis + 1 :])

    def extent(self, axes: Iterable[int]) -> int:
        """Return how many devices differ along `axes` only, one device itself included."""
        return math.prod([self.sizes[axis] for axis in axes])

    def groups(self, axes: Sequence[int]) -> IotaReplicaGroups:
        """Return the groups of devices that differ along `axes` only, the last one fastest."""
        size = self.extent(axes)
        others = [axis for axis in range(len(self.sizes)) if axis not in axes]
        devices = IotaDevices(self.sizes or (1,), (*others, *axes)).simplified()
        return IotaReplicaGroups(self.count // size, size, devices)

    def position(self, device: int, axes: Sequence[int]) -> int:
        """Return the place of a device along `axes`, the first one major, from 0."""
        place = 0
        for axis in axes:
            size = self.sizes[axis]
            place = place * size + device // self.stride(axis) % size
        return place

    def axis_of(self, size: int, stride: int) -> int | None:
        """Return the axis of this size and stride, None where there is none."""
        for axis, found in enumerate(self.sizes):
            if found == size and self.stride(axis) == stride:
                return axis
        return None

    def axes_of(self, steps: Iterable[tuple[int, int]]) -> tuple[int, ...] | None:
        """Return the axes that go through devices by (size, stride), major first.

        None where a step does not lie on the grid.
        """
        axes: list[int] = []
        for size, stride in steps:
            for prime in prime_factors(size):
                size //= prime
                axis = self.axis_of(prime, stride * size)
                if axis is None:
                    return None
                axes.append(axis)
        return tuple(axes)


def grid_of(count: int, steps: Iterable[tuple[int, int]] = ()) -> DeviceGrid:
    """Return a grid of `count` devices on which `steps`, pairs (size, stride), lie.

    The steps have to go once through all devices; without any, the order of the primes is free.
    """
    ordered = sorted(steps, key=lambda step: -step[1])
    if math.prod([size for size, _ in ordered]) != count:
        ordered = [(count, 1)]
    return DeviceGrid(tuple([prime for size, _ in ordered for prime in prime_factors(size)]))


def prime_factors(number: int) -> list[int]:
    """Return the prime factors of a number in growing order; none of 1."""
    factors: list[int] = []
    candidate = 2
    while candidate * candidate <= number:
        while number % candidate == 0:
            factors.append(candidate)
            number //= candidate
        candidate += 1
    return [*factors, number] if number > 1 else factors
