"""Replica groups, in the oneof of their three forms and in the deprecated list."""

from __future__ import annotations

from typing import Any

from lowtide.frontend.hlo_proto.fields import FieldError, naturals
from lowtide.frontend.hlo_proto.shardings import (
    check_factors,
    count_devices,
    iota_order,
    read_axes,
    read_iota,
    read_mesh,
    write_axes,
    write_mesh,
)
from lowtide.ir.replica_groups import (
    IotaReplicaGroups,
    ListReplicaGroups,
    MeshReplicaGroups,
    ReplicaGroups,
)


def read_groups(proto: Any) -> ReplicaGroups:
    """Return the replica groups of an instruction; raises FieldError."""
    form = proto.WhichOneof("replica_group_list")
    if form is None:
        return _read_list(proto.replica_groups, "replica_groups")
    message = getattr(proto, form)
    try:
        if form == "iota_collective_device_list":
            return _read_iota(message)
        if form == "mesh_axes_replica_group_list":
            return _read_mesh_axes(message)
        return _read_list(message.replica_groups, "replica_groups")
    except FieldError as error:
        raise error.under(form) from None


def _read_list(protos: Any, path: str) -> ListReplicaGroups:
    groups = []
    for i, group in enumerate(protos):
        groups.append(naturals(group.replica_ids, f"{path}[{i}].replica_ids"))
    return ListReplicaGroups(tuple(groups))


def _read_iota(proto: Any) -> IotaReplicaGroups:
    groups, size = proto.num_replica_groups, proto.num_devices_per_group
    count_devices((groups, size), "num_replica_groups")
    devices = read_iota(
        proto.iota_reshape_dims,
        proto.iota_transpose_perm,
        "iota_reshape_dims",
        "iota_transpose_perm",
    )
    return IotaReplicaGroups(groups, size, devices)


def _read_mesh_axes(proto: Any) -> MeshReplicaGroups:
    try:
        mesh = read_mesh(proto.mesh)
    except FieldError as error:
        raise error.under("mesh") from None
    axes = read_axes(proto.axes, mesh, "axes")
    check_factors(axes, mesh, "axes")
    return MeshReplicaGroups(mesh, axes)


def write_groups(groups: ReplicaGroups, proto: Any) -> None:
    """Write replica groups into the oneof of a HloInstructionProto."""
    if isinstance(groups, IotaReplicaGroups):
        written = proto.iota_collective_device_list
        written.SetInParent()
        written.num_replica_groups = groups.num_groups
        written.num_devices_per_group = groups.group_size
        written.iota_reshape_dims.extend(groups.devices.reshape_dims)
        written.iota_transpose_perm.extend(iota_order(groups.devices))
    elif isinstance(groups, MeshReplicaGroups):
        written = proto.mesh_axes_replica_group_list
        written.SetInParent()
        write_mesh(groups.mesh, written.mesh)
        write_axes(groups.axes, groups.mesh, written.axes)
    else:
        written = proto.collective_device_list
        written.SetInParent()
        for group in groups.groups:
            written.replica_groups.add(replica_ids=group)
