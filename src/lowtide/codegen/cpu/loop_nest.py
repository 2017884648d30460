"""The loops of a kernel: their order, and pieces of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.cpu.cost import vectors_abreast, widest
from lowtide.codegen.cpu.order import LoopOrder, may_pair, order_of
from lowtide.codegen.domain import LoopDomain, Trial, whole
from lowtide.codegen.elements.moves import Raw
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.outputs import KernelOutput
from lowtide.codegen.space import LoopSpace, groups_of
from lowtide.ir import Instruction
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_LEAST_PIECE: Final = 8192
_LARGEST_PIECE: Final = 65536
_PIECES: Final = 16
"""Elements of a piece of work, and how many pieces there are where they are neither."""

_TILED: Final = 256
"""Steps of a loop, the tiles of which follow each other: rows of tiles are long enough then."""


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """What a kernel computes: outputs of equal dimensions; `raw` are types that it only moves."""

    instruction: Instruction
    target: Target
    outputs: tuple[KernelOutput, ...]
    raw: Raw


@dataclass(frozen=True, slots=True)
class GroupLoop:
    """A loop over the positions of a group of axes, `step` at a time."""

    group: int
    size: int
    step: int

    @property
    def trips(self) -> int:
        """How often it runs."""
        return -(-self.size // self.step)


_AT_ONCE: Final = (4, 3, 2)
"""Steps of a loop around one vector that may be taken at once, the first that divides its size."""


_SHORT: Final = 4
"""Vectors of a row up to which it is worth that."""

_MOST_AT_ONCE: Final = 400
"""Lines of code of the steps that are taken at once."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of work: each step of the first `outer` loops, and `block` positions of the next."""

    outer: int
    block: int
    units: int


@dataclass(frozen=True, eq=False, slots=True)
class LoopNest:
    """The loops of a kernel, outermost first, without those that are unrolled or within a tile.

    Each turn of the last but one takes `at_once` steps, whose elements are all computed before any
    is stored.
    """

    job: Job
    domain: LoopDomain
    space: LoopSpace
    order: LoopOrder
    loops: tuple[GroupLoop, ...]
    pieces: Pieces
    at_once: int = 1


def nest_of(job: Job, domain: LoopDomain, trial: Trial) -> LoopNest:
    """Return the loops over a domain."""
    inner = members(job.instruction)
    space = LoopSpace(domain.sizes, groups_of(trial, domain.sizes))
    sizes = space.sizes
    most = max(job.target.vector_bytes // widest(inner, job.raw), 2)
    abreast = vectors_abreast(job.target, inner)
    order = order_of(trial, space.groups, sizes, most, abreast, may_pair(job.target, inner))
    taken = (order.lane, order.unrolled, order.tiled)
    loops = [GroupLoop(group, size, 1) for group, size in enumerate(sizes) if group not in taken]
    if order.tiled is not None:
        step = max(_TILED // order.rows, 1) * order.rows
        loops.append(GroupLoop(order.tiled, sizes[order.tiled], step))
    loops.append(GroupLoop(order.lane, sizes[order.lane], max(order.lanes, 1)))
    repeated = 1 if order.unrolled is None else sizes[order.unrolled]
    at_once = _at_once(order, sizes, loops, trial.lines)
    if at_once > 1:
        loops[-2] = replace(loops[-2], step=at_once)
    return LoopNest(job, domain, space, order, tuple(loops), _pieces(loops, repeated), at_once)


def nest_of_one(job: Job) -> LoopNest:
    """Return the loops over the one element of outputs, which do not depend on what it reads."""
    dimensions = job.outputs[0].dimensions
    rank = len(dimensions)
    space = LoopSpace((1,) * rank, ((0, rank),))
    domain = whole(dimensions, range(rank))
    return LoopNest(job, domain, space, LoopOrder(0, 0), (GroupLoop(0, 1, 1),), Pieces(0, 1, 1))


def _at_once(order: LoopOrder, sizes: Sequence[int], loops: Sequence[GroupLoop], lines: int) -> int:
    """How many short rows that do not fill their last vector are computed before they are stored.

    What is stored under a mask is not to be read again for a while, and neither is what lies beside
    it, where the next row of the same array begins.
    """
    if len(loops) < 2 or order.unrolled is not None or order.tiled is not None:
        return 1
    size = sizes[order.lane]
    if not order.lanes or size % order.lanes == 0 or size > _SHORT * order.lanes:
        return 1
    fitting = [x for x in _AT_ONCE if loops[-2].size % x == 0 and x * lines <= _MOST_AT_ONCE]
    return fitting[0] if fitting else 1


def _pieces(loops: Sequence[GroupLoop], repeated: int) -> Pieces:
    """Loops are split as far out as pieces are small enough."""
    total = prod([x.size for x in loops]) * repeated
    most = min(max(total // _PIECES, _LEAST_PIECE), _LARGEST_PIECE)
    inside = [repeated * prod([x.size for x in loops[i + 1 :]]) for i in range(len(loops))]
    fitting = [i for i, x in enumerate(loops) if x.step * inside[i] <= most]
    outer = fitting[0] if fitting else len(loops) - 1
    loop = loops[outer]
    block = max(most // inside[outer] // loop.step, 1) * loop.step
    count = -(-loop.size // block)
    block = -(-loop.size // count // loop.step) * loop.step
    count = -(-loop.size // block)
    return Pieces(outer, block, prod([x.trips for x in loops[:outer]]) * count)
