"""Blocks of products that are computed by strips: how wide strips are, how k is cut."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod, without_pairs
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.prefetching import LINE
from lowtide.codegen.cpu.contraction.scheme import share_count, wanted_units
from lowtide.codegen.cpu.contraction.tiles import EvenParts
from lowtide.codegen.kernel import rounded
from lowtide.llvm.target import Target
from lowtide.records import dataclass

FACTOR_ROWS: Final = 4
"""Rows for which memory is slower than loading and storing sums all the time: the elements of rows
are held in registers, and columns pass by."""

HELD_ROWS: Final = 64
"""Rows for which columns are held in registers, and rows pass by: for more it takes no longer to
pack the columns."""

SUMS_BYTES: Final = 96 << 10
"""Bytes of the sums of a strip at most: they come from a second cache faster than columns."""

HELD_SUMS_BYTES: Final = 48 << 10
"""The same where columns are held: most of them stay in a first cache, beside what passes by."""

STRIP_BYTES: Final = 4 << 10
"""Bytes of a step of k in a strip at least, where there are so many; half of that for two strips,
so that two threads have work."""

HELD_STRIP_BYTES: Final = 1 << 10
"""The same where columns are held, which takes longer than memory; a quarter of that for up to
`HELD_STRIPS` strips."""

HELD_STRIPS: Final = 4
"""Strips that there are at least where columns are held, so that threads have work; fewer are cut
along k as well. The sums of such shares lie as far apart as results do, often in few lines of a
first cache: more of them cost more than they even out."""

FAR_STRIP_BYTES: Final = 16 << 10
"""The same of columns that come from memory, which is fastest in runs of some pages."""

FAR_BYTES: Final = 32 << 20
"""Bytes of columns that come from memory."""

STACK_BYTES: Final = 8 << 10
"""The sums of a strip of so many bytes lie on the stack."""

LEAST_COLUMNS: Final = 512
"""Columns for which strips are long enough."""

LEAST_BYTES: Final = 1 << 20
"""Bytes of columns that are worth it: they come from beyond a second cache."""

HELD_LEAST_COLUMNS: Final = 64
"""Columns for which strips are long enough where columns are held."""

HELD_NEAR_BYTES: Final = 1 << 10
"""Steps of k so close together are read like a packed panel."""

HELD_NEAR_ROWS: Final = 16
"""Rows for which such columns are held all the same."""

HELD_LEAST_BYTES: Final = 4 << 20
"""Bytes of columns that are worth holding: fewer of them are faster packed, panel by panel, where
caches may hold them from one product to the next."""

FEW_ROWS_LEAST_BYTES: Final = 512 << 10
"""The same for few rows where registers hold low tiles, each of which reads all columns again."""

FEW_ROWS_LEAST_COLUMNS: Final = 512
"""Columns for which strips are then long enough."""

SHARED_PART: Final = 256
"""The sums of all shares take at most this part of the bytes of the columns."""

LEAST_STEPS: Final = 64
"""Steps of k of a share at least."""

ROWS_BYTES: Final = 256 << 10
"""Bytes of packed rows."""

FAR_ROWS_BYTES: Final = 512 << 10
"""Bytes of rows that come from a second cache for each strip."""


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """Columns in registers: `vectors` of each of `steps` steps of k.

    With `gathers` elements of rows that would fall into the same lines of a first cache are
    gathered before: what is multiplied with each of them is too little to wait for a second cache.
    For up to `few_rows` rows columns are held although they come from a second cache.
    """

    steps: int
    vectors: int
    gathers: bool
    few_rows: int


def held_columns(target: Target) -> HeldColumns:
    """Return what registers hold beside the sums of some rows and an element of a row.

    For each vector of sums that comes and goes there are as many products as steps.
    """
    return HeldColumns(8, 3, False, 0) if target.registers > 16 else HeldColumns(5, 2, True, 28)


@dataclass(frozen=True, slots=True)
class StripScheme:
    """How to compute a product by strips of `width` columns; `shares` cuts k into parts.

    These are added up by themselves, and put together later. `packs_rows` says that rows are copied
    before, one behind the other, as they do not lie so that their elements can be read one by one.
    """

    geometry: Geometry
    how: Arithmetic
    lanes: int
    width: int
    shares: EvenParts
    packs_rows: bool = False

    @property
    def holds_columns(self) -> bool:
        """Whether columns are held in registers while rows pass by."""
        return self.geometry.m > FACTOR_ROWS

    @property
    def strips(self) -> int:
        """The strips of a row."""
        return -(-self.geometry.n // self.width)

    @property
    def units(self) -> int:
        """The pieces of work."""
        return self.geometry.batch * self.shares.parts * self.strips

    @property
    def sums_step(self) -> int:
        """Sums between the rows of a strip."""
        return self.geometry.n if self.shares.parts > 1 else self.width

    @property
    def sums_bytes(self) -> int:
        """Bytes of the sums of a strip that are finished in the piece that makes them."""
        if self.shares.parts > 1:
            return 0
        return rounded(self.geometry.m * self.width * self.how.unit_bytes)

    @property
    def far_sums_bytes(self) -> int:
        """Bytes of such sums that do not lie on the stack."""
        return self.sums_bytes if self.sums_bytes > STACK_BYTES else 0

    @property
    def row_step(self) -> int:
        """Units between packed rows: an odd number of vectors, so that rows differ in caches."""
        vectors = -(-self.geometry.k // self.lanes)
        return (vectors + (vectors % 2 == 0)) * self.lanes

    @property
    def row_bytes(self) -> int:
        """Bytes of packed rows."""
        if not self.packs_rows:
            return 0
        return rounded(self.geometry.m * self.row_step * self.how.unit_bytes)

    @property
    def thread_bytes(self) -> int:
        """Scratch of a thread: the sums of a strip, and packed rows."""
        return self.far_sums_bytes + self.row_bytes


def strip_scheme(
    shape: Geometry, how: Arithmetic, rows: OperandSide, columns: OperandSide, target: Target
) -> StripScheme | None:
    """Return how to compute a product by strips, None where another way is better."""
    if columns.lies_along_k or how.method is MultiplyMethod.COMPLEX or not 0 < shape.m <= HELD_ROWS:
        return None
    size = columns.type.nbytes
    if shape.m > FACTOR_ROWS:
        return _held_scheme(shape, how, rows, columns, target)
    if shape.n < LEAST_COLUMNS or shape.k * shape.n * size < LEAST_BYTES:
        return None
    how = without_pairs(how)
    lanes = how.lanes(target)
    wanted = wanted_units(shape, how, lanes)
    least = -(-shape.n * shape.m * how.unit_bytes // SUMS_BYTES)
    is_far = shape.k * shape.n * size >= FAR_BYTES
    strip = FAR_STRIP_BYTES if is_far else STRIP_BYTES
    long_enough = max(shape.n * size // strip, min(2, shape.n * size // (STRIP_BYTES // 2)))
    parts = max(least, _even(min(-(-wanted // shape.batch), long_enough)))
    width = _width(shape, parts, max(lanes, LINE // size))
    units = shape.batch * -(-shape.n // width)
    most = wanted // units if is_far or units == 1 else 1
    shares = _even(share_count(shape, shape.k, most, LEAST_STEPS, SHARED_PART))
    return StripScheme(shape, how, lanes, width, EvenParts(shape.k, shares))


def _held_scheme(
    shape: Geometry, how: Arithmetic, rows: OperandSide, columns: OperandSide, target: Target
) -> StripScheme | None:
    """The scheme of a product whose columns are held in registers."""
    lanes, size = how.lanes(target), columns.type.nbytes
    is_low = shape.m <= held_columns(target).few_rows and shape.n >= FEW_ROWS_LEAST_COLUMNS
    least_bytes = min(HELD_LEAST_BYTES, FEW_ROWS_LEAST_BYTES) if is_low else HELD_LEAST_BYTES
    is_small = shape.n < HELD_LEAST_COLUMNS or shape.k * shape.n * size < least_bytes
    is_near = shape.n * size < HELD_NEAR_BYTES and shape.m > HELD_NEAR_ROWS
    is_long = shape.m * shape.k * how.unit_bytes > FAR_ROWS_BYTES
    if is_small or is_near or is_long or how.method is not MultiplyMethod.FLOAT:
        return None
    if not columns.is_plain(how):
        return None
    wanted = wanted_units(shape, how, lanes)
    least = -(-shape.n * shape.m * how.unit_bytes // HELD_SUMS_BYTES)
    row = shape.n * size
    long_enough = max(row // HELD_STRIP_BYTES, min(HELD_STRIPS, row // (HELD_STRIP_BYTES // 4)))
    parts = max(least, _even(min(-(-wanted // shape.batch), long_enough)))
    width = _width(shape, parts, max(held_columns(target).vectors * lanes, LINE // size))
    units = shape.batch * -(-shape.n // width)
    shares = _even(share_count(shape, shape.k, min(wanted, HELD_STRIPS) // units))
    packs = not _is_read_in_place(rows, how)
    found = StripScheme(shape, how, lanes, width, EvenParts(shape.k, shares), packs)
    return found if found.row_bytes <= ROWS_BYTES else None


def _is_read_in_place(rows: OperandSide, how: Arithmetic) -> bool:
    """Whether the elements of rows lie as they are multiplied, at even distances."""
    if not rows.is_plain(how) or rows.view is None:
        return False
    return None not in [rows.view.single(x) for x in (rows.roles.inner, rows.roles.free)]


def _width(shape: Geometry, parts: int, whole: int) -> int:
    """The columns of each of some strips, in multiples of `whole`."""
    return -(-shape.n // (parts * whole)) * whole


def _even(count: int) -> int:
    """The greatest power of two up to a number of pieces: threads get equal numbers of them."""
    return 1 << max(0, count.bit_length() - 1)
