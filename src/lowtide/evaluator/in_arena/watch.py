"""Owners of bytes: finds the value that was overwritten while needed, and what overwrote it."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.evaluator.in_arena.cells import Cell, Moment
from lowtide.evaluator.in_arena.errors import ArenaError
from lowtide.evaluator.in_arena.memory import GUARD_BYTES, POISON, ArenaMemory, is_writable
from lowtide.evaluator.in_arena.sites import Sites
from lowtide.ir.buffer import BufferSlice
from lowtide.records import dataclass

_NOBODY: Final = 0


@dataclass(frozen=True, eq=False, slots=True)
class _Fault:
    """A value that was needed at `moment`, and the one that lay over it, None if none does."""

    damaged: Cell
    written: Cell | None
    moment: Moment


class Watch:
    """The owner of each byte, by number: a live cell, minus a dead one, or nobody.

    After the first fault nothing is checked any more: values come from their images, so that the
    program goes on as it should, until the last uses of both values are known.
    """

    def __init__(self, memory: ArenaMemory, sites: Sites) -> None:
        self.memory = memory
        self.sites = sites
        self.fault: _Fault | None = None
        self._owners = [np.zeros(x.nbytes, np.int32) for x in memory.allocations]
        self._writable = [is_writable(x) for x in memory.allocations]
        self._cells: dict[int, Cell] = {}
        self._limit = 4096

    def claim(self, cell: Cell, place: BufferSlice) -> None:
        """Give the bytes of a slice to a cell, which is about to be stored there."""
        self._owned(place)[:] = cell.number
        self._cells[cell.number] = cell
        if len(self._cells) > self._limit:
            self._forget()

    def _owned(self, place: BufferSlice) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return self._owners[place.allocation][place.offset : place.offset + place.nbytes]

    def _forget(self) -> None:
        """Drop the cells that own no byte any more."""
        present = {int(abs(x)) for owners in self._owners for x in np.unique(owners)}
        self._cells = {number: x for number, x in self._cells.items() if number in present}
        self._limit = max(4096, 2 * len(self._cells))

    def check(self, cell: Cell, place: BufferSlice, moment: Moment) -> None:
        """See that the bytes of a cell, which is needed at `moment`, are as they were stored."""
        if self.fault is not None:
            return
        image = cell.image
        assert image is not None
        owners = self._owned(place)[: image.size]
        intact = np.array_equal(self.memory.read(place)[: image.size], image)
        if intact and (owners == cell.number).all():
            return
        others = owners[owners != cell.number]
        if not others.size:
            others = owners[self.memory.read(place)[: image.size] != image]
        written = self._cells.get(abs(int(others[0])))
        self.fault = _Fault(cell, None if written is cell else written, moment)

    def die(self, cell: Cell, place: BufferSlice) -> None:
        """Poison the bytes that nothing has overwritten; nobody reads the cell any more."""
        if self._writable[place.allocation]:
            owners = self._owned(place)
            own = owners == cell.number
            self.memory.read(place)[own] = POISON
            owners[own] = -cell.number
        cell.image = None
        if self.fault is not None and self._is_told():
            self.report()

    def _is_told(self) -> bool:
        assert self.fault is not None
        cells = (self.fault.damaged, self.fault.written)
        return all(x is None or not x.holders for x in cells)

    # -- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Raise the fault that was found, or one for bytes between and behind the slices."""
        if self.fault is not None:
            self.report()
        for allocation in self.memory.allocations:
            self._check_canaries(allocation.index)

    def _check_canaries(self, index: int) -> None:
        raw = self.memory.bytes[index]
        free = np.ones(raw.size, np.bool_)
        free[: raw.size - GUARD_BYTES] = self._owners[index] <= _NOBODY
        changed = np.flatnonzero(free & (raw != POISON))
        if changed.size:
            raise ArenaError(
                f"byte {int(changed[0]):,} of allocation {index} holds no value, and was written"
            )

    def report(self) -> None:
        """Raise the ArenaError for the fault that was found."""
        fault = self.fault
        assert fault is not None and fault.damaged.place is not None
        damaged = self.sites.report(fault.damaged, fault.damaged.place)
        run, step = fault.moment
        where = f"%{step.instruction.name} in {self.sites.path(run)}"
        if fault.written is None or fault.written.place is None:
            raise ArenaError(
                f"{fault.damaged.name} was damaged before {where} read it\n  damaged: {damaged}",
                damaged=damaged,
            )
        written = self.sites.report(fault.written, fault.written.place)
        raise ArenaError(
            f"{fault.written.name} was written over {fault.damaged.name}, which {where} reads\n"
            f"  damaged: {damaged}\n  written: {written}",
            damaged=damaged,
            written=written,
        )


def overlap(a: BufferSlice, b: BufferSlice) -> bool:
    """Whether two slices have a byte in common."""
    return (
        a.allocation == b.allocation
        and a.offset < b.offset + b.nbytes
        and b.offset < a.offset + a.nbytes
    )
