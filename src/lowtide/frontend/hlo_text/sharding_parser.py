"""Shardings, device lists, meshes and replica groups in HLO text."""

from __future__ import annotations

import math

from lowtide.frontend.hlo_text.lexer import Lexer, TokenKind
from lowtide.frontend.hlo_text.metadata_parser import parse_metadata_list
from lowtide.ir.device_list import IotaDevices
from lowtide.ir.mesh import AxisRef, Mesh
from lowtide.ir.replica_groups import (
    IotaReplicaGroups,
    ListReplicaGroups,
    MeshReplicaGroups,
    ReplicaGroups,
)
from lowtide.ir.sharding import (
    DimensionSharding,
    NamedSharding,
    ShardGroup,
    Sharding,
    ShardingKind,
    TileSharding,
    TupleSharding,
)

MAX_DEVICES = 2**24
_SUBGROUP_KINDS = {kind.value: kind for kind in ShardingKind}


def parse_sharding_text(text: str) -> Sharding:
    """Return the sharding that a text is, in braces; raises HloTextError."""
    return parse_sharding(Lexer(text))


def parse_sharding(lexer: Lexer) -> Sharding:
    """Take a sharding in braces."""
    lexer.enter()
    lexer.expect("{", "at the start of a sharding")
    if lexer.at("{") or lexer.at("}"):
        sharding: Sharding = _parse_tuple(lexer)
    elif lexer.kind is TokenKind.IDENTIFIER and lexer.value in ("mesh", "maximal_mesh"):
        sharding = _parse_named(lexer)
    else:
        sharding = _parse_tiles(lexer)
    lexer.expect("}", "at the end of the sharding")
    lexer.leave()
    return sharding


def _parse_tuple(lexer: Lexer) -> TupleSharding:
    elements: list[Sharding] = []
    for _ in lexer.elements("}"):
        start = lexer.start
        elements.append(parse_sharding(lexer))
        if isinstance(elements[-1], TupleSharding):
            lexer.fail("the sharding of a tuple lists that of each leaf, without nesting", start)
    return TupleSharding(tuple(elements))


def _parse_tiles(lexer: Lexer) -> TileSharding:
    fields: dict[str, object] = {"kind": ShardingKind.TILED}
    known = "replicated, manual, maximal, devices=[...] or another part of a sharding"
    start = lexer.start
    while not lexer.at("}"):
        if lexer.kind is TokenKind.KEYWORD:
            _parse_keyword(lexer, fields)
        elif lexer.kind is TokenKind.ATTRIBUTE_NAME:
            _parse_field(lexer, fields)
        else:
            lexer.expect_fail(known)
    if fields["kind"] is ShardingKind.TILED and "tile_dimensions" not in fields:
        lexer.fail(f"expected {known}", start)
    if fields["kind"] is ShardingKind.MAXIMAL and "devices" not in fields:
        lexer.fail("a maximal sharding names its device: {maximal device=0}", start)
    _check_tiles(lexer, fields, start)
    return TileSharding(**fields)  # type: ignore[arg-type]


def _parse_keyword(lexer: Lexer, fields: dict[str, object]) -> None:
    keyword = str(lexer.value)
    if keyword in ("replicated", "manual", "unknown", "unreduced", "maximal"):
        fields["kind"] = ShardingKind(keyword)
        lexer.advance()
    elif keyword == "last_tile_dim_replicate":
        fields["replicate_on_last_tile_dim"] = True
        lexer.advance()
    elif keyword in ("shard_as", "shard_like"):
        lexer.advance()
        fields["shard_group"] = ShardGroup(keyword == "shard_like", _number(lexer, "group"))
    else:
        lexer.expect_fail("a part of a sharding")


def _parse_field(lexer: Lexer, fields: dict[str, object]) -> None:
    start = lexer.start
    key = lexer.attribute_name()
    match key:
        case "device":
            fields["devices"] = (_number(lexer, "device"),)
        case "devices":
            _parse_devices(lexer, fields)
        case "last_tile_dims":
            fields["last_tile_dims"] = _parse_subgroups(lexer)
        case "metadata":
            fields["metadata"] = parse_metadata_list(lexer)
        case _:
            lexer.fail(f"unknown part {key!r} of a sharding", start)


def _parse_devices(lexer: Lexer, fields: dict[str, object]) -> None:
    fields["tile_dimensions"] = lexer.integers("[]", "a size")
    if lexer.at("<="):
        fields["devices"] = parse_iota_devices(lexer)
        return
    devices = [_number(lexer, "device")]
    while lexer.eat(","):
        devices.append(_number(lexer, "device"))
    fields["devices"] = tuple(devices)


def _number(lexer: Lexer, what: str) -> int:
    start = lexer.start
    number = lexer.integer(f"a {what} number")
    if number < 0:
        lexer.fail(f"expected the number of a {what}, from 0 on, found {number}", start)
    return number


def _check_tiles(lexer: Lexer, fields: dict[str, object], start: int) -> None:
    dimensions, devices = fields.get("tile_dimensions"), fields.get("devices")
    if not isinstance(dimensions, tuple):
        return
    if any(size < 1 for size in dimensions):
        lexer.fail("the tile counts of a sharding are 1 or more", start)
    _check_device_count(lexer, math.prod(dimensions), start)
    if isinstance(devices, tuple) and len(devices) != math.prod(dimensions):
        tiles = math.prod(dimensions)
        lexer.fail(f"the sharding has {tiles} tiles, but {len(devices)} devices", start)


def _parse_subgroups(lexer: Lexer) -> tuple[ShardingKind, ...]:
    lexer.expect("{")
    kinds = []
    for _ in lexer.elements("}"):
        if lexer.kind is not TokenKind.KEYWORD or lexer.value not in _SUBGROUP_KINDS:
            lexer.expect_fail("replicated, manual or another kind of subgroup")
        kinds.append(_SUBGROUP_KINDS[str(lexer.value)])
        lexer.advance()
    lexer.expect("}")
    return tuple(kinds)


def parse_iota_devices(lexer: Lexer) -> IotaDevices:
    """Take `<=[4,2]T(1,0)`."""
    start = lexer.start
    lexer.expect("<=")
    reshape_dims = lexer.integers("[]", "a size")
    if any(size < 1 for size in reshape_dims) or not reshape_dims:
        lexer.fail("the sizes behind '<=' are 1 or more", start)
    _check_device_count(lexer, math.prod(reshape_dims), start)
    permutation: tuple[int, ...] = ()
    if len(reshape_dims) > 1:
        permutation = _parse_permutation(lexer, len(reshape_dims))
    if len(reshape_dims) > 1 and not permutation:
        lexer.fail("expected T(...) behind more than one size", lexer.start)
    return IotaDevices(reshape_dims, permutation)


def _check_device_count(lexer: Lexer, count: int, start: int) -> None:
    if count > MAX_DEVICES:
        lexer.fail(f"{count} devices are more than lowtide handles, {MAX_DEVICES}", start)


def _parse_permutation(lexer: Lexer, rank: int) -> tuple[int, ...]:
    if not (lexer.kind is TokenKind.IDENTIFIER and lexer.value == "T"):
        return ()
    start = lexer.start
    lexer.advance()
    permutation = lexer.integers("()")
    if sorted(permutation) != list(range(rank)):
        lexer.fail(f"T(...) must be a permutation of 0 to {rank - 1}", start)
    return permutation


# -- named meshes ------------------------------------------------------------------------------


def parse_mesh(lexer: Lexer) -> Mesh:
    """Take `mesh['a'=2,'b'=4]`, with `, device_ids=(...)` behind it, or `maximal_mesh[...]`."""
    start = lexer.start
    kind = lexer.identifier("mesh or maximal_mesh")
    lexer.expect("[")
    if kind == "maximal_mesh":
        if lexer.attribute_name("device_id=") != "device_id":
            lexer.fail("expected device_id=", start)
        device = lexer.integer("a device number")
        lexer.expect("]")
        return Mesh((), (), None, device)
    names, sizes = [], []
    for _ in lexer.elements("]"):
        names.append(lexer.string("an axis name in quotes"))
        lexer.expect("=")
        sizes.append(lexer.integer("an axis size"))
        if sizes[-1] < 1:
            lexer.fail("the size of a mesh axis is 1 or more", start)
    lexer.expect("]")
    _check_device_count(lexer, math.prod(sizes), start)
    if len(set(names)) != len(names):
        lexer.fail("the mesh names an axis twice", start)
    return Mesh(tuple(names), tuple(sizes), _parse_device_ids(lexer))


def _parse_device_ids(lexer: Lexer) -> IotaDevices | tuple[int, ...] | None:
    if not lexer.at(","):
        return None
    rest = lexer.text[lexer.end : lexer.end + 40].lstrip()
    if not rest.startswith("device_ids="):
        return None
    lexer.advance()
    lexer.attribute_name()
    lexer.expect("(")
    if lexer.at("["):
        reshape_dims = lexer.integers("[]", "a size")
        _check_device_count(lexer, math.prod(reshape_dims), lexer.start)
        permutation = _parse_permutation(lexer, len(reshape_dims))
        devices = IotaDevices(reshape_dims, permutation).simplified()
        lexer.expect(")")
        return devices if devices.permutation else None
    values = [lexer.integer("a device number") for _ in lexer.elements(")")]
    lexer.expect(")")
    return tuple(values)


def parse_axes(lexer: Lexer) -> tuple[AxisRef, ...]:
    """Take `{'a', 'b':(1)2}`."""
    axes, _ = _parse_axes_and_mark(lexer)
    return axes


def _parse_axes_and_mark(lexer: Lexer) -> tuple[tuple[AxisRef, ...], bool]:
    lexer.expect("{")
    axes = []
    is_open = False
    for _ in lexer.elements("}"):
        if lexer.eat("?"):
            is_open = True
        else:
            axes.append(_parse_axis(lexer))
    lexer.expect("}")
    return tuple(axes), is_open


def _parse_axis(lexer: Lexer) -> AxisRef:
    name = lexer.string("an axis name in quotes")
    if not lexer.eat(":"):
        return AxisRef(name)
    lexer.expect("(")
    before = lexer.integer()
    lexer.expect(")")
    return AxisRef(name, (before, lexer.integer()))


def _parse_named(lexer: Lexer) -> NamedSharding:
    mesh = parse_mesh(lexer)
    fields: dict[str, object] = {}
    while lexer.eat(",") or not lexer.at("}"):
        if lexer.at("["):
            fields["dimensions"] = _parse_dimension_shardings(lexer)
        elif lexer.kind is TokenKind.KEYWORD and lexer.value in (
            "replicated",
            "manual",
            "unreduced",
        ):
            _parse_whole(lexer, fields)
        elif lexer.kind is TokenKind.ATTRIBUTE_NAME:
            _parse_named_field(lexer, fields)
        else:
            lexer.expect_fail("dimension shardings in brackets, replicated= or another part")
    return NamedSharding(mesh, **fields)  # type: ignore[arg-type]


def _parse_whole(lexer: Lexer, fields: dict[str, object]) -> None:
    fields["whole"] = str(lexer.value)
    lexer.advance()
    if lexer.kind is TokenKind.IDENTIFIER and lexer.value in ("sum", "max", "min"):
        fields["reduction"] = lexer.identifier()


def _parse_dimension_shardings(lexer: Lexer) -> tuple[DimensionSharding, ...]:
    lexer.expect("[")
    dimensions = [DimensionSharding(*_parse_axes_and_mark(lexer)) for _ in lexer.elements("]")]
    lexer.expect("]")
    return tuple(dimensions)


def _parse_named_field(lexer: Lexer, fields: dict[str, object]) -> None:
    start = lexer.start
    key = lexer.attribute_name()
    if key == "metadata":
        fields["metadata"] = parse_metadata_list(lexer)
        return
    if key not in ("replicated", "unreduced", "manual"):
        lexer.fail(f"unknown part {key!r} of a sharding", start)
    if key == "unreduced" and lexer.kind is TokenKind.IDENTIFIER:
        reduction = lexer.identifier()
        if reduction not in ("sum", "max", "min"):
            lexer.fail(f"expected sum, max or min, found {reduction!r}", start)
        fields["reduction"] = reduction
        if not lexer.at("{"):
            fields["whole"] = "unreduced"
            return
    fields[key] = parse_axes(lexer)


# -- replica groups ----------------------------------------------------------------------------


def parse_replica_groups(lexer: Lexer) -> ReplicaGroups:
    """Take replica groups as a list, as an iota, or along the axes of a mesh."""
    if lexer.at("{"):
        return ListReplicaGroups(parse_integer_groups(lexer))
    if lexer.at("["):
        return _parse_iota_groups(lexer)
    start = lexer.start
    mesh = parse_mesh(lexer)
    groups = MeshReplicaGroups(mesh, parse_axes(lexer))
    try:
        mesh.check_axes(groups.axes)
    except (ValueError, IndexError) as error:
        lexer.fail(f"bad replica groups: {error}", start)
    return groups


def _parse_iota_groups(lexer: Lexer) -> IotaReplicaGroups:
    start = lexer.start
    sizes = lexer.integers("[]", "a size")
    if len(sizes) != 2 or min(sizes) < 0:
        lexer.fail("expected [groups,devices per group]", start)
    _check_device_count(lexer, sizes[0] * sizes[1], start)
    devices = parse_iota_devices(lexer)
    return IotaReplicaGroups(sizes[0], sizes[1], devices.simplified())


def parse_integer_groups(lexer: Lexer) -> tuple[tuple[int, ...], ...]:
    """Take `{{0,1},{2,3}}`."""
    lexer.expect("{")
    groups = []
    while lexer.at("{"):
        groups.append(lexer.integers("{}"))
        if not lexer.eat(","):
            break
    lexer.expect("}")
    return tuple(groups)
