"""Products of bf16 and f16 matrices on tensor cores (`mma.sync`), added up in f32.

A block of four warps makes a tile; each warp makes a square of it from products of 16x16 by 16x8.
Tiles of both operands lie in shared memory as they lie in memory, along their depth or across it;
`ldmatrix` takes fragments from either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise.formats import encoded
from lowtide.codegen.elementwise.memory import numbers
from lowtide.codegen.gpu.ffma import is_worth_tiles
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.stages import sums_along_depth
from lowtide.codegen.gpu.threads import WARP, SharedArray
from lowtide.codegen.gpu.tiles import HALVES, Made, OperandTile, pieces_of
from lowtide.codegen.indexing import Index
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.callee import Callee, external
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_SIZES: Final = (
    TileSizes(128, 128, 32, 4 * WARP, 2, 2),
    TileSizes(256, 64, 16, 4 * WARP, 2, 2),
    TileSizes(64, 256, 16, 4 * WARP, 2, 2),
    TileSizes(64, 64, 32, 4 * WARP, 4, 2),
)

_HIGH, _WIDE, _DEEP = 16, 8, 16
"""Rows, columns and depth of one product."""

_GAP: Final = 8
"""Numbers from the end of a row of a tile to the next: so the threads of a warp meet in no bank."""

_FLOATS: Final = "{ float, float, float, float }"


def _product(name: str, word: str) -> Callee:
    types = [word] * 6 + ["float"] * 4
    return external(f"llvm.nvvm.mma.m16n8k16.row.col.{name}", _FLOATS, *types)


_WORDS: Final = "{ i32, i32, i32, i32 }"


def _matrices(kind: str) -> Callee:
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{kind}.b16.p3"
    return external(name, _WORDS, "ptr addrspace(3)")


_AS_STORED: Final = _matrices("")
_TURNED: Final = _matrices(".trans")
"""Loads of four matrices of 8x8 by a warp, each lane of which has the address of one row of one."""

_PRODUCTS: Final = {
    ElementType.BF16: (_product("bf16", "i32"), "i32"),
    ElementType.F16: (_product("f32.f32", "<2 x half>"), "<2 x half>"),
}
"""By the type of the operands: the product of a warp, and a pair of numbers as it takes it."""


def plan_tensor_cores(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product runs on tensor cores, None where it is none that they make."""
    product = product_of(instruction, target)
    if product is None or product.total is not ElementType.F32 or not is_worth_tiles(product):
        return None
    left, right = (x.shape.element_type for x in product.hero.operands)
    if left is not right or left not in _PRODUCTS:
        return None
    return GpuPlan("mma", lambda: _code(product))


def _code(product: GpuProduct) -> GpuCode:
    writer = _MmaWriter(product)
    writer.write()
    kernel = writer.kernel
    constants = [kernel.done(), *[x.array.definition for x in writer.tiles]]
    return GpuCode((kernel.fn,), (kernel.launch,), "\n".join([x for x in constants if x]))


class _MmaWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.type = product.hero.operands[0].shape.element_type
        self.sizes = product.sizes_among(_SIZES)
        self.width = isqrt(self.sizes.rows * self.sizes.columns * WARP // self.sizes.threads)
        self.kernel = TileKernel(product, self.sizes, lanes_of(product, 2))
        self.tiles = [self._tile(side, name) for side, name in enumerate(("left", "right"))]
        fn, thread = self.kernel.fn, self.kernel.thread
        lane, warp = fn.rem(thread, WARP), fn.div(thread, WARP)
        self.group, self.pair = fn.div(lane, 4), fn.mul(fn.rem(lane, 4), 2)
        several = self.sizes.columns // self.width
        self.down = fn.mul(fn.div(warp, several), self.width)
        self.across = fn.mul(fn.rem(warp, several), self.width)
        self.rows_of_lanes = [self._row_of_lane(x, lane) for x in self.tiles]

    def _tile(self, side: int, name: str) -> OperandTile:
        sizes = self.sizes
        pieces = pieces_of(self.product, side, sizes, self.type.nbytes)
        width = sizes.width(side)
        if pieces.along_depth:
            steps = (sizes.depth + _GAP, 1)
            count = width * steps[0]
        else:
            steps = (1, width + _GAP)
            count = sizes.depth * steps[1]
        array = SharedArray(name, "i16", HALVES * count)
        return OperandTile(self.kernel, side, pieces, array, steps, self._made(side))

    def _row_of_lane(self, tile: OperandTile, lane: Integer) -> Integer:
        """Where the row of a matrix lies that a lane has the address of, of the warp's first four.

        The next matrix is behind the first one along the rows of the left operand, or along the
        depth of the right one, since registers side by side make an operand; the others the other
        way.
        """
        fn = self.kernel.fn
        line, number = fn.rem(lane, 8), fn.div(lane, 8)
        near, far = fn.mul(fn.rem(number, 2), 8), fn.mul(fn.div(number, 2), 8)
        free, depth = (far, near) if tile.side else (near, far)
        if tile.pieces.along_depth:
            free = fn.add(free, line)
        else:
            depth = fn.add(depth, line)
        return tile.place(fn.add(self.across if tile.side else self.down, free), depth)

    # -- tiles -----------------------------------------------------------------------------------

    def _made(self, side: int) -> Made:
        """What writes elements of an operand as they lie in memory."""

        def made(elements: Elements, index: Index, mask: Mask | None) -> str:
            operand, frame = self.product.hero.operands[side], self.kernel.bound.frame
            array = frame.arrays.get(operand)
            if array is not None:
                raw = replace(array, shape=array.shape.with_element_type(ElementType.U16))
                return elements.read(raw, index, mask).values[0].name
            value = elements.at(operand, index, frame, mask)
            if elements.lanes > value.lanes:
                value = elements.vectors.splat(value)
            (number,) = numbers(elements.function, self.product.target, value)
            packed = encoded(self.type, number)
            if packed.element == "i16":
                return packed.name
            bits = f"<{elements.lanes} x i16>" if elements.lanes else "i16"
            return elements.function.op(f"bitcast {packed.type} {packed.name} to {bits}")

        return made

    # -- sums ------------------------------------------------------------------------------------

    @property
    def steps(self) -> Sequence[int]:
        """The depths within a tile at which products begin."""
        return range(0, self.sizes.depth, _DEEP)

    @property
    def sum_types(self) -> Sequence[str]:
        """The type of each sum of a thread."""
        return ["float"] * (self.width // _HIGH * (self.width // _WIDE) * 4)

    @property
    def fragment_types(self) -> Sequence[str]:
        """The type of each pair of numbers that a thread needs for a step."""
        return [_PRODUCTS[self.type][1]] * (self.width // _HIGH * 4 + self.width // _WIDE * 2)

    def fragments(self, step: int, half: Integer) -> list[str]:
        """Pairs of numbers along the depth of both tiles, as they make operands of products."""
        left = [self._matrices(0, x, step, half) for x in range(0, self.width, _HIGH)]
        right = [self._matrices(1, x, step, half) for x in range(0, self.width, 2 * _WIDE)]
        return [x for words in (*left, *right) for x in words]

    def _matrices(self, side: int, free: int, depth: int, half: Integer) -> list[str]:
        """Four matrices of the warp: pairs of numbers along the depth in each lane."""
        fn, tile = self.kernel.fn, self.tiles[side]
        at = fn.add(self.rows_of_lanes[side], tile.place(free, depth, half))
        address = tile.array.address(fn, at)
        callee = _AS_STORED if tile.pieces.along_depth else _TURNED
        found = fn.call(callee, [address])
        words = [fn.op(f"extractvalue {_WORDS} {found}, {i}") for i in range(4)]
        type_ = _PRODUCTS[self.type][1]
        return words if type_ == "i32" else [fn.op(f"bitcast i32 {x} to {type_}") for x in words]

    def added(self, sums: Sequence[str], fragments: Sequence[str]) -> list[str]:
        """The sums of a warp after the products of 16 numbers along the depth."""
        fn = self.kernel.fn
        callee, _ = _PRODUCTS[self.type]
        rows, columns = self.width // _HIGH, self.width // _WIDE
        found: list[str] = []
        for i in range(rows):
            for j in range(columns):
                a, b = fragments[4 * i :][:4], fragments[4 * rows + 2 * j :][:2]
                before = sums[4 * (i * columns + j) :][:4]
                result = fn.call(callee, [*a, *b, *before])
                found += [fn.op(f"extractvalue {_FLOATS} {result}, {x}") for x in range(4)]
        return found

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        kernel, fn = self.kernel, self.kernel.fn
        sums = sums_along_depth(kernel, self)
        places = [(i, j) for i in range(0, self.width, _HIGH) for j in range(0, self.width, _WIDE)]
        for number, (i, j) in enumerate(places):
            for half in (0, 1):
                row = fn.add(fn.add(kernel.row, self.down), fn.add(self.group, i + 8 * half))
                column = fn.add(fn.add(kernel.column, self.across), fn.add(self.pair, j))
                names = sums[4 * number + 2 * half : 4 * number + 2 * half + 2]
                if kernel.lanes:
                    kernel.finish(row, column, names)
                    continue
                for k, name in enumerate(names):
                    kernel.finish(row, fn.add(column, k), [name])
