"""The order of a kernel's loops: the one along which the lanes of vectors run, and its cost.

Elements that lie apart along the lanes are costly, except where they lie side by side along another
loop. A short loop of this kind is unrolled within the vectors, a longer one is run through in
tiles.

Kernels of bf16 whose lanes need no order read and write elements in pairs. That is faster where
vectors have 32 bytes: what spreads 8 elements of 16 bits over such a vector, and what packs them
again, takes as long as much of the arithmetic between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.cost import conversion
from lowtide.codegen.cpu.strided import FARTHEST
from lowtide.codegen.cpu.tiles import LINE, side_of
from lowtide.codegen.domain import Trial
from lowtide.codegen.elements.elements import Elements
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.target import Target
from lowtide.ops.table import TABLE
from lowtide.records import dataclass

LONGEST_UNROLLED: Final = 8
"""Steps of a loop that is unrolled, at most."""

_MOST_UNROLLED: Final = 1000
"""Lines of code that unrolling may make of a point's."""

_LONG: Final = 8
"""Vectors of a line of which the last one may be filled in part only."""

_GATHERED: Final = 16.0
_SCATTERED: Final = 24.0
_TRANSPOSED: Final = 2.5
_SHUFFLED: Final = 0.75
_UNIFORM: Final = 0.1
"""Costs of a vector, in those of one that is loaded or stored as it lies in memory."""

_LOOP: Final = 0.5
"""The same of what a loop takes for itself."""

PAIR: Final = 2
"""Vectors of floats, at least, of which one has the even elements and one the odd ones."""

_VECTOR_BYTES: Final = 32

_ANYWHERE: Final = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONSTANT,
        Opcode.PARAMETER,
        Opcode.REDUCE,
        Opcode.RESHAPE,
        Opcode.TUPLE,
    }
)
"""Operations besides elementwise ones whose value in a lane does not tell which lane it is."""


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """The loop of the lanes, and the one that is unrolled or tiled, if any.

    Tiles have `rows` steps; `in_registers` says that their loop is unrolled. `lanes` are those of
    `abreast` vectors, pairs of elements of bf16 where it `is_paired`. `cost` is that of an element,
    in moves of vectors; `nbytes` are those that all elements read and write.
    """

    lane: int
    lanes: int
    unrolled: int | None = None
    tiled: int | None = None
    rows: int = 0
    in_registers: bool = False
    abreast: int = 1
    is_paired: bool = False
    cost: float = 0.0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class _Access:
    """A place that is read or written: the elements between steps of each loop.

    Loops before number `depth` do not matter otherwise; those after may not.
    """

    array: Array
    steps: tuple[int, ...]
    depth: int
    is_store: bool


def order_of(
    trial: Trial,
    groups: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    most: int,
    abreast: int = 1,
    can_pair: bool = False,
) -> LoopOrder:
    """Return the order of least cost.

    `groups` are those of `space.groups_of`, with their `sizes`; `most` is the length of a vector,
    of which `abreast` may be computed side by side, or two if these are pairs of elements.
    """
    accesses = _accesses(trial, groups)
    last = len(groups) - 1
    best: LoopOrder | None = None
    for lane in range(last, -1, -1):
        lanes = lanes_for(sizes[lane], most)
        for order in _candidates(lane, lanes, sizes, accesses, trial.lines):
            cost = _cost(order, accesses, sizes)
            if best is None or cost < 0.95 * best.cost:
                best = replace(order, cost=cost)
    assert best is not None
    best = replace(best, nbytes=sum([_touched(x, sizes) for x in accesses]))
    if best.tiled is None:
        paired = max(abreast, PAIR)
        fits = paired * trial.lines <= _MOST_UNROLLED and best.lanes == most
        if fits and can_pair and _is_paired(best, accesses, sizes, paired):
            return replace(best, lanes=paired * most, abreast=paired, is_paired=True)
        return _abreast(best, accesses, sizes, abreast) if abreast > 1 and fits else best
    return _tiled(best, best.tiled, accesses, sizes, trial.lines)


def cost_of_one(elements: Elements) -> tuple[float, int]:
    """Return the cost of computing one element, as that of a `LoopOrder`, and the bytes moved."""
    stores = dict.fromkeys(elements.writes)
    cost, nbytes = _LOOP, 0
    for access in dict.fromkeys(elements.reads):
        type_ = access[0].shape.element_type
        cost += _UNIFORM + conversion(type_, is_rounding=access in stores)
        nbytes += type_.nbytes
    return cost, nbytes


def _abreast(
    order: LoopOrder, accesses: Sequence[_Access], sizes: Sequence[int], abreast: int
) -> LoopOrder:
    """The order with several vectors side by side, where they lie so and lines are long enough."""
    size, lanes = sizes[order.lane], abreast * order.lanes
    is_long = size >= lanes if size % lanes == 0 else size >= _LONG * lanes
    is_smooth = all(x.depth <= order.lane and x.steps[order.lane] in (0, 1) for x in accesses)
    if order.unrolled is not None or not (is_long and is_smooth):
        return order
    return replace(order, lanes=lanes, abreast=abreast)


def _is_paired(
    order: LoopOrder, accesses: Sequence[_Access], sizes: Sequence[int], abreast: int
) -> bool:
    """Whether whole vectors side by side can be pairs of elements."""
    if order.unrolled is not None or sizes[order.lane] % (abreast * order.lanes):
        return False
    if any(x.depth > order.lane for x in accesses):
        return False
    return are_pairs([(x.array, x.steps[order.lane]) for x in accesses])


def _tiled(
    order: LoopOrder, tiled: int, accesses: Sequence[_Access], sizes: Sequence[int], lines: int
) -> LoopOrder:
    """The order with tiles of a size. Those of wider elements have twice the lanes of a vector."""
    across = [x for x in accesses if _is_transposed(order, x, sizes)]
    types = [x.array.shape.element_type for x in across]
    narrowest = min([x.nbytes for x in types])
    if narrowest > 1 and sizes[order.lane] >= 4 * order.lanes:
        order = replace(order, lanes=2 * order.lanes)
    rows = max([side_of(x, order.lanes, sizes[tiled]) for x in types])
    if sizes[tiled] % rows == 0 and rows * lines <= _MOST_UNROLLED:
        return replace(order, rows=rows, in_registers=True)
    return replace(order, rows=LINE // narrowest)


def lanes_for(size: int, most: int) -> int:
    """Return the length of vectors for a loop: a power of 2, 0 for single elements."""
    lanes = 1
    while lanes < min(most, size):
        lanes *= 2
    return lanes if lanes > 1 else 0


def _candidates(
    lane: int, lanes: int, sizes: Sequence[int], accesses: Sequence[_Access], lines: int
) -> list[LoopOrder]:
    """The orders with a loop of lanes: others help with what lies side by side along them."""
    found = [LoopOrder(lane, lanes)]
    apart = [x.steps for x in accesses if x.steps[lane] not in (0, 1)]
    for other in range(len(sizes) - 1, -1, -1):
        if not lanes or other == lane or not any(x[other] == 1 for x in apart):
            continue
        if 1 < sizes[other] <= LONGEST_UNROLLED and sizes[other] * lines <= _MOST_UNROLLED:
            found.append(LoopOrder(lane, lanes, unrolled=other))
        if sizes[other] > 2:
            found.append(LoopOrder(lane, lanes, tiled=other))
    return found


def _accesses(trial: Trial, groups: Sequence[tuple[int, int]]) -> list[_Access]:
    elements = trial.elements
    stores = dict.fromkeys(elements.writes)
    known = dict.fromkeys(trial.variables)
    inner = [
        next((x for x in reversed(trial.variables[a:b]) if x is not None), None) for a, b in groups
    ]
    found = []
    for array, place in dict.fromkeys(elements.reads):
        factors = dict(place.terms)
        steps = tuple([0 if x is None else factors.get(x, 0) for x in inner])
        axes = max([x.level for x in factors if x not in known], default=0)
        depth = sum([first < axes for first, _ in groups])
        found.append(_Access(array, steps, depth, (array, place) in stores))
    return found


def _cost(order: LoopOrder, accesses: Sequence[_Access], sizes: Sequence[int]) -> float:
    """The cost of a vector of elements, for each element."""
    size = sizes[order.lane]
    lanes = max(order.lanes, 1)
    repeated = 1 if order.unrolled is None else sizes[order.unrolled]
    total = _LOOP / repeated
    for access in accesses:
        cost = _access_cost(order, access, sizes)
        cost += conversion(access.array.shape.element_type, is_rounding=access.is_store)
        is_shared = order.unrolled is not None and not access.steps[order.unrolled]
        total += cost / repeated if is_shared else cost
    return total * -(-size // lanes) / size


def _access_cost(order: LoopOrder, access: _Access, sizes: Sequence[int]) -> float:
    step = access.steps[order.lane]
    apart = _SCATTERED if access.is_store else _GATHERED
    if access.depth > order.lane:
        return apart
    if step in (0, 1):
        return float(step) or _UNIFORM
    if order.unrolled is not None and access.steps[order.unrolled] == 1:
        if not access.is_store and 0 < step <= FARTHEST:
            return _SHUFFLED * step
        if step == sizes[order.unrolled]:
            return _SHUFFLED * step.bit_length()
    if access.is_store:
        return apart
    if _is_transposed(order, access, sizes):
        return _TRANSPOSED
    return 1.5 * abs(step) if abs(step) <= FARTHEST else apart


def _touched(access: _Access, sizes: Sequence[int]) -> int:
    """The bytes of a place at all positions, about."""
    shape = access.array.shape
    moved = [
        x
        for x, step in zip(sizes[access.depth :], access.steps[access.depth :], strict=True)
        if step
    ]
    count = prod([*sizes[: access.depth], *moved])
    return min(count, shape.element_count) * shape.element_type.nbytes


def _is_transposed(order: LoopOrder, access: _Access, sizes: Sequence[int]) -> bool:
    """Whether a place is read by tiles."""
    if order.tiled is None or access.is_store or access.depth > order.lane:
        return False
    if access.steps[order.tiled] != 1 or access.steps[order.lane] in (0, 1):
        return False
    return side_of(access.array.shape.element_type, order.lanes, sizes[order.tiled]) > 1


# -- pairs -------------------------------------------------------------------------------------


def may_pair(target: Target, members: Iterable[Instruction]) -> bool:
    """Return whether what a kernel computes is the same in whichever lane it does so."""
    if target.vector_bytes != _VECTOR_BYTES:
        return False
    return all(x.opcode in _ANYWHERE or TABLE[x.opcode].elementwise for x in members)


def are_pairs(accesses: Iterable[tuple[Array, int]]) -> bool:
    """Return whether arrays that vectors run along are of bf16, and some are.

    Each comes with how far its elements of two lanes lie apart.
    """
    along = [(array.shape.element_type, step) for array, step in accesses if step]
    return bool(along) and all(x == (ElementType.BF16, 1) for x in along)
