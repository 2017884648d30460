"""Tiles at the border of an input that is read in place: how many there are, what copying takes.

A tile that reaches beyond the input copies what it reads to the stack, with what is around it.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.convolution.cycles import slab_cycles
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme

MOST_BYTES: Final = 8 << 10
"""Bytes that a tile may copy to the stack."""


def is_inside(problem: ConvolutionProblem) -> bool:
    """Return whether no place of the window meets anything but elements."""
    return all(x.stays_inside for x in problem.spatial)


def has_plain_border(problem: ConvolutionProblem) -> bool:
    """Return whether all places along an axis meet as many taps, inside or not."""
    return all(len(x.phases) == 1 and x.taps for x in problem.spatial)


def copies_little(scheme: ConvolutionScheme) -> bool:
    """Return whether the stack has room for what a tile at the border copies, if there is one."""
    return not scheme.has_border or scheme.at_border().slab_bytes <= MOST_BYTES


def border_cycles(scheme: ConvolutionScheme) -> float:
    """Return about how many cycles tiles take to copy what they read, where that reaches beyond."""
    if not scheme.has_border:
        return 0.0
    tiles = border_tiles(scheme) * scheme.panels * scheme.groups * scheme.inner_blocks
    return tiles * slab_cycles(scheme.at_border())


def border_tiles(scheme: ConvolutionScheme) -> int:
    """Return how many tiles of a panel reach beyond the input."""
    every, inside = [], []
    for dim, row in enumerate(scheme.rows):
        starts = list(range(row.size))
        if dim == scheme.tile_dim:
            last = row.size - scheme.tile_rows
            starts = [min(x, last) for x in range(0, row.size, scheme.tile_rows)]
        elif dim > scheme.tile_dim:
            starts = [0]
        every.append(len(starts))
        inside.append(len([x for x in starts if _is_within(scheme, dim, x)]))
    return prod(every) - prod(inside)


def _is_within(scheme: ConvolutionScheme, dim: int, start: int) -> bool:
    """Whether a tile that starts at an index of a row dimension meets elements only along it."""
    row = scheme.rows[dim]
    if row.axis < 0 or scheme.is_clipped(row.axis):
        return True
    spatial = scheme.problem.spatial[row.axis]
    (phase,) = spatial.phases
    first = start * spatial.stride + phase.offset
    reach = (scheme.tile_extent(dim) - 1) * spatial.stride + (phase.taps - 1) * spatial.dilation
    return first >= 0 and first + reach < spatial.size
