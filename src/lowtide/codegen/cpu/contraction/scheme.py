"""Blocks of a product: tiles, panels, blocks of the contracted dimension, pieces of work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, rests_of
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.tiles import (
    NO_COMPUTING,
    ComputingCycles,
    EvenParts,
    RegisterTile,
    cut,
)
from lowtide.codegen.kernel import rounded
from lowtide.cost.machine import X86_SERVER
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.codegen.cpu.contraction.rests import Rests

LONGEST: Final = 1024
"""The most steps of a block of k where only columns are packed: a panel is read from the second
cache while rows come in long runs."""

NEAR_LONGEST: Final = 96
"""The same where columns are read as they lie, several times: a panel stays in a first cache, and
the next one, which lies beside it, can be asked for meanwhile."""

STREAMED_ROWS: Final = 4
"""Rows for which columns come from memory faster than they are multiplied, in any order."""

PACKED_LONGEST: Final = 256
"""The most steps of a block of k where rows are packed, so that a block of many rows is small."""

ONE_PACKED: Final = 512
"""The most steps that are all in one block there: then no sums wait, and what is packed serves
several pieces of work."""

PACKED_ROWS_BYTES: Final = 384 << 10
"""Bytes of a block of packed rows: they stay in the second cache for all panels."""

PACKED_COLUMNS: Final = 384
"""Columns for which a block of rows is packed once."""

TILED_COLUMNS: Final = 64
"""Columns for which rows are read once where squares are multiplied, faster than rows come."""

SUMS_BYTES: Final = 256 << 10
"""Bytes of the sums of a block that wait in scratch for the next block of k: each is read and
stored once for a block, for which even a third cache has time."""

COLUMN_PACKING: Final = 1.5
"""How many times as long packing a column takes as packing a row, which lies in a longer run."""

PLAIN_PACKING: Final = 0.125
"""Cycles in which an element of a row is packed that is not computed meanwhile."""

SHARED_CYCLES: Final = 0.5
"""Cycles in which a sum of a share is stored, and added to those of the other shares."""

STACK_BYTES: Final = 4 << 10
"""Packed panels of so many bytes lie on the stack, as the sums of a tile do."""

LEAST_UNITS: Final = 16
"""Pieces of work that a product of some size is cut into, so that all threads get equal shares."""

UNIT_SECONDS: Final = 15e-6
"""How long a piece takes at least, where there is a choice."""

LEAST_ROWS: Final = 256
"""Rows for which it costs little to pack columns that another piece packs as well."""

FEWEST_ROWS: Final = 24
"""Rows of a block for which columns are packed again so that the rows need little scratch."""

LEAST_STEPS: Final = 256
"""Steps of k for which a share of the sums is worth adding up by itself."""

SHARED_PART: Final = 8
"""The sums of all shares take at most this part of the bytes of the operands."""


class RowUnits(Enum):
    """How the units of rows are read."""

    IN_PLACE = auto()
    """From the operand, one by one."""
    ALONG_K = auto()
    """Packed as [row][k], one by one."""
    ACROSS = auto()
    """Packed likewise, from vectors across the rows: up to a vector more rows are written."""
    IN_TILES = auto()
    """Packed as [tile][k][row], as rows lie across."""


class ColumnUnits(Enum):
    """How the units of columns are read."""

    DIRECT = auto()
    """Computed where they are multiplied."""
    PANELS = auto()
    """Read where they lie, which is in panels."""
    ALONG_COLUMNS = auto()
    """Packed as panels of [k][column], as the columns lie."""
    ALONG_K = auto()
    """Packed likewise, from columns that lie along k."""


@dataclass(frozen=True, slots=True)
class ContractionScheme:
    """How to compute a product.

    `blocks` cuts the steps of k into blocks, counted in vectors of units; `shares` gives each piece
    of work some of the blocks. `tiles` cuts the rows; `row_blocks` and `column_blocks` give each
    piece some of the tiles and panels. `has_finish` says that sums are not stored as the result.
    `computing` is what packing takes beside moving. With `rows_stay` pieces of a block are in turn.
    Where panels are packed `turn` steps of each in turn, it is a multiple of a vector; else 0.
    """

    geometry: Geometry
    how: Arithmetic
    tile: RegisterTile
    rows: RowUnits
    columns: ColumnUnits
    blocks: EvenParts
    shares: EvenParts
    tiles: EvenParts
    row_blocks: EvenParts
    column_blocks: EvenParts
    has_finish: bool
    computing: ComputingCycles = NO_COMPUTING
    rows_stay: bool = False
    turn: int = 0

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.tile.lanes

    @property
    def steps(self) -> int:
        """The steps along all of k."""
        return -(-self.geometry.k // self.how.group)

    @property
    def block_steps(self) -> int:
        """The most steps of a block of k, rounded up to a full vector."""
        return self.blocks.longest * self.tile.lanes

    @property
    def panels(self) -> int:
        """The panels of columns."""
        return self.column_blocks.size

    @property
    def last_columns(self) -> int:
        """The columns of the last panel."""
        return self.geometry.n - (self.panels - 1) * self.tile.columns

    @property
    def units(self) -> int:
        """The pieces of work."""
        parts = self.row_blocks.parts * self.column_blocks.parts * self.shares.parts
        return self.geometry.batch * parts

    @property
    def reuses(self) -> int:
        """How many pieces in a row need the same packed block; 0 where each packs its own.

        That is a panel, or where rows are packed, a block of rows; there is one block of k.
        """
        if self.blocks.parts > 1 or self.rows_stay:
            return 0
        if self.rows is not RowUnits.IN_PLACE:
            return self.column_blocks.parts
        return self.row_blocks.parts if self.packs_columns else 0

    @property
    def is_shared(self) -> bool:
        """Whether several pieces add up parts of the same sums, which are put together later."""
        return self.shares.parts > 1

    @property
    def keeps_sums(self) -> bool:
        """Whether sums wait in scratch for the next block of k."""
        return self.has_finish and self.shares.longest > 1 and not self.is_shared

    # -- scratch -------------------------------------------------------------------------------

    @property
    def block_rows(self) -> int:
        """The most rows of a piece."""
        return min(self.geometry.m, self.row_blocks.longest * self.tiles.longest)

    @property
    def row_step(self) -> int:
        """Units between packed rows: an odd number of vectors, so that rows differ in caches.

        Those of a tile lie together, with a vector for each row behind them that steps may touch.
        """
        vectors = self.block_steps // self.tile.lanes
        if self.rows is RowUnits.IN_TILES:
            vectors += 1
        return (vectors + (vectors % 2 == 0)) * self.tile.lanes

    @property
    def row_bytes(self) -> int:
        """Bytes of packed rows."""
        if self.rows is RowUnits.IN_PLACE:
            return 0
        count = self.block_rows
        if self.rows is RowUnits.ACROSS or self.how.is_tiled:
            count = -(-count // self.tile.lanes) * self.tile.lanes
        return rounded(self.row_step * count * self.how.unit_bytes)

    @property
    def packs_columns(self) -> bool:
        """Whether columns are packed."""
        return self.columns not in (ColumnUnits.DIRECT, ColumnUnits.PANELS)

    @property
    def packing_cycles(self) -> float:
        """Cycles in which the pieces pack a step of k, those included that pack the same again."""
        shape, found = self.geometry, 0.0
        if self.rows is not RowUnits.IN_PLACE:
            each = PLAIN_PACKING + self.computing.row / self._filled_share
            found += each * shape.m * self.column_blocks.parts
        if self.packs_columns:
            each = COLUMN_PACKING * PLAIN_PACKING + self.computing.column
            found += each * shape.n * self.row_blocks.parts
        return found

    @property
    def extra_cycles(self) -> float:
        """Cycles of all packing, and of adding up the sums of shares."""
        shape, parts = self.geometry, self.shares.parts
        sums = SHARED_CYCLES * shape.m * shape.n * parts if parts > 1 else 0.0
        return self.packing_cycles * self.steps + sums

    @property
    def _filled_share(self) -> float:
        """The part of the lanes of vectors of rows that become rows of a tile."""
        if self.rows is not RowUnits.IN_TILES:
            return 1.0
        height = self.tiles.longest
        return height / (-(-height // self.lanes) * self.lanes)

    @property
    def keeps_panels(self) -> bool:
        """Whether all panels of a piece are packed before the first of them is multiplied.

        Rows then come from far once for all of them.
        """
        is_far = self.rows is RowUnits.IN_PLACE and self.column_blocks.longest > 1
        return self.packs_columns and is_far

    @property
    def one_panel_bytes(self) -> int:
        """Bytes of a packed panel, and of its rests."""
        plain, rests = self.block_steps * self.tile.columns * self.how.unit_bytes, self.rests
        return rounded(plain) + (rests.nbytes if rests else 0)

    @property
    def rests(self) -> Rests | None:
        """The rests of a packed panel, None where it has none."""
        behind = rounded(self.block_steps * self.tile.columns * self.how.unit_bytes)
        return rests_of(self.how, self.lanes, self.block_steps, self.tile.vectors, behind)

    @property
    def panel_bytes(self) -> int:
        """Bytes of the packed panels that there are at once."""
        if not self.packs_columns:
            return 0
        return self.one_panel_bytes * (self.column_blocks.longest if self.keeps_panels else 1)

    @property
    def sums_step(self) -> int:
        """Sums between rows of those that wait in scratch."""
        return self.column_blocks.longest * self.tile.columns

    @property
    def sums_bytes(self) -> int:
        """Bytes of sums that wait in scratch."""
        if not self.keeps_sums:
            return 0
        return rounded(self.block_rows * self.sums_step * self.how.unit_bytes)

    @property
    def thread_bytes(self) -> int:
        """Scratch of a thread."""
        return self.row_bytes + self.far_panel_bytes + self.sums_bytes

    @property
    def far_panel_bytes(self) -> int:
        """Bytes of packed panels that lie in scratch, and not on the stack."""
        return self.panel_bytes if self.panel_bytes > STACK_BYTES else 0


def seconds_of(shape: Geometry, how: Arithmetic, lanes: int) -> float:
    """Return about how long a product takes on one thread."""
    count = shape.batch * shape.m * shape.n * -(-shape.k // how.group)
    arithmetic = count * how.planes**2 / (2 * lanes * X86_SERVER.vector_clock_hertz)
    elements = shape.batch * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    moving = elements * how.unit_bytes / how.group / X86_SERVER.stream_bytes_per_second
    return float(max(arithmetic, moving) + 1e-7)


def wanted_units(shape: Geometry, how: Arithmetic, lanes: int) -> int:
    """Return how many pieces of work there should be: 1, or pairs, as two threads share evenly."""
    return max(1, min(LEAST_UNITS, 2 * int(seconds_of(shape, how, lanes) / UNIT_SECONDS / 2 + 0.5)))


def share_count(
    shape: Geometry, steps: int, most: int, least: int = LEAST_STEPS, part: int = SHARED_PART
) -> int:
    """Return into how many shares to cut the steps of k, 1 where it is not worth it.

    Each has `least` steps; the sums of all take a `part`-th of the bytes of the operands at most.
    """
    operands = (shape.m + shape.n) * steps
    return max(1, min(most, steps // least, operands // (part * shape.m * shape.n)))


def scheme_of(
    shape: Geometry,
    how: Arithmetic,
    tile: RegisterTile,
    rows: RowUnits,
    columns: ColumnUnits,
    has_finish: bool,
    computing: ComputingCycles = NO_COMPUTING,
) -> ContractionScheme:
    """Return how to block a product, by its shape and by what it takes to compute operands."""
    steps = max(1, -(-shape.k // how.group))
    vectors = -(-steps // tile.lanes)
    tiles = cut(shape.m, tile.rows)
    longest = _longest(steps, rows, columns, tiles)
    blocks = cut(vectors, max(1, longest // tile.lanes))
    panels = max(1, -(-shape.n // tile.columns))
    is_packed = columns not in (ColumnUnits.DIRECT, ColumnUnits.PANELS)
    across = _across(how, tile, rows) if is_packed else panels
    found = ContractionScheme(
        shape,
        how,
        tile,
        rows,
        columns,
        blocks,
        EvenParts(blocks.parts, 1),
        tiles,
        EvenParts(tiles.parts, 1),
        cut(panels, across),
        has_finish,
        computing,
    )
    found = _small(found)
    if columns is ColumnUnits.DIRECT and shape.m > STREAMED_ROWS:
        return _finer(_shared(found))
    return _shared(_finer(found))


def with_fewer_rows(scheme: ContractionScheme, most: int) -> ContractionScheme:
    """Return the scheme with blocks of packed rows that take `most` bytes of scratch.

    It stays as it is where these would have too few rows to pack columns for each.
    """
    if scheme.rows is RowUnits.IN_PLACE or scheme.thread_bytes <= most:
        return scheme
    for parts in range(scheme.row_blocks.parts + 1, scheme.tiles.parts + 1):
        found = replace(scheme, row_blocks=EvenParts(scheme.tiles.parts, parts))
        if found.block_rows < FEWEST_ROWS:
            break
        if found.thread_bytes <= most:
            return found
    return scheme


def _longest(steps: int, rows: RowUnits, columns: ColumnUnits, tiles: EvenParts) -> int:
    """The most steps of a block of k."""
    if columns is ColumnUnits.DIRECT and tiles.size > STREAMED_ROWS:
        return NEAR_LONGEST
    if rows is not RowUnits.IN_PLACE:
        return ONE_PACKED if steps <= ONE_PACKED else PACKED_LONGEST
    if columns is ColumnUnits.DIRECT or (columns is ColumnUnits.PANELS and tiles.parts == 1):
        return steps
    return LONGEST


def _across(how: Arithmetic, tile: RegisterTile, rows: RowUnits) -> int:
    """The most panels of a piece."""
    if rows is not RowUnits.IN_PLACE:
        return max(1, PACKED_COLUMNS // tile.columns)
    return max(1, TILED_COLUMNS // tile.columns) if how.is_tiled else 1


def _small(scheme: ContractionScheme) -> ContractionScheme:
    """Return a scheme with blocks of rows that fit into what scratch they may take."""
    most = scheme.tiles.parts
    height = scheme.tiles.longest * scheme.how.unit_bytes
    if scheme.rows is not RowUnits.IN_PLACE:
        most = min(most, PACKED_ROWS_BYTES // (height * scheme.block_steps))
    if scheme.keeps_sums:
        return _least_packed(scheme, max(1, most))
    return replace(scheme, row_blocks=cut(scheme.tiles.parts, max(1, most)))


def _least_packed(scheme: ContractionScheme, most: int) -> ContractionScheme:
    """Return a scheme whose sums fit into scratch, where least is packed: for each block of k anew.

    That is the columns for each block of rows, and the rows for each block of columns. A block has
    at most `most` tiles of rows. There are as many pieces as there should be, if that can be.
    """
    shape, panels, tiles = scheme.geometry, scheme.panels, scheme.tiles.parts
    wanted = -(-wanted_units(shape, scheme.how, scheme.lanes) // shape.batch)
    height = scheme.tiles.longest * scheme.how.unit_bytes
    found = []
    # A number of panels: each makes a scheme, which is little beside writing the code of one.
    for across in range(1, scheme.column_blocks.longest + 1):
        columns = cut(panels, across)
        fitting = SUMS_BYTES // (height * columns.longest * scheme.tile.columns)
        parts = max(-(-tiles // max(1, min(most, fitting))), -(-wanted // columns.parts))
        rows = EvenParts(tiles, min(tiles, parts))
        found.append(replace(scheme, row_blocks=rows, column_blocks=columns))
    return min(found, key=lambda x: x.packing_cycles)


def _finer(scheme: ContractionScheme) -> ContractionScheme:
    """Return a scheme with more pieces, where there are too few for several threads."""
    wanted = wanted_units(scheme.geometry, scheme.how, scheme.lanes)
    if scheme.rows is not RowUnits.IN_PLACE and not scheme.reuses:
        return _finer_blocks(scheme, wanted)
    ways = [_finer_columns, _finer_rows]
    if scheme.keeps_panels:
        ways.reverse()
    for way in ways:
        missing = -(-wanted // scheme.units)
        if missing > 1:
            scheme = way(scheme, missing)
    return scheme


def _finer_blocks(scheme: ContractionScheme, wanted: int) -> ContractionScheme:
    """Return a scheme with as many pieces, each of which packs its rows, that packs least.

    A piece of fewer steps of k packs nothing again, but its sums are added up later.
    """
    found: list[ContractionScheme] = []
    for parts in range(1, _most_shares(scheme, wanted) + 1):
        shares = EvenParts(scheme.blocks.parts, parts)
        found += _finer_parts(replace(scheme, shares=shares), wanted)
    return min(found, key=lambda x: (max(0, wanted - x.units), x.extra_cycles))


def _most_shares(scheme: ContractionScheme, wanted: int) -> int:
    """The most parts of k that may be added up by themselves; one where sums wait in scratch."""
    if scheme.keeps_sums:
        return 1
    return min(scheme.blocks.parts, share_count(scheme.geometry, scheme.steps, wanted))


def _finer_parts(scheme: ContractionScheme, wanted: int) -> Iterator[ContractionScheme]:
    """Yield schemes of about as many pieces: few blocks of columns with many of rows, and so on."""
    missing = -(-wanted // (scheme.geometry.batch * scheme.shares.parts))
    rows, columns = scheme.row_blocks, scheme.column_blocks
    for across in range(columns.parts, min(columns.size, max(columns.parts, missing)) + 1):
        parts = min(rows.size, max(rows.parts, -(-missing // across)))
        down, cut_columns = EvenParts(rows.size, parts), EvenParts(columns.size, across)
        yield replace(scheme, row_blocks=down, column_blocks=cut_columns)


def _finer_columns(scheme: ContractionScheme, factor: int) -> ContractionScheme:
    parts = min(scheme.panels, scheme.column_blocks.parts * factor)
    return replace(scheme, column_blocks=EvenParts(scheme.panels, parts))


def _finer_rows(scheme: ContractionScheme, factor: int) -> ContractionScheme:
    parts = min(scheme.tiles.parts, scheme.row_blocks.parts * factor)
    if scheme.packs_columns and scheme.blocks.parts > 1:
        parts = min(parts, max(scheme.row_blocks.parts, scheme.geometry.m // LEAST_ROWS))
    return replace(scheme, row_blocks=EvenParts(scheme.tiles.parts, parts))


def _shared(scheme: ContractionScheme) -> ContractionScheme:
    """Return a scheme in which several pieces add up parts of the same sums, if there are few.

    The number of parts depends on the shape alone, so results do not depend on threads.
    """
    wanted = wanted_units(scheme.geometry, scheme.how, scheme.lanes)
    parts = share_count(scheme.geometry, scheme.steps, wanted // scheme.units)
    if parts < 2:
        return scheme
    blocks = scheme.blocks
    if blocks.parts < parts:
        blocks = EvenParts(blocks.size, parts)
    return replace(scheme, blocks=blocks, shares=EvenParts(blocks.parts, parts))
