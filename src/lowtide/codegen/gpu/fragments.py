"""Operands of tensor cores: matrices that a warp loads from a tile in shared memory.

`ldmatrix` moves 8 rows of 16 bytes, which are as long as 8 numbers of 16 bits or 16 bytes. Numbers
of 16 bits can come turned, so that a tile may lie either way. Bytes that lie across the depth come
turned by pairs: a thread gets those of two rows at two depths, and sorts them. Its rows are then
2 i and 2 i + 1 in place of i and i + 8.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.gpu.tiles import OperandTile
from lowtide.llvm.callee import Callee, external
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

HIGH, WIDE = 16, 8
"""Rows and columns of one product."""

_ROW_BYTES: Final = 16
_WORDS: Final = "{ i32, i32, i32, i32 }"


@dataclass(frozen=True, slots=True)
class CoreType:
    """How tensor cores take numbers of `nbytes`: `name` of the intrinsic, types in IR.

    `word` holds 4 bytes of operands, `total` is a sum.
    """

    name: str
    nbytes: int
    word: str
    total: str

    @property
    def deep(self) -> int:
        """The depth of one product."""
        return 2 * _ROW_BYTES // self.nbytes

    @property
    def gap(self) -> int:
        """Numbers from the end of a row of a tile to the next: so threads meet in no bank."""
        return _ROW_BYTES // self.nbytes

    @property
    def result(self) -> str:
        """The type of what a product returns."""
        return f"{{ {', '.join([self.total] * 4)} }}"

    @property
    def callee(self) -> Callee:
        """The product of a warp."""
        types = [self.word] * 6 + [self.total] * 4
        name = f"llvm.nvvm.mma.m16n8k{self.deep}.row.col.{self.name}"
        return external(name, self.result, *types)


def _matrices(kind: str) -> Callee:
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{kind}.b16.p3"
    return external(name, _WORDS, "ptr addrspace(3)")


_AS_STORED: Final = _matrices("")
_TURNED: Final = _matrices(".trans")
"""Loads of four matrices of 8 rows by a warp, each lane of which has the address of one row."""


class MatrixTile:
    """The part of a tile that a warp needs, from row or column `begin` on."""

    def __init__(self, tile: OperandTile, core: CoreType, begin: Integer, lane: Integer) -> None:
        self.tile = tile
        self.core = core
        self.begin = begin
        fn = tile.kernel.fn
        self.group, self.member = fn.div(lane, 4), fn.rem(lane, 4)
        self.first = self._row_of_lane(fn, lane)

    @property
    def is_paired(self) -> bool:
        """Whether a thread has neighbours in place of rows or columns 8 apart."""
        return self.core.nbytes == 1 and not self.tile.pieces.along_depth

    def _row_of_lane(self, fn: Function, lane: Integer) -> Integer:
        """Where the row of a matrix lies that a lane has the address of, of the warp's first four.

        The next matrix is behind the first one along the rows of the left operand, or along the
        depth of the right one, since registers side by side make an operand; the others the other
        way. Of pairs the first two matrices have the depths of two registers.
        """
        line, number = fn.rem(lane, 8), fn.div(lane, 8)
        near, far = fn.rem(number, 2), fn.div(number, 2)
        if self.is_paired:
            depth = fn.add(fn.mul(fn.div(line, 2), 4), fn.rem(line, 2))
            depth = fn.add(depth, fn.add(fn.mul(near, 2), fn.mul(far, _ROW_BYTES)))
            return self.tile.place(self.begin, depth)
        across, deep = (far, near) if self.tile.side else (near, far)
        free, depth = fn.mul(across, 8), fn.mul(deep, _ROW_BYTES // self.core.nbytes)
        if self.tile.pieces.along_depth:
            free = fn.add(free, line)
        else:
            depth = fn.add(depth, line)
        return self.tile.place(fn.add(self.begin, free), depth)

    def words(self, free: int, depth: int, half: Integer) -> list[str]:
        """Load 16 rows of the left operand at a depth, or 16 columns of the right one.

        Of these the first two words are 8, the others the other 8.
        """
        fn, tile, core = self.tile.kernel.fn, self.tile, self.core
        at = fn.add(self.first, tile.place(free, depth, half))
        callee = _AS_STORED if tile.pieces.along_depth else _TURNED
        found = fn.call(callee, [tile.array.address(fn, at)])
        words = [fn.op(f"extractvalue {_WORDS} {found}, {i}") for i in range(4)]
        if self.is_paired:
            low, high = _sorted(fn, *words[:2]), _sorted(fn, *words[2:])
            words = [low[0], high[0], low[1], high[1]] if tile.side else [*low, *high]
        if core.word == "i32":
            return words
        return [fn.op(f"bitcast i32 {x} to {core.word}") for x in words]

    def rows(self, half: int) -> Integer:
        """Return the row of a thread's sums in the first 16 of the warp, of both the first or next.

        Sums 0 and 1 of a product are in the first, 2 and 3 in the next.
        """
        fn = self.tile.kernel.fn
        place = (
            fn.add(fn.mul(self.group, 2), half) if self.is_paired else fn.add(self.group, 8 * half)
        )
        return fn.add(self.begin, place)

    def columns(self) -> list[tuple[Integer, tuple[int, ...]]]:
        """Return where sums of a thread that lie side by side begin in the warp's first 16 columns.

        With each, which of the sums in its row they are: 0 and 1 of the first product, 2 and 3 of
        the next.
        """
        fn = self.tile.kernel.fn
        if self.is_paired:
            return [(fn.add(self.begin, fn.mul(self.member, 4)), (0, 2, 1, 3))]
        first = fn.add(self.begin, fn.mul(self.member, 2))
        return [(first, (0, 1)), (fn.add(first, WIDE), (2, 3))]


def _sorted(fn: Function, a: str, b: str) -> list[str]:
    """The first bytes of pairs in two words, and the second ones."""
    x, y = [fn.op(f"bitcast i32 {word} to <4 x i8>") for word in (a, b)]
    parts = [fn.shuffle("<4 x i8>", x, y, [i, i + 2, i + 4, i + 6]) for i in (0, 1)]
    return [fn.op(f"bitcast <4 x i8> {part} to i32") for part in parts]
