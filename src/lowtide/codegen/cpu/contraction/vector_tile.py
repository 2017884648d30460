"""The function of a tile: sums in vector registers, units of rows spread over all lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.contraction.gemm import Gemm
from lowtide.codegen.cpu.contraction.micro import (
    Fetch,
    TileOperands,
    Vectors,
    accumulate,
    broadcast,
    shaped,
    zeros,
)
from lowtide.codegen.cpu.contraction.operands import LanePosition
from lowtide.codegen.cpu.contraction.prefetching import ahead_of, ask_to_write
from lowtide.codegen.cpu.contraction.scheme import NEAR_LONGEST, ColumnUnits, seconds_of
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.value import Value
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer

UNROLL: Final = 4
"""Steps of an iteration: counting takes slots of the ports that multiply."""

MANY_SUMS: Final = 20
"""Sums of a tile from which on half as many steps are as fast, which take less to compile."""

LEAST_SECONDS: Final = 400e-6
"""How long a product takes for which that is worth its code."""

FAR_BYTES: Final = 512 << 10
"""Bytes of panels, or of a result, that lie beyond a second cache."""

AHEAD_BYTES: Final = 2048
"""How far ahead of what it reads a tile asks for a panel that lies so."""

TILES_AHEAD: Final = 3
"""Tiles of rows from which on the first of them has the next panel come meanwhile."""

TILE = parameters(
    buffers="ptr",
    rows="ptr",
    columns="ptr",
    sums="ptr",
    batch="i64",
    first="i64",
    steps="i64",
    column="i64",
    more="i1",
    ahead="ptr",
    apart="i64",
)
"""The parameters of a tile: `%steps` products are added from the vector of units `%first` on.

With `%more` they are added to the sums that are there. For each unit along k a line may be asked
for, from `%ahead` on and `%apart` bytes apart.
"""


def tile_function(gemm: Gemm, name: str, rows: int, columns: int) -> Function:
    """Return the function of a tile of `rows` rows and `columns` columns."""
    scheme, lanes = gemm.scheme, gemm.lanes
    fn = Function(name, TILE, linkage="internal")
    elements = vector_elements(fn, gemm.target, lanes)
    kept = _Kept(gemm, fn, rows, columns)
    start = zeros(scheme.how, rows, kept.vectors, lanes)
    if scheme.shares.longest > 1 or _is_stored_far(gemm):
        kept.ask()
    steps: Integer = scheme.steps if scheme.blocks.parts == 1 else "%steps"
    operands = TileOperands(
        _row_fetch(gemm, fn, rows),
        _column_fetch(gemm, elements, columns),
        _unroll(gemm, rows, kept.vectors),
        _asking(gemm, fn),
    )
    loop = elements.scopes.loop
    sums = accumulate(
        fn, gemm.target, scheme.how, lanes, loop, steps, start, operands, scheme.rests
    )
    if scheme.shares.longest > 1:
        sums = kept.added_where_more(sums)
    kept.store(sums)
    return gemm.noted(fn, elements)


def _is_stored_far(gemm: Gemm) -> bool:
    """Whether tiles store sums into a result that lies beyond a second cache.

    Its rows are so far apart that no line is asked for before the store that waits for it.
    """
    scheme, shape = gemm.scheme, gemm.scheme.geometry
    nbytes = shape.batch * shape.m * shape.n * scheme.how.unit_bytes
    return not scheme.has_finish and nbytes >= FAR_BYTES


def _unroll(gemm: Gemm, rows: int, vectors: int) -> int:
    """Steps of an iteration: one where there are no registers to load for the next step.

    Also where a product takes so little time that more code is not worth compiling.
    """
    scheme = gemm.scheme
    seconds = seconds_of(scheme.geometry, scheme.how, gemm.lanes)
    has_room = scheme.how.fits(rows, vectors, gemm.target, spare=2)
    is_worth_it = seconds > LEAST_SECONDS and has_room
    if not is_worth_it:
        return 1
    return UNROLL // 2 if rows * vectors >= MANY_SUMS else UNROLL


def _asking(gemm: Gemm, fn: Function) -> Callable[[Integer, int], None] | None:
    """What asks for the next panel: only in iterations of several steps."""
    if gemm.scheme.columns is ColumnUnits.PANELS:
        return _asking_for_panels(gemm, fn)
    ahead = gemm.ahead
    if ahead is None:
        return None

    def ask(step: Integer, count: int) -> None:
        if count > 1:
            ahead.ask(fn, step, count)

    return ask


def _asking_for_panels(gemm: Gemm, fn: Function) -> Callable[[Integer, int], None] | None:
    """What asks for panels that lie so, which come from beyond a second cache.

    That is for the panels behind these where there is time for it, several tiles of rows. One tile
    asks for what it reads next: at the end of a panel the next one goes on.
    """
    scheme, shape = gemm.scheme, gemm.scheme.geometry
    row = gemm.columns.panel * scheme.how.unit_bytes
    if shape.k * shape.n * scheme.how.unit_bytes < FAR_BYTES:
        return None
    panels = range(0, scheme.tile.columns, gemm.columns.panel)
    is_late = scheme.tiles.parts < TILES_AHEAD
    ahead = AHEAD_BYTES if is_late else len(panels) * shape.k * row

    def ask(step: Integer, count: int) -> None:
        for number in range(count):
            at = fn.gep("%columns", fn.mul(fn.add(step, number), row))
            for panel in range(len(panels)):
                fn.prefetch(fn.gep(at, panel * shape.k * row + ahead), 1 if is_late else 2)

    return ask


class _Kept:
    """The sums of a tile in memory."""

    def __init__(self, gemm: Gemm, fn: Function, rows: int, columns: int) -> None:
        self.gemm = gemm
        self.fn = fn
        self.rows = rows
        self.columns = columns
        self.vectors = -(-columns // gemm.lanes)
        tails = [tail_mask(gemm.lanes, columns - j * gemm.lanes) for j in range(self.vectors)]
        self.masks = [None if x is None else x.name for x in tails]

    def _place(self, row: int, vector: int) -> str:
        gemm = self.gemm
        number = row * gemm.sums_step + vector * gemm.lanes
        return self.fn.gep("%sums", number * gemm.scheme.how.unit_bytes)

    def _loaded(self) -> list[str]:
        fn, gemm = self.fn, self.gemm
        total, lanes = gemm.scheme.how.total, gemm.lanes
        found: list[str] = []
        for i in range(self.rows):
            for j, mask in enumerate(self.masks):
                found += memory.load(fn, gemm.target, total, self._place(i, j), lanes, mask).names
        return found

    def ask(self) -> None:
        """Write what asks for the sums, which are needed when all products are added up."""
        gemm = self.gemm
        nbytes = self.columns * gemm.scheme.how.unit_bytes
        for row in range(self.rows):
            ask_to_write(self.fn, self._place(row, 0), nbytes)

    def added_where_more(self, sums: list[list[Vectors]]) -> list[list[Vectors]]:
        """Write the additions of the sums that are there, where something was added before."""
        how, fn = self.gemm.scheme.how, self.fn
        type_ = f"<{self.gemm.lanes} x {how.sum_type}>"
        add = "add" if how.total.is_integer else "fadd"
        flat = [name for line in sums for vector in line for name in vector]

        def added() -> list[str]:
            pairs = zip(self._loaded(), flat, strict=True)
            return [fn.op(f"{add} {type_} {x}, {y}") for x, y in pairs]

        names = fn.choose("%more", [type_] * len(flat), added, lambda: flat)
        return shaped(names, self.rows, self.vectors, how.planes)

    def store(self, sums: list[list[Vectors]]) -> None:
        """Write the stores of the sums."""
        gemm = self.gemm
        for i, row in enumerate(sums):
            for j, names in enumerate(row):
                value = Value(names, gemm.scheme.how.total, gemm.lanes)
                memory.store(self.fn, gemm.target, value, self._place(i, j), self.masks[j])


def _row_fetch(gemm: Gemm, fn: Function, rows: int) -> Fetch:
    """How a tile reads the units of its rows."""
    how, lanes = gemm.scheme.how, gemm.lanes
    step_bytes, row_bytes, align = gemm.row_steps(rows)
    known: dict[Integer, str] = {}

    def fetch(step: Integer, row: int) -> Vectors:
        if step not in known:
            known[step] = fn.gep("%rows", fn.mul(step, step_bytes))
        return broadcast(fn, how, known[step], row * row_bytes, lanes, align)

    return fetch


def _column_fetch(gemm: Gemm, elements: Elements, columns: int) -> Fetch:
    """How a tile reads vectors of its columns."""
    fn, scheme, lanes = elements.function, gemm.scheme, gemm.lanes
    if scheme.columns is ColumnUnits.DIRECT:
        return _direct_fetch(gemm, elements, columns)
    how = scheme.how
    width = scheme.tile.columns
    if scheme.columns is ColumnUnits.PANELS:
        width = gemm.columns.panel
    row = width * how.unit_bytes

    def fetch(step: Integer, vector: int) -> Vectors:
        panel, column = divmod(vector * lanes, width)
        behind = (panel * scheme.geometry.k * width + column) * how.unit_bytes
        there = fn.gep(fn.gep("%columns", fn.mul(step, row)), behind)
        if how.group == 1:
            return memory.load(fn, gemm.target, how.total, there, lanes).names
        return (fn.load(f"<{lanes} x {how.unit}>", there, how.unit_bytes),)

    return fetch


def _direct_fetch(gemm: Gemm, elements: Elements, columns: int) -> Fetch:
    """How a tile computes vectors of columns that are not packed."""
    scheme, lanes = gemm.scheme, gemm.lanes
    shape = scheme.geometry
    reader = gemm.columns.reader(elements, scheme.how)
    batch = elements.indices.variable("%batch", shape.batch)
    start = elements.indices.variable("%column", shape.n)
    first = elements.indices.variable("%first", scheme.blocks.size) * lanes
    lane = elements.indices.variable(0, lanes, is_lane=True)
    fn = elements.function
    near = scheme.block_steps <= NEAR_LONGEST
    first_step = fn.mul("%first", lanes)
    ask = None if near else ahead_of(elements, gemm.columns, "%column", first_step, columns)

    def fetch(step: Integer, vector: int) -> Vectors:
        if vector == 0 and ask is not None:
            ask(step)
        k = first + elements.indices.variable(step, max(1, shape.k))
        free = LanePosition(start + vector * lanes, lane, is_aligned=True)
        mask = tail_mask(lanes, columns - vector * lanes)
        inner = LanePosition(k.within(0, max(0, shape.k - 1)))
        value = reader.at(batch, free, inner, mask)
        return (value if value.lanes else elements.vectors.splat(value)).names

    return fetch
