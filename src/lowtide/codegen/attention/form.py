"""What an attention computes: its dots, and how rows of scores lie in each of them.

A row is what the last dot contracts. Its other dimensions number the rows; those that choose keys
or values are fixed within a unit, the others number the rows of a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from lowtide.codegen import indexing
from lowtide.codegen.contraction.geometry import Geometry, Roles, geometry_of
from lowtide.codegen.element_rules import has_rule
from lowtide.codegen.elements import Element, Elements, Frame, Index, Mask
from lowtide.codegen.indexing import Affine, Variable
from lowtide.codegen.literals import scalar
from lowtide.codegen.operands import bind, body_of
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.ir.traversal import post_order
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.ops.in_place import ATTENTION
from lowtide.ops.table import TABLE

_MOVING: Final = (Opcode.RESHAPE, Opcode.BITCAST, Opcode.TRANSPOSE)


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
        return free_dimensions(self.dot, self.key_side)

    @property
    def length(self) -> int:
        """The number of scores in a row."""
        return prod([self.dot.shape.dimensions[d] for d in self.keys])


@dataclass(frozen=True, eq=False, slots=True)
class Attention:
    """Scores, and a last dot of `weights` made of them with values.

    `side` is the operand of `dot` that the weights are. `fixed` and `block` are their dimensions
    whose index is that of a unit, and that of a row in its block. `path` leads from the dot to the
    result. `dependent` is what the scores decide.
    """

    instruction: Instruction
    dot: Instruction
    side: int
    scores: tuple[Scores, ...]
    dependent: frozenset[Instruction]
    path: tuple[Instruction, ...]
    fixed: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    is_aligned: bool = False

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

    def weights_index(
        self, elements: Elements, rows: dict[int, Affine], position: Affine
    ) -> Index:
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
        rest, place = elements.split(rest, size)
        found.append(place)
    return [rest, *reversed(found)] if sizes else []


def free_dimensions(dot: Instruction, side: int) -> tuple[int, ...]:
    """Return the dimensions of a dot that only one of its operands has."""
    shape = geometry_of(dot)
    first = len(shape.rows.batch)
    count = len(shape.rows.free)
    if side == 0:
        return tuple(range(first, first + count))
    return tuple(range(first + count, dot.shape.rank))


# -- finding it --------------------------------------------------------------------------------


def attention_of(instruction: Instruction, target: Target) -> Attention | None:
    """Return what a fusion computes as an attention, None where it is something else."""
    body = body_of(instruction)
    if body is None or instruction.annotations.backend_config != ATTENTION:
        return None
    order = post_order(body)
    if any(x.opcode is Opcode.FUSION or not has_rule(x) for x in order):
        return None
    last = _last_dot(body.root)
    if last is None:
        return None
    sides = [_dots_behind(x) for x in last.operands]
    if bool(sides[0]) == bool(sides[1]):
        return None
    side = 0 if sides[0] else 1
    dependent = frozenset(_between(last.operands[side], sides[side]))
    path = _path(last, body.root)
    if path is None or any(x.operands[1] in dependent for x in dependent if _reduces(x)):
        return None
    trial = _Trial(instruction, last, side, sides[side], dependent, path, target)
    return trial.found()


def _reduces(x: Instruction) -> bool:
    return x.opcode is Opcode.REDUCE


def _last_dot(root: Instruction) -> Instruction | None:
    """The dot that the root depends on without another one between."""
    if not root.shape.is_array:
        return None
    found = _dots_behind(root) if root.opcode is not Opcode.DOT else [root]
    return found[0] if len(found) == 1 else None


def _dots_behind(x: Instruction) -> list[Instruction]:
    """The dots that a value is made of, those not looked at that others are made of."""
    seen = {x: None}
    stack = [x]
    found: dict[Instruction, None] = {}
    while stack:
        y = stack.pop()
        if y.opcode is Opcode.DOT:
            found[y] = None
            continue
        fresh = [z for z in y.operands if z not in seen]
        seen |= dict.fromkeys(fresh)
        stack += fresh
    return list(found)


def _between(weights: Instruction, dots: Sequence[Instruction]) -> list[Instruction]:
    """What depends on dots and what the weights depend on, the dots left out."""
    behind = {weights: None}
    stack = [weights]
    while stack:
        x = stack.pop()
        if x in dots:
            continue
        fresh = [y for y in x.operands if y not in behind]
        behind |= dict.fromkeys(fresh)
        stack += fresh
    found: dict[Instruction, None] = {}
    stack = list(dots)
    while stack:
        fresh = [y for y in stack.pop().users if y in behind and y not in found]
        found |= dict.fromkeys(fresh)
        stack += fresh
    return list(found)


def _path(dot: Instruction, root: Instruction) -> tuple[Instruction, ...] | None:
    """The operations behind the last dot, each of which keeps its elements apart."""
    behind = {root: None}
    stack = [root]
    while stack:
        x = stack.pop()
        fresh = [y for y in x.operands if y not in behind and x is not dot]
        behind |= dict.fromkeys(fresh)
        stack += fresh
    found = []
    x = dot
    while x is not root:
        users = [y for y in x.users if y in behind]
        if not users:
            return None
        x = users[0]
        if x.opcode not in _MOVING and not TABLE[x.opcode].elementwise:
            return None
        found.append(x)
    return tuple(found)


class _Trial:
    """Computes the weights once, for nothing, to see how they ask for scores."""

    def __init__(
        self,
        instruction: Instruction,
        dot: Instruction,
        side: int,
        dots: Sequence[Instruction],
        dependent: frozenset[Instruction],
        path: tuple[Instruction, ...],
        target: Target,
    ) -> None:
        self.form = Attention(instruction, dot, side, (), dependent, path)
        self.dots = dots
        self.elements = Elements(Function("trial", ""), target, 0)
        self.frame: Frame = bind(self.elements.function, instruction).frame
        self.asked: dict[Instruction, Index] = {}
        self.steps: set[Variable] = set()
        self.is_regular = True
        self.is_aligned = True

    def found(self) -> Attention | None:
        """Return the attention, None where scores are not asked for along rows."""
        form, elements = self.form, self.elements
        kept = [d for d in range(form.weights.shape.rank) if d not in form.roles.inner]
        rows = {d: elements.variable(f"%r{d}", n) for d, n in zip(kept, form.sizes(kept))}
        for dot in self.dots:
            elements.provide(dot, self._score(dot))
        for hero in form.heroes():
            elements.provide(hero, self._reduction(hero))
        place = self._step(form.length)
        self.place = place
        elements.at(form.weights, form.weights_index(elements, rows, place), self.frame)
        if not self.is_regular or set(self.asked) != set(self.dots):
            return None
        scores = [self._scores(dot) for dot in self.dots]
        known = tuple([x for x in scores if x is not None])
        if len(known) < len(scores):
            return None
        fixed = self._fixed(rows, known)
        return Attention(
            form.instruction,
            form.dot,
            form.side,
            known,
            form.dependent,
            form.path,
            tuple(sorted(fixed)),
            tuple([d for d in kept if d not in fixed]),
            self.is_aligned and len(known) == 1 and known[0].length == form.length,
        )

    def _step(self, length: int) -> Affine:
        found = self.elements.variable("%step", max(length, 2))
        self.steps.add(found.terms[0][0])
        return found

    def _score(self, dot: Instruction):  # type: ignore[no-untyped-def]
        def rule(at: Index, mask: Mask | None) -> Element:
            self.asked.setdefault(dot, at)
            return Element((scalar(0, dot.shape.element_type),), 0)

        return rule

    def _reduction(self, hero: Instruction):  # type: ignore[no-untyped-def]
        def rule(at: Index, mask: Mask | None) -> Element:
            if any(self._along(x) for x in at):
                self.is_regular = False
            place = self._step(row_length(hero))
            index = reduced_index(self.elements, hero, at, place)
            self.elements.at(hero.operands[0], index, self.frame)
            return Element((scalar(0, hero.shape.element_type),), 0)

        return rule

    def _along(self, x: Affine) -> bool:
        """Whether an index depends on the place in a row."""
        return any(variable in self.steps for variable, _ in x.terms)

    def _scores(self, dot: Instruction) -> Scores | None:
        """Which operand of a first dot has the keys, None where that cannot be seen."""
        at = self.asked[dot]
        for side in (0, 1):
            alone = free_dimensions(dot, side)
            others = [d for d in range(dot.shape.rank) if d not in alone]
            along = [self._along(at[d]) for d in alone]
            if any(along) and not any(self._along(at[d]) for d in others):
                return Scores(dot, side)
        return None

    def _fixed(self, rows: dict[int, Affine], scores: Sequence[Scores]) -> set[int]:
        """The dimensions of the weights that choose keys or values."""
        found = set(self.form.roles.batch)
        of = {x.terms[0][0]: d for d, x in rows.items() if x.terms}
        for x in scores:
            at = self.asked[x.dot]
            for d in range(len(geometry_of(x.dot).rows.batch)):
                for variable, _ in at[d].terms:
                    if variable not in of:
                        found |= set(rows)
                    else:
                        found.add(of[variable])
        return found


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
