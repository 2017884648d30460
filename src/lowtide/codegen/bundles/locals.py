"""Bytes of allocations that lie on the stack while a bundle runs, where LLVM finds registers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from lowtide.codegen.bundles.cells import Cells, OutsideReads, slices_touched
from lowtide.codegen.bundles.webs import Web, webs_of
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, KernelThunk, all_thunks
from lowtide.records import dataclass

_COPIED_BYTES: Final = 256
_LOCAL_BYTES: Final = 2048
"""The most bytes of a local, where it is copied in or out, and where it is not."""

_STACK_BYTES: Final = 1 << 16
"""The most bytes of all locals of a bundle; values that come later stay where they are."""

_LINE: Final = 64
"""Locals begin at multiples of so many bytes, or as far behind one as in the arena."""

_MOST_CELLS: Final = 2048
"""The most slices of a bundle that are looked at; beyond, all stay where they are."""


@dataclass(frozen=True, slots=True)
class Local:
    """Bytes of an allocation that a bundle has on its stack instead, for some of its slices.

    With `copied_in` they are copied there before, with `copied_out` back afterwards.
    """

    place: BufferSlice
    slices: tuple[BufferSlice, ...]
    copied_in: bool
    copied_out: bool


def locals_of(
    bundle: BundleThunk, outside: OutsideReads, constants: Container[int], *, in_loop: bool
) -> list[Local]:
    """Return the locals of a bundle, which runs many times where it is `in_loop`.

    Allocations of `constants` stay where they are: the result of a kernel may be one as it is.
    """
    changed = {x.allocation for y in all_thunks(bundle.parts) for x in y.writes}
    scratch = (x.scratch for x in all_thunks(bundle.parts) if isinstance(x, KernelThunk))
    changed |= {x.allocation for x in scratch if x is not None}
    touched = slices_touched(bundle.parts)
    slices = [x for x in touched if x.allocation in changed and x.allocation not in constants]
    if len(slices) > _MOST_CELLS:
        return []
    webs, first_read = webs_of(bundle.parts, slices)
    cells = Cells(slices)
    found, room = [], _STACK_BYTES
    for web in webs:
        place = _hull(web.slices)
        is_kept = outside.has(place, bundle.function) or (
            in_loop and any(x in first_read for y in web.slices for x in cells.of(y))
        )
        local = _local(web, place, is_kept=is_kept)
        if local is not None and place.nbytes <= room:
            found.append(local)
            room -= -(-place.nbytes // _LINE) * _LINE
    return found


def _local(web: Web, place: BufferSlice, *, is_kept: bool) -> Local | None:
    """The local of a web, whose bytes others read where `is_kept`; None where it is not to be."""
    copied_out = is_kept and web.is_written
    copied_in = web.is_input or (copied_out and not web.is_whole)
    if copied_out and web.is_mixed:
        return None
    if place.nbytes > (_COPIED_BYTES if copied_in or copied_out else _LOCAL_BYTES):
        return None
    return Local(place, web.slices, copied_in, copied_out)


def _hull(slices: Sequence[BufferSlice]) -> BufferSlice:
    """The bytes from the first to the last of slices of an allocation."""
    begin = min([x.offset for x in slices])
    end = max([x.offset + x.nbytes for x in slices])
    return BufferSlice(slices[0].allocation, begin, end - begin)
