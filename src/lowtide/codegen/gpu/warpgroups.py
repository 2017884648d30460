"""Products of bf16 and f16 matrices by warpgroups (`wgmma`), added up in f32, on sm_90a.

A block of two warpgroups makes tiles in turn; each makes half of the rows. What a tile needs of
both operands comes to a ring of stages in shared memory ahead of use: while the products of one
stage go on, those of the one before it end, and a later one is brought to where the one before that
was. While results are stored, the first stages of the next tile come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.gpu.copies import BYTES, commit_copies, wait_for_copies
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.parts import product_code
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.rings import NUMBER_BYTES, Ring, RingTile
from lowtide.codegen.gpu.threads import WARP, LaunchedArray, barrier, exchanged
from lowtide.codegen.gpu.warpgroup_shapes import GROUPS, MULTIPROCESSORS, WarpgroupShape, shape_for
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

_STAGES: Final = 8
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
    shape = shape_for(product)
    if shape is None:
        return None
    scratch = product.scratch_bytes(shape.parts)
    return GpuPlan("wgmma", lambda: _code(product, shape), scratch)


def _lanes_for(product: GpuProduct) -> int:
    """How many columns a thread finishes at once: up to 16 bytes of any array."""
    shapes = [*[x.shape for x in product.instruction.operands], product.instruction.shape]
    widest = max([x.element_type.nbytes for shape in shapes for x in leaves(shape)])
    fitting = [x for x in (8, 4, 2) if x * widest <= BYTES and lanes_of(product, x)]
    return fitting[0] if fitting else 0


def _code(product: GpuProduct, shape: WarpgroupShape) -> GpuCode:
    writer = _WarpgroupWriter(product, shape)
    writer.write()
    code = product_code(writer.kernel, [writer.ring.array])
    return replace(code, launches=(writer.launch, *code.launches[1:]))


def _ring(sizes: TileSizes, steps: int) -> Ring:
    """As many stages as the blocks have room for that run at once; memory for those in use."""
    numbers = (sizes.rows + sizes.columns) * sizes.depth
    most = SHARED_BYTES[ARCHITECTURE] // sizes.blocks - _BESIDE
    stages = min(_STAGES, most // (numbers * NUMBER_BYTES))
    return Ring(LaunchedArray("ring", "i16", min(stages, steps) * numbers), stages, numbers)


class _WarpgroupWriter:
    def __init__(self, product: GpuProduct, shape: WarpgroupShape) -> None:
        self.product, self.sizes, sizes = product, shape.sizes, shape.sizes
        self.type = product.hero.operands[0].shape.element_type
        lanes, group = _lanes_for(product), _SPAN // sizes.rows
        self.kernel = TileKernel(product, sizes, lanes, group=group, parts=shape.parts)
        self.ring = _ring(sizes, self._steps)
        self.tiles = [RingTile(self.kernel, x, self.ring, self._start(x)) for x in (0, 1)]
        self.high = sizes.rows // GROUPS
        fn, thread = self.kernel.fn, self.kernel.thread
        self.down = fn.mul(fn.div(thread, _WARPGROUP), self.high)
        self.callee = self._callee()
        self.count = self.high // HIGH * sums_of(sizes.columns)
        self.number = self.kernel.launch.blocks
        self.blocks = self._blocks()

    @property
    def launch(self) -> GridLaunch:
        """How the kernel is launched: blocks that run at once, with as many tiles each."""
        shared_bytes = self.ring.array.count * NUMBER_BYTES
        return replace(self.kernel.launch, blocks=self.blocks, shared_bytes=shared_bytes)

    def _start(self, side: int) -> int:
        return self.sizes.rows * self.sizes.depth if side else 0

    def _blocks(self) -> int:
        """As many as run at once; one for each tile where making operands takes registers."""
        if not all(x.is_copied for x in self.tiles):
            return self.number
        turns = -(-self.number // (MULTIPROCESSORS * self.sizes.blocks))
        return -(-self.number // turns)

    def _callee(self) -> Callee:
        across = [not x.pieces.along_depth for x in self.tiles]
        return product(self.sizes.columns, _NAMES[self.type], across)

    def write(self) -> None:
        """Write the kernel: of each tile the sums, then what is made of them."""
        kernel, fn = self.kernel, self.kernel.fn
        self._bring_first()
        if self.number == self.blocks:
            self._finish(self._sums())
            return
        with fn.loop(kernel.block, self.number, self.blocks) as loop:
            kernel.take(loop.index)
            sums = self._sums()
            barrier(fn)
            here = kernel.row, kernel.column, kernel.batch
            later = fn.add(loop.index, self.blocks)
            with kernel.elements.scopes.when(fn.compare("slt", later, self.number)):
                kernel.take(later)
                self._bring_first()
            kernel.row, kernel.column, kernel.batch = here
            self._finish(sums)

    # -- steps -----------------------------------------------------------------------------------

    @property
    def _steps(self) -> int:
        return -(-self.kernel.depth // self.sizes.depth)

    @property
    def _ahead(self) -> int:
        """How many steps ahead of use tiles are brought."""
        return min(self.ring.stages - 2, self._steps)

    def _bring_first(self) -> None:
        for step in range(self._ahead):
            self._bring(step)

    def _sums(self) -> list[str]:
        """The sums of a tile, whose first stages are on their way."""
        elements, steps, ahead = self.kernel.elements, self._steps, self._ahead
        carry = [("float", "0.0")] * self.count
        with elements.scopes.loop(0, steps - ahead, 1, carry) as loop:
            later = self.kernel.fn.add(loop.index, ahead)
            loop.next = self._step(loop.index, loop.values, ahead - 1, later)
        sums = loop.results
        for step in range(steps - ahead, steps):
            sums = self._step(step, sums, steps - 1 - step)
        return self._waited(0, sums)

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
                kernel.finish(fn.add(row, down), fn.add(column, number // 4 * 8), names)

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
