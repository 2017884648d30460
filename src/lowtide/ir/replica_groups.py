"""Replica groups: which devices take part in one collective operation together."""

from __future__ import annotations

import math

from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ListReplicaGroups:
    """Groups one by one, `{{0,1},{2,3}}`; no groups means one group of all devices."""

    groups: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        return "{" + ",".join(["{" + ",".join(map(str, g)) + "}" for g in self.groups]) + "}"

    def as_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups as tuples of device numbers."""
        return self.groups


@dataclass(frozen=True, slots=True)
class IotaReplicaGroups:
    """Groups as the rows of a reshaped and transposed iota, `[2,4]<=[4,2]T(1,0)`."""

    num_groups: int
    group_size: int
    devices: IotaDevices

    def __str__(self) -> str:
        return f"[{self.num_groups},{self.group_size}]{self.devices}"

    def as_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups as tuples of device numbers."""
        flat = self.devices.as_list()
        n = self.group_size
        return tuple([tuple(flat[i : i + n]) for i in range(0, n * self.num_groups, n)])


@dataclass(frozen=True, slots=True)
class MeshReplicaGroups:
    """Groups along axes of a mesh, `mesh['a'=2,'b'=4]{'a'}`: devices which differ in them only."""

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    def __str__(self) -> str:
        return f"{self.mesh} {{{','.join(map(str, self.axes))}}}"

    def as_lists(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups as tuples of device numbers.

        Raises ValueError where an axis is not one of the mesh.
        """
        return self.mesh.groups(self.axes)


ReplicaGroups = ListReplicaGroups | IotaReplicaGroups | MeshReplicaGroups


def device_count(groups: ReplicaGroups) -> int:
    """Return how many devices the groups name in all; 0 where they mean all devices."""
    if isinstance(groups, ListReplicaGroups):
        return sum(map(len, groups.groups))
    if isinstance(groups, IotaReplicaGroups):
        return groups.num_groups * groups.group_size
    return math.prod(groups.mesh.axis_sizes)
