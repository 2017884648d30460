"""Tilings that the names of a mesh can say: dimensions split along whole axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lowtide.ir.mesh import Mesh
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import mesh_axes
from lowtide.ir.tilings.tiling import Tiling, replicated

NamedAxes = tuple[tuple[int, ...], ...]
"""The axes of the grid that make up each named axis of a mesh, major first."""


def named_axes(meshes: Iterable[Mesh], grid: DeviceGrid) -> tuple[NamedAxes | None, ...]:
    """Return the axes of each mesh that has all devices, None for one that is not on the grid.

    A mesh is read as its sizes say, with devices in growing order: so does JAX, which has the list
    of devices beside it.
    """
    found = []
    for mesh in meshes:
        if mesh.maximal_device is None and _size(mesh) == grid.count:
            axes = mesh_axes(replace(mesh, devices=None), grid)
            found.append(None if axes is None else tuple([x for x in axes.values() if x]))
    return tuple(dict.fromkeys(found))


def _size(mesh: Mesh) -> int:
    return len(mesh.device_list())


def on_whole_axes(tiling: Tiling, meshes: Sequence[NamedAxes | None]) -> Tiling:
    """Return the tiling without minor axes, so that named axes of every mesh split dimensions."""
    if None in meshes:
        return replicated(len(tiling.axes)) if not tiling.partial else tiling
    axes = list(tiling.axes)
    before = None
    while axes != before:  # Each round drops axes, of which there are few.
        before = list(axes)
        for mesh in meshes:
            axes = [_prefix(own, mesh or ()) for own in axes]
    return replace(tiling, axes=tuple(axes))


def _prefix(axes: tuple[int, ...], named: NamedAxes) -> tuple[int, ...]:
    """The longest beginning of the axes that is made of whole named ones."""
    at = 0
    while at < len(axes):
        whole = next((x for x in named if axes[at : at + len(x)] == x), None)
        if whole is None:
            break
        at += len(whole)
    return axes[:at]
