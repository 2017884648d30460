"""The choice of how to split one operation, and the operation on tiles that follows from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import Attributes, Convolution, Dot
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.contraction import contracted_size
from lowtide.ops.factors.record import OpFactors
from lowtide.ops.resizing import attributes_at
from lowtide.records import dataclass
from lowtide.spmd.factor_axes import (
    FactorAxes,
    axes_of,
    chosen_axes,
    legal_axes,
    term_axes,
    tiling_of,
)
from lowtide.spmd.placed import PlacedArray
from lowtide.spmd.resharding import WholeArray, array_of, bytes_between, local_bytes

_BYTES_PER_PRODUCT: Final = 1 / 500
"""Bytes that a link carries while a device multiplies two numbers."""

_BYTES_PER_BYTE: Final = 1 / 200
"""Bytes that a link carries while a device works on one byte.

Memory is some sixty times as fast as a link, and most operations are fused with others.
"""

_SLIGHTLY: Final = 1e-3
"""How much something counts that only decides between ways of equal bytes."""

_MOST_SEEDS: Final = 4


@dataclass(frozen=True, slots=True)
class OperationSplit:
    """How an operation is split: axes of its factors, tilings of its operands and results.

    `nbytes` are those that one device sends to bring operands there and results to where they are
    wanted, `bytes_in` the former. `work` is what it computes, in bytes that a link carries
    meanwhile.
    """

    axes: FactorAxes
    operands: tuple[Tiling, ...]
    results: tuple[Tiling, ...]
    nbytes: float
    bytes_in: float = 0.0
    work: float = 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be split: the instruction, its factors, its operands, where results are wanted.

    None is wanted of a result that may lie as is best. `read_once` tells of each operand whether
    nothing else reads it. Without `weighs_memory`, what an operation
    reads and writes counts nothing: then of equal ways the one that moves operands is taken, which
    other readers may share.
    """

    grid: DeviceGrid
    instruction: Instruction
    rule: OpFactors
    operands: Sequence[PlacedArray]
    wanted: Sequence[Tiling | None]
    read_once: Sequence[bool]
    weighs_memory: bool = True


def choose(question: Question) -> OperationSplit:
    """Return the cheapest split of those that operands and wanted results suggest."""
    best: tuple[float, OperationSplit] | None = None
    seen: set[tuple[tuple[int, tuple[int, ...]], ...]] = set()
    memory = _memory_work(question)
    products = product_count(question.instruction) * _BYTES_PER_PRODUCT
    weighed = products + memory * (1.0 if question.weighs_memory else _SLIGHTLY)
    for axes in _candidates(question):
        key = tuple(sorted(axes.items()))
        if key in seen:
            continue
        seen.add(key)
        devices = question.grid.extent([axis for own in axes.values() for axis in own])
        for terms in _term_choices(question, axes):
            split = _split(question, axes, terms)
            cost = split.nbytes + weighed / devices
            if not question.weighs_memory:
                cost -= split.bytes_in * _SLIGHTLY
            if best is None or cost < best[0]:
                best = cost, replace(split, work=(products + memory) / devices)
    assert best is not None, "the split into nothing is always there"
    return best[1]


def _candidates(q: Question) -> Iterator[FactorAxes]:
    """Yield axes of factors: those of each array, joined in every order of importance."""
    seeds: list[tuple[float, FactorAxes]] = []
    arrays = [
        *[(factors, tiling, placed.shape) for factors, placed in zip(
            q.rule.operands, q.operands, strict=True) for tiling in placed.forms],
        *[(factors, tiling, None) for factors, tiling in zip(
            q.rule.results, q.wanted, strict=True) if tiling is not None],
    ]  # fmt: skip
    lost: set[int] = set()
    for factors, tiling, shape in arrays:
        axes = axes_of(q.rule, q.grid, factors, tiling)
        covered = {axis for own in axes.values() for axis in own}
        lost |= {axis for own in tiling.axes for axis in own} - covered
        if axes and all(axes != known for _, known in seeds):
            size = math.inf if shape is None else float(math.prod(shape.dimensions))
            seeds.append((size, axes))
    seeds.sort(key=lambda seed: -seed[0])
    chosen = [axes for _, axes in seeds[:_MOST_SEEDS]]
    yield {}
    for count in range(1, len(chosen) + 1):
        for order in itertools.permutations(chosen, count):
            joined = legal_axes(q.rule, q.grid, _joined(order))
            yield joined
            if lost:
                yield legal_axes(q.rule, q.grid, _with_lost(q, joined, lost))
    if lost:
        yield legal_axes(q.rule, q.grid, _with_lost(q, {}, lost))


def _joined(order: Sequence[FactorAxes]) -> dict[int, tuple[int, ...]]:
    joined: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for axes in order:
        for factor, own in axes.items():
            have = joined.get(factor, ())
            if own[: len(have)] != have:
                continue
            for axis in own[len(have) :]:
                if axis in taken:
                    break
                joined[factor] = (*joined.get(factor, ()), axis)
                taken.add(axis)
    return joined


def _with_lost(q: Question, axes: FactorAxes, lost: set[int]) -> FactorAxes:
    """Return the axes with those that only whole dimensions had, on the largest factors left."""
    found = dict(axes)
    taken = {axis for own in axes.values() for axis in own}
    for axis in sorted(lost - taken):
        order = sorted(
            [f for f in range(len(q.rule.sizes)) if f not in q.rule.summed],
            key=lambda f: -q.rule.sizes[f] / q.grid.extent(found.get(f, ())),
        )
        for factor in order:
            longer = (*found.get(factor, ()), axis)
            if q.rule.sizes[factor] % q.grid.extent(longer) == 0:
                found[factor] = longer
                break
    return found


def _term_choices(q: Question, axes: FactorAxes) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (operands that stay terms of sums, the axes of the terms), preferred ones first."""
    choices: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    used = {axis for own in axes.values() for axis in own}
    for operands in q.rule.linear:
        terms: set[int] = set()
        for number in operands:
            placed = q.operands[number]
            if placed.is_term and placed.tiling.reduction is Opcode.ADD:
                terms.update(placed.tiling.partial)
        reduces = term_axes(q.rule, axes)
        if terms and not terms & used and (not reduces or q.rule.reduction is Opcode.ADD):
            choice = operands, tuple(sorted(terms))
            # Of equal ways, a sum that nothing else reads is left to what comes behind.
            is_own = all(q.read_once[number] for number in operands)
            choices.insert(0 if is_own else len(choices), choice)
    return choices


def _split(
    q: Question, axes: FactorAxes, terms: tuple[tuple[int, ...], tuple[int, ...]]
) -> OperationSplit:
    rule, grid = q.rule, q.grid
    own = term_axes(rule, axes)
    linear, shared = terms
    reduction = (rule.reduction if own else None) or Opcode.ADD
    operands = []
    nbytes = 0.0
    for number, (factors, placed) in enumerate(zip(rule.operands, q.operands, strict=True)):
        partial = shared if number in linear else ()
        if number in rule.once:
            partial = tuple(sorted({*partial, *own}))
        tiles = tiling_of(rule, grid, factors, axes)
        tiling = Tiling(tiles.axes, partial, reduction if partial else Opcode.ADD)
        operands.append(tiling)
        nbytes += placed.bytes_to(tiling, q.instruction.name)
    nbytes += _halo_bytes(q, axes, operands)
    bytes_in = nbytes
    results = []
    partial = tuple(sorted({*own, *shared}))
    for factors, wanted, shape in zip(rule.results, q.wanted, _results(q), strict=True):
        tiling = Tiling(tiling_of(rule, grid, factors, axes).axes, partial, reduction)
        results.append(tiling)
        gathered = grid.extent(chosen_axes(rule, axes))
        nbytes += local_bytes(grid, shape, tiling) * (gathered - 1)
        if wanted is not None:
            nbytes += bytes_between(grid, shape, tiling, wanted)
        elif partial:
            nbytes += bytes_between(grid, shape, tiling, tiling.whole())
    return OperationSplit(axes, tuple(operands), tuple(results), nbytes, bytes_in)


def _halo_bytes(q: Question, axes: FactorAxes, operands: Sequence[Tiling]) -> float:
    """Return the bytes of the rows that tiles exchange."""
    nbytes = 0.0
    for halo in q.rule.halos:
        if not axes.get(halo.factor):
            continue
        for number in halo.operands:
            array, tiling = q.operands[number].array, operands[number]
            length = tiling.local(q.grid, array.sizes)[halo.dimension]
            row = local_bytes(q.grid, array, tiling) / max(length, 1)
            nbytes += row * (halo.left + halo.right)
    return nbytes


def _results(q: Question) -> list[WholeArray]:
    return [array_of(leaf) for _, leaf in q.instruction.shape.leaves()]


def _memory_work(q: Question) -> float:
    """Return the time to read and write what the whole operation does, in bytes on a link."""
    moved = sum([placed.shape.nbytes for placed in q.operands]) + q.instruction.shape.nbytes
    return moved * _BYTES_PER_BYTE


def product_count(x: Instruction) -> float:
    """Return how many products a dot or convolution sums; none of other operations."""
    if not isinstance(x.attributes, Dot | Convolution):
        return 0.0
    result = float(math.prod(x.shape.dimensions))
    lhs, rhs = x.operands[0].shape, x.operands[1].shape
    if isinstance(x.attributes, Dot):
        return result * contracted_size(lhs, x.attributes.dimensions)
    attributes = x.attributes_as(Convolution)
    features = rhs.dimensions[attributes.dimensions.kernel_output_feature]
    return result * math.prod(rhs.dimensions) / max(features, 1)


@dataclass(frozen=True, slots=True)
class LocalOp:
    """One operation to write: the whole one, its factors and split, its operands on this device.

    `shape` is that of the tile of the result, a tuple of tiles where there are several.
    """

    instruction: Instruction
    rule: OpFactors
    split: OperationSplit
    operands: Sequence[Instruction]
    shape: Shape

    def attributes(self) -> Attributes:
        """Return the attributes at the sizes of the tiles."""
        result = self.shape.tuple_shapes[0] if self.shape.is_tuple else self.shape
        sizes = [y.shape.dimensions for y in self.operands]
        return attributes_at(self.instruction, sizes, result.dimensions)

    def axes_of(self, operand: int, dimension: int) -> tuple[int, ...]:
        """Return the axes that split a dimension of an operand."""
        return self.split.operands[operand].axes[dimension]
