"""Spaces of long sums: how their elements are divided among the blocks of a launch.

A number that depends on shapes only, so that a sum has the same bits on every device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.domain import Trial, trial_of, whole
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elementwise.memory import element_bytes
from lowtide.codegen.gpu.points import bound_to
from lowtide.codegen.gpu.team_sums import is_one_operation
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.space import LoopSpace, groups_of
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.llvm.target import Target
from lowtide.records import dataclass

THREADS: Final = 256
"""Threads of a block that makes terms."""

_LEAST: Final = 1 << 18
"""Elements of a sum, at least, that are worth a second launch."""

_FEW_ROWS: Final = 512
"""Sums along memory that are too few to have a block each, if each is as long as `_LONG`."""

_LONG: Final = 1 << 15

_FEW_COLUMNS: Final = 1 << 17
"""Sums across memory that are too few to have a thread each, if each is as long as `_DEEP`."""

_DEEP: Final = 64

_BLOCKS: Final = 1 << 9
"""Blocks of a launch, about: a large device has room for all of them at once, whose loops are long.
"""

_SHORTEST: Final = 4
"""Steps of a thread's loop that are worth a block."""

_STRIPE: Final = 32
"""Threads side by side in a stripe of columns, if these are more than fit into twice as many."""

_LINES: Final = 600
"""Lines of code of an element of all sums, at most, that are written for several lanes."""

Prepare = Callable[[Elements], None]
"""Says where the elements of some instructions come from, ahead of their rules."""


@dataclass(frozen=True, eq=False, slots=True)
class SumSpace:
    """The elements that some sums of one instruction run over, which a launch reads once.

    `order` are the dimensions of their operands as they lie in memory, `groups` stretches of it
    that are run through as one, each kept or reduced, and `lanes` how many elements a thread reads
    side by side.
    """

    instruction: Instruction
    target: Target
    sums: tuple[Instruction, ...]
    order: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]
    lanes: int
    lines: int

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of each operand."""
        return self.sums[0].operands[0].shape.dimensions

    @property
    def reduced(self) -> frozenset[int]:
        """The dimensions that are reduced."""
        return frozenset(self.sums[0].attributes_as(Dimensions).dimensions)

    def _sizes(self, *, is_kept: bool) -> tuple[int, ...]:
        sizes = self.loops.sizes
        return tuple([x for x, y in zip(sizes, self._kinds, strict=True) if y == is_kept])

    @property
    def _kinds(self) -> list[bool]:
        return [self.order[first] not in self.reduced for first, _ in self.groups]

    @property
    def loops(self) -> LoopSpace:
        """The loops over all elements."""
        return LoopSpace(tuple([self.dimensions[d] for d in self.order]), self.groups)

    @property
    def kept_sizes(self) -> tuple[int, ...]:
        """The sizes of the kept groups."""
        return self._sizes(is_kept=True)

    @property
    def reduced_sizes(self) -> tuple[int, ...]:
        """The sizes of the reduced groups."""
        return self._sizes(is_kept=False)

    @property
    def is_along(self) -> bool:
        """Whether sums run along memory, else across it."""
        return not self._kinds[-1]

    @property
    def count(self) -> int:
        """The number of sums of each instruction."""
        return prod(self.kept_sizes)

    @property
    def vectors(self) -> int:
        """The groups of `lanes` elements that lie in the innermost group."""
        return self.loops.sizes[-1] // max(self.lanes, 1)

    @property
    def steps(self) -> int:
        """What the loops of all threads for one sum have together: vectors, or elements across."""
        length = prod(self.reduced_sizes)
        return length // max(self.lanes, 1) if self.is_along else length

    @property
    def wide(self) -> int:
        """The threads of a block that are side by side."""
        if self.is_along:
            return THREADS
        return self.vectors if self.vectors <= 2 * _STRIPE else _STRIPE

    @property
    def columns(self) -> int:
        """The sums across memory that a block makes terms of."""
        return self.wide * max(self.lanes, 1)

    @property
    def deep(self) -> int:
        """The threads of a block that are below each other, which share the steps of a sum."""
        return THREADS if self.is_along else THREADS // self.wide

    @property
    def stripes(self) -> int:
        """The number of blocks side by side."""
        return 1 if self.is_along else -(-self.vectors // self.wide)

    @property
    def piece(self) -> int:
        """The steps of a sum that a block makes a term of, of all its threads."""
        beside = self.stripes * self.count
        if not self.is_along:
            beside //= self.loops.sizes[-1]
        several = max(_BLOCKS // beside, 1)
        least = max(-(-self.steps // several), self.deep * _SHORTEST)
        return -(-least // self.deep) * self.deep

    @property
    def terms(self) -> int:
        """The terms of a sum: the blocks that share its elements."""
        return -(-self.steps // self.piece)

    def index(self, elements: Elements, kept: Sequence[Affine], reduced: Sequence[Affine]) -> Index:
        """Return the index in the operands at positions along the groups."""
        ours, theirs = iter(kept), iter(reduced)
        positions = [next(ours) if x else next(theirs) for x in self._kinds]
        along = self.loops.index(elements, positions)
        return whole(self.dimensions, self.order).index(along)

    def number(self, at: Index) -> Affine:
        """Return the number of the sum at an index of the results."""
        kept = [d for d in range(len(self.order)) if d not in self.reduced]
        places = dict(zip(kept, at, strict=True))
        order = [d for d in self.order if d in places]
        sizes = tuple([self.dimensions[d] for d in order])
        return linear(tuple([places[d] for d in order]), sizes)


def is_long(x: Instruction) -> bool:
    """Whether a sum is long enough, and one of few, to be made by several blocks together."""
    if x.opcode is not Opcode.REDUCE or not is_one_operation(x):
        return False
    shape, count = x.operands[0].shape, x.shape.element_count
    sizes, step = shape.dimensions, strides(shape)
    if shape.element_count < _LEAST:
        return False
    length = shape.element_count // max(count, 1)
    reduced = x.attributes_as(Dimensions).dimensions
    nearest = min([step[d] for d in range(shape.rank) if sizes[d] > 1])
    if any(step[d] == nearest for d in reduced if sizes[d] > 1):
        return count < _FEW_ROWS and length >= _LONG
    return count <= _FEW_COLUMNS and length >= _DEEP


def sum_space(
    instruction: Instruction, target: Target, sums: Sequence[Instruction], prepare: Prepare
) -> SumSpace:
    """Return the space of sums of equal dimensions, in the order of the largest array they read."""
    shape = sums[0].operands[0].shape
    first = sorted(range(shape.rank), key=lambda d: -strides(shape)[d])
    trial = _trial(instruction, target, sums, first, prepare)
    order = sorted(_order_of(trial, first), key=lambda d: shape.dimensions[d] != 1)
    trial = _trial(instruction, target, sums, order, prepare)
    reduced = frozenset(sums[0].attributes_as(Dimensions).dimensions)
    sizes = tuple([shape.dimensions[d] for d in order])
    kinds = [d in reduced for d in order]
    groups = tuple([y for x in groups_of(trial, sizes) for y in _cut(x, kinds)])
    lanes = _lanes(trial, prod(sizes[slice(*groups[-1])]))
    return SumSpace(instruction, target, tuple(sums), tuple(order), groups, lanes, trial.lines)


def _trial(
    instruction: Instruction,
    target: Target,
    sums: Sequence[Instruction],
    order: Sequence[int],
    prepare: Prepare,
) -> Trial:
    def visit(elements: Elements, index: Index) -> None:
        bound = bound_to(elements, instruction)
        prepare(elements)
        for x in sums:
            elements.all_at(x.operands[0], index, bound.frame)

    return trial_of(whole(sums[0].operands[0].shape.dimensions, order), target, visit)


def _order_of(trial: Trial, order: Sequence[int]) -> list[int]:
    """The dimensions of a trial by how far neighbours lie apart in the largest array.

    Those along which it is the same everywhere stand ahead of the last one: it is read again soon.
    """
    reads = sorted(trial.elements.reads, key=lambda x: -x[0].shape.nbytes)
    if not reads:
        return list(order)
    factors = dict(reads[0][1].terms)
    steps = {
        d: abs(factors.get(v, 0)) if v is not None else 0
        for d, v in zip(order, trial.variables, strict=True)
    }
    known = {v for v in trial.variables if v is not None}
    if not set(factors) <= known:
        return list(order)
    apart = sorted([d for d in order if steps[d]], key=lambda d: -steps[d])
    return [*apart[:-1], *[d for d in order if not steps[d]], *apart[-1:]]


def _cut(group: tuple[int, int], kinds: Sequence[bool]) -> list[tuple[int, int]]:
    """A group cut where kept dimensions and reduced ones meet."""
    first, end = group
    borders = [first, *[d for d in range(first + 1, end) if kinds[d] != kinds[d - 1]], end]
    return list(itertools.pairwise(borders))


def _lanes(trial: Trial, innermost: int) -> int:
    """How many elements side by side a thread reads at once, 0 for one."""
    inner = next((v for v in reversed(trial.variables) if v is not None), None)
    reads = trial.elements.reads
    largest = max([x.shape.element_count for x, _ in reads], default=0)
    large = [(x, y) for x, y in reads if 2 * x.shape.element_count >= largest]
    if inner is None or trial.lines > _LINES or not large:
        return 0
    if any(dict(place.terms).get(inner, 0) not in (0, 1) for _, place in large):
        return 0
    if any(x.shape.element_type.is_complex for x, _ in large):
        return 0
    widest = max([element_bytes(x.shape.element_type) for x, _ in large])
    lanes = gcd(16 // widest, innermost)
    while lanes * trial.lines > 4 * _LINES:
        lanes //= 2
    return lanes if lanes > 1 else 0
