"""Asking for a kernel in panels ahead of its use: each tile asks for a part of what comes later.

A block reads the features of each tap from another run of a panel. Processors see a run only once
it has begun, and these are short.
"""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.contraction.prefetching import LINE
from lowtide.codegen.cpu.convolution.cycles import is_far
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.convolution.work import InputBlock, PackedPanel, WrittenPhase
from lowtide.llvm.function import Integer
from lowtide.records import dataclass

_CACHE: Final = 2
"""The cache into which they come: the first one is full of what is read meanwhile."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where a panel is read later, in elements behind where it is read in a block.

    That is `block` in the next block of features, and behind the last one `piece`, in that panel
    of the next piece of work that is read there at the same turn. Taps are `tap` apart.
    """

    block: int
    piece: int
    tap: int


def ahead_of(scheme: ConvolutionScheme) -> Ahead | None:
    """Return where panels of a kernel from memory are read later.

    None where the kernel is no such one, and where its taps do not lie evenly apart in a block.
    """
    problem, panels = scheme.problem, scheme.kernel_panels
    if panels is None or not is_far(problem) or scheme.columns > panels.width:
        return None
    pairs = zip(problem.spatial, panels.spatial, strict=True)
    lying = [(x.taps, x.tap_step * step) for x, step in pairs if x.taps > 1]
    taps, tap = [x for x, _ in lying], lying[-1][1] if lying else 0
    apart = [tap * prod(taps[i + 1 :]) for i in range(len(taps))]
    if prod(scheme.tap_blocks) != prod(taps) or [x for _, x in lying] != apart:
        return None
    block = scheme.feature_block * panels.feature
    piece = panels.column_offset(scheme.column_block * scheme.columns)
    return Ahead(block, piece - (scheme.feature_blocks - 1) * block, tap)


def ask_for_later(
    work: WrittenPhase, block: InputBlock, panel: PackedPanel, number: Integer
) -> None:
    """Write what asks for a part of a panel of a later block, that of tile `number` of a block.

    All tiles of a block of rows together ask for all taps.
    """
    fn, scheme = work.fn, work.scheme
    ahead, panels = ahead_of(scheme), scheme.kernel_panels
    if ahead is None or panels is None:
        return
    nbytes = scheme.column_unit_bytes
    step = fn.select(block.is_end, "i64", str(ahead.piece * nbytes), str(ahead.block * nbytes))
    later = fn.gep(panel.packed, step)
    taps, tiles = prod(scheme.tap_blocks), scheme.block_tiles
    first = fn.div(fn.mul(number, taps), tiles)
    last = fn.div(fn.mul(fn.add(number, 1), taps), tiles)
    with fn.loop(first, last) as tap:
        run = fn.gep(later, fn.mul(tap.index, ahead.tap * nbytes))
        with fn.loop(0, scheme.feature_block * panels.feature * nbytes, LINE) as line:
            fn.prefetch(fn.gep(run, line.index), _CACHE)
