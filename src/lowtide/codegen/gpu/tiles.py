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
from lowtide.codegen.elementwise.formats import encoded
from lowtide.codegen.elementwise.memory import numbers
from lowtide.codegen.gpu.kernel import buffer_names
from lowtide.codegen.gpu.product import DotLayout, GpuProduct, TileKernel, TileSizes
from lowtide.codegen.gpu.threads import SharedArray, element_align
from lowtide.codegen.gpu.vectors import ThreadMemory, elements_by, thread_elements
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.space import decomposed_lanes
from lowtide.codegen.value import Value
from lowtide.ir import ElementType
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_RUNS: Final = (16, 8, 4, 2)
"""How many numbers may come at once, most first."""

_LINES: Final = 600
"""Lines of code of an operand, at most, that are written for several numbers at once."""

_BYTES: Final = 16

_REGISTERS: Final = 16
"""Words of a tile, at most, that a thread keeps in registers."""

HALVES: Final = 2
"""Tiles of an operand in shared memory: one is brought while the other one is added up."""

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


def has_whole_pieces(product: GpuProduct, side: int, sizes: TileSizes, pieces: TilePieces) -> bool:
    """Return whether an operand has all or nothing of each piece, wherever it lies."""
    return isinstance(product.layout, DotLayout) or _lie_together(product, side, sizes, pieces)


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

    `free` is where it begins in the tile, `depth` where it begins in the part of the operand.
    """
    depth = kernel.fn.add(kernel.begin, depth)
    free = kernel.fn.add(kernel.column if side else kernel.row, free)
    return _place(elements, kernel.product, kernel.sizes, side, pieces, kernel.batch, free, depth)


def in_16_bits(elements: Elements, target: Target, value: Value, type_: ElementType) -> str:
    """Return numbers of bf16 or f16 as they lie in memory, one of each lane."""
    if elements.lanes > value.lanes:
        value = elements.vectors.splat(value)
    (number,) = numbers(elements.function, target, value)
    packed = encoded(type_, number)
    if packed.element == "i16":
        return packed.name
    bits = f"<{elements.lanes} x i16>" if elements.lanes else "i16"
    return elements.function.op(f"bitcast {packed.type} {packed.name} to {bits}")


class OperandTile:
    """A tile of an operand in shared memory, which the threads of a block bring.

    `steps` are from one number in `array` to the next, along the rows or columns of the operand and
    along the depth. The array has two halves: one is brought while the other one is read. `made`
    writes what is in it.
    """

    def __init__(
        self,
        kernel: TileKernel,
        side: int,
        pieces: TilePieces,
        array: SharedArray,
        steps: tuple[int, int],
        made: Made,
    ) -> None:
        self.kernel = kernel
        self.side = side
        self.pieces = pieces
        self.array = array
        self.steps = steps
        self.made = made

    def place(self, free: Integer, deep: Integer, half: Integer = 0) -> Integer:
        """Return where a number lies in the array."""
        fn = self.kernel.fn
        place = fn.add(fn.mul(free, self.steps[0]), fn.mul(deep, self.steps[1]))
        return fn.add(fn.mul(half, self.array.count // HALVES), place)

    @property
    def numbers(self) -> range:
        """The pieces of the first thread, counted in the tile."""
        sizes = self.kernel.sizes
        count = sizes.width(self.side) * sizes.depth // self.pieces.run
        return range(0, count, sizes.threads)

    @property
    def is_held(self) -> bool:
        """Whether a thread has registers for its pieces of a tile while another one is added up."""
        return len(self.numbers) == 1 or (self._is_plain and len(self.numbers) <= self._at_once)

    @property
    def _is_plain(self) -> bool:
        """Whether the operand is an array that is read without windows."""
        product = self.kernel.product
        is_array = product.hero.operands[self.side] in self.kernel.bound.frame.arrays
        return is_array and isinstance(product.layout, DotLayout)

    @property
    def _at_once(self) -> int:
        """The pieces that a thread has registers for at once, a power of 2.

        A single number needs its address, too, and computed ones take more.
        """
        words = max(self.pieces.run * element_align(self.array.type) // 4, 1)
        words += 2 * words if self.pieces.run == 1 else 0
        return 1 << (max(_REGISTERS // words, 1) if self._is_plain else 1).bit_length() - 1

    def bring(self, depth: Integer, half: Integer) -> None:
        """Write the loads and stores of a thread for the tile that begins at a depth."""
        numbers, count = self.numbers, self._at_once
        if len(numbers) <= count:
            self.store_all(self.load_all(depth), half)
            return
        step = count * numbers.step
        with self.kernel.elements.scopes.loop(0, numbers.stop, step) as loop:
            several = [self.kernel.fn.add(loop.index, x) for x in range(0, step, numbers.step)]
            names = [self._load(x, depth) for x in several]
            for number, name in zip(several, names, strict=True):
                self._store(number, name, half)

    def load_all(self, depth: Integer) -> list[str]:
        """Write the loads of a thread for the tile that begins at a depth; return its pieces."""
        return [self._load(number, depth) for number in self.numbers]

    def store_all(self, names: Sequence[str], half: Integer) -> None:
        """Write the stores of the pieces of a thread."""
        for number, name in zip(self.numbers, names, strict=True):
            self._store(number, name, half)

    def _load(self, number: Integer, depth: Integer) -> str:
        """The numbers of a piece of the thread.

        They are written where they stand: within the loop, which LLVM moves out of what it can.
        """
        kernel, run = self.kernel, self.pieces.run
        fn = kernel.fn
        free, deep = self._begin(number)
        elements = thread_elements(fn, kernel.product.target, run if run > 1 else 0)
        elements.globals = kernel.elements.globals
        deep = fn.add(depth, deep)
        index, mask = piece_place(elements, kernel, self.side, self.pieces, free, deep)
        name = self.made(elements, index, mask)
        if mask is not None:
            zero = "zeroinitializer" if run > 1 else self.array.zero
            name = fn.select(mask.name, self.piece_type, name, zero)
        return name

    def _begin(self, number: Integer) -> tuple[Integer, Integer]:
        """Where a piece begins in the tile, along rows or columns and along the depth."""
        fn, sizes, pieces = self.kernel.fn, self.kernel.sizes, self.pieces
        inner = sizes.depth if pieces.along_depth else sizes.width(self.side)
        several = inner // pieces.run
        thread: Integer = self.kernel.thread
        if sizes.threads % several:
            thread, number = fn.add(thread, number), 0
        first = fn.mul(fn.rem(thread, several), pieces.run)
        second = fn.add(fn.div(thread, several), fn.div(number, several))
        return (second, first) if pieces.along_depth else (first, second)

    @property
    def piece_type(self) -> str:
        """The type of a piece."""
        run, type_ = self.pieces.run, self.array.type
        return f"<{run} x {type_}>" if run > 1 else type_

    def _store(self, number: Integer, name: str, half: Integer) -> None:
        """Store a piece, as a whole where its numbers lie side by side in the tile, too."""
        fn, run = self.kernel.fn, self.pieces.run
        place = self.place(*self._begin(number), half)
        step = self.steps[1 if self.pieces.along_depth else 0]
        if run == 1 or step == 1:
            self.array.store(fn, place, name, run)
            return
        for lane in range(run):
            one = fn.op(f"extractelement {self.piece_type} {name}, i64 {lane}")
            self.array.store(fn, fn.add(place, lane * step), one)
