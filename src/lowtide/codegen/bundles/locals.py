"""Bytes of allocations that lie on the stack while a bundle runs, where LLVM finds registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lowtide.codegen.bundles.cells import Cells, OutsideReads, slices_touched, slices_written
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, KernelThunk, Thunk, all_thunks

_COPIED_BYTES: Final = 256
_LOCAL_BYTES: Final = 2048
"""The most bytes of a local, where it is copied in or out, and where it is not."""


@dataclass(frozen=True, slots=True)
class Local:
    """Bytes of an allocation that a bundle has on its stack instead.

    With `copied_in` they are copied there before, with `copied_out` back afterwards.
    """

    place: BufferSlice
    copied_in: bool
    copied_out: bool


def locals_of(bundle: BundleThunk, outside: OutsideReads, *, in_loop: bool) -> list[Local]:
    """Return the locals of a bundle, which runs many times where it is `in_loop`.

    No slice that the bundle touches lies partly in one.
    """
    slices = slices_touched(bundle.parts)
    cells = Cells(slices)
    flow = cells.flow(bundle.parts)
    written = {x for y in all_thunks(bundle.parts) for x in _overwritten(y)}
    changed = {x.allocation for x in written}
    may_write = cells.mask_of(written)
    found = []
    for place, inner in _joined([x for x in slices if x.allocation in changed]):
        mask = cells.mask_of(inner)
        end = place.offset + place.nbytes
        is_input = bool(flow.inputs & mask)
        is_kept = outside.has(place.allocation, place.offset, end, bundle.function) or (
            in_loop and is_input
        )
        copied_out = is_kept and bool(may_write & mask)
        copied_in = is_input or (copied_out and bool(mask & ~flow.written))
        most = _COPIED_BYTES if copied_in or copied_out else _LOCAL_BYTES
        if place.nbytes <= most:
            found.append(Local(place, copied_in, copied_out))
    return found


def _overwritten(thunk: Thunk) -> Iterator[BufferSlice]:
    """What a thunk writes, scratch included."""
    if isinstance(thunk, KernelThunk) and thunk.scratch is not None and thunk.scratch.nbytes:
        yield thunk.scratch
    yield from (x for x in slices_written(thunk) if x.nbytes)


def _joined(slices: Iterable[BufferSlice]) -> Iterator[tuple[BufferSlice, Sequence[BufferSlice]]]:
    """Yield the least slices of which none meets another one, each with those that lie in it."""
    inner: list[BufferSlice] = []
    allocation, begin, end = -1, 0, 0
    for x in sorted(slices, key=lambda x: (x.allocation, x.offset, x.nbytes)):
        if inner and (x.allocation != allocation or x.offset >= end):
            yield BufferSlice(allocation, begin, end - begin), inner
            inner = []
        if not inner:
            allocation, begin, end = x.allocation, x.offset, x.offset
        inner.append(x)
        end = max(end, x.offset + x.nbytes)
    if inner:
        yield BufferSlice(allocation, begin, end - begin), inner
