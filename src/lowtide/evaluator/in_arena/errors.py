"""The error for a plan in which a program does not run."""

from __future__ import annotations

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.errors import LowtideError
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ValueReport:
    """A value of a running program: where it lies, and when it lives.

    `path` are the computations and callers from the entry down. `live` are the positions of the
    definition and the last use in the flattened schedule; the second is smaller where a loop
    reads the value in its next iteration. `reader` is the instruction of the last use, "" where
    nothing has read the value.
    """

    name: str
    path: str
    place: BufferSlice
    live: tuple[int, int]
    reader: str

    def __str__(self) -> str:
        first, last = self.live
        until = f"to {last} (%{self.reader})" if self.reader else "on, never read"
        later = " of the next iteration" if last < first else ""
        return (
            f"{self.name} in {self.path}: {place_text(self.place)}; "
            f"live from position {first} {until}{later}"
        )


class ArenaError(LowtideError):
    """The plan is at fault: a program that runs in it would go wrong.

    Where one value was written over another, `damaged` is the one that was still needed and
    `written` the one that lies over it; else both are None.
    """

    def __init__(
        self,
        message: str,
        *,
        damaged: ValueReport | None = None,
        written: ValueReport | None = None,
    ) -> None:
        self.damaged = damaged
        self.written = written
        super().__init__(message)


def place_text(place: BufferSlice) -> str:
    """Return where a slice lies, e.g. `allocation 3, bytes 64 to 127`."""
    last = place.offset + place.nbytes - 1
    return f"allocation {place.allocation}, bytes {place.offset:,} to {last:,}"
