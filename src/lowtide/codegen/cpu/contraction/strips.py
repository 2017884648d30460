"""Products of few rows with columns that lie side by side: long strips of rows, added to sums.

Some steps of k at once are read along the columns, as they lie, and their products added to sums
that stay in a cache. So memory comes in long runs, however far apart the steps of k lie.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod, without_pairs
from lowtide.codegen.cpu.contraction.finishing import Sums
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.operands import LanePosition, OperandSide
from lowtide.codegen.cpu.contraction.prefetching import LINE, Part, strip_ahead
from lowtide.codegen.cpu.contraction.product import ContractionProduct
from lowtide.codegen.cpu.contraction.scheme import share_count, wanted_units
from lowtide.codegen.cpu.contraction.tiles import EvenParts
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, rounded
from lowtide.codegen.value import Value
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_ROWS: Final = 4
"""Rows for which memory is slower than loading and storing sums all the time."""

SUMS_BYTES: Final = 96 << 10
"""Bytes of the sums of a strip at most: they come from a second cache faster than columns."""

STRIP_BYTES: Final = 4 << 10
"""Bytes of a step of k in a strip at least, where there are so many; half of that for two strips,
so that two threads have work."""

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

SHARED_PART: Final = 256
"""The sums of all shares take at most this part of the bytes of the columns."""

LEAST_STEPS: Final = 64
"""Steps of k of a share at least."""

GROUP: Final = 8
"""Steps of k at once."""

STRIP: Final = parameters(
    buffers="ptr", sums="ptr", batch="i64", column="i64", first="i64", last="i64"
)
"""The parameters of a strip, which covers the elements of k from `%first` to `%last`."""


@dataclass(frozen=True, slots=True)
class StripScheme:
    """How to compute a product by strips of `width` columns; `shares` cuts k into parts.

    These are added up by themselves, and put together later.
    """

    geometry: Geometry
    how: Arithmetic
    lanes: int
    width: int
    shares: EvenParts

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
    def thread_bytes(self) -> int:
        """Scratch of a thread: the sums of a strip that do not lie on the stack."""
        return self.sums_bytes if self.sums_bytes > STACK_BYTES else 0


def strip_scheme(
    shape: Geometry, how: Arithmetic, columns: OperandSide, target: Target
) -> StripScheme | None:
    """Return how to compute a product by strips, None where another way is better."""
    if columns.lies_along_k or how.method is MultiplyMethod.COMPLEX or not 0 < shape.m <= MOST_ROWS:
        return None
    size = columns.type.nbytes
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
    line = max(lanes, LINE // size)
    width = -(-shape.n // (parts * line)) * line
    units = shape.batch * -(-shape.n // width)
    most = wanted // units if is_far or units == 1 else 1
    shares = _even(share_count(shape, shape.k, most, LEAST_STEPS, SHARED_PART))
    return StripScheme(shape, how, lanes, width, EvenParts(shape.k, shares))


def _even(count: int) -> int:
    """The greatest power of two up to a number of pieces: threads get equal numbers of them."""
    return 1 << max(0, count.bit_length() - 1)


class Strips(ContractionProduct[StripScheme]):
    """A product by strips, to be written."""

    def code(self) -> KernelCode:
        """Return the code."""
        return self.code_of(self._products())

    # -- pieces ----------------------------------------------------------------------------------

    def _products(self) -> Function:
        scheme, shape = self.scheme, self.scheme.geometry
        fn = Function("products", ARGUMENTS)
        on_stack = 0 < scheme.sums_bytes <= STACK_BYTES
        thread = fn.stack("i8", scheme.sums_bytes) if on_stack else self.thread(fn)
        with fn.loop("%begin", "%end") as loop:
            strip = fn.rem(loop.index, scheme.strips)
            rest = fn.div(loop.index, scheme.strips)
            share = fn.rem(rest, scheme.shares.parts)
            batch = fn.div(rest, scheme.shares.parts) if shape.batch > 1 else 0
            last_width = shape.n - (scheme.strips - 1) * scheme.width
            if last_width == scheme.width:
                self._strip_call(fn, thread, batch, share, strip, last_width)
            else:
                is_last = fn.compare("eq", strip, scheme.strips - 1)
                with fn.when(is_last):
                    self._strip_call(fn, thread, batch, share, strip, last_width)
                with fn.when(fn.compare("ne", strip, scheme.strips - 1)):
                    self._strip_call(fn, thread, batch, share, strip, scheme.width)
        return fn

    def _strip_call(
        self, fn: Function, thread: str, batch: Integer, share: Integer, strip: Integer, width: int
    ) -> None:
        scheme, shape = self.scheme, self.scheme.geometry
        first, last = scheme.shares.starts(fn, share)
        column = fn.mul(strip, scheme.width)
        sums = thread
        if scheme.shares.parts > 1:
            matrix = fn.add(fn.mul(share, shape.batch), batch)
            at = fn.add(fn.mul(matrix, shape.m * shape.n), column)
            sums = fn.gep("%scratch", fn.mul(at, scheme.how.unit_bytes))
        fn.call(self._strip(width), ["%buffers", sums, batch, column, first, last])
        if scheme.shares.parts == 1:
            finish = self.finishing(f"finish_{width}", width, Sums(scheme.sums_step))
            fn.call(finish, ["%buffers", sums, batch, 0, shape.m, column])

    # -- a strip ---------------------------------------------------------------------------------

    def _strip(self, width: int) -> Function:
        def write(name: str) -> Function:
            strip = _Strip(self, Function(name, STRIP, linkage="internal"), width)
            strip.write()
            return self.noted(strip.fn, strip.elements)

        return self.needed(f"strip_{width}", write)


class _Strip:
    """The function of a strip while it is written."""

    def __init__(self, strips: Strips, fn: Function, width: int) -> None:
        scheme = strips.scheme
        self.scheme = scheme
        self.fn = fn
        self.target = strips.target
        self.width = width
        self.elements = vector_elements(fn, strips.target, scheme.lanes)
        self.rows = strips.rows.reader(self.elements, scheme.how)
        self.columns = strips.columns.reader(self.elements, scheme.how)
        self.batch = self.elements.indices.variable("%batch", scheme.geometry.batch)
        self.start = self.elements.indices.variable("%column", scheme.geometry.n)
        self.lane = self.elements.indices.variable(0, scheme.lanes, is_lane=True)
        self.ahead = strip_ahead(self.elements, strips.columns, "%column")
        self.at_once = max(1, LINE // strips.columns.type.nbytes // scheme.lanes)

    def write(self) -> None:
        """Write the sums of nothing, then the loop over groups of steps, then the last steps."""
        fn, elements = self.fn, self.elements
        self._clear()
        group = GROUP if self.target.registers > 16 else GROUP // 2
        count = fn.sub("%last", "%first")
        whole = fn.add("%first", fn.mul(fn.div(count, group), group))
        with elements.scopes.loop("%first", whole, group) as loop:
            self._steps(loop.index, group)
        with elements.scopes.loop(whole, "%last") as loop:
            self._steps(loop.index, 1)

    def _clear(self) -> None:
        fn, scheme, lanes = self.fn, self.scheme, self.scheme.lanes
        names = scheme.how.zero(lanes)
        zero = Value(names, scheme.how.total, lanes)
        with fn.loop(0, scheme.geometry.m) as rows:
            start = fn.mul(rows.index, scheme.sums_step)
            with fn.loop(0, self.width // lanes * lanes, lanes) as loop:
                memory.store(fn, self.target, zero, self._sum(fn.add(start, loop.index)))
            rest = self.width % lanes
            mask = tail_mask(lanes, rest)
            if rest and mask is not None:
                there = self._sum(fn.add(start, self.width - rest))
                memory.store(fn, self.target, zero, there, mask.name)

    def _sum(self, number: Integer) -> str:
        return self.fn.gep("%sums", self.fn.mul(number, self.scheme.how.unit_bytes))

    def _steps(self, index: Integer, count: int) -> None:
        """Add the products of `count` steps of k from a step on."""
        elements, lanes = self.elements, self.scheme.lanes
        first = elements.indices.variable(index, self.scheme.geometry.k)
        steps = [(first + i).within(0, self.scheme.geometry.k - 1) for i in range(count)]
        factors = [[self._factor(i, k) for k in steps] for i in range(self.scheme.geometry.m)]
        run = self.at_once * lanes
        whole = self.width // run * run
        for begin, end, ask in self._parts(index, count, whole):
            with elements.scopes.loop(begin, end, run) as across:
                ask(across.index)
                at = elements.indices.variable(across.index, self.width)
                for part in range(self.at_once):
                    number = self.fn.add(across.index, part * lanes)
                    self._vector(at + part * lanes, number, steps, factors, lanes)
        for column in range(whole, self.width, lanes):
            at = elements.indices.variable(column, self.width)
            self._vector(at, column, steps, factors, min(lanes, self.width - column))

    def _parts(self, index: Integer, count: int, whole: int) -> list[Part]:
        """The columns by where what they ask for lies: in these rows, or in the next ones."""
        if self.ahead is None or count == 1:
            return [(0, whole, lambda at: None)]
        return self.ahead.parts(index, count, whole)

    def _factor(self, row: int, k: Affine) -> tuple[str, ...]:
        """An element of a row in all lanes."""
        value = self.rows.at(
            self.batch, LanePosition(Affine((), row, row, row)), LanePosition(k), None
        )
        return self.elements.vectors.splat(value).names

    def _vector(
        self,
        at: Affine,
        number: Integer,
        steps: list[Affine],
        factors: list[list[tuple[str, ...]]],
        count: int,
    ) -> None:
        """Add the products of some columns, at most a vector."""
        fn, how, lanes = self.fn, self.scheme.how, self.scheme.lanes
        mask = tail_mask(lanes, count)
        free = LanePosition(self.start + at, self.lane, is_aligned=True)
        read = [self.columns.at(self.batch, free, LanePosition(k), mask) for k in steps]
        values = [x if x.lanes else self.elements.vectors.splat(x) for x in read]
        name = None if mask is None else mask.name
        for row, line in enumerate(factors):
            there = self._sum(fn.add(number, row * self.scheme.sums_step))
            total = memory.load(fn, self.target, how.total, there, lanes, name).names
            for factor, value in zip(line, values, strict=True):
                total = how.multiply_add(fn, self.target, lanes, total, factor, value.names)
            memory.store(fn, self.target, Value(total, how.total, lanes), there, name)
