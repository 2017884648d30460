"""About how long a scheme of a convolution takes, and what its scratch is worth."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Final

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.contraction.prefetching import LINE
from lowtide.codegen.cpu.contraction.tiles import LATENCY, PORTS
from lowtide.codegen.cpu.convolution.axes import BATCH
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme

_COPIED: Final = 4.0
"""Cycles in which a vector of the input is copied, or of one element of units of the kernel."""

_COMPUTED: Final = 16.0
"""Cycles in which a vector of the input is computed and stored."""

_PER_LINE: Final = 10.0
"""Cycles around each line of the input that is copied."""

_PER_COLUMN: Final = 20.0
"""Cycles around each line of the kernel that is packed, where these lie along the features."""

_PER_TILE: Final = 50.0
"""Cycles around a tile."""

_FETCHED: Final = ((1 << 16, 2.0), (1 << 18, 10.0))
"""Cycles in which a vector of sums is added to that of another block, by the bytes of all sums."""

_FAR_FETCHED: Final = 20.0
"""The same where there are more of them than that."""

_CROWDED: Final = 1.2
"""What a load counts for where all ports load all the time: 13 x 1 beside 4 x 2 vectors."""

_NEAR_BYTES: Final = 32 << 10
"""A panel of fewer bytes comes from the first cache."""

_STREAM: Final = 48
"""Bytes of another panel that come from the second cache in a cycle, where only they do."""

_FAR_BYTES: Final = 512 << 10
"""More of the input than the second cache holds beside a panel: each panel fetches it again."""

_PER_FAR_LINE: Final = 3.0
"""Cycles in which a line of it comes."""

_FAR_KERNEL: Final = 1 << 20
"""Bytes of a kernel that no second cache holds from one packing to the next."""

_PER_KERNEL_LINE: Final = 12.0
"""Cycles in which a line of it comes, beside packing."""

_PRICE: Final = 0.03
"""What scratch is worth: twice as much of it pays if it saves 2% of the time."""

_NONE: Final = 4096
"""Bytes that scratch is counted as taking beyond its own: less hardly shows."""

_LEAST_PRICE: Final = float(_NONE**_PRICE)
"""What no scratch is worth."""

LITTLE: Final = 64 << 10
"""Scratch of a thread that hardly shows in a plan."""

_SHARE: Final = 8
"""Scratch of more than this part of what is read and written shows in the plan of small layers."""

_MUCH: Final = 1.15
"""What it is worth to stay with that, beside the price."""

_ABOVE: Final = 1.05
"""What it is worth to stay with that, beside the price."""


def is_far(problem: ConvolutionProblem) -> bool:
    """Whether the kernel of a convolution comes from memory each time that it is read."""
    return problem.kernel.nbytes > _FAR_KERNEL


def cheapest(schemes: Sequence[ConvolutionScheme], *, is_ready: bool) -> ConvolutionScheme:
    """Return the first scheme of the fewest cycles times what its scratch is worth.

    What scratch is worth is not asked where the cycles alone are too many.
    """
    best, least = schemes[0], inf
    for scheme in schemes:
        time = cycles(scheme, is_ready=is_ready)
        if time * _LEAST_PRICE < least:
            cost = time * price(scheme)
            if cost < least:
                best, least = scheme, cost
    return best


def price(scheme: ConvolutionScheme) -> float:
    """Return what the scratch of a scheme is worth, as a factor of its time."""
    nbytes, problem = scheme.far_bytes, scheme.problem
    touched = problem.input.nbytes
    touched += prod(problem.output.dimensions) * problem.input.element_type.nbytes
    much = _MUCH if _SHARE * nbytes > touched else 1
    return float((nbytes + _NONE) ** _PRICE) * (_ABOVE if nbytes > LITTLE else 1) * much


def cycles(scheme: ConvolutionScheme, *, is_ready: bool) -> float:
    """Return about how many cycles a scheme takes on one thread, but for copies at the border.

    Without `is_ready` the input has to be computed.
    """
    inner = scheme.inner_blocks
    nbytes = scheme.block_sums_bytes
    fetched = next((x for most, x in _FETCHED if nbytes <= most), _FAR_FETCHED)
    sums = fetched * scheme.tile_height * scheme.vectors if inner > 1 else 0.0
    products = scheme.block_steps / scheme.feature_step * _step(scheme)
    tile = _PER_TILE + _filled(scheme) * (sums + products)
    tiles = scheme.column_block * scheme.block_tiles * tile
    rows = scheme.block_tiles * scheme.tile_height
    copied = _PER_LINE * rows if inner > 1 else 0.0
    if not scheme.in_place:
        copied = slab_cycles(scheme, _COPIED if is_ready else _COMPUTED)
    elif scheme.read_bytes > _FAR_BYTES and not scheme.is_lanewise:
        copied += scheme.column_block * _PER_FAR_LINE * scheme.read_bytes / LINE
    blocks = scheme.row_units * scheme.shares
    packed = scheme.column_block * _filled(scheme) * _panel(scheme)
    return blocks * inner / scheme.shares * (copied + packed + tiles)


def slab_cycles(scheme: ConvolutionScheme, each: float = _COPIED) -> float:
    """Return the cycles in which a piece of work copies its input; a vector takes `each`."""
    extents = scheme.read_extents()
    last = extents[-1]
    lines = prod(extents) / last
    return lines * (_PER_LINE + -(-last // scheme.lanes) * each)


def _filled(scheme: ConvolutionScheme) -> float:
    """Which part of the vectors of all panels the columns take: the last panel may have fewer."""
    if scheme.is_inward:
        return 1.0
    return -(-scheme.all_columns // scheme.lanes) / (scheme.panels * scheme.vectors)


def _step(scheme: ConvolutionScheme) -> float:
    """Cycles of one step of a full tile."""
    height, vectors, planes = scheme.tile_height, scheme.vectors, scheme.how.planes
    sums = -(-height * vectors // PORTS) * scheme.how.multiplications
    found = [sums, loads(scheme, height, vectors) / PORTS, LATENCY * planes]
    unit = scheme.columns * scheme.column_unit_bytes
    if scheme.block_steps * unit > _NEAR_BYTES:
        found.append(unit / _STREAM)
    if scheme.read_bytes > _NEAR_BYTES:
        found.append(_new_lines(scheme) * LINE / _STREAM)
    return max(found)


def loads(scheme: ConvolutionScheme, height: int, vectors: int) -> float:
    """Return what the loads of a step of a tile count for, in loads that meet no other.

    Where a kernel lies in panels, tiles may have nearly as many loads as products: no packing
    comes in between.
    """
    planes = scheme.how.planes
    if scheme.is_lanewise:
        return (height + 1) * vectors * planes
    found = (height + vectors) * planes
    return found if scheme.kernel_panels is None else _CROWDED * found


def _new_lines(scheme: ConvolutionScheme) -> int:
    """How many lines of the input a step takes that the step before did not, 0 where few.

    Elements of a batch that lie together fill lines, of which a tile along other axes takes one
    element each. A step along the last of these goes on by its dilation: so many of its lines are
    new.
    """
    if scheme.last_kind != BATCH:
        return 0
    extents = [(x.axis, scheme.tile_extent(d)) for d, x in enumerate(scheme.rows)]
    extents = [(axis, extent) for axis, extent in extents if axis != BATCH]
    last, extent = extents[-1]
    new = min(extent, scheme.problem.spatial[last].dilation)
    return new * prod([extent for _, extent in extents[:-1]])


def _panel(scheme: ConvolutionScheme) -> float:
    """Cycles in which a panel of the kernel is packed."""
    steps, columns = scheme.block_steps, scheme.columns
    if scheme.weights_in_place:
        if scheme.kernel_panels is None or not is_far(scheme.problem):
            return 0.0
        return _PER_FAR_LINE * steps * columns * scheme.column_unit_bytes / LINE
    found = steps * -(-columns // scheme.lanes) * _COPIED * scheme.how.group
    at, numbers = strides(scheme.problem.kernel), scheme.problem.numbers
    if at[numbers.kernel_input_feature] == 1 != at[numbers.kernel_output_feature]:
        found += steps / scheme.feature_block * columns * _PER_COLUMN
    if is_far(scheme.problem):
        found += steps * columns * scheme.how.unit_bytes / LINE * _PER_KERNEL_LINE
    return found
