"""Classes of dimensions: which dimensions of arguments an axis splits together.

An axis that splits a dimension of one array splits with it what the partitioner's rules tie to it:

    x[batch, in] . w1[in, hidden] -> h[batch, hidden] . w2[hidden, out]
                        a                     a            a

Here w1:1 and w2:0 are one class, x:0 (with all that the batch runs through) another. Classes of
equal arrays, as those of layers that are written out, count as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, final

from lowtide.ir import Instruction, Opcode
from lowtide.records import dataclass
from lowtide.sharding_search.program import ShardableProgram
from lowtide.spmd.annotations import AnnotationReader, ModuleShardings
from lowtide.spmd.cells import ArrayCells, Relation, cells_of
from lowtide.spmd.flattening import flattened

Place = tuple[int, int]
"""An array among the arguments, by number, and a dimension of it."""

_ALIKE: Final = 0.7
"""Classes that have this part of all their places in common count as one."""

_PRODUCTS: Final = frozenset({Opcode.DOT, Opcode.CONVOLUTION, Opcode.RAGGED_DOT})


@dataclass(frozen=True, slots=True)
class DimensionClass:
    """Dimensions of arguments that one axis splits together.

    `is_cut` says that some operation needs one of them whole, as a loop that takes a row at a time.
    `reach` has the elements of all arrays of the program that the axis splits then.
    """

    places: tuple[Place, ...]
    is_cut: bool
    reach: int


@final
class Travel:
    """How the dimensions of the arguments of a program travel through it."""

    def __init__(self, program: ShardableProgram) -> None:
        self.program = program
        self._cells = _open_cells(program)
        self._readers: dict[int, list[Relation]] = {}
        for relation in self._cells.relations:
            for cell in dict.fromkeys(relation.numbers):
                self._readers.setdefault(cell, []).append(relation)
        self._leaf_of = {cell: number for number, cell in enumerate(self._leaf_cells())}

    def classes(self) -> tuple[DimensionClass, ...]:
        """Return the classes of dimensions that an axis divides: those that reach most first."""
        program = self.program
        found: dict[tuple[tuple[tuple[int, ...], int], ...], list[DimensionClass]] = {}
        seen: set[Place] = set()
        for leaf, cell in enumerate(self._leaf_cells()):
            for dimension, size in enumerate(program.sizes[leaf]):
                if (leaf, dimension) in seen or not self._divides(size):
                    continue
                one = self._class(cell, dimension)
                seen.update(one.places)
                key = tuple(sorted([(program.leaves[at].sizes, d) for at, d in one.places]))
                found.setdefault(key, []).append(one)
        joined = [_joined(alike) for alike in found.values()]
        joined.sort(key=lambda x: (x.is_cut, -x.reach))
        return _unlike(joined)

    def multiplied(self) -> frozenset[int]:
        """Return the arrays among the arguments that lead to operands of products."""
        pending = deque(
            [x for r in self._cells.relations if r.opcode in _PRODUCTS for x in r.operands]
        )
        seen = set(pending)
        made: dict[int, list[Relation]] = {}
        for relation in self._cells.relations:
            for cell in relation.results:
                made.setdefault(cell, []).append(relation)
        while pending:
            for relation in made.get(pending.popleft(), ()):
                new = [x for x in relation.operands if x not in seen]
                seen.update(new)
                pending.extend(new)
        return frozenset([leaf for cell, leaf in self._leaf_of.items() if cell in seen])

    def _leaf_cells(self) -> list[int]:
        numbers = self._cells.numbers
        return [x for p in _parameters(self._cells) for x in numbers[p]]

    def _divides(self, size: int) -> bool:
        return any(size % axis == 0 for axis in self.program.mesh.sizes) and size > 1

    def _class(self, cell: int, dimension: int) -> DimensionClass:
        """The class of one dimension: a walk along first factors, where the first to come stays."""
        placed = {cell: dimension}
        pending = deque([cell])
        is_cut = False
        while pending:
            at = pending.popleft()
            for relation in self._readers.get(at, ()):
                reached = _reached(relation, at, placed[at])
                is_cut = is_cut or reached is None
                for other, place in (reached or {}).items():
                    if other not in placed:
                        placed[other] = place
                        pending.append(other)
        places = [(self._leaf_of[x], d) for x, d in placed.items() if x in self._leaf_of]
        cells = self._cells.cells
        reach = sum([cells[x].shape.element_count for x in placed if cells[x].shape.is_array])
        return DimensionClass(tuple(sorted(places)), is_cut, reach)


def _open_cells(program: ShardableProgram) -> ArrayCells:
    source = flattened(program.module)
    shardings = ModuleShardings(AnnotationReader(program.mesh.grid, {}, False))
    shardings.parameters = [[None for _ in p.shape.leaves()] for p in source.entry.parameters]
    return cells_of(source.entry, shardings)


def _parameters(cells: ArrayCells) -> list[Instruction]:
    entry = next(iter(cells.numbers)).parent
    return list(entry.parameters)


def _reached(relation: Relation, cell: int, dimension: int) -> Mapping[int, int] | None:
    """The dimensions that lie along the first factor of one, by cell; None where it has none."""
    rule = relation.rule
    numbers = relation.numbers
    factors = rule.arrays
    found: dict[int, int] = {}
    has_factor = False
    for number, own in zip(numbers, factors, strict=True):
        if number != cell or not own[dimension]:
            continue
        has_factor = True
        for other, dimensions in zip(numbers, factors, strict=True):
            for at, inner in enumerate(dimensions):
                if inner and inner[0] == own[dimension][0]:
                    found.setdefault(other, at)
    if relation.opcode is Opcode.DYNAMIC_SLICE:
        has_factor = relation.results[0] in found
    elif relation.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        has_factor = relation.operands[1] in found  # What is written has the whole dimension, too.
    return found if has_factor else None


def _joined(alike: Sequence[DimensionClass]) -> DimensionClass:
    """One class of several, in which each array has one dimension."""
    places: dict[int, int] = {}
    for one in alike:
        for leaf, dimension in one.places:
            places.setdefault(leaf, dimension)
    return DimensionClass(
        tuple(sorted(places.items())), any(x.is_cut for x in alike), sum([x.reach for x in alike])
    )


def _unlike(classes: Sequence[DimensionClass]) -> tuple[DimensionClass, ...]:
    """The classes without those that are much like an earlier one.

    A walk that begins elsewhere may take the other one of two dimensions of an array here and there
    where both are of the class.
    """
    kept: list[DimensionClass] = []
    for x in classes:
        own = set(x.places)
        alike = [len(own & set(y.places)) / len(own | set(y.places)) for y in kept]
        if max(alike, default=0.0) < _ALIKE:
            kept.append(x)
    return tuple(kept)
