"""A value on the devices as it is written: an instruction for each tiling that is asked for."""

from __future__ import annotations

from lowtide.ir import Instruction, Shape
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass
from lowtide.spmd.emitter import Emitter
from lowtide.spmd.resharding import array_of, nearest, resharding_steps


@dataclass(slots=True)
class WrittenArray:
    """One array of the whole program, of `shape`: the tile of the device in each form it has."""

    emitter: Emitter
    shape: Shape
    forms: dict[Tiling, Instruction]

    @classmethod
    def of(cls, emitter: Emitter, shape: Shape, tiling: Tiling, made: Instruction) -> WrittenArray:
        """Return the value that an instruction makes."""
        return cls(emitter, shape, {tiling: made})

    def to(self, tiling: Tiling) -> Instruction:
        """Return the tile of the device in a tiling, moved from the nearest form."""
        found = self.forms.get(tiling)
        if found is not None:
            return found
        grid, array = self.emitter.grid, array_of(self.shape)
        source = nearest(grid, array, self.forms, tiling)
        made = self.forms[source]
        for step in resharding_steps(grid, array, source, tiling):
            if step.result in self.forms:
                made = self.forms[step.result]
            else:
                made = self.emitter.reshard(made, array, source, step)
                self.forms[step.result] = made
            source = step.result
        return made
