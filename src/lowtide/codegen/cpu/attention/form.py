"""The form of an attention: its dots, and the place of rows of scores in each of them.

A row is what the last dot contracts. Its other dimensions number the rows. Those that choose keys
or values are fixed within a unit; the others number the rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import prod

from lowtide.codegen import indexing
from lowtide.codegen.cpu.contraction.geometry import Geometry, Roles, geometry_of
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.indexing import Affine, Index, Variable
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.ops.dot_roles import dot_roles
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Scores:
    """A first dot: operand `key_side` has the keys, which lie along a row."""

    dot: Instruction
    key_side: int

    @property
    def geometry(self) -> Geometry:
        """The shape of the dot, keys as columns."""
        found = geometry_of(self.dot)
        return found if self.key_side == 1 else found.swapped()

    @property
    def keys(self) -> tuple[int, ...]:
        """The dimensions of the dot that lie along a row."""
        return tuple(dot_roles(self.dot)[self.key_side].in_result)

    @property
    def length(self) -> int:
        """The number of scores in a row."""
        return prod([self.dot.shape.dimensions[d] for d in self.keys])


@dataclass(frozen=True, eq=False, slots=True)
class Attention:
    """Scores, and a last dot of `weights` made of them with values.

    `side` is the operand of `dot` that the weights are. `fixed` and `block` are their dimensions
    whose index is that of a unit, and that of a row in its block. `root` is the result,
    made of the dot. `dependent` is what the scores decide. `asked` are the indices at which the
    weights of a row need scores, in terms of the variables `asked_rows` for the dimensions of the
    row.
    """

    instruction: Instruction
    dot: Instruction
    side: int
    scores: tuple[Scores, ...]
    dependent: tuple[Instruction, ...]
    root: Instruction
    fixed: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    is_aligned: bool = False
    asked: Mapping[Instruction, Index] = field(default_factory=dict)
    asked_rows: Mapping[int, Variable] = field(default_factory=dict)

    @property
    def weights(self) -> Instruction:
        """The operand of the last dot that is made of scores."""
        return self.dot.operands[self.side]

    @property
    def roles(self) -> Roles:
        """The roles of the dimensions of the weights."""
        found = geometry_of(self.dot)
        return found.rows if self.side == found.rows_of else found.columns

    @property
    def geometry(self) -> Geometry:
        """The shape of the last dot, weights as rows."""
        found = geometry_of(self.dot)
        return found if self.side == 0 else found.swapped()

    @property
    def length(self) -> int:
        """The number of weights in a row."""
        return self.geometry.k

    def sizes(self, dimensions: Iterable[int]) -> tuple[int, ...]:
        """Return the sizes of some dimensions of the weights."""
        return tuple([self.weights.shape.dimensions[d] for d in dimensions])

    def heroes(self) -> list[Instruction]:
        """Return the reductions along rows."""
        return [x for x in self.dependent if x.opcode is Opcode.REDUCE]

    def weights_index(self, elements: Elements, rows: dict[int, Affine], position: Affine) -> Index:
        """Return the index of a weight, from that of its row and its place in it."""
        inner = self.roles.inner
        along = dict(zip(inner, digits(elements, position, self.sizes(inner)), strict=True))
        rank = self.weights.shape.rank
        return tuple([along.get(d, rows.get(d, indexing.ZERO)) for d in range(rank)])


def digits(elements: Elements, position: Affine, sizes: Sequence[int]) -> list[Affine]:
    """Return the index along each of some dimensions of a number in row-major order."""
    found: list[Affine] = []
    rest = position
    for size in reversed(sizes[1:]):
        if size == 1:
            found.append(indexing.ZERO)
            continue
        rest, place = elements.indices.split(rest, size)
        found.append(place)
    return [rest, *reversed(found)] if sizes else []


def row_length(hero: Instruction) -> int:
    """Return how many elements a reduction adds up."""
    sizes = hero.operands[0].shape.dimensions
    return prod([sizes[d] for d in hero.attributes_as(Dimensions).dimensions])


def reduced_index(elements: Elements, hero: Instruction, at: Index, place: Affine) -> Index:
    """Return the index of what a reduction reads at a place in the row of its result."""
    sizes = hero.operands[0].shape.dimensions
    reduced = sorted(hero.attributes_as(Dimensions).dimensions)
    along = dict(zip(reduced, digits(elements, place, [sizes[d] for d in reduced]), strict=True))
    kept = iter(at)
    return tuple([along[d] if d in along else next(kept) for d in range(len(sizes))])


def sum_type(*types: ElementType) -> ElementType:
    """Return the type in which products of some types are added up."""
    return ElementType.F64 if ElementType.F64 in types else ElementType.F32
