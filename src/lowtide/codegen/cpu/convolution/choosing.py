"""Choice of tile and blocks for a convolution, by its shape alone."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.cpu.contraction.tiles import LATENCY, PORTS
from lowtide.codegen.cpu.convolution.axes import BATCH, Row, axes_of
from lowtide.codegen.cpu.convolution.blocks import blocked
from lowtide.codegen.cpu.convolution.border import (
    border_cycles,
    copies_little,
    has_plain_border,
    is_inside,
)
from lowtide.codegen.cpu.convolution.cycles import LITTLE, cycles, loads, price
from lowtide.codegen.cpu.convolution.kernel_panels import KernelPanels
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.llvm.target import Target
from lowtide.records.changed import changed

MOST_INWARD: Final = 8
"""Columns that are vectors of their own: so many leave registers for several rows."""

_PART: Final = 0.05
"""The part of its time that reading an input in place may cost, by tiles that are as large."""

_SMALLER: Final = 0.08
"""The part of the time that smaller tiles take beyond what is counted: 3 x 3 beside 4 x 3."""

_PER_TILE: Final = 24
"""Cycles around a tile: the call, and filling and emptying the pipeline."""

_STREAM: Final = 20
"""Bytes of a panel that come from the second cache in a cycle, beside all else."""


def choices(
    problem: ConvolutionProblem,
    how: Arithmetic,
    target: Target,
    *,
    is_ready: bool,
    weights_ready: bool,
    has_finish: bool,
    is_zero_around: bool = True,
    panels: KernelPanels | None = None,
) -> Iterator[ConvolutionScheme]:
    """Yield schemes of a convolution, the one that seems fastest first.

    The others hold another tile, or copy an input that could be read in place. With `is_ready` the
    input is an array of what is multiplied, with `weights_ready` the kernel. With `has_finish`
    something is done with the sums before they are stored. `is_zero_around` says what is around
    the input, and `panels` how the kernel lies, if it does so.
    """
    given = {"is_ready": is_ready, "has_finish": has_finish, "is_zero_around": is_zero_around}
    ways = [_uncut(problem, how, target, in_place=x, **given) for x in (True, False)]
    ways = [_with_panels(x, panels) for x in ways]
    found = []
    for whole in ways[int(not ways[0].in_place) :]:
        ordered = [_tiled(x, target, ready=weights_ready) for x in _orders(whole)]
        ready = [[blocked(y, is_ready=is_ready) for y in x] for x in ordered if x]
        if ready:
            best = [sorted(x, key=lambda x: _cycles(x) * price(x)) for x in ready]
            found.append(_best_order(best, is_ready=is_ready))
    if len(found) > 1 and not _is_first(found[0][0], found[1][0], is_ready=is_ready):
        found.reverse()
    yield from found[0]
    yield from [x[0] for x in found[1:]]


def _is_first(near: ConvolutionScheme, copied: ConvolutionScheme, *, is_ready: bool) -> bool:
    """Whether to read the input in place rather than to copy it."""
    pair = near, copied
    times = [cycles(x, is_ready=is_ready) for x in pair]
    if near.has_border:
        times[0] += border_cycles(near)
    if near.rows != copied.rows and times[0] > _CLEARLY * times[1] and _is_little(copied, near):
        return False
    priced = [time * price(x) for time, x in zip(times, pair, strict=True)]
    sums = [x.tile_height * x.vectors for x in pair]
    most = 1 + (_PART if sums[0] >= sums[1] else -_SMALLER)
    return not near.has_border or priced[0] <= most * priced[1]


def _tiled(scheme: ConvolutionScheme, target: Target, *, ready: bool) -> list[ConvolutionScheme]:
    """Return the scheme with each of its two best tiles."""
    return [_with_weights(x, ready=ready) for x in _tilings(scheme, target)[:2]]


def _best_order(
    ordered: list[list[ConvolutionScheme]], *, is_ready: bool
) -> list[ConvolutionScheme]:
    """Return the schemes of the first order, or of one that takes clearly less time.

    Its scratch may be larger by what hardly shows in a plan.
    """

    def time(schemes: list[ConvolutionScheme]) -> float:
        return cycles(schemes[0], is_ready=is_ready)

    first, best = ordered[0], min(ordered, key=time)
    is_clear = time(best) < _CLEARLY * time(first)
    return best if is_clear and _is_little(best[0], first[0]) else first


def _is_little(scheme: ConvolutionScheme, other: ConvolutionScheme) -> bool:
    """Whether a scheme takes hardly more scratch than another one, with many threads too."""
    return _scratch(scheme) <= _scratch(other) + LITTLE


def _scratch(scheme: ConvolutionScheme) -> int:
    return scheme.shared_bytes + _MANY_THREADS * scheme.thread_bytes


_MANY_THREADS: Final = 16
"""Plans are the same for all numbers of threads, each of which has scratch of its own."""


_CLEARLY: Final = 0.9
"""The part of the time below which another order of rows is taken."""


def _with_panels(scheme: ConvolutionScheme, panels: KernelPanels | None) -> ConvolutionScheme:
    """Return the scheme with the panels that the kernel lies in, if tiles can read them."""
    is_plain = not (scheme.is_inward or scheme.is_lanewise)
    if panels is None or panels.width % scheme.lanes or not is_plain:
        return scheme
    return changed(scheme, kernel_panels=panels)


def _with_weights(scheme: ConvolutionScheme, *, ready: bool) -> ConvolutionScheme:
    """Return the scheme with the kernel where it lies, if packing it would save nothing.

    So it is where it lies in panels, where each column has a row of its own, where one panel has
    all columns, and where few rows read a panel.
    """
    if scheme.kernel_panels is not None:
        return changed(scheme, weights_in_place=True)
    problem = scheme.problem
    is_few = scheme.is_lanewise or scheme.panels == 1 or problem.rows <= _FEW_ROWS
    in_place = ready and is_few and not scheme.is_inward
    return changed(scheme, weights_in_place=in_place)


_FEW_ROWS: Final = 32
"""Rows that read a panel no more often than it pays to pack it."""


def _uncut(
    problem: ConvolutionProblem,
    how: Arithmetic,
    target: Target,
    *,
    in_place: bool,
    is_ready: bool,
    has_finish: bool,
    is_zero_around: bool,
) -> ConvolutionScheme:
    """The scheme without tiles and blocks; with `in_place` the input is read so if it can be."""
    lanes = lanes_of_columns(problem, how, target)
    is_inward = _is_inward(problem, how, lanes)
    is_lanewise = not is_inward and has_lanes(problem, lanes)
    rows = _rows(problem)
    in_place = in_place and is_ready and problem.has_whole_units
    in_place = in_place and (is_inside(problem) or (not is_inward and has_plain_border(problem)))
    in_place = in_place and not (is_lanewise and not _lanes_lie_together(problem))
    in_place = in_place and not (is_inward and problem.features % lanes)
    taps = tuple([max(1, x.taps) for x in problem.spatial])
    has_rests = how.method is MultiplyMethod.BYTE_PAIRS  # Of all taps.
    found = ConvolutionScheme(
        problem, how, lanes, is_lanewise, is_inward, in_place, axes_of(problem),
        has_finish or is_inward, rows,
        len(rows) - 1, 1, 1, len(rows) - 1, 1, problem.features, taps, 1,
        clips=in_place and is_zero_around and not has_rests,
        stack_bytes=target.stack_bytes,
    )  # fmt: skip
    if is_inward:
        found = changed(found, feature_block=-(-problem.features // lanes) * lanes)
    return found


def _lanes_lie_together(problem: ConvolutionProblem) -> bool:
    """Whether lanes are neighbours in the input: each column has one feature, and nothing else."""
    step = strides(problem.input)[problem.numbers.input_feature]
    return problem.channels == problem.outputs == step == 1 and not problem.is_batch_grouped


def lanes_of_columns(problem: ConvolutionProblem, how: Arithmetic, target: Target) -> int:
    """How many columns a vector has: no more than a group has, where it has few of them.

    With lanes of several groups each row is read for each lane by itself, from places that lie
    apart; short vectors take one element of a row for all lanes.
    """
    lanes = how.lanes(target)
    is_plain = how.planes == how.group == 1 and how.element.is_floating
    if problem.groups == 1 or problem.channels == 1 or problem.outputs < 3 or not is_plain:
        return lanes
    while lanes > _FEWEST_LANES and problem.outputs * 2 <= lanes:
        lanes //= 2
    return lanes


_FEWEST_LANES: Final = 4


def has_lanes(problem: ConvolutionProblem, lanes: int) -> bool:
    """Whether each lane has its own features: there are many products of few columns."""
    return problem.groups > 1 and problem.outputs * 2 <= lanes


def _is_inward(problem: ConvolutionProblem, how: Arithmetic, lanes: int) -> bool:
    """Whether so few columns take fewer steps if the lanes are features, which lie together."""
    is_alone = how.planes == how.group == 1
    if not is_alone or strides(problem.input)[problem.numbers.input_feature] != 1:
        return False
    outward = problem.features * -(-problem.outputs // lanes)
    inward = problem.outputs * -(-problem.features // lanes)
    return problem.outputs <= MOST_INWARD and 4 * inward <= 3 * outward


def _rows(problem: ConvolutionProblem) -> tuple[Row, ...]:
    """The dimensions of rows in the order in which the result has them in memory."""
    numbers, steps = problem.numbers, strides(problem.output)
    found = [Row(BATCH, problem.batch, problem.batch, steps[numbers.output_batch])]
    for i, (x, d) in enumerate(zip(problem.spatial, numbers.output_spatial, strict=True)):
        found.append(Row(i, x.count, x.least, steps[d] * x.output_step))
    dims = [numbers.output_batch, *numbers.output_spatial]
    order = sorted(range(len(found)), key=lambda i: (-steps[dims[i]], found[i].size == 1))
    return tuple([found[i] for i in order])


def _orders(scheme: ConvolutionScheme) -> list[ConvolutionScheme]:
    """Return the scheme with its rows in the order of the result, and with the batch last.

    The second is worth a look where the batch lies innermost in the input alone: then the rows of a
    tile are neighbours there.
    """
    problem, rows = scheme.problem, scheme.rows
    read, numbers = strides(problem.input), problem.numbers
    nearest = min([read[d] for d in (numbers.input_batch, *numbers.input_spatial)])
    if rows[-1].axis == BATCH or read[numbers.input_batch] != nearest:
        return [scheme]
    batch = [x for x in rows if x.axis == BATCH]
    other = (*[x for x in rows if x.axis != BATCH], *batch)
    return [scheme, changed(scheme, rows=other, tile_dim=len(rows) - 1, block_dim=len(rows) - 1)]


# -- tiles -----------------------------------------------------------------------------------------


def _tilings(scheme: ConvolutionScheme, target: Target) -> list[ConvolutionScheme]:
    """The best tile of each number of vectors, those first that take fewer cycles in all."""
    is_wide = scheme.is_lanewise and scheme.clips and scheme.rows[-1].size > 1
    if is_wide and scheme.block_steps <= _FEW_STEPS:
        return [_wide(scheme)]
    best: dict[int, tuple[float, int, ConvolutionScheme]] = {}
    most, panels = _most_rows(scheme), scheme.kernel_panels
    vectors_at_most = -(-scheme.all_columns // scheme.lanes)
    widths = range(1, vectors_at_most + 1)
    if scheme.is_inward:
        widths = range(scheme.columns, scheme.columns + 1)
    for dim in range(len(scheme.rows) - 1, -1, -1):
        inner = prod([x.size for x in scheme.rows[dim + 1 :]])
        if inner > most or any(x.size != x.least for x in scheme.rows[dim + 1 :]):
            break
        for rows in range(1, min(scheme.rows[dim].least, most // inner) + 1):
            for vectors in widths:
                if panels is not None and not panels.has_tiles(vectors * scheme.lanes):
                    continue
                height = rows * inner
                if not scheme.how.fits(height, vectors, target):
                    break
                found = changed(scheme, tile_dim=dim, tile_rows=rows, vectors=vectors)
                if not copies_little(found):
                    break
                key = (_cycles(found), height)
                if vectors not in best or key < best[vectors][:2]:
                    best[vectors] = (*key, found)
    return [found for *_, found in sorted(best.values(), key=lambda x: x[:2])]


def _wide(scheme: ConvolutionScheme) -> ConvolutionScheme:
    """Return the scheme with a tile as wide as can be, and of few rows, for lanes of their own.

    Its columns lie together in memory. One row leaves out what is beyond the input, where several
    copy; there are more of them only where the sums of one take longer than they need.
    """
    vectors = -(-scheme.all_columns // scheme.lanes)
    vectors = -(-vectors // -(-vectors * scheme.how.planes // _WIDEST))
    most = min(scheme.rows[-1].least, max(1, LATENCY * PORTS // vectors))
    rows = range(most, 0, -1)
    tiles = (changed(scheme, tile_rows=x, vectors=vectors) for x in rows)
    return next(filter(copies_little, tiles))


_FEW_STEPS: Final = 25
"""Places of a window that are met so soon that what is around a tile counts more: 5 x 5."""

_WIDEST: Final = 12
"""Sums of a row that registers hold, beside what is multiplied."""


def _most_rows(scheme: ConvolutionScheme) -> int:
    """At most 14 rows; 8 where they fall into the same sets of the first cache."""
    if not scheme.in_place:
        return 14
    at = {x.kind: x.step for x in scheme.axes()}
    last = scheme.rows[-1]
    step = at[last.axis] * scheme.how.unit_bytes
    if last.axis != BATCH:
        step *= scheme.problem.spatial[last.axis].stride
    return 8 if step % 2048 == 0 else 14


def _cycles(scheme: ConvolutionScheme) -> float:
    """Cycles of a step over all tiles, with what is spent around them."""
    rows = scheme.rows
    along = -(-rows[scheme.tile_dim].size // scheme.tile_rows)
    tiles = along * prod([x.size for x in rows[: scheme.tile_dim]])
    last = -(-scheme.last_columns // scheme.lanes)
    widths = [(scheme.vectors, scheme.panels - 1), (last, 1)]
    if scheme.is_inward:
        widths = [(scheme.vectors, 1)]
    around = _PER_TILE / min(512, max(8, scheme.block_steps))
    height, planes = scheme.tile_height, scheme.how.planes
    return tiles * sum(
        [
            count * (max(_step(scheme, height, width), LATENCY * planes) + around)
            for width, count in widths
        ]
    )


def _step(scheme: ConvolutionScheme, rows: int, vectors: int) -> float:
    multiplications = -(-rows * vectors // PORTS) * scheme.how.multiplications
    streamed = vectors * scheme.lanes * scheme.how.unit_bytes / _STREAM
    return max(multiplications, loads(scheme, rows, vectors) / PORTS, streamed)
