"""Programs held against what was compiled: shardings, tiles, layouts, kinds of memory, devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.frontend.stablehlo_library import hlo_of
from lowtide.ir import Shape
from lowtide.ir.tilings.shardy import MESHES_KEY
from lowtide.ir.tilings.shardy_reader import read_meshes
from lowtide.pjrt.contracts.findings import BrokenContractError, require
from lowtide.pjrt.devices import MEMORY_KINDS
from lowtide.pjrt.element_types import NUMBERS
from lowtide.pjrt.programs import PluginProgram
from lowtide.pjrt.signatures import TOKEN_SHAPE, ArrayType


def check_program(program: PluginProgram, form: str, code: bytes) -> None:
    """Raise BrokenContractError where a program is not what its text says to JAX.

    The text is read anew, and shardings are read by JAX's own library.
    """
    whole = read_hlo_proto(hlo_of(code) if form == "mlir" else code)
    given = whole.entry_layout or whole.entry.program_shape
    result = given.result
    leaves = result.tuple_shapes if result.is_tuple else (result,)
    meshes = _meshes(dict(whole.frontend_attributes).get(MESHES_KEY))
    devices = [x.number for x in program.devices]
    told = list(program.options.devices)
    require(devices == told, f"{program.name} runs on devices {devices}, and JAX says {told}")
    pairs = (("argument", program.arguments, given.parameters), ("result", program.results, leaves))
    for side, (what, types, shapes) in enumerate(pairs):
        count = f"{program.name} has {len(types)} {what}s, its text {len(shapes)}"
        require(len(types) == len(shapes), count)
        shardings = program.shardings[side] if program.shardings is not None else None
        same = shardings is None or len(shardings) == len(types)
        require(same, f"{program.name} does not tell one sharding for each {what}")
        for number, (kind, shape) in enumerate(zip(types, shapes, strict=True)):
            where = f"{what} {number} of {program.name}"
            serialized = shardings[number] if shardings is not None else None
            _check_array(where, kind, TOKEN_SHAPE if shape.is_token else shape, serialized, meshes)
    numbers = set(range(len(program.arguments)))
    require(numbers.issuperset(program.donated), f"{program.name} takes arguments that it lacks")


def _meshes(text: str | None) -> list[Any]:
    """The meshes of a text, as JAX has them."""
    from jax.sharding import AbstractMesh

    make: Any = AbstractMesh
    found = read_meshes(text).values() if text else ()
    return [make(x.axis_sizes, x.axis_names) for x in found if x.axis_sizes]


def _check_array(
    where: str, kind: ArrayType, shape: Shape, serialized: bytes | None, meshes: Sequence[Any]
) -> None:
    number = NUMBERS[shape.element_type]
    require(kind.number == number, f"{where} has element type {kind.number}, its text {number}")
    require(kind.memory in MEMORY_KINDS, f"{where} lies in {kind.memory!r}, which there is not")
    order = sorted(kind.order) == list(range(len(kind.sizes)))
    require(order, f"{where} has the layout {kind.order}, no order of its dimensions")
    tiles = [1] * len(shape.dimensions)
    if serialized is not None:
        tiles = _tiles(where, serialized, len(shape.dimensions), meshes)
    sizes = list(shape.dimensions)
    divided = [x * n for x, n in zip(kind.sizes, tiles, strict=True)]
    require(
        divided == sizes,
        f"{where} is told to be cut into {tiles} tiles of {list(kind.sizes)}, which do not make "
        f"{sizes}",
    )


def _tiles(where: str, serialized: bytes, rank: int, meshes: Sequence[Any]) -> list[int]:
    """Into how many tiles each dimension is cut, by JAX's reading of a sharding."""
    from jax._src import sharding_impls
    from jaxlib import xla_client

    library: Any = xla_client
    forms: Any = sharding_impls
    proto = library.OpSharding()
    proto.ParseFromString(serialized)
    sharding = library.HloSharding.from_proto(proto)
    if not sharding.is_tiled():
        return [1] * rank
    tiles = list(sharding.tile_assignment_dimensions())[:rank]
    count = len(sharding.tile_assignment_devices())
    for mesh in meshes:
        if mesh.size != count or len(sharding.subgroup_types()) > 1:
            continue
        try:
            forms.parse_flatten_op_sharding(sharding, mesh)
        except Exception as error:
            message = f"{where}: no axes of {mesh} say {sharding}: {error}"
            raise BrokenContractError(message) from error
    return tiles
