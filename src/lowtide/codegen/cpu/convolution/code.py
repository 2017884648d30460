"""The code of a convolution: phases, pieces of work, blocks, panels and tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.convolution.finish import finish_function
from lowtide.codegen.cpu.convolution.panel import panel_function
from lowtide.codegen.cpu.convolution.pieces import Piece, phase_tables, piece_of
from lowtide.codegen.cpu.convolution.scheme import BATCH, FEATURE, ConvolutionScheme
from lowtide.codegen.cpu.convolution.slab import slab_function
from lowtide.codegen.cpu.convolution.tile import row_step, tile_function
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.cost.machine import X86_SERVER
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(eq=False, slots=True)
class Convolver:
    """A convolution to be written: its scheme, what follows, and what it slides over.

    Around `data` all elements are `fill`.
    """

    scheme: ConvolutionScheme
    target: Target
    finish: Epilogue
    data: Instruction
    fill: int = 0
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def code(self) -> KernelCode:
        """Return the phases: products, and where shares are added up, one more."""
        scheme = self.scheme
        main = Function("products", ARGUMENTS)
        _write(_Work(main, self))
        phases = [Phase(main.name, scheme.row_units * scheme.shares, scheme.unit_seconds)]
        written = [main]
        if scheme.is_shared:
            last = Function("results", ARGUMENTS)
            _write(_Work(last, self, is_last=True))
            written.append(last)
            seconds = scheme.block_sums_bytes * scheme.shares * X86_SERVER.memory_byte_seconds
            phases.append(Phase(last.name, scheme.row_units, seconds))
        text = "\n".join([x for x in (phase_tables(scheme), *self.constants.values()) if x])
        return KernelCode((*self.functions.values(), *written), tuple(phases), text)

    @property
    def is_direct(self) -> bool:
        """Whether tiles store results, and not sums that are finished."""
        scheme = self.scheme
        return not (scheme.has_finish or scheme.keeps_sums or scheme.is_shared)

    # -- the functions that the phases call --------------------------------------------------------

    def _needed(self, name: str, write: Callable[[], Function]) -> Function:
        if name not in self.functions:
            self.functions[name] = write()
        return self.functions[name]

    def slab(self, scheme: ConvolutionScheme) -> Function:
        """Return the function that copies the input of a piece of work, or of a tile."""
        name = "slab"
        given = (
            scheme,
            self.target,
            self.finish.kernel,
            self.data,
            self.fill,
            self.constants,
        )
        return self._needed(name, lambda: slab_function(name, *given))

    def panel(self, columns: int) -> Function:
        """Return the function that packs a panel."""
        name, weights = f"panel_{columns}", self.finish.dot.operands[1]
        given = (self.scheme, self.target, self.finish.kernel, weights, columns, self.constants)
        return self._needed(name, lambda: panel_function(name, *given))

    def tile(self, columns: int, scheme: ConvolutionScheme) -> Function:
        """Return the function of a tile: by the scheme, or by that of tiles at the border."""
        name = f"tile_{columns}" if scheme.in_place is self.scheme.in_place else f"border_{columns}"
        given = (name, scheme, self.target, columns)
        return self._needed(name, lambda: tile_function(*given, is_direct=self.is_direct))

    def finishing(self, columns: int) -> Function:
        """Return the function that finishes the sums of a tile."""
        name = f"finish_{columns}"
        given = (self.scheme, self.target, self.finish, columns, self.constants)
        return self._needed(name, lambda: finish_function(name, *given))


@dataclass(eq=False, slots=True)
class _Work:
    """A phase while its code is written; the last one adds up shares."""

    fn: Function
    convolver: Convolver
    is_last: bool = False
    thread: str = ""
    input: str = ""
    weights: str = ""
    panel: str = ""
    patch: str = ""
    stack: str = ""

    @property
    def scheme(self) -> ConvolutionScheme:
        """How the products are blocked."""
        return self.convolver.scheme


@dataclass(eq=False, slots=True)
class _Block:
    """A block of contracted indices: the first ones and how many, and where the input lies."""

    number: Integer
    feature: Integer
    features: Integer
    firsts: list[Integer]
    taps: list[Integer]
    more: str = "false"
    is_end: str = "true"
    input: str = ""


def _write(work: _Work) -> None:
    fn, scheme, convolver = work.fn, work.scheme, work.convolver
    work.thread = "%scratch"
    if not scheme.is_alone:
        base = fn.gep("%scratch", scheme.shared_bytes)
        work.thread = fn.gep(base, fn.mul("%thread", scheme.thread_bytes))
    kernel = convolver.finish.kernel
    if scheme.in_place:
        work.input = _pointer(fn, _number(kernel, convolver.data))
    if scheme.weights_in_place:
        work.weights = _pointer(fn, _number(kernel, convolver.finish.dot.operands[1]))
    elif scheme.far_panel_bytes:
        work.panel = fn.gep(work.thread, scheme.slab_bytes)
    elif not work.is_last:
        work.panel = fn.stack("i8", scheme.panel_bytes)
    if scheme.has_border and not work.is_last:
        work.patch = fn.stack("i8", scheme.at_border().slab_bytes)
    if convolver.is_direct:
        work.stack = _pointer(fn, len(kernel.operands))
    elif not scheme.keeps_sums and not scheme.is_shared:
        work.stack = fn.stack("i8", scheme.tile_sums * scheme.how.unit_bytes)
    with fn.loop("%begin", "%end") as loop:
        piece = piece_of(fn, scheme, loop.index)
        with _under(fn, piece.tests):
            _piece(work, piece)


@contextmanager
def _under(fn: Function, tests: Sequence[str]) -> Iterator[None]:
    """Write what runs only where all tests hold."""
    if not tests:
        yield
        return
    every = tests[0]
    for test in tests[1:]:
        every = fn.op(f"and i1 {every}, {test}")
    with fn.when(every):
        yield


def _number(kernel: Instruction, data: Instruction) -> int:
    """The number of the buffer of an operand of the convolution."""
    if kernel.opcode is not Opcode.FUSION:
        return kernel.operands.index(data)
    return kernel.called_computations[0].parameters.index(data)


def _pointer(fn: Function, number: int) -> str:
    return fn.load("ptr", fn.gep("%buffers", number, "ptr"), 8)


# -- blocks of contracted indices ------------------------------------------------------------------


def _piece(work: _Work, piece: Piece) -> None:
    fn, scheme = work.fn, work.scheme
    if work.is_last:
        _panels(work, piece, None)
        return
    parts, longer = divmod(scheme.inner_blocks, scheme.shares)
    first = fn.add(fn.mul(piece.share, parts), fn.min(piece.share, longer))
    count: Integer = parts
    if longer:
        more = fn.op(f"zext i1 {fn.compare('slt', piece.share, longer)} to i64")
        count = fn.add(parts, more)
    last = fn.add(first, count)
    with fn.loop(first, last) as loop:
        block = _block(fn, scheme, piece, loop.index)
        if scheme.inner_blocks > 1:
            block.more = fn.compare("sgt", loop.index, first)
            block.is_end = fn.compare("eq", fn.add(loop.index, 1), last)
        block.input = _input(work, piece, block)
        _panels(work, piece, block)


def _block(fn: Function, scheme: ConvolutionScheme, piece: Piece, number: Integer) -> _Block:
    rest = number
    firsts, taps = [], []
    for parts, size, phase in reversed(
        list(zip(scheme.tap_parts, scheme.tap_blocks, piece.phases, strict=True))
    ):
        first = fn.mul(fn.rem(rest, parts), size)
        rest = fn.div(rest, parts)
        left = fn.sub(phase.taps, first)
        firsts.append(first)
        taps.append(fn.max(fn.min(left, size), 0))
    feature = fn.mul(rest, scheme.feature_block) if scheme.feature_blocks > 1 else 0
    features = fn.min(fn.sub(scheme.problem.features, feature), scheme.feature_block)
    return _Block(number, feature, features, firsts[::-1], taps[::-1])


def _input(work: _Work, piece: Piece, block: _Block) -> str:
    """Copy the input of a block; return where it lies: the units of the first row and step."""
    fn, scheme = work.fn, work.scheme
    starts: list[Integer] = []
    counts: list[Integer] = []
    spans = {row.axis: span for row, span in zip(scheme.rows, piece.spans, strict=True)}
    for axis in scheme.axes():
        if axis.kind >= 0:
            start, count = _reach(fn, scheme, piece, block, axis.kind)
        elif axis.kind == BATCH:
            start, count = spans[BATCH].origin, spans[BATCH].count
        elif axis.kind == FEATURE:
            start, count = block.feature, scheme.feature_block
        else:
            start = fn.mul(piece.column_block, axis.extent)
            count = fn.min(fn.sub(scheme.all_columns, start), axis.extent)
        starts.append(start)
        counts.append(count)
    if scheme.in_place:
        return _where(work, piece, starts)
    ranges = [x for pair in zip(starts, counts, strict=True) for x in pair]
    fn.call(work.convolver.slab(scheme), ["%buffers", work.thread, piece.group, *ranges])
    return work.thread


def _reach(
    fn: Function, scheme: ConvolutionScheme, piece: Piece, block: _Block, axis: int
) -> tuple[Integer, Integer]:
    """The first input index that a block meets along an axis, and how many there are."""
    spatial, phase = scheme.problem.spatial[axis], piece.phases[axis]
    dim = next(d for d, x in enumerate(scheme.rows) if x.axis == axis)
    span = piece.spans[dim]
    places = fn.mul(span.origin, spatial.stride)
    start = fn.add(fn.add(places, fn.mul(block.firsts[axis], spatial.dilation)), phase.offset)
    taps = fn.mul(fn.sub(block.taps[axis], 1), spatial.dilation)
    count = fn.add(fn.add(fn.mul(fn.sub(span.count, 1), spatial.stride), taps), 1)
    return start, fn.max(count, 0)


def _where(work: _Work, piece: Piece, starts: list[Integer]) -> str:
    """The address in the input of the first row and step."""
    fn, scheme, problem = work.fn, work.scheme, work.scheme.problem
    at: Integer = 0
    if scheme.is_lanewise:
        at = fn.mul(piece.column_block, scheme.column_block * scheme.columns)
    for axis, start in zip(scheme.axes(), starts, strict=True):
        at = fn.add(at, fn.mul(start, axis.step))
    steps = {x.kind: x.step for x in scheme.axes()}
    each = problem.batch * steps[BATCH]
    if not problem.is_batch_grouped:
        each = problem.features * steps[FEATURE]
    at = fn.add(at, fn.mul(piece.group, each))
    return fn.gep(work.input, fn.mul(at, scheme.how.row_unit_bytes))


# -- panels ----------------------------------------------------------------------------------------


def _panels(work: _Work, piece: Piece, block: _Block | None) -> None:
    """Write the loops over panels: the full ones, then the last one if it is narrower."""
    fn, scheme = work.fn, work.scheme
    first = fn.mul(piece.column_block, scheme.column_block)
    after = fn.min(fn.add(first, scheme.column_block), scheme.panels)
    full = scheme.panels - (scheme.last_columns != scheme.columns)
    if full:
        with fn.loop(first, fn.min(after, full)) as loop:
            _panel(work, piece, block, loop.index, fn.sub(loop.index, first), scheme.columns)
    if full == scheme.panels:
        return
    if isinstance(after, int):
        _panel(work, piece, block, full, fn.sub(full, first), scheme.last_columns)
        return
    with fn.when(fn.compare("eq", after, scheme.panels)):
        _panel(work, piece, block, full, fn.sub(full, first), scheme.last_columns)


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel: its number among those of the piece, its first column among those of all groups."""

    number: Integer
    column: Integer
    columns: int
    packed: str


def _panel(
    work: _Work,
    piece: Piece,
    block: _Block | None,
    number: Integer,
    relative: Integer,
    columns: int,
) -> None:
    fn, scheme = work.fn, work.scheme
    before = fn.mul(piece.group, scheme.problem.outputs)
    column = fn.add(before, fn.mul(number, scheme.columns))
    packed = work.panel
    if block is not None:
        taps = [
            fn.add(x.tap, fn.mul(start, spatial.tap_step))
            for x, spatial, start in zip(
                piece.phases, scheme.problem.spatial, block.firsts, strict=True
            )
        ]
        if scheme.weights_in_place:
            packed = _weights(work, column, block.feature, taps)
        else:
            pairs = [x for pair in zip(taps, block.taps, strict=True) for x in pair]
            pack = work.convolver.panel(columns)
            fn.call(pack, ["%buffers", packed, column, block.feature, *pairs])
    _tiles(work, piece, block, _Panel(relative, column, columns, packed))


def _weights(work: _Work, column: Integer, feature: Integer, taps: list[Integer]) -> str:
    """The address in the kernel of the first column of a block."""
    fn, problem = work.fn, work.scheme.problem
    numbers, steps = problem.numbers, strides(problem.kernel)
    at = fn.add(column, fn.mul(feature, steps[numbers.kernel_input_feature]))
    for d, tap in zip(numbers.kernel_spatial, taps, strict=True):
        at = fn.add(at, fn.mul(tap, steps[d]))
    return fn.gep(work.weights, fn.mul(at, work.scheme.column_unit_bytes))


# -- tiles -----------------------------------------------------------------------------------------


def _tiles(work: _Work, piece: Piece, block: _Block | None, panel: _Panel) -> None:
    """Write the loops over the tiles of a block of rows."""

    def along(dim: int, at: list[Integer], number: Integer) -> None:
        fn, scheme = work.fn, work.scheme
        span = piece.spans[dim]
        if dim < scheme.tile_dim:
            start = fn.sub(span.nominal, span.origin)
            with fn.loop(start, span.count) as loop:
                index = fn.add(fn.mul(number, scheme.extent_of(dim)), loop.index)
                along(dim + 1, [*at, loop.index], index)
            return
        left = (
            fn.min(fn.sub(span.size, span.nominal), scheme.block)
            if (dim == scheme.block_dim)
            else span.size
        )
        count = fn.div(fn.add(left, scheme.tile_rows - 1), scheme.tile_rows)
        with fn.loop(0, count) as loop:
            wanted = fn.add(span.nominal, fn.mul(loop.index, scheme.tile_rows))
            place = fn.min(wanted, fn.sub(span.size, scheme.tile_rows))
            index = fn.add(fn.mul(number, scheme.tiles_along), loop.index)
            relative = [*at, fn.sub(place, span.origin)]
            _tile(work, piece, block, panel, relative, index, fn.sub(wanted, place))

    along(work.scheme.block_dim, [], 0)


def _tile(
    work: _Work,
    piece: Piece,
    block: _Block | None,
    panel: _Panel,
    at: list[Integer],
    number: Integer,
    skip: Integer,
) -> None:
    """Write a tile: `at` are its indices from the block dimension on, within the block."""
    fn, scheme = work.fn, work.scheme
    places = [x.origin for x in piece.spans]
    for d, x in enumerate(at):
        dim = scheme.block_dim + d
        places[dim] = fn.add(piece.spans[dim].origin, x)
    sums = _sums(work, piece, panel, places, number)
    if block is not None:
        _products(work, piece, block, panel, _TilePlace(at, places), sums)
    if work.convolver.is_direct or (scheme.is_shared and not work.is_last):
        return
    rows = _in_result(fn, scheme, piece, places)
    finish = work.convolver.finishing(panel.columns)
    given = ["%buffers", sums, skip, panel.column, *rows]
    if block is None or block.is_end == "true":
        fn.call(finish, given)
        return
    with fn.when(block.is_end):
        fn.call(finish, given)


@dataclass(frozen=True, slots=True)
class _TilePlace:
    """The indices of a tile within its block of rows, and those along all dimensions of rows."""

    within: list[Integer]
    rows: list[Integer]


def _products(
    work: _Work, piece: Piece, block: _Block, panel: _Panel, place: _TilePlace, sums: str
) -> None:
    """Add up the products of a tile, of a copy of the input where it reaches beyond that."""
    fn, scheme = work.fn, work.scheme
    offset: Integer = fn.mul(panel.number, scheme.columns) if scheme.is_lanewise else 0
    for d, x in enumerate(place.within):
        step = row_step(scheme, scheme.rows[scheme.block_dim + d])
        offset = fn.add(offset, fn.mul(x, step))
    given = [panel.packed, sums, block.more, block.features, *block.taps]

    def inside() -> list[str]:
        there = fn.gep(block.input, fn.mul(offset, scheme.how.row_unit_bytes))
        fn.call(work.convolver.tile(panel.columns, scheme), [there, *given])
        return []

    if not scheme.has_border:
        inside()
        return
    reach = [_tile_reach(work, piece, block, place, i) for i in range(len(scheme.problem.spatial))]

    def beyond() -> list[str]:
        copy = _border(work, piece, block, panel, place, reach)
        fn.call(work.convolver.tile(panel.columns, scheme.at_border()), [copy, *given])
        return []

    tests = []
    for (start, count), spatial in zip(reach, scheme.problem.spatial, strict=True):
        if not spatial.stays_inside:
            tests.append(fn.compare("sge", start, 0))
            tests.append(fn.compare("sle", fn.add(start, count), spatial.size))
    every = tests[0]
    for test in tests[1:]:
        every = fn.op(f"and i1 {every}, {test}")
    fn.choose(every, [], inside, beyond)


def _tile_reach(
    work: _Work, piece: Piece, block: _Block, place: _TilePlace, axis: int
) -> tuple[Integer, Integer]:
    """The first input index that a tile meets along an axis, and how many there are."""
    fn, scheme = work.fn, work.scheme
    spatial, phase = scheme.problem.spatial[axis], piece.phases[axis]
    dim = next(d for d, x in enumerate(scheme.rows) if x.axis == axis)
    start = fn.mul(place.rows[dim], spatial.stride)
    start = fn.add(fn.add(start, fn.mul(block.firsts[axis], spatial.dilation)), phase.offset)
    taps = fn.mul(fn.sub(block.taps[axis], 1), spatial.dilation)
    return start, fn.add(taps, (scheme.tile_extent(dim) - 1) * spatial.stride + 1)


def _border(
    work: _Work,
    piece: Piece,
    block: _Block,
    panel: _Panel,
    place: _TilePlace,
    reach: list[tuple[Integer, Integer]],
) -> str:
    """Copy the input of a tile to the stack; return where it lies."""
    fn, scheme = work.fn, work.scheme.at_border()
    ranges: list[Integer] = []
    for axis in scheme.axes():
        if axis.kind >= 0:
            ranges += reach[axis.kind]
        elif axis.kind == BATCH:
            dim = next(d for d, x in enumerate(scheme.rows) if x.axis == BATCH)
            ranges += [place.rows[dim], scheme.tile_extent(dim)]
        elif axis.kind == FEATURE:
            ranges += [block.feature, scheme.feature_block]
        else:
            ranges += [panel.column, panel.columns]
    fn.call(work.convolver.slab(scheme), ["%buffers", work.patch, piece.group, *ranges])
    return work.patch


def _in_result(
    fn: Function, scheme: ConvolutionScheme, piece: Piece, places: list[Integer]
) -> list[Integer]:
    """The indices in the result of a place in the rows of a phase."""
    found = []
    for row, place in zip(scheme.rows, places, strict=True):
        if row.axis == BATCH:
            found.append(place)
            continue
        step = scheme.problem.spatial[row.axis].output_step
        found.append(fn.add(piece.phases[row.axis].start, fn.mul(place, step)))
    return found


def _sums(work: _Work, piece: Piece, panel: _Panel, places: list[Integer], number: Integer) -> str:
    """The address of the sums of a tile: in the result, on the stack, or in scratch."""
    fn, scheme = work.fn, work.scheme
    nbytes = scheme.how.unit_bytes
    if work.convolver.is_direct:
        return fn.gep(work.stack, fn.mul(_offset(fn, scheme, piece, panel, places), nbytes))
    if work.stack:
        return work.stack
    base = fn.gep(work.thread, scheme.slab_bytes + scheme.far_panel_bytes)
    if scheme.is_shared:
        share = fn.add(fn.mul(piece.share, scheme.row_units), piece.number)
        base = fn.gep("%scratch", fn.mul(share, scheme.block_sums_bytes))
    at = fn.add(fn.mul(number, scheme.column_block), panel.number)
    return fn.gep(base, fn.mul(at, scheme.tile_sums * nbytes))


def _offset(
    fn: Function, scheme: ConvolutionScheme, piece: Piece, panel: _Panel, places: list[Integer]
) -> Integer:
    numbers, steps = scheme.problem.numbers, strides(scheme.problem.output)
    at = panel.column
    for row, x in zip(scheme.rows, _in_result(fn, scheme, piece, places), strict=True):
        d = numbers.output_batch if row.axis == BATCH else numbers.output_spatial[row.axis]
        at = fn.add(at, fn.mul(x, steps[d]))
    return at
