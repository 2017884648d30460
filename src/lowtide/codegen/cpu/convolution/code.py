"""The code of a convolution: phases, pieces of work, blocks, panels and tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lowtide.codegen.cpu.convolution.axes import BATCH, FEATURE
from lowtide.codegen.cpu.convolution.pieces import Piece, phase_tables, piece_of
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.convolution.tiles import write_tiles
from lowtide.codegen.cpu.convolution.work import Convolver, InputBlock, PackedPanel, WrittenPhase
from lowtide.codegen.kernel import ARGUMENTS, KernelCode
from lowtide.cost.machine import X86_SERVER
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer


def convolution_code(convolver: Convolver) -> KernelCode:
    """Return the phases: products, and where shares are added up, one more."""
    scheme = convolver.scheme
    main = Function("products", ARGUMENTS)
    _write(WrittenPhase(main, convolver))
    phases = [Phase(main.name, scheme.row_units * scheme.shares, scheme.unit_seconds)]
    written = [main]
    if scheme.is_shared:
        last = Function("results", ARGUMENTS)
        _write(WrittenPhase(last, convolver, is_last=True))
        written.append(last)
        seconds = scheme.block_sums_bytes * scheme.shares * X86_SERVER.memory_byte_seconds
        phases.append(Phase(last.name, scheme.row_units, seconds))
    text = "\n".join([x for x in (phase_tables(scheme), *convolver.constants.values()) if x])
    return KernelCode((*convolver.functions.values(), *written), tuple(phases), text)


def _write(work: WrittenPhase) -> None:
    fn, scheme, convolver = work.fn, work.scheme, work.convolver
    work.thread = "%scratch"
    if scheme.piece_bytes and not scheme.far_bytes:
        work.thread = fn.stack("i8", scheme.piece_bytes)
    elif not scheme.is_alone:
        base = fn.gep("%scratch", scheme.shared_bytes)
        work.thread = fn.gep(base, fn.mul("%thread", scheme.thread_bytes))
    kernel = convolver.finish.kernel
    if scheme.in_place:
        work.input = _pointer(fn, _number(kernel, convolver.data))
    if scheme.weights_in_place:
        panels = scheme.kernel_panels
        weights = convolver.finish.dot.operands[1] if panels is None else panels.source
        work.weights = _pointer(fn, _number(kernel, weights))
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


def _piece(work: WrittenPhase, piece: Piece) -> None:
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


def _block(fn: Function, scheme: ConvolutionScheme, piece: Piece, number: Integer) -> InputBlock:
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
    return InputBlock(number, feature, features, firsts[::-1], taps[::-1])


def _input(work: WrittenPhase, piece: Piece, block: InputBlock) -> str:
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
    fn: Function, scheme: ConvolutionScheme, piece: Piece, block: InputBlock, axis: int
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


def _where(work: WrittenPhase, piece: Piece, starts: list[Integer]) -> str:
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


def _panels(work: WrittenPhase, piece: Piece, block: InputBlock | None) -> None:
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


def _panel(
    work: WrittenPhase,
    piece: Piece,
    block: InputBlock | None,
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
    write_tiles(work, piece, block, PackedPanel(relative, column, columns, packed))


def _weights(work: WrittenPhase, column: Integer, feature: Integer, taps: list[Integer]) -> str:
    """The address in the kernel of the first column of a block."""
    fn, scheme = work.fn, work.scheme
    feature_step, steps = scheme.kernel_steps()
    panels = scheme.kernel_panels
    place = column if panels is None else panels.column_place(fn, column)
    at = fn.add(place, fn.mul(feature, feature_step))
    for step, tap in zip(steps, taps, strict=True):
        at = fn.add(at, fn.mul(tap, step))
    return fn.gep(work.weights, fn.mul(at, work.scheme.column_unit_bytes))
