"""Products of matrices by multiplications and additions of single numbers, as f32 means f32.

A block brings tiles of both operands to shared memory; each thread adds up a square of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.loops import multiplied
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.parts import product_code
from lowtide.codegen.gpu.product import (
    DotLayout,
    GpuProduct,
    TileKernel,
    TileSizes,
    lanes_of,
    product_of,
)
from lowtide.codegen.gpu.stages import sums_along_depth
from lowtide.codegen.gpu.threads import WARP, SharedArray
from lowtide.codegen.gpu.tiles import HALVES, Made, OperandTile, pieces_of
from lowtide.codegen.gpu.waves import TileWay, best_way
from lowtide.codegen.indexing import Index
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

_LANES: Final = (8, 4)
"""Threads of a warp along the rows, and along the columns."""

_STEP: Final = 4
"""Numbers side by side that a thread takes from shared memory at once."""

_COUNTS: Final = {16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16)}
"""Rows and columns of the sums of a thread, by how many it has."""

WAYS: Final = (
    TileWay(TileSizes(128, 256, 8, 256, 1, 1), 108, 108),
    TileWay(TileSizes(128, 128, 8, 256, 2, 1), 98, 93),
    TileWay(TileSizes(256, 64, 16, 256, 1, 1), 90, 90),
    TileWay(TileSizes(64, 256, 16, 256, 1, 1), 90, 90),
    TileWay(TileSizes(128, 64, 16, 128, 2, 1), 100, 90),
    TileWay(TileSizes(64, 64, 16, 64, 4, 1), 94, 42),
    TileWay(TileSizes(64, 64, 16, 256, 2, 1), 76, 58),
)
"""Tiles of numbers of 32 bits: a thread has sums for which it loads little of shared memory."""

_MANY_THREADS: Final = 256
"""Threads of a block that computes what it brings: few would take long for that."""

_MANY_ARRAYS: Final = 16
_SUMS_BESIDE: Final = 64
"""Where a block computes what it brings from more arrays, a thread has registers for so many."""

_WIDE_WAYS: Final = (TileWay(TileSizes(64, 64, 16, 256, 2, 1), 16, 10),)
"""Tiles of numbers of 64 bits."""

_LEAST_WORK: Final = 1 << 15
_LEAST_SIDE: Final = 8
"""Multiplications, and rows and columns, that are worth a tile."""

_TYPES: Final = frozenset(
    {ElementType.F32, ElementType.F64, ElementType.S32, ElementType.S64, ElementType.U32}
)
"""Types of sums that tiles have."""


def plan_ffma(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product runs by tiles of single numbers, None where it is none or small."""
    product = product_of(instruction, target)
    if product is None or product.total not in _TYPES or not is_worth_tiles(product):
        return None
    scratch = product.scratch_bytes(best_way(product, ways_of(product))[1])
    return GpuPlan("ffma", lambda: _code(product), scratch)


def ways_of(product: GpuProduct) -> Sequence[TileWay]:
    """Return the tiles among which there is a choice."""
    if product.total.nbytes > 4:
        return _WIDE_WAYS
    if _has_arrays(product):
        return WAYS
    found = [x for x in WAYS if x.sizes.threads >= _MANY_THREADS]
    if len(product.instruction.operands) > _MANY_ARRAYS:
        return [x for x in found if _sums(x.sizes) <= _SUMS_BESIDE]
    return found


def _sums(sizes: TileSizes) -> int:
    """The sums of a thread."""
    return sizes.rows * sizes.columns // sizes.threads


def _has_arrays(product: GpuProduct) -> bool:
    """Whether both operands are arrays, which lie as they are taken."""
    is_made = any(x.opcode is not Opcode.PARAMETER for x in product.hero.operands)
    return isinstance(product.layout, DotLayout) and (
        product.hero is product.instruction or not is_made
    )


def is_worth_tiles(product: GpuProduct) -> bool:
    """Whether a product has as many rows, columns and multiplications as tiles are made for."""
    sides = prod(product.layout.rows), prod(product.layout.columns)
    return min(sides) >= _LEAST_SIDE and product.count >= _LEAST_WORK


def _code(product: GpuProduct) -> GpuCode:
    writer = _FfmaWriter(product)
    writer.write()
    return product_code(writer.kernel, [x.array for x in writer.tiles])


class _FfmaWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.sizes, parts = best_way(product, ways_of(product))
        self.counts = _COUNTS[_sums(self.sizes)]
        lanes = lanes_of(product, _STEP)
        self.kernel = TileKernel(product, self.sizes, lanes, parts=parts)
        self.widths = (self.sizes.rows + _STEP, self.sizes.columns + _STEP)
        self.tiles = [self._tile(side, name) for side, name in enumerate(("left", "right"))]
        fn, thread = self.kernel.fn, self.kernel.thread
        lane, warp = fn.rem(thread, WARP), fn.div(thread, WARP)
        several = self.sizes.columns // (self.counts[1] * _LANES[1])
        self.begins = (
            self._begin(0, fn.div(warp, several), fn.div(lane, _LANES[1])),
            self._begin(1, fn.rem(warp, several), fn.rem(lane, _LANES[1])),
        )

    def _begin(self, side: int, warp: Integer, lane: Integer) -> Integer:
        """Where the first row or column of a thread lies in the tile."""
        fn = self.kernel.fn
        return fn.add(fn.mul(warp, self.counts[side] * _LANES[side]), fn.mul(lane, _STEP))

    def _tile(self, side: int, name: str) -> OperandTile:
        total, width = self.product.total, self.widths[side]
        array = SharedArray(name, register_type(total), HALVES * width * self.sizes.depth)
        pieces = pieces_of(self.product, side, self.sizes, total.nbytes)
        return OperandTile(self.kernel, side, pieces, array, (1, width), self._made(side))

    def _made(self, side: int) -> Made:
        """What writes elements of an operand in the type of the sums."""

        def made(elements: Elements, index: Index, mask: Mask | None) -> str:
            product, frame = self.product, self.kernel.bound.frame
            found = elements.all_at(product.hero.operands[side], index, frame, mask)
            value = converted(elements, found, product.total).values[0]
            return (elements.vectors.splat(value) if elements.lanes > value.lanes else value).name

        return made

    @property
    def is_ahead(self) -> bool:
        """Whether loads of the next tile come before the last products of this one."""
        return False

    @property
    def steps(self) -> Sequence[int]:
        """The depths within a tile: a step has one."""
        return range(self.sizes.depth)

    @property
    def sum_types(self) -> Sequence[str]:
        """The type of each sum of a thread."""
        return [register_type(self.product.total)] * prod(self.counts)

    @property
    def fragment_types(self) -> Sequence[str]:
        """The type of each number that a thread needs for a step."""
        return [register_type(self.product.total)] * sum(self.counts)

    def fragments(self, step: int, half: Integer) -> list[str]:
        """The numbers of both tiles that a thread needs at a step, `_STEP` side by side."""
        fn, found = self.kernel.fn, []
        for side, tile in enumerate(self.tiles):
            for part in range(self.counts[side] // _STEP):
                free = fn.add(self.begins[side], part * _LANES[side] * _STEP)
                found += _lanes(fn, tile.array, tile.place(free, step, half))
        return found

    def added(self, sums: Sequence[str], fragments: Sequence[str]) -> list[str]:
        """The sums of a thread after the products of one step along the depth.

        Each product has a number in common with the one before it, which the registers' cache has.
        """
        kernel, total = self.kernel, self.product.total
        level, (_, across) = kernel.elements.scopes.level, self.counts
        left, right = fragments[: self.counts[0]], fragments[self.counts[0] :]
        found = list(sums)
        for j, b in enumerate(right):
            rows = range(len(left)) if j % 2 == 0 else reversed(range(len(left)))
            for i in rows:
                x = Element((Value((left[i],), total),), level)
                y = Element((Value((b,), total),), level)
                before = Value((sums[i * across + j],), total)
                (after,) = multiplied(kernel.elements, before, x, y)
                found[i * across + j] = after.name
        return found

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        kernel, fn, (down, across) = self.kernel, self.kernel.fn, self.counts
        sums = sums_along_depth(kernel, self)
        group = max(kernel.lanes, 1)
        for i in range(down):
            row = fn.add(kernel.row, fn.add(self.begins[0], _spread(0, i)))
            for j in range(0, across, group):
                column = fn.add(kernel.column, fn.add(self.begins[1], _spread(1, j)))
                kernel.finish(row, column, sums[i * across + j :][:group])


def _spread(side: int, number: int) -> int:
    """Where the rows or columns of a thread lie in the tile, behind its first one."""
    return number // _STEP * _LANES[side] * _STEP + number % _STEP


def _lanes(fn: Function, tile: SharedArray, place: Integer) -> list[str]:
    """Numbers side by side in shared memory, loaded by 16 bytes at a time at most."""
    vector = f"<{_STEP} x {tile.type}>"
    whole = tile.load(fn, place, vector, 16)
    return [fn.op(f"extractelement {vector} {whole}, i64 {i}") for i in range(_STEP)]
