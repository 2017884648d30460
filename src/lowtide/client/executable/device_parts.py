"""Modules for several devices: the program of each device, and whole arrays as tiles of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.evaluator.evaluate import Leaf, parameter_leaves
from lowtide.ir.errors import InputError
from lowtide.ir.given_arrays import check_count, misfit, opened_array, read_as, sizes_fit
from lowtide.ir.literal import Array
from lowtide.ir.module import Module
from lowtide.ir.partitioning import takes_whole_arrays
from lowtide.ir.shape import Shape
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.records import dataclass
from lowtide.spmd.partitioner import partition
from lowtide.spmd.shards import cut, joined


@dataclass(frozen=True, slots=True)
class DeviceParts:
    """The program of each device of a module for several, in `module`.

    Where lowtide partitioned it, `parameters` and `results` say how the whole arrays, of the shapes
    in `whole_parameters` and `whole_results`, lie on the devices of `grid`; else that is None, and
    arrays are those of devices.
    """

    module: Module
    devices: int
    whole_parameters: tuple[Leaf, ...] = ()
    whole_results: tuple[Shape, ...] = ()
    grid: DeviceGrid | None = None
    parameters: tuple[Sharding, ...] = ()
    results: tuple[Sharding, ...] = ()

    @property
    def has_whole_arrays(self) -> bool:
        """Whether it is known how whole arrays lie on the devices."""
        return self.grid is not None

    def tiles(self, arrays: Sequence[Any], device: int) -> list[Any]:
        """Return what a device takes of whole arrays, one for each leaf of the parameters.

        Raises InputError for another number of arrays, and where tiles are not known.
        """
        grid = self._known_grid()
        if len(arrays) != len(self.parameters):
            raise InputError(
                f"{self.module.name} takes {len(self.parameters)} arrays, found {len(arrays)}"
            )
        place = device % grid.count
        pairs = zip(arrays, self.parameters, strict=True)
        return [cut(array, sharding, grid)[place] for array, sharding in pairs]

    def dealt(self, arrays: Sequence[Any]) -> list[list[Any]]:
        """Return what each device takes of whole arrays, one for each leaf of the parameters.

        Raises InputError where one does not fit, and where tiles are not known.
        """
        grid = self._known_grid()
        check_count(self.whole_parameters, len(arrays))
        tiles = [
            cut(_fitting(leaf, x), sharding, grid)
            for leaf, x, sharding in zip(
                self.whole_parameters, arrays, self.parameters, strict=True
            )
        ]
        return [[each[i % grid.count] for each in tiles] for i in range(self.devices)]

    def whole(self, tiles: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the whole results; `tiles` has those of each device, one for each leaf.

        Of several replicas the first one's are taken. Raises InputError where tiles are not known.
        """
        grid = self._known_grid()
        return [
            joined([own[i] for own in tiles[: grid.count]], sharding, grid, shape.dimensions)
            for i, (sharding, shape) in enumerate(
                zip(self.results, self.whole_results, strict=True)
            )
        ]

    def _known_grid(self) -> DeviceGrid:
        if self.grid is None:
            raise InputError(
                f"{self.module.name} is the program of one device already, so nobody knows what "
                "its arrays are part of: give each device its own"
            )
        return self.grid


def _fitting(leaf: Leaf, given: Any) -> Array:
    """A given array, in the type of a leaf."""
    array = opened_array(given)
    if not sizes_fit(array.shape, leaf.shape):
        raise misfit(leaf, array)
    return read_as(leaf, array, given)


def device_parts(module: Module) -> DeviceParts:
    """Return the program of each device; a module with shardings, or Shardy's meshes, is split.

    Raises what the partitioner raises.
    """
    devices = module.replica_count * module.num_partitions
    if not takes_whole_arrays(module):
        return DeviceParts(module, devices)
    made = partition(module)
    shapes = tuple([shape for _, shape in module.entry.root.shape.leaves()])
    leaves = tuple(parameter_leaves(module))
    tilings = made.parameters, made.results
    return DeviceParts(made.module, devices, leaves, shapes, made.grid, *tilings)
