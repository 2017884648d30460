"""Shardings as Shardy writes them in frontend attributes, `#sdy.sharding<@mesh, [{"x"}, {?}]>`."""

from __future__ import annotations

from typing import Final

from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.records import dataclass

SHARDY_KEY: Final = "xla.sdy.sharding"
"""The frontend attribute of an instruction that says how its arrays are sharded."""

MESHES_KEY: Final = "xla.sdy.meshes"
"""The frontend attribute of a module that defines its meshes."""

MANUAL_ENTRANCE: Final = "xla.sdy.GlobalToLocalShape"
"""The custom call that takes whole arrays and returns their tiles, for a manual region."""

MANUAL_EXIT: Final = "xla.sdy.LocalToGlobalShape"
"""The custom call that takes the tiles of a manual region and returns the whole arrays."""

BORDER_KEYS: Final = {MANUAL_ENTRANCE: "xla.sdy.in_shardings", MANUAL_EXIT: "xla.sdy.out_shardings"}
"""The frontend attributes that say how the whole arrays at a border are sharded."""


@dataclass(frozen=True, slots=True)
class ShardyDimension:
    """The axes that split a dimension, major first; an open one may be split further.

    `priority` tells in which round of propagation it takes part, 0 being the first.
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False
    priority: int = 0

    def __str__(self) -> str:
        parts = [_axis_text(axis) for axis in self.axes]
        if self.is_open:
            parts.append("?")
        return "{" + ", ".join(parts) + "}" + (f"p{self.priority}" if self.priority else "")


@dataclass(frozen=True, slots=True)
class ShardySharding:
    """A sharding of one array by the axes of a mesh, which is named or stands in its place."""

    mesh: str | Mesh
    dimensions: tuple[ShardyDimension, ...]
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()

    def __str__(self) -> str:
        mesh = f"@{self.mesh}" if isinstance(self.mesh, str) else mesh_text(self.mesh)
        text = f"<{mesh}, [{', '.join(map(str, self.dimensions))}]"
        for word, axes in (("replicated", self.replicated), ("unreduced", self.unreduced)):
            if axes:
                text += f", {word}={{{', '.join(map(_axis_text, axes))}}}"
        return text + ">"


def mesh_text(mesh: Mesh) -> str:
    """Return `mesh<["x"=2, "y"=4]>`, with the devices where they stand in another order."""
    pairs = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    text = ", ".join([f'"{name}"={size}' for name, size in pairs])
    if mesh.maximal_device is not None:
        return f"mesh<[], device_ids=[{mesh.maximal_device}]>"
    if isinstance(mesh.devices, tuple):
        return f"mesh<[{text}], device_ids=[{', '.join(map(str, mesh.devices))}]>"
    return f"mesh<[{text}]>"


def sharding_text(sharding: ShardySharding) -> str:
    """Return the attribute of a parameter or a single value."""
    return f"#sdy.sharding{sharding}"


def per_value_text(shardings: tuple[ShardySharding, ...]) -> str:
    """Return the attribute of an instruction with several results."""
    return f"#sdy.sharding_per_value<[{', '.join(map(str, shardings))}]>"


def meshes_text(meshes: dict[str, Mesh]) -> str:
    """Return the attribute of a module that defines its meshes."""
    return "{" + ", ".join([f"{name} = #sdy.{mesh_text(m)}" for name, m in meshes.items()]) + "}"


def _axis_text(axis: AxisRef) -> str:
    if axis.sub_axis is None:
        return f'"{axis.name}"'
    return f'"{axis.name}":({axis.sub_axis[0]}){axis.sub_axis[1]}'
