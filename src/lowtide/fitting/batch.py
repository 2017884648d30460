"""The batch of a program: the dimension of its data that all layers carry and none mixes.

Each dimension of an argument grows with a group of others. What the operations do along a group
tells whether it can be the batch:

    parallel      each result element is made of one index along it      a model that is applied
    summed        sums run along it, whose results do not come back      losses, gradients
    fed back      such sums are read by what has the dimension           batch norms
    mixed         neighbours are read: windows, sorts, cuts; elements    width and height,
                  are found by number; products that sum along it        sequences, features,
                  are read by what has it                                nodes of a graph

The batch is the one group of the first of the kinds above that has any which most products and
convolutions carry. Sums are such of a training step only: a program that neither updates arguments
nor returns anything of their shape has a parallel batch, or none that can be told. The batch is
none of what a step updates, unless it is parallel; and where something parallel might be updated,
or might be data whose results have its shape, sums alone do not tell the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import Final

from lowtide.analysis.donation import aliases, possible_donations
from lowtide.fitting.arrays import arrays_of_entry
from lowtide.fitting.dimensions import NamedLeaf, SpecializedError, module_leaves
from lowtide.fitting.scales import OpLink, Place, Sizing
from lowtide.fitting.unsharing import unshared
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.factors.record import FactorKind
from lowtide.records import dataclass

Axis = tuple[NamedLeaf, int]
"""An array among the arguments, and one of its dimensions."""


@dataclass(frozen=True, slots=True)
class BatchFinding:
    """The axes of arguments that make the batch, empty where the program does not tell.

    `candidates` are then the groups of axes between which it leaves the choice.
    """

    axes: tuple[Axis, ...]
    candidates: tuple[tuple[Axis, ...], ...] = ()


def batch_of(module: Module) -> BatchFinding:
    """Return the batch of a program."""
    groups = _Groups(module)
    is_step = bool(groups.updated)
    kinds = (_Kind.PARALLEL, *[_Kind.SUMMED, _Kind.FED_BACK] * is_step)
    for updated in (False, True):  # What a step updates has the batch only where its data have it.
        carried = [group for group in groups.of_leaves(updated=updated) if group.is_carried]
        for kind in kinds:
            likely = [group for group in carried if group.kind is kind]
            if likely and kind is not _Kind.PARALLEL:
                likely += groups.parallel_among_updated()
            if len(likely) == 1:
                return BatchFinding(likely[0].axes)
            if likely:
                return BatchFinding((), tuple([group.axes for group in likely]))
    return BatchFinding(())


def axis_text(axis: Axis) -> str:
    """Return the text of an axis as users give it, such as `images:0`."""
    leaf, dimension = axis
    return f"{leaf.name}:{dimension}"


class _Kind(IntEnum):
    """What operations do along a group, as the page above says; the worst of them all counts."""

    PARALLEL = 0
    SUMMED = 1
    FED_BACK = 2
    MIXED = 3


_LAYERS: Final = frozenset({Opcode.DOT, Opcode.CONVOLUTION})
"""The operations that the layers of a model are known by."""

_WRITING: Final = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER})
"""The operations that write elements at places given by number."""

_BODIES: Final = frozenset({Opcode.CALL, Opcode.FUSION, Opcode.CONDITIONAL, Opcode.WHILE})
"""The operations that do what is in their bodies."""


class _Groups:
    """The groups of dimensions of arguments that grow together."""

    def __init__(self, module: Module) -> None:
        module = unshared(module)
        self.leaves = module_leaves(module)
        self.arrays = arrays_of_entry(module.entry)
        self.sizing = Sizing(self.arrays)
        parameters = module.entry.parameters
        self.array_of = [self.arrays.of(parameters[x.key[0]])[x.key[1]] for x in self.leaves]
        present = aliases(module)
        written = {alias.parameter for alias in present}
        returned = {x.parameter for x in possible_donations(module, present)}
        self.updated = {
            array
            for number, (leaf, array) in enumerate(zip(self.leaves, self.array_of, strict=True))
            if number in written or parameters[leaf.key[0]] in returned
        }
        """The arrays that a result overwrites, or could."""
        self.layers = [x for x in self.arrays.nodes if x.opcode in _LAYERS]

    def of_leaves(self, *, updated: bool) -> Iterator[_Group]:
        """Yield the groups of axes, of two elements or more, of what is updated or of the rest."""
        seen: set[Place] = set()
        for leaf, array in zip(self.leaves, self.array_of, strict=True):
            if (array in self.updated) is not updated:
                continue
            for dimension, size in enumerate(leaf.sizes):
                if size < 2 or (array, dimension) in seen:
                    continue
                try:
                    scales = self.sizing.scales({(array, dimension): Fraction(2)})
                except SpecializedError:
                    continue
                seen |= scales.keys()
                yield _Group(self, scales.keys())

    def parallel_among_updated(self) -> list[_Group]:
        """Return what most layers carry in parallel of what is updated, or could be."""
        groups = self.of_leaves(updated=True)
        return [x for x in groups if x.is_carried and x.kind is _Kind.PARALLEL]

    def axes(self, places: frozenset[Place]) -> Iterator[Axis]:
        """Yield the axes of arguments among places."""
        for leaf, array in zip(self.leaves, self.array_of, strict=True):
            for dimension in range(len(leaf.sizes)):
                if (array, dimension) in places:
                    yield leaf, dimension


def _is_by_number(link: OpLink, factor: int | None) -> bool:
    """Whether an operation finds elements along a factor by numbers that are computed."""
    if factor is None:
        return False
    kind = link.rule.kinds[factor]
    is_placed = kind is FactorKind.PLACED and link.x.opcode in _WRITING
    return kind is FactorKind.PICKED or is_placed


class _Group:
    """Dimensions of arrays that grow together."""

    def __init__(self, groups: _Groups, places: Iterable[Place]) -> None:
        self.groups = groups
        self.places = frozenset(places)
        self.axes = tuple(groups.axes(self.places))

    @cached_property
    def grown(self) -> frozenset[int]:
        """The arrays that have a dimension of the group."""
        return frozenset([array for array, _ in self.places])

    @cached_property
    def is_carried(self) -> bool:
        """Whether most layers have the dimension; of a program without any, most operations."""
        groups = self.groups
        nodes = groups.layers or [x for x in groups.arrays.nodes if x.operands]
        carrying = [x for x in nodes if not self.grown.isdisjoint(self._around(x))]
        return 2 * len(carrying) > len(nodes)

    def _around(self, x: Instruction) -> Sequence[int]:
        arrays = self.groups.arrays
        return [*arrays.operands(x), *arrays.of(x)]

    @cached_property
    def kind(self) -> _Kind:
        """What the operations do along the group."""
        sizing = self.groups.sizing
        numbers = {n for array in self.grown for n in sizing.links_of.get(array, ())}
        linked = [x for n in sorted(numbers) if not (x := sizing.links[n]).is_alike]
        worst = max([self._use(link) for link in linked], default=_Kind.PARALLEL)
        known = {link.x for link in linked}
        others = [x for x in self.groups.arrays.nodes if x not in known and x.opcode not in _BODIES]
        if any(self._reads(x) for x in others):
            return _Kind.MIXED  # No rule says what such an operation does.
        if worst in (_Kind.SUMMED, _Kind.FED_BACK):
            worst = max(worst, self._kind_of_sums(linked))
        if worst > _Kind.PARALLEL and not self.groups.updated.isdisjoint(self.grown):
            return _Kind.MIXED
        return worst

    def _reads(self, x: Instruction) -> bool:
        return not self.grown.isdisjoint(self.groups.arrays.operands(x))

    def _use(self, link: OpLink) -> _Kind:
        """What one operation does along the group."""
        given = [f for own in self._own(link, results=False) for f in own or (None,)]
        made = {f for own in self._own(link, results=True) for f in own}
        moved = {halo.factor for halo in link.rule.halos}
        lost = [f for f in given if f not in made]
        if not moved.isdisjoint(given) or any(_is_by_number(link, f) for f in given):
            return _Kind.MIXED
        if not lost:
            return _Kind.PARALLEL
        if any(f is None or f not in link.rule.summed for f in lost):
            return _Kind.MIXED
        if not made:
            return _Kind.SUMMED
        return _Kind.MIXED if link.x.opcode in _LAYERS else _Kind.FED_BACK

    def _own(self, link: OpLink, *, results: bool) -> Iterator[tuple[int, ...]]:
        """Yield the factors of each dimension of the group among the operands, or the results."""
        count = len(link.rule.operands)
        rows = list(zip(link.arrays, link.factors, strict=True))
        for array, factors in rows[count:] if results else rows[:count]:
            for dimension, own in enumerate(factors):
                if (array, dimension) in self.places:
                    yield own

    def _kind_of_sums(self, linked: Sequence[OpLink]) -> _Kind:
        """What becomes of sums along the group: of products, and of anything else."""
        sums = [link.x for link in linked if self._use(link) is _Kind.SUMMED]
        if self._reach_the_group([x for x in sums if x.opcode in _LAYERS]):
            return _Kind.MIXED
        return _Kind.FED_BACK if self._reach_the_group(sums) else _Kind.SUMMED

    def _reach_the_group(self, sums: Sequence[Instruction]) -> bool:
        """Whether what is computed from sums of more than one element has the group again."""
        arrays = self.groups.arrays
        made = {n for x in sums for n in arrays.of(x) if arrays.shapes[n].element_count > 1}
        made -= self.grown
        before = 0
        while before < len(made):  # Once more for each loop that hands something on.
            before = len(made)
            for x in arrays.nodes:
                if x.opcode in _BODIES or made.isdisjoint(arrays.operands(x)):
                    continue
                results = arrays.of(x)
                if not self.grown.isdisjoint(results):
                    return True
                made.update(results)
        return False
