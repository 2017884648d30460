"""Products of bf16 and f16 matrices by warpgroups (`wgmma`), added up in f32, on sm_90a.

A block of two warpgroups makes a tile; each makes half of its rows. Tiles of both operands come to
a ring of stages in shared memory ahead of use: while the products of one stage go on, those of the
one before it end, and a later one is brought to where the one before that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.gpu.copies import BYTES, commit_copies, wait_for_copies
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.product import (
    ENOUGH,
    GpuProduct,
    TileKernel,
    TileSizes,
    lanes_of,
    product_of,
)
from lowtide.codegen.gpu.rings import NUMBER_BYTES, Ring, RingTile
from lowtide.codegen.gpu.threads import WARP, LaunchedArray, barrier, exchanged
from lowtide.codegen.gpu.tiles import pieces_of
from lowtide.ir import ElementType, Instruction
from lowtide.ir.gpu_names import SHARED_BYTES
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.callee import Callee
from lowtide.llvm.function import Integer
from lowtide.llvm.target import Target
from lowtide.llvm.warpgroup import (
    COMMIT,
    DEEP,
    FENCE,
    HIGH,
    PROXY_FENCE,
    product,
    sums_of,
    sums_type,
    wait,
)

ARCHITECTURE: Final = "sm_90a"

_WARPGROUP: Final = 4 * WARP
_GROUPS: Final = 2
_THREADS: Final = _GROUPS * _WARPGROUP

_SIZES: Final = (
    (TileSizes(128, 256, 64, _THREADS, 1, 1), 1.0),
    (TileSizes(256, 128, 64, _THREADS, 1, 1), 1.0),
    (TileSizes(128, 128, 64, _THREADS, 2, 1), 1.3),
    (TileSizes(128, 64, 64, _THREADS, 2, 1), 2.0),
)
"""Tiles, and how much longer they take for as much of a product: they load more for it."""

_LEAST_DEPTH: Final = 128
"""Numbers that are summed up, at least, for which the first tiles are worth the wait."""

_STAGES: Final = 4
"""Stages of a ring, at most."""

_BESIDE: Final = 1024
"""Bytes of shared memory that each block takes beside what it asks for."""

_SPAN: Final = 2048
"""Rows of the product, about, that blocks which run at once make together."""

_NAMES: Final = {ElementType.BF16: "bf16", ElementType.F16: "f16"}


def plan_warpgroups(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a large product runs by warpgroups, None where it is none that they make."""
    if target.cpu != ARCHITECTURE:
        return None
    product = product_of(instruction, target)
    if product is None or product.total is not ElementType.F32:
        return None
    left, right = (x.shape.element_type for x in product.hero.operands)
    if left is not right or left not in _NAMES:
        return None
    sizes = _sizes_for(product)
    if sizes is None or prod(product.layout.depth) < _LEAST_DEPTH:
        return None
    return GpuPlan("wgmma", lambda: _code(product, sizes))


def _sizes_for(product: GpuProduct) -> TileSizes | None:
    """The tiles that take least time, of those of which there are enough; None where none are."""
    found = [
        (product.tiles(x, whole=False) * x.rows * x.columns * longer, number)
        for number, (x, longer) in enumerate(_SIZES)
        if product.tiles(x, whole=True) >= ENOUGH
    ]
    if not found:
        return None
    sizes = _SIZES[min(found)[1]][0]
    pieces = [pieces_of(product, x, sizes, NUMBER_BYTES) for x in (0, 1)]
    is_copied = all(x.run * NUMBER_BYTES == BYTES for x in pieces)
    return sizes if is_copied else replace(sizes, blocks=sizes.fewer)


def _lanes_for(product: GpuProduct) -> int:
    """How many columns a thread finishes at once: up to 16 bytes of any array."""
    shapes = [*[x.shape for x in product.instruction.operands], product.instruction.shape]
    widest = max([x.element_type.nbytes for shape in shapes for x in leaves(shape)])
    fitting = [x for x in (8, 4, 2) if x * widest <= BYTES and lanes_of(product, x)]
    return fitting[0] if fitting else 0


def _code(product: GpuProduct, sizes: TileSizes) -> GpuCode:
    writer = _WarpgroupWriter(product, sizes)
    writer.write()
    kernel = writer.kernel
    constants = [kernel.done(), writer.ring.array.definition]
    launch = writer.launch
    return GpuCode((kernel.fn,), (launch,), "\n".join([x for x in constants if x]))


def _ring(sizes: TileSizes) -> Ring:
    """As many stages as the blocks have room for that run at once."""
    numbers = (sizes.rows + sizes.columns) * sizes.depth
    most = SHARED_BYTES[ARCHITECTURE] // sizes.blocks - _BESIDE
    stages = min(_STAGES, most // (numbers * NUMBER_BYTES))
    return Ring(LaunchedArray("ring", "i16", stages * numbers), stages, numbers)


class _WarpgroupWriter:
    def __init__(self, product: GpuProduct, sizes: TileSizes) -> None:
        self.product, self.sizes = product, sizes
        self.type = product.hero.operands[0].shape.element_type
        self.kernel = TileKernel(product, sizes, _lanes_for(product), group=_SPAN // sizes.rows)
        self.ring = _ring(sizes)
        self.tiles = [RingTile(self.kernel, x, self.ring, self._start(x)) for x in (0, 1)]
        self.high = sizes.rows // _GROUPS
        fn, thread = self.kernel.fn, self.kernel.thread
        self.down = fn.mul(fn.div(thread, _WARPGROUP), self.high)
        self.callee = self._callee()
        self.count = self.high // HIGH * sums_of(sizes.columns)

    @property
    def launch(self) -> GridLaunch:
        """How the kernel is launched."""
        return replace(self.kernel.launch, shared_bytes=self.ring.array.count * NUMBER_BYTES)

    def _start(self, side: int) -> int:
        return self.sizes.rows * self.sizes.depth if side else 0

    def _callee(self) -> Callee:
        across = [not x.pieces.along_depth for x in self.tiles]
        return product(self.sizes.columns, _NAMES[self.type], across)

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        elements, sizes = self.kernel.elements, self.sizes
        steps = -(-prod(self.product.layout.depth) // sizes.depth)
        ahead = min(self.ring.stages - 2, steps)
        for step in range(ahead):
            self._bring(step)
        carry = [("float", "0.0")] * self.count
        with elements.scopes.loop(0, steps - ahead, 1, carry) as loop:
            later = self.kernel.fn.add(loop.index, ahead)
            loop.next = self._step(loop.index, loop.values, ahead - 1, later)
        sums = loop.results
        for step in range(steps - ahead, steps):
            sums = self._step(step, sums, steps - 1 - step)
        self._finish(self._waited(0, sums))

    # -- steps -----------------------------------------------------------------------------------

    def _bring(self, step: Integer) -> None:
        """Begin to bring the tiles of a step."""
        fn = self.kernel.fn
        stage, depth = fn.rem(step, self.ring.stages), fn.mul(step, self.sizes.depth)
        for tile in self.tiles:
            tile.bring(stage, depth)
        if self._has_copies:
            commit_copies(fn)

    @property
    def _has_copies(self) -> bool:
        return any(x.is_copied for x in self.tiles)

    def _step(
        self, step: Integer, sums: Sequence[str], pending: int, later: Integer | None = None
    ) -> list[str]:
        """The sums after a step's products, which go on; those of the step before have ended.

        So many groups of copies are for steps after this one. The tiles of a `later` step are
        brought to a stage that all threads have finished with at the barrier.
        """
        fn = self.kernel.fn
        if self._has_copies:
            wait_for_copies(fn, pending)
        fn.call(PROXY_FENCE, [])
        barrier(fn)
        fn.call(FENCE, [])
        sums = self._added(fn.rem(step, self.ring.stages), sums)
        fn.call(COMMIT, [])
        if later is not None:
            self._bring(later)
        return self._waited(1, sums)

    def _added(self, stage: Integer, sums: Sequence[str]) -> list[str]:
        """The sums after the products of a stage are begun."""
        fn = self.kernel.fn
        left, right = self.tiles[0].descriptor(stage, self.down), self.tiles[1].descriptor(stage, 0)
        each = sums_of(self.sizes.columns)
        parts = [list(sums[i : i + each]) for i in range(0, len(sums), each)]
        for deep in range(0, self.sizes.depth, DEEP):
            for number, part in enumerate(parts):
                given = [left(number * HIGH, deep), right(0, deep), *part]
                parts[number] = self._numbers(fn.call(self.callee, given), each)
        return [x for part in parts for x in part]

    def _waited(self, pending: int, sums: Sequence[str]) -> list[str]:
        """The sums once all but so many groups of products have ended."""
        count = len(sums)
        return self._numbers(self.kernel.fn.call(wait(pending, count), sums), count)

    def _numbers(self, found: str, count: int) -> list[str]:
        fn, type_ = self.kernel.fn, sums_type(count)
        return [fn.op(f"extractvalue {type_} {found}, {i}") for i in range(count)]

    # -- results ---------------------------------------------------------------------------------

    def _finish(self, sums: Sequence[str]) -> None:
        """Store what is made of the sums: a thread has two of each 8 in a row, of rows 8 apart.

        Where more lanes lie side by side, as many threads exchange theirs first, so that each has
        all of a row's 8, or half of them.
        """
        kernel, fn = self.kernel, self.kernel.fn
        lane = fn.rem(kernel.thread, WARP)
        warp = fn.div(fn.rem(kernel.thread, _WARPGROUP), WARP)
        row = fn.add(fn.add(kernel.row, self.down), fn.add(fn.mul(warp, 16), fn.div(lane, 4)))
        several = max(kernel.lanes // 2, 1)
        which = fn.rem(lane, several)
        along = fn.mul(fn.sub(fn.rem(lane, 4), which), 2)
        column = fn.add(kernel.column, fn.add(fn.mul(which, 8), along))
        bits = [x for x in (1, 2) if x < several]
        tests = {x: fn.compare("ne", fn.op(f"and i64 {lane}, {x}"), 0) for x in bits}
        each = sums_of(self.sizes.columns)
        for first in range(0, len(sums), 4 * several):
            part, number = divmod(first, each)
            for half in (0, 1):
                pairs = [list(sums[first + 4 * i + 2 * half :][:2]) for i in range(several)]
                names = [x for pair in self._exchanged(pairs, tests) for x in pair]
                down = part * HIGH + half * 8
                self._stored(fn.add(row, down), fn.add(column, number // 4 * 8), names)

    def _exchanged(self, pairs: list[list[str]], tests: Mapping[int, str]) -> list[list[str]]:
        """The pairs that neighbouring threads have of one 8 in a row, for those of each 8."""
        fn = self.kernel.fn
        for bit, is_high in tests.items():
            for i in [x for x in range(len(pairs)) if not x & bit]:
                low, high = pairs[i], pairs[i | bit]
                for k in (0, 1):
                    sent = fn.select(is_high, "float", low[k], high[k])
                    got = exchanged(fn, "float", sent, bit)
                    low[k] = fn.select(is_high, "float", got, low[k])
                    high[k] = fn.select(is_high, "float", high[k], got)
        return pairs

    def _stored(self, row: Integer, column: Integer, names: Sequence[str]) -> None:
        kernel = self.kernel
        if kernel.lanes:
            kernel.finish(row, column, names)
            return
        for i, name in enumerate(names):
            kernel.finish(row, kernel.fn.add(column, i), [name])
