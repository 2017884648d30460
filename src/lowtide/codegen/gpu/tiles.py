"""Tiles of operands in shared memory: which of their numbers a thread brings, and how.

As many numbers come by one load as lie side by side at a multiple of their bytes, up to 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.gpu.kernel import buffer_names
from lowtide.codegen.gpu.product import DotLayout, GpuProduct, TileKernel, TileSizes
from lowtide.codegen.gpu.threads import SharedArray
from lowtide.codegen.gpu.vectors import ThreadMemory, elements_by, thread_elements
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.space import decomposed_lanes
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

_RUNS: Final = (8, 4, 2)
"""How many numbers may come at once, most first."""

_LINES: Final = 600
"""Lines of code of an operand, at most, that are written for several numbers at once."""

_BYTES: Final = 16

Made = Callable[[Elements, Index, "Mask | None"], str]
"""Writes the elements of an operand at an index, of each lane, as the tile takes them."""


@dataclass(frozen=True, slots=True)
class TilePieces:
    """How a tile is divided: `run` numbers side by side, along the depth or across it."""

    along_depth: bool
    run: int


def pieces_of(product: GpuProduct, side: int, sizes: TileSizes, nbytes: int) -> TilePieces:
    """Return the longest pieces of an operand that lie side by side wherever a thread needs them.

    A number in the tile has `nbytes`. No thread is without a piece.
    """
    along = product.lies_along_depth(side)
    most = min(_BYTES // nbytes, sizes.width(side) * sizes.depth // sizes.threads)
    for run in [x for x in _RUNS if x <= most]:
        for pieces in (TilePieces(along, run), TilePieces(not along, run)):
            if _lie_together(product, side, sizes, pieces):
                return pieces
    return TilePieces(along, 1)


def _lie_together(product: GpuProduct, side: int, sizes: TileSizes, pieces: TilePieces) -> bool:
    """Whether all that a piece is made of is read by single loads, or is one for all of it."""
    layout = product.layout
    lying = layout.depth if pieces.along_depth else product.free(side)
    if not lying or lying[-1] % pieces.run:
        return False
    fn, memory = Function("trial"), ThreadMemory()
    elements = elements_by(fn, product.target, pieces.run, memory)
    bound = bind(fn, product.instruction, buffer_names(product.instruction))
    batch = [elements.indices.variable("%batch", x) for x in layout.batch]
    index, mask = _place(elements, product, sizes, side, pieces, batch, "%free", "%deep")
    if mask is not None and mask.lanes:
        return False
    elements.all_at(product.hero.operands[side], index, bound.frame, mask)
    return not memory.apart and len(fn.lines) <= _LINES


def _place(
    elements: Elements,
    product: GpuProduct,
    sizes: TileSizes,
    side: int,
    pieces: TilePieces,
    batch: Sequence[Affine],
    free: Integer,
    depth: Integer,
) -> tuple[Index, Mask | None]:
    """The index of the elements of a piece in the operand, and where there are any.

    `free` is the row in the left one (side 0) or the column in the right one where it begins.
    """
    layout = product.layout
    along = product.free(side)
    mask = elements.vectors.both(
        _below(elements, free, prod(along), sizes.width(side)),
        _below(elements, depth, prod(layout.depth), sizes.depth),
    )
    lying, deep = pieces.run > 1, pieces.along_depth
    place = decomposed_lanes(elements, free, along, has_lanes=lying and not deep)
    below = decomposed_lanes(elements, depth, layout.depth, has_lanes=lying and deep)
    index, there = layout.operand_index(elements, side, tuple(batch), tuple(place), tuple(below))
    return index, elements.vectors.both(mask, there)


def _below(elements: Elements, number: Integer, size: int, tile: int) -> Mask | None:
    if size % tile == 0:
        return None
    return Mask(elements.function.compare("slt", number, size), 0, elements.scopes.level)


def piece_place(
    elements: Elements,
    kernel: TileKernel,
    side: int,
    pieces: TilePieces,
    free: Integer,
    depth: Integer,
) -> tuple[Index, Mask | None]:
    """Return the index of the elements of a piece in the operand, and where there are any.

    `free` is where it begins in the tile, `depth` where it begins in the operand.
    """
    free = kernel.fn.add(kernel.column if side else kernel.row, free)
    return _place(elements, kernel.product, kernel.sizes, side, pieces, kernel.batch, free, depth)


class OperandTile:
    """A tile of an operand in shared memory, which the threads of a block bring.

    `steps` are from one number in `array` to the next, along the rows or columns of the operand and
    along the depth.
    """

    def __init__(
        self,
        kernel: TileKernel,
        side: int,
        pieces: TilePieces,
        array: SharedArray,
        steps: tuple[int, int],
    ) -> None:
        self.kernel = kernel
        self.side = side
        self.pieces = pieces
        self.array = array
        self.steps = steps

    def place(self, free: Integer, deep: Integer) -> Integer:
        """Return where a number lies in the array."""
        fn = self.kernel.fn
        return fn.add(fn.mul(free, self.steps[0]), fn.mul(deep, self.steps[1]))

    def bring(self, depth: Integer, made: Made) -> None:
        """Write the loads and stores of a thread for the tile that begins at a depth.

        Where operands are computed or looked for in windows that is one loop, which needs fewer
        registers; else it is written out, all loads ahead of the stores.
        """
        kernel, sizes = self.kernel, self.kernel.sizes
        count, step = sizes.width(self.side) * sizes.depth // self.pieces.run, sizes.threads
        operand = kernel.product.hero.operands[self.side]
        is_plain = operand in kernel.bound.frame.arrays
        if count == step or (is_plain and isinstance(kernel.product.layout, DotLayout)):
            found = [self._piece(number, depth, made) for number in range(0, count, step)]
            for piece in found:
                self._store(*piece)
            return
        with kernel.elements.scopes.loop(0, count, step) as loop:
            self._store(*self._piece(loop.index, depth, made))

    def _piece(self, number: Integer, depth: Integer, made: Made) -> tuple[Integer, Integer, str]:
        """Where a piece of the thread begins in the tile, and its numbers.

        They are written where they stand: within the loop, which LLVM moves out of what it can.
        """
        kernel, pieces = self.kernel, self.pieces
        fn, run = kernel.fn, pieces.run
        first, second = self._begin(number)
        free, deep = (second, first) if pieces.along_depth else (first, second)
        elements = thread_elements(fn, kernel.product.target, run if run > 1 else 0)
        elements.globals = kernel.elements.globals
        start = kernel.column if self.side else kernel.row
        index, mask = _place(
            elements,
            kernel.product,
            kernel.sizes,
            self.side,
            pieces,
            kernel.batch,
            fn.add(start, free),
            fn.add(depth, deep),
        )
        name = made(elements, index, mask)
        if mask is not None:
            zero = "zeroinitializer" if run > 1 else self.array.zero
            name = fn.select(mask.name, self._type, name, zero)
        return free, deep, name

    def _begin(self, number: Integer) -> tuple[Integer, Integer]:
        """Where a piece begins along the numbers that lie side by side, and across them."""
        fn, sizes, pieces = self.kernel.fn, self.kernel.sizes, self.pieces
        inner = sizes.depth if pieces.along_depth else sizes.width(self.side)
        several = inner // pieces.run
        thread: Integer = self.kernel.thread
        if sizes.threads % several:
            thread, number = fn.add(thread, number), 0
        first = fn.mul(fn.rem(thread, several), pieces.run)
        return first, fn.add(fn.div(thread, several), fn.div(number, several))

    @property
    def _type(self) -> str:
        run, type_ = self.pieces.run, self.array.type
        return f"<{run} x {type_}>" if run > 1 else type_

    def _store(self, free: Integer, deep: Integer, name: str) -> None:
        """Store a piece, as a whole where its numbers lie side by side in the tile, too."""
        fn, run = self.kernel.fn, self.pieces.run
        place = self.place(free, deep)
        step = self.steps[1 if self.pieces.along_depth else 0]
        if run == 1 or step == 1:
            self.array.store(fn, place, name, run)
            return
        for lane in range(run):
            one = fn.op(f"extractelement {self._type} {name}, i64 {lane}")
            self.array.store(fn, fn.add(place, lane * step), one)
