"""Products of bf16 and f16 matrices on tensor cores (`mma.sync`), added up in f32.

A block of four warps makes a tile; each warp makes a quarter of it from products of 16x16 by 16x8.
Tiles of both operands lie in shared memory along their depth, in pairs as the fragments take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.elementwise.formats import encoded
from lowtide.codegen.elementwise.memory import numbers
from lowtide.codegen.gpu.ffma import is_worth_tiles
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.threads import WARP, SharedArray, barrier
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.callee import Callee, external
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_SIZES: Final = TileSizes(64, 64, 32, 4 * WARP, 4)
_SIDE: Final = 32
"""Rows and columns of the tile of a warp."""

_HIGH, _WIDE, _DEEP = 16, 8, 16
"""Rows, columns and depth of one product."""

_WIDTH: Final = _SIZES.depth + 8
"""Numbers from one row of a tile to the next: so the threads of a warp meet in no bank."""

_FLOATS: Final = "{ float, float, float, float }"


def _product(name: str, word: str) -> Callee:
    types = [word] * 6 + ["float"] * 4
    return external(f"llvm.nvvm.mma.m16n8k16.row.col.{name}", _FLOATS, *types)


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
    constants = [kernel.done(), *[x.definition for x in writer.tiles]]
    return GpuCode((kernel.fn,), (kernel.launch,), "\n".join([x for x in constants if x]))


class _MmaWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.type = product.hero.operands[0].shape.element_type
        self.kernel = TileKernel(product, _SIZES, lanes_of(product, 2))
        sides = ("left", _SIZES.rows), ("right", _SIZES.columns)
        self.tiles = [SharedArray(name, "i16", width * _WIDTH) for name, width in sides]
        fn, thread = self.kernel.fn, self.kernel.thread
        lane, warp = fn.rem(thread, WARP), fn.div(thread, WARP)
        self.group, self.pair = fn.div(lane, 4), fn.mul(fn.rem(lane, 4), 2)
        across = _SIZES.columns // _SIDE
        self.down = fn.mul(fn.div(warp, across), _SIDE)
        self.across = fn.mul(fn.rem(warp, across), _SIDE)

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        elements = self.kernel.elements
        count = _SIDE // _HIGH * (_SIDE // _WIDE) * 4
        carry = [("float", "0.0")] * count
        with elements.scopes.loop(0, prod(self.product.layout.depth), _SIZES.depth, carry) as loop:
            barrier(self.kernel.fn)
            for side in (0, 1):
                self._bring(side, loop.index)
            barrier(self.kernel.fn)
            sums = list(loop.values)
            for step in range(0, _SIZES.depth, _DEEP):
                sums = self._added(sums, step)
            loop.next = sums
        self._finish(loop.results)

    # -- tiles -----------------------------------------------------------------------------------

    def _bring(self, side: int, depth: Integer) -> None:
        """Load a tile of an operand, each thread some of it: side by side as they lie in memory."""
        kernel, fn = self.kernel, self.kernel.fn
        width = _SIZES.rows if side == 0 else _SIZES.columns
        start = kernel.row if side == 0 else kernel.column
        deep_first = self.product.lies_along_depth(side)
        inner = _SIZES.depth if deep_first else width
        for place in kernel.places(side):
            first, second = fn.rem(place, inner), fn.div(place, inner)
            free, deep = (second, first) if deep_first else (first, second)
            bits = self._bits(side, fn.add(start, free), fn.add(depth, deep))
            self.tiles[side].store(fn, fn.add(fn.mul(free, _WIDTH), deep), bits)

    def _bits(self, side: int, free: Integer, depth: Integer) -> str:
        """An element of an operand as it lies in memory, 0 where there is none."""
        kernel, elements, fn = self.kernel, self.kernel.elements, self.kernel.fn
        operand = self.product.hero.operands[side]
        index, mask = kernel.operand_place(side, free, depth)
        array = kernel.bound.frame.arrays.get(operand)
        if array is not None:
            raw = replace(array, shape=array.shape.with_element_type(ElementType.U16))
            name = elements.read(raw, index, mask).values[0].name
        else:
            value = elements.at(operand, index, kernel.bound.frame, mask)
            (number,) = numbers(fn, self.product.target, value)
            packed = encoded(self.type, number)
            name = packed.name
            if packed.element != "i16":
                name = fn.op(f"bitcast {packed.type} {name} to i16")
        return name if mask is None else fn.select(mask.name, "i16", name, 0)

    def _pair(self, side: int, row: Integer, depth: Integer) -> str:
        """Two numbers along the depth of a tile, as a product takes them."""
        fn = self.kernel.fn
        type_ = _PRODUCTS[self.type][1]
        return self.tiles[side].load(fn, fn.add(fn.mul(row, _WIDTH), depth), type_, 4)

    # -- sums ------------------------------------------------------------------------------------

    def _added(self, sums: Sequence[str], step: int) -> list[str]:
        """The sums of a warp after the products of 16 numbers along the depth."""
        fn = self.kernel.fn
        callee, _ = _PRODUCTS[self.type]
        near, far = fn.add(self.pair, step), fn.add(self.pair, step + 8)
        left = []
        for i in range(0, _SIDE, _HIGH):
            row = fn.add(fn.add(self.down, i), self.group)
            below = fn.add(row, 8)
            left.append(
                [self._pair(0, *x) for x in ((row, near), (below, near), (row, far), (below, far))]
            )
        found: list[str] = []
        right = []
        for j in range(0, _SIDE, _WIDE):
            column = fn.add(fn.add(self.across, j), self.group)
            right.append([self._pair(1, column, x) for x in (near, far)])
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                first = 4 * (i * len(right) + j)
                result = fn.call(callee, [*a, *b, *sums[first : first + 4]])
                found += [fn.op(f"extractvalue {_FLOATS} {result}, {x}") for x in range(4)]
        return found

    def _finish(self, sums: Sequence[str]) -> None:
        kernel, fn = self.kernel, self.kernel.fn
        places = [(i, j) for i in range(0, _SIDE, _HIGH) for j in range(0, _SIDE, _WIDE)]
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
