"""Blocks of products along k: tiles of rows and columns, spans of tiles."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.scheme import share_count, wanted_units
from lowtide.codegen.cpu.contraction.tiles import EvenParts, cut
from lowtide.codegen.kernel import rounded
from lowtide.llvm.target import Target
from lowtide.records import dataclass

SWAPPED_ROWS: Final = 8
"""Columns that may be taken for rows: so few fill no vector. As many rows are multiplied so
whatever columns have to be converted to."""

SIFTED_ROWS: Final = 16
"""The same where packed columns of bytes would be widened, or sifted for too large pairs."""

MOST_ROWS: Final = {32: 64, 16: 32}
"""Rows for which columns need not be packed, by the registers of a target."""

STEPS_PER_ROW: Final = 8
"""The length of k, for each row more than one, for which adding up vectors is worth it."""

MOST_STREAMS: Final = 8
"""Columns that are read side by side: more fall out of a first cache where they lie far apart."""

WIDENED_STREAMS: Final = 4
"""The same of columns that are widened: their products come no faster from more, and lines of four
are asked for in time."""

ROWS_BYTES: Final = 256 << 10
"""Bytes of packed rows."""

TILE_COLUMNS: Final = 4
"""Columns of a tile at most where several tiles of rows meet the same columns."""


SPAN_VECTORS: Final = 8
"""Vectors of sums in a span, of all its rows, where something is computed of them.

What is the same for all columns is then computed once for a span, and no vector waits for another.
"""

FEWEST_LANES: Final = 4
"""Sums of the shortest vectors."""

_PLAIN: Final = (MultiplyMethod.FLOAT, MultiplyMethod.BF16_PAIRS)
"""Methods that are no faster with packed columns."""

_DEAR: Final = (MultiplyMethod.S16_PAIRS, MultiplyMethod.BYTE_PAIRS)
"""Methods whose columns take long to pack where they are bytes."""


@dataclass(frozen=True, slots=True)
class InnerScheme:
    """How to compute a product along k: tiles of `width` columns, spans of `span` columns.

    What follows the product is done for all columns of a span at once. `tiles` cuts the rows,
    `blocks` cuts spans into pieces of work; `shares` cuts the vectors of units along k into parts
    that are added up by themselves. Rows are packed where they do not lie along k as they are
    multiplied.
    """

    geometry: Geometry
    how: Arithmetic
    lanes: int
    width: int
    span: int
    tiles: EvenParts
    blocks: EvenParts
    shares: EvenParts
    packs_rows: bool

    @property
    def units(self) -> int:
        """The pieces of work."""
        return self.geometry.batch * self.shares.parts * self.blocks.parts

    @property
    def sums_step(self) -> int:
        """Sums between the rows of a span."""
        return self.geometry.n if self.shares.parts > 1 else self.span

    @property
    def is_alone(self) -> bool:
        """Whether the sums of a tile lie as those of its span do."""
        return self.geometry.m == self.shares.parts == 1

    @property
    def row_step(self) -> int:
        """Units between packed rows."""
        return self.shares.size * self.lanes

    @property
    def thread_bytes(self) -> int:
        """Scratch of a thread: packed rows."""
        nbytes = self.geometry.m * self.row_step * self.how.unit_bytes
        return rounded(nbytes) if self.packs_rows else 0


def inner_scheme(
    shape: Geometry,
    how: Arithmetic,
    packed: Arithmetic,
    rows: OperandSide,
    columns: OperandSide,
    target: Target,
    has_finish: bool,
) -> InnerScheme | None:
    """Return how to compute a product along k, None where another way is better.

    `packed` is the arithmetic where columns are packed; with `has_finish` something is computed of
    the sums.
    """
    if not columns.lies_along_k or shape.k < STEPS_PER_ROW * (shape.m - 1):
        return None
    if how.method is MultiplyMethod.COMPLEX or not 0 < shape.m <= _most_rows(target) or not shape.k:
        return None
    is_plain = columns.is_plain(how) and how.method in _PLAIN
    most = SIFTED_ROWS if packed.method in _DEAR else SWAPPED_ROWS
    if not is_plain and shape.m > most:
        return None
    lanes = _lanes(shape, how, target)
    vectors = -(-shape.k // (how.group * lanes))
    packs = not (rows.is_plain(how) and rows.lies_along_k)
    if packs and shape.m * vectors * lanes * how.unit_bytes > ROWS_BYTES:
        return None
    height, width = _tile(shape, how, lanes, target)
    wanted = wanted_units(shape, how, lanes)
    narrow = width * max(1, lanes // width)
    span = narrow
    if has_finish:
        span *= _widening(shape, narrow, -(-wanted // shape.batch))
    spans = -(-shape.n // span)
    blocks = EvenParts(spans, min(spans, -(-wanted // shape.batch)))
    most = wanted // (shape.batch * blocks.parts)
    shares = EvenParts(vectors, share_count(shape, vectors * lanes, most))
    tiles = cut(shape.m, height)
    return InnerScheme(shape, how, lanes, width, span, tiles, blocks, shares, packs_rows=packs)


def _widening(shape: Geometry, narrow: int, pieces: int) -> int:
    """How many of the narrowest spans make one: as many as leave `pieces` of them, or one.

    So the pieces of work, and the parts of k with them, are those of the narrowest spans.
    """
    most = max(1, SPAN_VECTORS // shape.m)
    return max(1, min(most, shape.n // (narrow * pieces)))


def _most_rows(target: Target) -> int:
    return MOST_ROWS[target.registers]


def _lanes(shape: Geometry, how: Arithmetic, target: Target) -> int:
    """The sums of a vector, no more than it takes for a short k and what follows few columns.

    Some processors take two turns for their widest vectors, and all add up fewer lanes sooner.
    """
    lanes = how.lanes(target)
    is_plain = how.method is MultiplyMethod.FLOAT and how.group == how.planes == 1
    while is_plain and lanes > FEWEST_LANES and 2 * max(shape.k, shape.n) <= lanes:
        lanes //= 2
    return lanes


def _tile(shape: Geometry, how: Arithmetic, lanes: int, target: Target) -> tuple[int, int]:
    """The most rows and the columns of a tile whose sums registers hold.

    That is the one with the fewest loads for each product, the wider one of equal ones.
    """
    if shape.m == 1:
        is_widened = how.method is MultiplyMethod.S16_PAIRS
        return 1, min(shape.n, WIDENED_STREAMS if is_widened else MOST_STREAMS, lanes)
    best = (float("inf"), 0, 1, 1)
    for width in range(1, min(shape.n, TILE_COLUMNS) + 1):
        heights = [x for x in range(1, shape.m + 1) if how.fits(x, width, target)]
        if not heights:
            break
        tiles = cut(shape.m, heights[-1])
        loads = (shape.m + tiles.parts * width) / (shape.m * width)
        best = min(best, (loads, -width, tiles.longest, width))
    return best[2], best[3]
