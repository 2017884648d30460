"""Tiles at the border of an input that is read in place: how many there are, what copying takes.

A tile that reaches beyond the input copies what it reads to the stack, with what is around it.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.convolution.blocks import COPIED
from lowtide.codegen.cpu.convolution.problem import ConvolutionProblem
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme

_PART: Final = 0.05
"""The part of the time of its products that reading an input in place may cost."""

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


def is_worth_it(near: ConvolutionScheme, copying: ConvolutionScheme, longer: float) -> bool:
    """Return whether tiles at the border take little more time than a copy of all of the input.

    `copying` is the scheme that makes one; without copies the other one takes `longer`, in cycles.
    """
    if not near.has_border:
        return True
    copies = border_tiles(near) * near.panels * near.groups * near.at_border().slab_bytes
    more = copies - copying.row_units * copying.slab_bytes
    vectors = more / (near.lanes * near.how.row_unit_bytes)
    return vectors * COPIED + longer <= _PART * near.problem.products / (2 * near.lanes)


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
    if row.axis < 0:
        return True
    spatial = scheme.problem.spatial[row.axis]
    (phase,) = spatial.phases
    first = start * spatial.stride + phase.offset
    reach = (scheme.tile_extent(dim) - 1) * spatial.stride + (phase.taps - 1) * spatial.dilation
    return first >= 0 and first + reach < spatial.size
