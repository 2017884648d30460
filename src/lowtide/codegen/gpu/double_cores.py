"""Products of f64 matrices on tensor cores (`mma.sync`), which multiply and add as f64 means.

A block makes a tile, each warp a part of it from products of small matrices, whose operands the
threads load from shared memory number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.gpu.ffma import is_worth_tiles
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.parts import product_code
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.stages import sums_along_depth
from lowtide.codegen.gpu.threads import WARP, SharedArray
from lowtide.codegen.gpu.tiles import HALVES, Made, OperandTile, pieces_of
from lowtide.codegen.indexing import Index
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.callee import Callee, external
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_SIZES: Final = (TileSizes(128, 128, 8, 8 * WARP, 1, 1), TileSizes(64, 64, 8, 4 * WARP, 2, 1))
_PARTS: Final = {8 * WARP: (64, 32), 4 * WARP: (32, 32)}
"""Tiles, and by their threads the rows and columns that a warp makes."""

_WIDE: Final = 8
"""Columns of one product."""

_GAP: Final = 4
"""Numbers from the end of a row of a tile to the next: so the threads of a warp meet in no bank."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """One product of a warp: `high` x `deep` by `deep` x 8."""

    high: int
    deep: int

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of each thread: of both operands, and of the result."""
        return self.high // 8 * self.deep // 4, self.deep // 4, self.high // 4

    @property
    def result(self) -> str:
        """The type of what the product returns."""
        return f"{{ {', '.join(['double'] * self.counts[2])} }}"

    @property
    def callee(self) -> Callee:
        """The intrinsic."""
        name = f"llvm.nvvm.mma.m{self.high}n8k{self.deep}.row.col.f64"
        return external(name, self.result, *["double"] * sum(self.counts))


_SMALL, _LARGE = _Shape(8, 4), _Shape(16, 8)
_SHAPES: Final = {"sm_80": _SMALL, "sm_90": _LARGE, "sm_90a": _LARGE, "sm_100": _SMALL}
"""The largest product that each architecture has an instruction for; others have slow ones."""


def plan_double_cores(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product of f64 runs on tensor cores, None where it is none they make."""
    product = product_of(instruction, target)
    if product is None or product.total is not ElementType.F64 or not is_worth_tiles(product):
        return None
    if target.cpu not in _SHAPES:
        return None
    scratch = product.scratch_bytes(product.parts(product.sizes_among(_SIZES)))
    return GpuPlan("dmma", lambda: _code(product), scratch)


def _code(product: GpuProduct) -> GpuCode:
    writer = _DoubleWriter(product)
    writer.write()
    return product_code(writer.kernel, [x.array for x in writer.tiles])


class _DoubleWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.shape = _SHAPES[product.target.cpu]
        self.sizes = product.sizes_among(_SIZES)
        self.part = _PARTS[self.sizes.threads]
        lanes, parts = lanes_of(product, 2), product.parts(self.sizes)
        self.kernel = TileKernel(product, self.sizes, lanes, parts=parts)
        self.tiles = [self._tile(side, name) for side, name in enumerate(("left", "right"))]
        fn, thread = self.kernel.fn, self.kernel.thread
        lane, warp = fn.rem(thread, WARP), fn.div(thread, WARP)
        self.group, self.member = fn.div(lane, 4), fn.rem(lane, 4)
        several = self.sizes.columns // self.part[1]
        down = fn.mul(fn.div(warp, several), self.part[0])
        across = fn.mul(fn.rem(warp, several), self.part[1])
        self.begins = (down, across)
        self.places = [
            tile.place(fn.add(begin, self.group), self.member)
            for tile, begin in zip(self.tiles, self.begins, strict=True)
        ]

    def _tile(self, side: int, name: str) -> OperandTile:
        sizes = self.sizes
        pieces = pieces_of(self.product, side, sizes, ElementType.F64.nbytes)
        width = sizes.width(side)
        if pieces.along_depth:
            steps, count = (sizes.depth + _GAP, 1), width * (sizes.depth + _GAP)
        else:
            steps, count = (1, width + _GAP), sizes.depth * (width + _GAP)
        array = SharedArray(name, "double", HALVES * count)
        return OperandTile(self.kernel, side, pieces, array, steps, self._made(side))

    def _made(self, side: int) -> Made:
        """What writes elements of an operand."""

        def made(elements: Elements, index: Index, mask: Mask | None) -> str:
            operand, frame = self.product.hero.operands[side], self.kernel.bound.frame
            found = elements.all_at(operand, index, frame, mask)
            value = converted(elements, found, self.product.total).values[0]
            return (elements.vectors.splat(value) if elements.lanes > value.lanes else value).name

        return made

    # -- sums ------------------------------------------------------------------------------------

    @property
    def _products(self) -> tuple[int, int]:
        """How many products a warp makes of its part, below and beside each other."""
        return self.part[0] // self.shape.high, self.part[1] // _WIDE

    @property
    def is_ahead(self) -> bool:
        """Whether loads of the next tile come before the last products of this one."""
        return True

    @property
    def steps(self) -> Sequence[int]:
        """The depths within a tile at which products begin."""
        return range(0, self.sizes.depth, self.shape.deep)

    @property
    def sum_types(self) -> Sequence[str]:
        """The type of each sum of a thread."""
        down, across = self._products
        return ["double"] * (down * across * self.shape.counts[2])

    @property
    def fragment_types(self) -> Sequence[str]:
        """The type of each number that a thread needs for a step."""
        left, right, _ = self.shape.counts
        down, across = self._products
        return ["double"] * (down * left + across * right)

    def fragments(self, step: int, half: Integer) -> list[str]:
        """Numbers of both tiles as they make operands of products."""
        shape, found = self.shape, []
        for side, (tile, first) in enumerate(zip(self.tiles, self.places, strict=True)):
            high = _WIDE if side else shape.high
            for begin in range(0, self.part[side], high):
                for deep in range(step, step + shape.deep, 4):
                    for free in range(begin, begin + high, 8):
                        place = self.kernel.fn.add(first, tile.place(free, deep, half))
                        found.append(tile.array.load(self.kernel.fn, place))
        return found

    def added(self, sums: Sequence[str], fragments: Sequence[str]) -> list[str]:
        """The sums of a warp after the products of a step."""
        fn, shape = self.kernel.fn, self.shape
        left, right, count = shape.counts
        down, across = self._products
        found: list[str] = []
        for i in range(down):
            for j in range(across):
                a = fragments[left * i :][:left]
                b = fragments[left * down + right * j :][:right]
                before = sums[count * (i * across + j) :][:count]
                result = fn.call(shape.callee, [*a, *b, *before])
                found += [fn.op(f"extractvalue {shape.result} {result}, {x}") for x in range(count)]
        return found

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        kernel, fn = self.kernel, self.kernel.fn
        sums = sums_along_depth(kernel, self)
        for i in range(0, self.part[0], self.shape.high):
            for j in range(0, self.part[1], _WIDE):
                for below in range(0, self.shape.high, 8):
                    row = fn.add(fn.add(kernel.row, self.begins[0]), fn.add(self.group, i + below))
                    near = fn.add(fn.mul(self.member, 2), j)
                    column = fn.add(fn.add(kernel.column, self.begins[1]), near)
                    names, sums = sums[:2], sums[2:]
                    kernel.finish(row, column, names)
