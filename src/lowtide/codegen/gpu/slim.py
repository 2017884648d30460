"""Products of few rows or few columns, which take as long as the other operand takes to be read.

Each thread reads pieces of that operand at several depths, and adds up what they make with all rows
of the slim one. Then threads of a block that have sums for the same elements add these up by twos.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.elements.loops import multiplied
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Element
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.parts import product_code
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.threads import WARP, SharedArray, barrier, exchanged
from lowtide.codegen.gpu.tiles import TilePieces, has_whole_pieces, piece_place, pieces_of
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_MOST: Final = 8
"""Rows or columns, at most, of a slim operand."""

_THREADS: Final = 256
_LEAST_BLOCKS: Final = 256
"""Blocks that are wanted: two for each multiprocessor, about."""

_LEAST_WORK: Final = 1 << 13
"""Multiplications that are worth a block."""

_LONG: Final = 256
"""Terms of an element that one thread would take long for, whatever work there is."""

_BESIDE: Final = 32
"""Bytes side by side that threads read together, at least."""

_LINE: Final = 128
"""Bytes along the depth that threads read together, where it is as deep."""

_AHEAD: Final = 4
"""Pieces that a thread loads before it adds them up."""

_MOST_SHARED: Final = 1 << 15
"""Bytes of shared memory for sums that threads exchange: a kernel has 48 KiB without asking."""

_TYPES: Final = frozenset(
    {ElementType.F32, ElementType.F64, ElementType.S32, ElementType.S64, ElementType.U32}
)
"""Types of sums."""


def plan_slim(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product with few rows or columns runs, None where it is none."""
    product = product_of(instruction, target)
    if product is None or product.total not in _TYPES:
        return None
    if product.count < _LEAST_WORK and prod(product.layout.depth) < _LONG:
        return None
    if min(prod(product.layout.rows), prod(product.layout.columns)) > _MOST:
        return None
    scratch = product.scratch_bytes(product.parts(_Team.of(product).sizes(product)))
    return GpuPlan("slim", lambda: _code(product), scratch)


@dataclass(frozen=True, slots=True)
class _Team:
    """The threads of a block: `beside` of them take pieces side by side, `size` add up the same.

    `pieces` are those of the wide operand, the one of `side`.
    """

    side: int
    pieces: TilePieces
    beside: int
    size: int

    @classmethod
    def of(cls, product: GpuProduct) -> _Team:
        """Return threads that read whole lines, so divided that there are enough blocks."""
        layout = product.layout
        side = int(prod(layout.columns) >= prod(layout.rows))
        nbytes = product.hero.operands[side].shape.element_type.nbytes
        trial = TileSizes(1 << 12, 1 << 12, 1 << 12, _THREADS, 1, 1)
        pieces = pieces_of(product, side, trial, nbytes)
        if pieces.along_depth and not has_whole_pieces(product, 1 - side, trial, pieces):
            pieces = TilePieces(along_depth=True, run=1)
        wide, deep = prod(product.free(side)), prod(layout.depth)
        free, below = (1, pieces.run) if pieces.along_depth else (pieces.run, 1)
        size, beside_bytes = 1, pieces.run * nbytes
        least = 1 if pieces.along_depth else -(-_BESIDE // beside_bytes)
        while 2 * size * least <= _THREADS and size * below < deep:
            beside = _THREADS // size * free
            blocks = prod(layout.batch) * -(-wide // beside)
            is_line = not pieces.along_depth or size * beside_bytes >= _LINE
            if is_line and blocks >= _LEAST_BLOCKS and beside // 2 < wide:
                break
            size *= 2
        return cls(side, pieces, _THREADS // size, size)

    @property
    def free(self) -> int:
        """Rows or columns of the wide operand that a block takes."""
        return self.beside * (1 if self.pieces.along_depth else self.pieces.run)

    @property
    def deep(self) -> int:
        """The depth that one piece of each thread has together."""
        return self.size * (self.pieces.run if self.pieces.along_depth else 1)

    def sizes(self, product: GpuProduct) -> TileSizes:
        """Return the tile of a block."""
        slim = prod(product.free(1 - self.side))
        rows, columns = (slim, self.free) if self.side else (self.free, slim)
        ahead = min(_AHEAD, -(-prod(product.layout.depth) // self.deep))
        return TileSizes(rows, columns, ahead * self.deep, _THREADS, 2, 1)


def _code(product: GpuProduct) -> GpuCode:
    writer = _SlimWriter(product)
    writer.write()
    return product_code(writer.kernel, writer.shared)


class _SlimWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.team = team = _Team.of(product)
        self.sizes = team.sizes(product)
        self.run = team.pieces.run
        self.slim = prod(product.free(1 - team.side))
        group = min(self.run, 4) if team.side and not team.pieces.along_depth else 0
        lanes = lanes_of(product, group) if group > 1 else 0
        self.kernel = TileKernel(product, self.sizes, lanes, parts=product.parts(self.sizes))
        self.type = register_type(product.total)
        self.shared: list[SharedArray] = []
        fn, thread = self.kernel.fn, self.kernel.thread
        if team.pieces.along_depth:
            self.step, self.place = 1, fn.div(thread, team.size)
            self.member = fn.rem(thread, team.size)
        else:
            self.step, self.member = team.beside, fn.div(thread, team.beside)
            self.place = fn.mul(fn.rem(thread, team.beside), self.run)

    def write(self) -> None:
        """Write the kernel: sums of a thread, those of its team, and what is made of them."""
        depth, elements = self.kernel.depth, self.kernel.elements
        lanes = f"<{self.run} x {self.type}>" if self.run > 1 else self.type
        zero = "zeroinitializer" if self.run > 1 else self._zero
        carry = [(lanes, zero)] * self.slim
        with elements.scopes.loop(0, depth, self.sizes.depth, carry) as loop:
            loop.next = self._added(loop.index, list(loop.values))
        sums = [x for name in loop.results for x in self._single(name)]
        self._finish(self._of_team(sums))

    @property
    def _zero(self) -> str:
        return "0.0" if self.product.total.is_floating else "0"

    # -- sums of a thread ------------------------------------------------------------------------

    def _added(self, depth: Integer, sums: list[str]) -> list[str]:
        """The sums after some pieces, all of which are loaded ahead."""
        fn, team, along = self.kernel.fn, self.team, self.team.pieces.along_depth
        step = self.run if along else 1
        few = team.pieces if along else TilePieces(along_depth=False, run=1)
        found = []
        for start in range(0, self.sizes.depth, team.deep):
            deep = fn.add(depth, fn.add(fn.mul(self.member, step), start))
            wide = self._piece(team.side, team.pieces, self.place, deep)
            found.append((wide, deep))
        for wide, deep in found:
            for number in range(self.slim):
                x = self._piece(1 - team.side, few, number, deep)
                sums[number] = self._multiplied(sums[number], x, wide)
        return sums

    def _piece(self, side: int, pieces: TilePieces, free: Integer, deep: Integer) -> Value:
        """A piece of an operand in the type of the sums, 0 where there is none."""
        kernel, product = self.kernel, self.product
        fn, lanes = kernel.fn, pieces.run if pieces.run > 1 else 0
        elements = thread_elements(fn, product.target, lanes)
        elements.globals = kernel.elements.globals
        index, mask = piece_place(elements, kernel, side, pieces, free, deep)
        operand = product.hero.operands[side]
        found = elements.all_at(operand, index, kernel.bound.frame, mask)
        value = converted(elements, found, product.total).values[0]
        if lanes > value.lanes:
            value = elements.vectors.splat(value)
        if mask is None:
            return value
        zero = "zeroinitializer" if lanes else self._zero
        name = fn.select(mask.name, value.llvm_type, value.name, zero)
        return Value((name,), product.total, value.lanes)

    def _multiplied(self, before: str, x: Value, y: Value) -> str:
        product, lanes = self.product, self.run if self.run > 1 else 0
        elements = thread_elements(self.kernel.fn, product.target, lanes)
        total = Value((before,), product.total, lanes)
        (after,) = multiplied(elements, total, Element((x,), 0), Element((y,), 0))
        return after.name

    def _single(self, name: str) -> list[str]:
        """The sums in the lanes of one; along the depth all of them are one."""
        fn, run = self.kernel.fn, self.run
        if run == 1:
            return [name]
        kind = f"<{run} x {self.type}>"
        lanes = [fn.op(f"extractelement {kind} {name}, i64 {i}") for i in range(run)]
        if not self.team.pieces.along_depth:
            return lanes
        total = lanes[0]
        for lane in lanes[1:]:
            total = self._sum(total, lane)
        return [total]

    def _sum(self, a: str, b: str) -> str:
        operation = "fadd" if self.product.total.is_floating else "add"
        return self.kernel.fn.op(f"{operation} {self.type} {a}, {b}")

    # -- sums of a team --------------------------------------------------------------------------

    def _of_team(self, sums: list[str]) -> list[str]:
        """The sums of a team, in its first thread."""
        distance = self.team.size // 2
        while distance:
            apart = distance * self.step
            if apart >= WARP:
                sums = self._met(sums, distance, apart)
            else:
                fn = self.kernel.fn
                sums = [self._sum(x, exchanged(fn, self.type, x, apart)) for x in sums]
            distance //= 2
        return sums

    def _met(self, sums: list[str], distance: int, apart: int) -> list[str]:
        """The sums of threads of different warps, in those whose number is less than a distance."""
        most = _MOST_SHARED // (self._lines * self.product.total.nbytes)
        found: list[str] = []
        for i in range(0, len(sums), most):
            found += self._exchanged(sums[i : i + most], distance, apart)
        return found

    @property
    def _lines(self) -> int:
        """Threads that leave a sum at once, at most: members side by side leave gaps."""
        return _THREADS if self.team.pieces.along_depth else _THREADS // 2

    def _exchanged(self, sums: list[str], distance: int, apart: int) -> list[str]:
        """Some sums with those of the threads that lie apart, through one array in turn."""
        fn, thread = self.kernel.fn, self.kernel.thread
        if self.shared:
            barrier(fn)
        else:
            self.shared.append(SharedArray("sums", self.type, len(sums) * self._lines))
        (array,) = self.shared
        is_first = fn.compare("slt", self.member, distance)
        has_stored = fn.compare("slt", self.member, 2 * distance)
        places = [fn.add(thread, i * self._lines) for i in range(len(sums))]
        with fn.when(fn.select(is_first, "i1", "false", has_stored)):
            for place, name in zip(places, sums, strict=True):
                array.store(fn, fn.add(place, -apart), name)
        barrier(fn)

        def added() -> list[str]:
            others = [array.load(fn, place) for place in places]
            return [self._sum(a, b) for a, b in zip(sums, others, strict=True)]

        return fn.choose(is_first, [self.type] * len(sums), added, lambda: sums)

    def _finish(self, sums: list[str]) -> None:
        """Store what is made of the sums of a team."""
        kernel, fn, team = self.kernel, self.kernel.fn, self.team
        several, group = len(sums) // self.slim, max(kernel.lanes, 1)
        with kernel.elements.scopes.when(fn.compare("eq", self.member, 0)):
            for number in range(self.slim):
                for part in range(0, several, group):
                    names = sums[number * several + part :][:group]
                    wide = fn.add(self.place, part)
                    row, column = (number, wide) if team.side else (wide, number)
                    row, column = fn.add(kernel.row, row), fn.add(kernel.column, column)
                    kernel.finish(row, column, names)
