"""A value on the devices: the tilings in which the program of one device is to have it."""

from __future__ import annotations

from dataclasses import field

from lowtide.ir import Shape
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass
from lowtide.spmd.resharding import (
    WholeArray,
    array_of,
    bytes_between,
    nearest,
    resharding_steps,
    step_bytes,
)


@dataclass(slots=True)
class SentBytes:
    """The bytes that one device sends in what is decided so far, as `wire_traffic` counts them.

    `times` says how often runs what is decided now.
    """

    grid: DeviceGrid
    nbytes: int = 0
    times: int = 1

    def add(self, nbytes: float) -> None:
        """Count one collective, in which a device sends so many bytes each time."""
        self.nbytes += round(self.times * nbytes)


@dataclass(frozen=True, slots=True)
class TilingRequest:
    """A tiling in which a reader, named by its instruction in the whole program, takes a value."""

    reader: str
    tiling: Tiling


@dataclass(slots=True)
class PlacedArray:
    """One array of the whole program: `shape` is that of the whole, `tiling` the first form.

    `forms` has the tilings that were asked for so far, in this order, and those on the way there:
    what is gathered once is not gathered again. `requests` are those so far, `foreseen` those of
    the last draft: what another reader asks for anyway costs nothing more.
    """

    sent: SentBytes
    shape: Shape
    tiling: Tiling
    forms: dict[Tiling, None] = field(default_factory=dict)
    requests: list[TilingRequest] = field(default_factory=list)
    foreseen: tuple[TilingRequest, ...] = ()

    @classmethod
    def of(cls, sent: SentBytes, shape: Shape, tiling: Tiling) -> PlacedArray:
        """Return a value that is made in a tiling."""
        return cls(sent, shape, tiling, {tiling: None})

    @property
    def array(self) -> WholeArray:
        """What moves when the value does."""
        return array_of(self.shape)

    @property
    def is_term(self) -> bool:
        """Whether only terms of sums are known yet."""
        return all(tiling.partial for tiling in self.forms)

    def bytes_to(self, tiling: Tiling, reader: str) -> float:
        """Return the bytes that one device sends for a reader to have the value in a tiling."""
        if tiling in self.forms:
            return 0.0
        if any(r.tiling == tiling and r.reader != reader for r in self.foreseen):
            return 0.0
        grid, array = self.sent.grid, self.array
        return min([bytes_between(grid, array, form, tiling) for form in self.forms])

    def seen_by(self, reader: str) -> tuple[tuple[Tiling, ...], tuple[Tiling, ...]]:
        """Return what the bytes to any tiling follow from: its forms, and those foreseen."""
        foreseen = [r.tiling for r in self.foreseen if r.reader != reader]
        return tuple(self.forms), tuple(foreseen)

    def bytes_from_first(self, tiling: Tiling) -> float:
        """Return the bytes that one device sends from the first form to a tiling."""
        return bytes_between(self.sent.grid, self.array, self.tiling, tiling)

    def take(self, tiling: Tiling, reader: str = "") -> None:
        """Ask for the value in a tiling, to which it is moved from the nearest form."""
        self.requests.append(TilingRequest(reader, tiling))
        if tiling in self.forms:
            return
        grid, array = self.sent.grid, self.array
        source = nearest(grid, array, self.forms, tiling)
        for step in resharding_steps(grid, array, source, tiling):
            if step.result not in self.forms:
                self.sent.add(step_bytes(grid, self.shape, source, step))
                self.forms[step.result] = None
            source = step.result
