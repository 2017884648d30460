"""A value on the devices: the forms in which the program of one device has it."""

from __future__ import annotations

from dataclasses import field

from lowtide.ir import Instruction, Shape
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass
from lowtide.spmd.emitter import Emitter, array_of
from lowtide.spmd.resharding import WholeArray, bytes_between, resharding_steps


@dataclass(frozen=True, slots=True)
class TilingRequest:
    """A tiling in which a reader, named by its instruction in the whole program, takes a value."""

    reader: str
    tiling: Tiling


@dataclass(slots=True)
class PlacedArray:
    """One array of the whole program: `shape` is that of the whole, `tiling` the first form.

    `forms` has the tile of the device in each tiling that was asked for so far, so that what is
    gathered once is not gathered again. `requests` are those so far, `foreseen` those of the last
    draft: what another reader asks for anyway costs nothing more.
    """

    emitter: Emitter
    shape: Shape
    tiling: Tiling
    forms: dict[Tiling, Instruction] = field(default_factory=dict)
    requests: list[TilingRequest] = field(default_factory=list)
    foreseen: tuple[TilingRequest, ...] = ()

    @classmethod
    def of(cls, emitter: Emitter, shape: Shape, tiling: Tiling, made: Instruction) -> PlacedArray:
        """Return the value that an instruction makes."""
        return cls(emitter, shape, tiling, {tiling: made})

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
        grid, array = self.emitter.grid, self.array
        return min([bytes_between(grid, array, form, tiling) for form in self.forms])

    def seen_by(self, reader: str) -> tuple[tuple[Tiling, ...], tuple[Tiling, ...]]:
        """Return what the bytes to any tiling follow from: its forms, and those foreseen."""
        foreseen = [r.tiling for r in self.foreseen if r.reader != reader]
        return tuple(self.forms), tuple(foreseen)

    def bytes_from_first(self, tiling: Tiling) -> float:
        """Return the bytes that one device sends from the first form to a tiling."""
        return bytes_between(self.emitter.grid, self.array, self.tiling, tiling)

    def to(self, tiling: Tiling, reader: str = "") -> Instruction:
        """Return the tile of the device in a tiling, moved from the nearest form."""
        self.requests.append(TilingRequest(reader, tiling))
        found = self.forms.get(tiling)
        if found is not None:
            return found
        grid, array = self.emitter.grid, self.array
        source = min(self.forms, key=lambda form: bytes_between(grid, array, form, tiling))
        made = self.forms[source]
        for step in resharding_steps(grid, array, source, tiling):
            if step.result in self.forms:
                made = self.forms[step.result]
            else:
                made = self.emitter.reshard(made, array, source, step)
                self.forms[step.result] = made
            source = step.result
        return made
