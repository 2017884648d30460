"""A program whose arguments are to be divided: its arrays, and the same with a division."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lowtide.analysis.donation import aliases, possible_donations
from lowtide.fitting.dimensions import module_leaves
from lowtide.ir import Instruction, Module, Opcode, Shape, tuple_shape
from lowtide.ir.attributes import Collective, CollectivePermute, CustomCall, GetTupleElement
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import InputError
from lowtide.ir.mesh import AxisRef
from lowtide.ir.tilings.shardy import (
    MESHES_KEY,
    SHARDY_KEY,
    ShardyDimension,
    ShardySharding,
    meshes_text,
    per_value_text,
    sharding_text,
)
from lowtide.records import dataclass
from lowtide.report.shardings import ShardingChoice
from lowtide.sharding_search.division import Division, LeafAxes, NamedAxes
from lowtide.sharding_search.mesh import SearchMesh
from lowtide.spmd.annotations import GROUP_TARGET, RESULT_TARGET
from lowtide.spmd.manual import is_entrance
from lowtide.transforms.sharding_removal import remove_shardings

_MESH: Final = "mesh"
NO_RANKS: Final[Mapping[str, int]] = MappingProxyType({})
"""The ranks of the source where all are those of the arrays."""

_KEYS: Final = ("xla.sdy.", "mhlo.sharding")
"""How the frontend attributes begin that say shardings."""


@dataclass(frozen=True, slots=True)
class ProgramLeaf:
    """An array among the arguments: its name, its shape, the result that it is updated to.

    `result` counts the arrays of the result; None where none has the place of this one. `rank` is
    that of the value in the program's source, whose further dimensions are its representation, as
    those of random keys are, and which no sharding there can name; None is that of the array.
    """

    name: str
    shape: Shape
    result: int | None = None
    rank: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return self.shape.dimensions if self.shape.is_array else ()

    @property
    def divisible(self) -> tuple[int, ...]:
        """The sizes of its dimensions for axes to divide: 1 where none may."""
        return tuple(
            [n if self.rank is None or d < self.rank else 1 for d, n in enumerate(self.sizes)]
        )

    @property
    def is_updated(self) -> bool:
        """Whether a result has its place: parameters and states of an optimizer, no data."""
        return self.result is not None


@dataclass(frozen=True, eq=False, slots=True)
class ShardableProgram:
    """A module without shardings of its own, to be divided over a mesh.

    `constraints` counts the shardings that values inside were asked to have, which are left aside.
    """

    module: Module
    mesh: SearchMesh
    leaves: tuple[ProgramLeaf, ...]
    constraints: int = 0

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the dimensions of each array among the arguments for axes to divide."""
        return tuple([leaf.divisible for leaf in self.leaves])

    @property
    def has_paths(self) -> bool:
        """Whether arrays have the names that they have in the program's pytree.

        Those are in the metadata; names of instructions have other characters and numbers.
        """
        parameters = self.module.entry.parameters
        names = [x.metadata.op_name if x.shape.is_array else "" for x in parameters]
        return all(names) and len(set(names)) == len(names)

    @property
    def whole(self) -> Division:
        """The division in which each device has all arguments."""
        return Division(tuple([((),) * len(leaf.sizes) for leaf in self.leaves]))

    @property
    def updated(self) -> dict[int, int]:
        """The array among the arguments that each result is in the place of, by number."""
        return {x.result: number for number, x in enumerate(self.leaves) if x.result is not None}

    def annotated(self, division: Division) -> Module:
        """Return the module with the shardings of a division, as JAX would write them."""
        module = clone_module(self.module)
        named = division.named(self.mesh)
        module.num_partitions = self.mesh.count
        module.frontend_attributes = (
            *module.frontend_attributes,
            (MESHES_KEY, meshes_text({_MESH: named.mesh})),
        )
        module.allow_spmd_sharding_propagation_to_parameters = (False,)
        module.allow_spmd_sharding_propagation_to_output = (True,)
        given = iter(division.leaves)
        for parameter in module.entry.parameters:
            own = [next(given) for _ in parameter.shape.leaves()]
            _annotate(parameter, [_shardy(named, axes) for axes in own])
        wanted = {
            result: _shardy(named, division.leaves[leaf]) for result, leaf in self.updated.items()
        }
        _mark_results(module, wanted)
        return module


def shardable_program(
    module: Module, mesh: SearchMesh, ranks: Mapping[str, int] = NO_RANKS
) -> ShardableProgram:
    """Return a module to be divided over a mesh, without the shardings that it has.

    `ranks` has those of arguments, by name, that have fewer dimensions in the program's source.
    Raises InputError where its division is given: regions written for one device, replicas.
    """
    if module.replica_count > 1:
        raise InputError(f"{module.name} has {module.replica_count} replicas: state one program")
    copy = clone_module(module)
    copy.schedule = None
    copy.num_partitions = 1
    constraints = sum([_check(x) for x in _instructions(copy)])
    remove_shardings(copy)
    for x in list(_instructions(copy)):
        _forget(x)
    copy.frontend_attributes = _without_shardings(copy.frontend_attributes)
    results = _results_of(copy)
    names = _distinct([leaf.name for leaf in module_leaves(copy)])
    shapes = [shape for p in copy.entry.parameters for _, shape in p.shape.leaves()]
    leaves = [
        ProgramLeaf(name, shape, results.get(number), ranks.get(name))
        for number, (name, shape) in enumerate(zip(names, shapes, strict=True))
    ]
    return ShardableProgram(copy, mesh, tuple(leaves), constraints)


def annotated_module(module: Module, choice: ShardingChoice) -> Module:
    """Return a module with the shardings of a choice, in the place of those that it has."""
    names = tuple(choice.mesh)
    program = shardable_program(module, SearchMesh(names, tuple(choice.mesh.values())))
    leaves = [
        tuple([tuple([names.index(name) for name in own]) for own in choice.arguments[leaf.name]])
        for leaf in program.leaves
    ]
    return program.annotated(Division(tuple(leaves)))


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in module.computations.values():
        yield from computation.instructions.values()


def _check(x: Instruction) -> bool:
    """Whether an instruction asks for a sharding of a value inside; raises InputError."""
    module = x.parent.module.name
    if isinstance(x.attributes, Collective | CollectivePermute):
        raise InputError(
            f"{module} is written for each device: %{x.name} is an {x.opcode.value}; give the "
            "program on whole arrays"
        )
    if is_entrance(x):
        raise InputError(
            f"{module} has a region that is written for each device (shard_map), at %{x.name}: "
            "its division is given"
        )
    if not isinstance(x.attributes, CustomCall):
        return False
    return x.attributes.target in ("Sharding", GROUP_TARGET)


def _forget(x: Instruction) -> None:
    given = x.annotations
    kept = _without_shardings(given.frontend_attributes)
    if given.sharding is not None or kept != given.frontend_attributes:
        x.set_annotations(replace(given, sharding=None, frontend_attributes=kept))


def _without_shardings(given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple([(key, text) for key, text in given if not key.startswith(_KEYS)])


def _results_of(module: Module) -> dict[int, int]:
    """The result that each array among the arguments is updated to, by numbers."""
    entry = module.entry
    first, count = {}, 0
    for parameter in entry.parameters:
        first[parameter] = count
        count += len(list(parameter.shape.leaves()))
    present = aliases(module)
    found = {alias.parameter: alias.output for alias in present}
    for donation in possible_donations(module, present):
        indices = [index for index, _ in donation.parameter.shape.leaves()]
        found[first[donation.parameter] + indices.index(donation.index)] = donation.output
    return found


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, those that stand for several arrays with the number of the array behind."""
    return [
        f"{name}#{number}" if names.count(name) > 1 else name for number, name in enumerate(names)
    ]


# -- annotations ---------------------------------------------------------------------------------


def _shardy(named: NamedAxes, leaf: LeafAxes) -> ShardySharding:
    dimensions = [
        ShardyDimension(tuple([AxisRef(name) for name in own])) for own in named.specs(leaf)
    ]
    return ShardySharding(_MESH, tuple(dimensions))


def _annotate(x: Instruction, shardings: Sequence[ShardySharding]) -> None:
    if not shardings:
        return
    text = per_value_text(tuple(shardings)) if x.shape.is_tuple else sharding_text(shardings[0])
    given = x.annotations
    attributes = (*given.frontend_attributes, (SHARDY_KEY, text))
    x.set_annotations(replace(given, frontend_attributes=attributes))


def _mark_results(module: Module, wanted: Mapping[int, ShardySharding]) -> None:
    """Ask for the shardings of some arrays of the result, by their numbers."""
    entry = module.entry
    count = 0

    def marked(value: Instruction) -> Instruction:
        nonlocal count
        if value.shape.is_tuple:
            parts = []
            for number, shape in enumerate(value.shape.tuple_shapes):
                if value.opcode is Opcode.TUPLE:
                    part = value.operands[number]
                else:
                    index = GetTupleElement(number)
                    part = entry.add(Opcode.GET_TUPLE_ELEMENT, shape, (value,), index)
                parts.append(marked(part))
            if list(value.operands) == parts and value.opcode is Opcode.TUPLE:
                return value
            return entry.add(Opcode.TUPLE, tuple_shape([x.shape for x in parts]), tuple(parts))
        count += 1
        sharding = wanted.get(count - 1)
        if sharding is None:
            return value
        call = CustomCall(RESULT_TARGET, has_side_effect=True)
        made = entry.add(Opcode.CUSTOM_CALL, value.shape, (value,), call)
        _annotate(made, [sharding])
        return made

    if wanted:
        entry.root = marked(entry.root)
