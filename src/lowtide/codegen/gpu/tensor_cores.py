"""Products of numbers of 16 and 8 bits on tensor cores (`mma.sync`), added up in 32 bits.

A block of four warps makes a tile; each warp makes a square of it from products of small matrices.
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
from lowtide.codegen.gpu.ffma import is_worth_tiles
from lowtide.codegen.gpu.fragments import HIGH, WIDE, CoreType, MatrixTile
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.parts import product_code
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.stages import sums_along_depth
from lowtide.codegen.gpu.threads import WARP, SharedArray
from lowtide.codegen.gpu.tiles import HALVES, Made, OperandTile, TilePieces, in_16_bits, pieces_of
from lowtide.codegen.indexing import Index
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target

_SIZES: Final = (
    TileSizes(128, 128, 32, 4 * WARP, 2, 2),
    TileSizes(256, 64, 16, 4 * WARP, 2, 2),
    TileSizes(64, 256, 16, 4 * WARP, 2, 2),
    TileSizes(64, 64, 32, 4 * WARP, 4, 2),
)
"""Tiles of numbers of 16 bits; those of bytes are as long in bytes."""

_TYPES: Final = {
    ElementType.BF16: CoreType("bf16", 2, "i32", "float"),
    ElementType.F16: CoreType("f32.f32", 2, "<2 x half>", "float"),
    ElementType.S8: CoreType("s8", 1, "i32", "i32"),
    ElementType.U8: CoreType("u8", 1, "i32", "i32"),
}
"""By the type of both operands."""

_TOTALS: Final = {
    "float": frozenset({ElementType.F32}),
    "i32": frozenset({ElementType.S32, ElementType.U32}),
}
"""The types of sums that cores make."""


def plan_tensor_cores(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product runs on tensor cores, None where it is none that they make."""
    product = product_of(instruction, target)
    if product is None or not is_worth_tiles(product):
        return None
    left, right = (x.shape.element_type for x in product.hero.operands)
    core = _TYPES.get(left)
    if core is None or left is not right or product.total not in _TOTALS[core.total]:
        return None
    scratch = product.scratch_bytes(product.parts(_sizes(product, core)))
    return GpuPlan("mma", lambda: _code(product, core), scratch)


def _sizes(product: GpuProduct, core: CoreType) -> TileSizes:
    return product.sizes_among([replace(x, depth=2 * x.depth // core.nbytes) for x in _SIZES])


def _code(product: GpuProduct, core: CoreType) -> GpuCode:
    writer = _MmaWriter(product, core)
    writer.write()
    return product_code(writer.kernel, [x.array for x in writer.tiles])


class _MmaWriter:
    def __init__(self, product: GpuProduct, core: CoreType) -> None:
        self.product = product
        self.core = core
        self.sizes = _sizes(product, core)
        self.width = isqrt(self.sizes.rows * self.sizes.columns * WARP // self.sizes.threads)
        pieces = [pieces_of(product, x, self.sizes, core.nbytes) for x in (0, 1)]
        is_paired = core.nbytes == 1 and not pieces[1].along_depth
        lanes, parts = lanes_of(product, 4 if is_paired else 2), product.parts(self.sizes)
        self.kernel = TileKernel(product, self.sizes, lanes, parts=parts)
        names = ("left", "right")
        self.tiles = [self._tile(x, names[x], pieces[x]) for x in (0, 1)]
        fn, thread = self.kernel.fn, self.kernel.thread
        lane, warp = fn.rem(thread, WARP), fn.div(thread, WARP)
        several = self.sizes.columns // self.width
        begins = (
            fn.mul(fn.div(warp, several), self.width),
            fn.mul(fn.rem(warp, several), self.width),
        )
        self.parts = [MatrixTile(self.tiles[x], core, begins[x], lane) for x in (0, 1)]

    def _tile(self, side: int, name: str, pieces: TilePieces) -> OperandTile:
        sizes, gap = self.sizes, self.core.gap
        width = sizes.width(side)
        if pieces.along_depth:
            steps, count = (sizes.depth + gap, 1), width * (sizes.depth + gap)
        else:
            steps, count = (1, width + gap), sizes.depth * (width + gap)
        array = SharedArray(name, f"i{8 * self.core.nbytes}", HALVES * count)
        return OperandTile(self.kernel, side, pieces, array, steps, self._made(side))

    def _made(self, side: int) -> Made:
        """What writes elements of an operand as they lie in memory."""

        def made(elements: Elements, index: Index, mask: Mask | None) -> str:
            operand, frame = self.product.hero.operands[side], self.kernel.bound.frame
            array, is_floating = frame.arrays.get(operand), self.core.total == "float"
            if array is not None and is_floating:
                raw = replace(array, shape=array.shape.with_element_type(ElementType.U16))
                return elements.read(raw, index, mask).values[0].name
            value = elements.at(operand, index, frame, mask)
            if is_floating:
                type_ = operand.shape.element_type
                return in_16_bits(elements, self.product.target, value, type_)
            return (elements.vectors.splat(value) if elements.lanes > value.lanes else value).name

        return made

    # -- sums ------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether loads of the next tile come before the last products of this one."""
        return True

    @property
    def steps(self) -> Sequence[int]:
        """The depths within a tile at which products begin."""
        return range(0, self.sizes.depth, self.core.deep)

    @property
    def sum_types(self) -> Sequence[str]:
        """The type of each sum of a thread."""
        return [self.core.total] * (self.width // HIGH * (self.width // WIDE) * 4)

    @property
    def fragment_types(self) -> Sequence[str]:
        """The type of the numbers in each word that a thread needs for a step."""
        return [self.core.word] * (self.width // HIGH * 4 * 2)

    def fragments(self, step: int, half: Integer) -> list[str]:
        """Numbers along the depth of both tiles, as they make operands of products."""
        places = [(part, x) for part in self.parts for x in range(0, self.width, HIGH)]
        return [word for part, free in places for word in part.words(free, step, half)]

    def added(self, sums: Sequence[str], fragments: Sequence[str]) -> list[str]:
        """The sums of a warp after the products of a step."""
        fn, core = self.kernel.fn, self.core
        rows, columns = self.width // HIGH, self.width // WIDE
        found: list[str] = []
        for i in range(rows):
            for j in range(columns):
                a, b = fragments[4 * i :][:4], fragments[4 * rows + 2 * j :][:2]
                before = sums[4 * (i * columns + j) :][:4]
                result = fn.call(core.callee, [*a, *b, *before])
                found += [fn.op(f"extractvalue {core.result} {result}, {x}") for x in range(4)]
        return found

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        kernel, fn = self.kernel, self.kernel.fn
        sums = sums_along_depth(kernel, self)
        left, right = self.parts
        places = [(i, j) for i in range(0, self.width, HIGH) for j in range(0, self.width, HIGH)]
        for number, (i, j) in enumerate(places):
            both = sums[8 * number :][:8]
            for half in (0, 1):
                row = fn.add(fn.add(kernel.row, left.rows(half)), i)
                beside = [*both[2 * half :][:2], *both[4 + 2 * half :][:2]]
                for start, which in right.columns():
                    column = fn.add(fn.add(kernel.column, start), j)
                    kernel.finish(row, column, [beside[x] for x in which])
