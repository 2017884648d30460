"""The shardings that a module asks for: of parameters, results and values in between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall, GetTupleElement
from lowtide.ir.errors import InputError, place_of
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.sharding import Sharding, TileSharding, TupleSharding
from lowtide.ir.tilings.device_tiles import DeviceTiles, device_tiles, nearest_tiling, tiles_on_mesh
from lowtide.ir.tilings.grid import DeviceGrid, grid_of
from lowtide.ir.tilings.sharding_forms import (
    check_sharding,
    mesh_axes,
    sharding_of,
    steps_of,
    sub_axes,
    tiling_of,
)
from lowtide.ir.tilings.shardy import MESHES_KEY, SHARDY_KEY, ShardySharding
from lowtide.ir.tilings.shardy_reader import read_meshes, read_shardings
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.records import dataclass
from lowtide.spmd.whole_axes import named_axes, on_whole_axes
from lowtide.suggestions import nearest

RESULT_TARGET = "xla.sdy.FuncResultSharding"
CONSTRAINT_TARGETS = frozenset(
    {
        *("Sharding", RESULT_TARGET),
        *("LayoutConstraint", "annotate_device_placement", "MoveToDevice", "MoveToHost"),
    }
)
"""Custom calls that return their operand, and say how or where it lies."""

BARRIER_TARGETS = frozenset({"ShardBarrierFrom", "ShardBarrierTo", "xla.sdy.PropagationBarrier"})
GROUP_TARGET = "xla.sdy.ShardingGroup"

INSPECTION_TARGET = "lowtide_inspect_sharding"
"""A call without a result that asks how its operand is divided, for whom its configuration says."""

TILES_KEY = "lowtide.tiles"
"""The frontend attribute of calls with effects that each device makes, with its own tiles."""


@dataclass(frozen=True, slots=True)
class DeviceOrder:
    """Devices in an order that the grid does not have: device d holds what `order[d]` would there.

    `sharding` is what was asked for.
    """

    order: tuple[int, ...]
    sharding: Sharding


@dataclass(frozen=True, slots=True)
class TilingWish:
    """The tiling asked of one array; dimensions in `is_open` may be split further.

    Where the devices stand in an order of their own, `devices` has it, and `tiling` cuts into as
    many tiles.
    """

    tiling: Tiling
    is_open: tuple[bool, ...]
    devices: DeviceOrder | None = None

    def sharding(self, tiling: Tiling, grid: DeviceGrid) -> Sharding:
        """Return the sharding of what is in a tiling, in the order asked for."""
        if self.devices is not None and tiling == self.tiling:
            return self.devices.sharding
        return sharding_of(tiling, grid)

    def order_of(self, tiling: Tiling) -> tuple[int, ...] | None:
        """Return the order of devices for what is in a tiling, None for that of the grid."""
        return self.devices.order if self.devices and tiling == self.tiling else None


@dataclass(slots=True)
class ModuleShardings:
    """What a module asks for: wishes by instruction, one per leaf of its shape.

    `parameters` and `results` have None for leaves that may lie as is best.
    """

    reader: AnnotationReader
    wishes: dict[Instruction, list[TilingWish | None]] = field(default_factory=dict)
    parameters: list[list[TilingWish | None]] = field(default_factory=list)
    results: list[TilingWish | None] = field(default_factory=list)

    @property
    def grid(self) -> DeviceGrid:
        """The grid of all devices."""
        return self.reader.grid

    def outward(self, wish: TilingWish | None, tiling: Tiling) -> Tiling:
        """Return how an array of the entry lies that is best in a tiling, and that has a wish.

        Callers say shardings by names of axes: what is not just as asked for is split along whole
        ones. A module without meshes has no names.
        """
        if wish is not None and tiling == wish.tiling:
            return tiling
        return on_whole_axes(tiling, named_axes(self.reader.meshes.values(), self.grid))


def read_annotations(module: Module) -> ModuleShardings:
    """Return what the module asks for; raises InputError for what cannot be."""
    reader = _reader(module)
    found = ModuleShardings(reader)
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if _is_constraint(x) or x.opcode is Opcode.PARAMETER or not reader.is_shardy:
                wishes = reader.wishes(x)
                if any(wish is not None for wish in wishes):
                    found.wishes[x] = wishes
    entry = module.entry
    flags = module.allow_spmd_sharding_propagation_to_parameters
    for number, parameter in enumerate(entry.parameters):
        given = reader.wishes(parameter)
        is_free = _flag(flags, number)
        found.parameters.append(
            [
                wish if wish is not None or is_free else _whole(leaf.rank)
                for wish, (_, leaf) in zip(given, parameter.shape.leaves(), strict=True)
            ]
        )
    found.results = _results(module, reader)
    return found


def _is_constraint(x: Instruction) -> bool:
    return isinstance(x.attributes, CustomCall) and x.attributes.target in CONSTRAINT_TARGETS


def _flag(flags: tuple[bool, ...], number: int) -> bool:
    if len(flags) == 1:
        return flags[0]
    return number < len(flags) and flags[number]


def _whole(rank: int) -> TilingWish:
    return TilingWish(replicated(rank), (False,) * rank)


def _results(module: Module, reader: AnnotationReader) -> list[TilingWish | None]:
    root = module.entry.root
    flags = module.allow_spmd_sharding_propagation_to_output
    leaves = list(root.shape.leaves())
    given = [] if reader.is_shardy else reader.wishes(root)
    found: list[TilingWish | None] = []
    for number, (index, leaf) in enumerate(leaves):
        source = _behind_tuples(root)
        for at in index:
            if source.opcode is Opcode.TUPLE:
                source = _behind_tuples(source.operands[at])
        wish = given[number] if given else None
        if wish is None and _is_constraint(source):
            wish = reader.wishes(source)[0]
        top = index[0] if index else 0
        if wish is None and not _flag(flags, top):
            wish = _whole(leaf.rank)
        found.append(wish)
    return found


def _behind_tuples(x: Instruction) -> Instruction:
    """Return what an instruction takes out of tuples, itself where it takes nothing out of one."""
    while x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0].opcode is Opcode.TUPLE:
        x = x.operands[0].operands[x.attributes_as(GetTupleElement).index]
    return x


# -- reading -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnnotationReader:
    """Reads the shardings of one module, in Shardy's notation where the module has meshes."""

    grid: DeviceGrid
    meshes: Mapping[str, Mesh]
    is_shardy: bool

    def wishes(self, x: Instruction) -> list[TilingWish | None]:
        """Return what is asked of each leaf of an instruction."""
        leaves = [shape for _, shape in x.shape.leaves()]
        if not leaves:
            return []  # An empty tuple may have one sharding all the same.
        if self.is_shardy:
            text = dict(x.annotations.frontend_attributes).get(SHARDY_KEY)
            if text is None:
                return [None] * len(leaves)
            given = read_shardings(text)
            if len(given) != len(leaves):
                raise InputError(
                    f"{place_of(x)}: %{x.name} has {len(leaves)} arrays, {SHARDY_KEY} "
                    f"{len(given)} shardings: give one for each"
                )
            pairs = zip(given, leaves, strict=True)
            return [self.shardy(one, shape.rank, x) for one, shape in pairs]
        sharding = x.annotations.sharding
        if sharding is None:
            return [None] * len(leaves)
        elements = sharding.elements if isinstance(sharding, TupleSharding) else None
        each = elements if elements is not None else (sharding,) * len(leaves)
        if len(each) != len(leaves):
            raise InputError(
                f"{place_of(x)}: %{x.name} has {len(leaves)} arrays, its sharding {len(each)}"
            )
        pairs_of = zip(each, leaves, strict=True)
        return [self.tiled(one, shape.rank, x) for one, shape in pairs_of]

    def tiled(self, sharding: Sharding, rank: int, x: Instruction) -> TilingWish:
        """Return the wish of a sharding in HLO's form."""
        where = f"{place_of(x)}: %{x.name}"
        check_sharding(sharding, rank, self.grid.count, where)
        tiling = tiling_of(sharding, self.grid, rank)
        order = None
        if tiling is None:
            tiles = device_tiles(sharding, self.grid.count, rank)
            if tiles is None:
                raise InputError(f"{where}: {sharding} is one of several arrays, found one array")
            tiling, order = self._on_grid(tiles)
        is_open = [False] * rank
        attributes = x.attributes
        if (
            isinstance(attributes, CustomCall)
            and "unspecified_dims" in x.annotations.backend_config
        ):
            listed = x.annotations.backend_config.split("[", 1)[1].split("]", 1)[0]
            for dimension in listed.split(","):
                is_open[int(dimension)] = True
        return TilingWish(tiling, tuple(is_open), order)

    def _on_grid(self, tiles: DeviceTiles) -> tuple[Tiling, DeviceOrder]:
        tiling, order = nearest_tiling(tiles, self.grid)
        return tiling, DeviceOrder(order, tiles.as_sharding())

    def shardy(
        self, sharding: ShardySharding, rank: int, x: Instruction, only: Sequence[str] | None = None
    ) -> TilingWish:
        """Return the wish of a sharding in Shardy's notation, by the axes named in `only`."""
        where = f"{place_of(x)}: %{x.name}"
        mesh = (
            sharding.mesh if isinstance(sharding.mesh, Mesh) else self._mesh(sharding.mesh, where)
        )
        if len(sharding.dimensions) != rank:
            raise InputError(
                f"{where}: {sharding} splits {len(sharding.dimensions)} dimensions, the array has "
                f"{rank}: give one {{}} for each"
            )
        if math.prod(mesh.axis_sizes) == 1:
            return _whole(rank)
        is_open = tuple([dimension.is_open for dimension in sharding.dimensions])
        *dimensions, unreduced = [
            [ref for ref in refs if only is None or ref.name in only]
            for refs in (*[d.axes for d in sharding.dimensions], sharding.unreduced)
        ]
        names = mesh_axes(mesh, self.grid)
        if names is None:
            self._check_names([*dimensions, unreduced], mesh.axis_names, where)
            tiles = tiles_on_mesh(mesh, dimensions, unreduced, self.grid.count, rank)
            tiling, order = self._on_grid(tiles)
            return TilingWish(tiling, is_open, order)
        self._check_names([*dimensions, unreduced], names, where)
        *axes, terms = [
            tuple([axis for ref in refs for axis in self._axes(ref, names, where)])
            for refs in (*dimensions, unreduced)
        ]
        flat = [axis for one in (*axes, terms) for axis in one]
        if len(set(flat)) != len(flat):
            raise InputError(f"{where}: {sharding} uses an axis twice: split one dimension by it")
        return TilingWish(Tiling(tuple(axes), tuple(sorted(terms))), is_open)

    def _mesh(self, name: str, where: str) -> Mesh:
        if name not in self.meshes:
            raise InputError(
                f"{where}: there is no mesh @{name}; the module has "
                f"{', '.join([f'@{known}' for known in self.meshes]) or 'none'}"
            )
        return self.meshes[name]

    def _check_names(
        self, lists: Sequence[Sequence[AxisRef]], names: Iterable[str], where: str
    ) -> None:
        for ref in [ref for refs in lists for ref in refs]:
            if ref.name not in names:
                hint = nearest(ref.name, names)
                raise InputError(f"{where}: the mesh has no axis '{ref.name}'{hint}")

    def _axes(
        self, ref: AxisRef, names: Mapping[str, tuple[int, ...]], where: str
    ) -> tuple[int, ...]:
        found = sub_axes(names[ref.name], self.grid, ref.sub_axis)
        if found is None:
            raise InputError(f"{where}: axis {ref} does not divide the axis that it is part of")
        return found


def _reader(module: Module) -> AnnotationReader:
    text = dict(module.frontend_attributes).get(MESHES_KEY)
    count = module.num_partitions
    if text is not None:
        meshes = read_meshes(text)
        for name, mesh in meshes.items():
            size = math.prod(mesh.axis_sizes)
            if size not in (1, count):
                raise InputError(
                    f"mesh @{name} has {size} devices, the module {count}: correct the mesh or "
                    "num_partitions"
                )
        sizes = max([m.axis_sizes for m in meshes.values()], key=len, default=())
        return AnnotationReader(_grid_of_mesh(count, sizes), meshes, True)
    return AnnotationReader(_grid_of_shardings(module), {}, False)


def _grid_of_mesh(count: int, sizes: tuple[int, ...]) -> DeviceGrid:
    stride, steps = count, []
    for size in sizes:
        stride //= size
        steps.append((size, stride))
    return grid_of(count, steps)


def _grid_of_shardings(module: Module) -> DeviceGrid:
    """Return the grid of the first sharding that goes through all devices."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            for sharding in _tiles(x.annotations.sharding):
                steps = steps_of(sharding)
                flat = [step for own in steps or () for step in own]
                if flat:
                    return grid_of(module.num_partitions, flat)
    return grid_of(module.num_partitions)


def _tiles(sharding: Sharding | None) -> list[TileSharding]:
    if isinstance(sharding, TupleSharding):
        return [one for element in sharding.elements for one in _tiles(element)]
    if isinstance(sharding, TileSharding) and sharding.tile_dimensions:
        return [sharding]
    return []
