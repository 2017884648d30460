"""From the values of a plan to its tables of slices, one per call site, and its outputs."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.frontend.hlo_proto.buffer_assignment_sites import Follower, ModuleSite, Position
from lowtide.ir.buffer import NO_BYTES, AssignedValue, BufferSlice, CallSite
from lowtide.ir.computation import Computation
from lowtide.ir.errors import LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.shape import ShapeIndex


class SliceTables:
    """Where the values of a plan lie, by call site; a computation's first site speaks for all.

    Other sites of the computation may have values of their own. `sites` are those of
    `buffer_assignment_sites.sites_of`.
    """

    def __init__(
        self, module: Module, sites: tuple[ModuleSite, ...], values: Sequence[AssignedValue]
    ):
        self._module = module
        self._sites = sites
        found: dict[int, list[AssignedValue]] = {}
        for value in values:
            found.setdefault(value.site, []).append(value)
        first: dict[Computation, int] = {}
        for number, site in enumerate(sites):
            first.setdefault(site.computation, number)
        shared = [found.get(first[site.computation], []) for site in sites]
        self._values = [found.get(number, shared[number]) for number in range(len(sites))]

    def call_sites(self) -> tuple[CallSite, ...]:
        """Return the tables of slices, in the order of the sites."""
        return tuple([_table(*x) for x in zip(self._sites, self._values, strict=True)])

    def outputs(self) -> tuple[BufferSlice, ...]:
        """Return where the leaves of the result lie; raises LowtideError for one without place."""
        places = {
            (number, (x.instruction, x.index)): x.place
            for number, values in enumerate(self._values)
            for x in values
        }
        follower = Follower(self._sites, places)
        root = self._module.entry.root
        found = []
        for index, shape in root.shape.leaves():
            place = follower.place(0, root, index)
            if place is None and shape.nbytes:
                raise LowtideError(
                    f"output {list(index)} of {self._module.name} has no place in the plan"
                )
            found.append(place or NO_BYTES)
        return tuple(found)


def _table(site: ModuleSite, values: Sequence[AssignedValue]) -> CallSite:
    """Return the slices of leaves by instruction, and those of tables of addresses."""
    leaves: dict[Instruction, dict[ShapeIndex, BufferSlice]] = {}
    tables: dict[Position, BufferSlice] = {}
    for value in values:
        if value.instruction.shape.at(value.index).is_tuple:
            tables[value.instruction, value.index] = value.place
        else:
            leaves.setdefault(value.instruction, {})[value.index] = value.place
    slices = {
        instruction: tuple([found.get(index) for index, _ in instruction.shape.leaves()])
        for instruction, found in leaves.items()
    }
    return CallSite(site.computation, site.caller, site.parent, slices, tables)
