"""From one tiling of an array to another: the steps that send the fewest bytes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from lowtide.cost.devices import ring_bytes
from lowtide.ir import Shape, array_shape
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass


class ReshardingKind(StrEnum):
    """How the devices of a group come from one tiling to the next."""

    SLICE = "dynamic-slice"
    MASK = "select"
    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    PERMUTE = "collective-permute"


@dataclass(frozen=True, slots=True)
class ReshardingStep:
    """One step: along `axes`, on a dimension, from another one for all-to-all; what it makes.

    `nbytes` are those that one device sends on a ring of its group.
    """

    kind: ReshardingKind
    axes: tuple[int, ...]
    dimension: int
    source: int
    result: Tiling
    nbytes: float


@dataclass(frozen=True, slots=True)
class WholeArray:
    """What moves: the sizes of the whole array, and the bytes of an element."""

    sizes: tuple[int, ...]
    item: float


def array_of(shape: Shape) -> WholeArray:
    """Return what moves when an array of this shape does."""
    return WholeArray(shape.dimensions, shape.element_type.bits / 8)


@lru_cache(maxsize=65536)
def local_shape(shape: Shape, tiling: Tiling, grid: DeviceGrid) -> Shape:
    """Return the shape of one tile of an array."""
    return array_shape(shape.element_type, tiling.local(grid, shape.dimensions))


_EFFORT: Final = 256
"""How many tilings are looked at before the array is gathered and cut anew."""

_STEP: Final = 1e-3
"""Bytes that a step counts for, so that of equal ways the shortest is taken."""


@lru_cache(maxsize=65536)
def resharding_steps(
    grid: DeviceGrid, array: WholeArray, source: Tiling, target: Tiling
) -> tuple[ReshardingStep, ...]:
    """Return the cheapest steps from one tiling to another; none where they are equal.

    Both have to divide the array. Axes that are partial in `target` but not in `source` get terms
    of which the first device of a group holds the value, the others the identity.
    """
    best: dict[Tiling, float] = {source: 0.0}
    came: dict[Tiling, tuple[Tiling, ReshardingStep]] = {}
    queue: list[tuple[float, int, Tiling]] = [(0.0, 0, source)]
    number = 0
    while queue and number < _EFFORT * 8:
        cost, _, tiling = heapq.heappop(queue)
        if tiling == target:
            break
        if cost > best[tiling]:
            continue
        for step in _steps(grid, array, tiling, target):
            total = cost + step.nbytes + _STEP
            if total < best.get(step.result, math.inf):
                best[step.result] = total
                came[step.result] = (tiling, step)
                number += 1
                heapq.heappush(queue, (total, number, step.result))
    steps: list[ReshardingStep] = []
    at = target
    while at != source:
        at, step = came[at]
        steps.append(step)
    return tuple(reversed(steps))


def bytes_between(grid: DeviceGrid, array: WholeArray, source: Tiling, target: Tiling) -> float:
    """Return the bytes that one device sends from one tiling to another."""
    if source == target:
        return 0.0
    return sum([step.nbytes for step in resharding_steps(grid, array, source, target)])


def nearest(grid: DeviceGrid, array: WholeArray, forms: Iterable[Tiling], target: Tiling) -> Tiling:
    """Return the form from which the fewest bytes lead to a tiling, the first one of equal ones."""
    return min(forms, key=lambda form: bytes_between(grid, array, form, target))


@lru_cache(maxsize=65536)
def step_bytes(grid: DeviceGrid, shape: Shape, before: Tiling, step: ReshardingStep) -> float:
    """Return the bytes that one device sends in the collective of a step, 0 where there is none.

    They are those of whole bytes of tiles; `nbytes` of a step counts bits of elements.
    """
    if step.kind in (ReshardingKind.SLICE, ReshardingKind.MASK):
        return 0.0
    larger = step.result if step.kind is ReshardingKind.ALL_GATHER else before
    nbytes = float(local_shape(shape, larger, grid).leaf_nbytes)
    return ring_bytes(step.kind.value, nbytes, grid.extent(step.axes))


def local_bytes(grid: DeviceGrid, array: WholeArray, tiling: Tiling) -> float:
    """Return the bytes of one tile."""
    return math.prod(tiling.local(grid, array.sizes)) * array.item


def _steps(
    grid: DeviceGrid, array: WholeArray, now: Tiling, target: Tiling
) -> Iterator[ReshardingStep]:
    size = local_bytes(grid, array, now)
    yield from _reductions(grid, now, target, size)
    used = now.used
    for k, (own, wanted) in enumerate(zip(now.axes, target.axes, strict=True)):
        common = _common(own, wanted)
        if common == len(own) < len(wanted):
            free = _run(wanted[common:], tuple([a for a in wanted if a not in used]))
            if free:
                yield ReshardingStep(
                    ReshardingKind.SLICE, free, k, k, _with(now, k, (*own, *free)), 0.0
                )
            run = _run(wanted[common:], now.partial)
            if run:
                g = grid.extent(run)
                rest = tuple([axis for axis in now.partial if axis not in run])
                result = replace(_with(now, k, (*own, *run)), partial=rest)
                if not rest:
                    result = result.whole()
                yield _sent(ReshardingKind.REDUCE_SCATTER, run, (k, k), result, size, g)
        if common < len(own):
            yield from _leaving(grid, now, target, k, size)
    extents = [grid.extent(axes) for axes in now.axes]
    if now.partial == target.partial and now.reduction is target.reduction:
        goal = [grid.extent(axes) for axes in target.axes]
        if extents == goal and now != target:
            yield _sent(ReshardingKind.PERMUTE, (), (0, 0), target, size, 1)


def _reductions(
    grid: DeviceGrid, now: Tiling, target: Tiling, size: float
) -> Iterator[ReshardingStep]:
    agrees = not now.partial or now.reduction is target.reduction
    kept = tuple([axis for axis in now.partial if agrees and axis in target.partial])
    extra = tuple([axis for axis in now.partial if axis not in kept])
    if extra:
        result = replace(now, partial=kept) if kept else now.whole()
        g = grid.extent(extra)
        yield _sent(ReshardingKind.ALL_REDUCE, extra, (0, 0), result, size, g)
    missing = tuple([axis for axis in target.partial if axis not in now.partial])
    if missing and agrees and not now.used.intersection(missing):
        terms = tuple(sorted((*now.partial, *missing)))
        result = Tiling(now.axes, terms, target.reduction)
        yield ReshardingStep(ReshardingKind.MASK, missing, 0, 0, result, 0.0)


def _leaving(
    grid: DeviceGrid, now: Tiling, target: Tiling, k: int, size: float
) -> Iterator[ReshardingStep]:
    """Yield the ways in which minor axes leave dimension `k`: gathered, or dealt to another one."""
    own = now.axes[k]
    common = _common(own, target.axes[k])
    for start in range(common, len(own)):
        axes = own[start:]
        g = grid.extent(axes)
        left = _with(now, k, own[:start])
        yield _sent(ReshardingKind.ALL_GATHER, axes, (k, k), left, size * g, g)
        for j, (theirs, wanted) in enumerate(zip(now.axes, target.axes, strict=True)):
            at = len(theirs)
            if j != k and wanted[:at] == theirs and wanted[at : at + len(axes)] == axes:
                result = _with(left, j, (*theirs, *axes))
                yield _sent(ReshardingKind.ALL_TO_ALL, axes, (j, k), result, size, g)


def _sent(
    kind: ReshardingKind,
    axes: tuple[int, ...],
    dimensions: tuple[int, int],
    result: Tiling,
    nbytes: float,
    group: int,
) -> ReshardingStep:
    """Return a step between devices, with the bytes that one of them sends."""
    return ReshardingStep(kind, axes, *dimensions, result, ring_bytes(kind, nbytes, group))


def _with(tiling: Tiling, dimension: int, axes: tuple[int, ...]) -> Tiling:
    changed = list(tiling.axes)
    changed[dimension] = axes
    return replace(tiling, axes=tuple(changed))


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _run(axes: tuple[int, ...], among: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first axes that are all in `among`."""
    count = 0
    while count < len(axes) and axes[count] in among:
        count += 1
    return axes[:count]
