"""The plan as the running program reads it: call sites, and places of leaves, checked once."""

from __future__ import annotations

from lowtide.evaluator.in_arena.cells import CallSiteRun, Cell, Moment
from lowtide.evaluator.in_arena.code import ArenaCode, ArenaStep, code_of
from lowtide.evaluator.in_arena.errors import ArenaError, ValueReport, place_text
from lowtide.ir.buffer import BufferAssignment, BufferSlice
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction

Places = tuple[BufferSlice | None, ...]
"""Where the leaves of a result lie; None for those that the plan does not mention."""


class Sites:
    """The call sites of a plan: their code, their places, and their positions."""

    def __init__(self, assignment: BufferAssignment) -> None:
        self.assignment = assignment
        self._codes: dict[Computation, ArenaCode] = {}
        self._called: dict[tuple[int, Instruction, Computation], list[int]] = {}
        self._callees: dict[tuple[int, Instruction], list[int]] = {}
        self._places: list[list[Places | None] | None] = [None] * len(assignment.call_sites)
        self._positions: dict[tuple[int, int], int] | None = None
        for number, site in enumerate(assignment.call_sites):
            if site.caller is not None:
                key = (site.parent, site.caller, site.computation)
                self._called.setdefault(key, []).append(number)
                self._callees.setdefault(key[:2], []).append(number)

    def code(self, computation: Computation) -> ArenaCode:
        """Return the steps of a computation."""
        code = self._codes.get(computation)
        if code is None:
            code = self._codes[computation] = code_of(computation)
        return code

    def called(
        self, parent: int, caller: Instruction, computation: Computation, occurrence: int = 0
    ) -> int:
        """Return the call site which `caller` runs in the site `parent`.

        `occurrence` counts the equal computations that the caller names before. Raises ArenaError
        where the plan has none.
        """
        sites = self._called.get((parent, caller, computation), ())
        if occurrence >= len(sites):
            raise ArenaError(f"the plan has no call site in which %{caller.name} runs "
                             f"%{computation.name}")  # fmt: skip
        return sites[occurrence]

    # -- places --------------------------------------------------------------------------------

    def places(self, site: int, step: ArenaStep) -> Places:
        """Return where the leaves of a result lie; raises ArenaError where they cannot."""
        rows = self._places[site]
        if rows is None:
            code = self.code(self.assignment.call_sites[site].computation)
            rows = self._places[site] = [None] * len(code.steps)
        row = rows[step.number]
        if row is None:
            row = rows[step.number] = self._row(site, step)
        return row

    def _row(self, site: int, step: ArenaStep) -> Places:
        given = self.assignment.call_sites[site].slices.get(step.instruction)
        if given is None:
            return (None,) * len(step.storages)
        if len(given) != len(step.storages):
            raise ArenaError(
                f"%{step.instruction.name} has {len(step.storages)} leaves, the plan has "
                f"{len(given)} places for them"
            )
        return tuple([self._place(step, leaf, place) for leaf, place in enumerate(given)])

    def _place(self, step: ArenaStep, leaf: int, place: BufferSlice | None) -> BufferSlice | None:
        """The slice, cut to the bytes of the value; None for what takes no memory."""
        nbytes = step.storages[leaf].nbytes
        if place is None or not nbytes:
            return None
        if not 0 <= place.allocation < len(self.assignment.allocations):
            raise ArenaError(f"{step.name(leaf)} lies in allocation {place.allocation}, of "
                             f"{len(self.assignment.allocations)}")  # fmt: skip
        if place.nbytes < nbytes:
            raise ArenaError(
                f"{step.name(leaf)} has {nbytes:,} bytes, the plan gives it {place.nbytes:,}: "
                f"{place_text(place)}"
            )
        size = self.assignment.allocations[place.allocation].nbytes
        if place.offset < 0 or place.offset + nbytes > size:
            raise ArenaError(
                f"{step.name(leaf)} lies outside of its allocation, which has {size:,} bytes: "
                f"{place_text(place)}"
            )
        return BufferSlice(place.allocation, place.offset, nbytes)

    # -- words ---------------------------------------------------------------------------------

    def report(self, cell: Cell, place: BufferSlice) -> ValueReport:
        """Return what messages say about a value that lies at `place`."""
        run, _ = cell.made
        last = cell.read or cell.made
        live = (self._position(cell.made), self._position(last))
        reader = cell.read[1].instruction.name if cell.read else ""
        return ValueReport(cell.name, self.path(run), place, live, reader)

    def path(self, run: CallSiteRun) -> str:
        """Return the computations from the entry down to that of a run."""
        parts = []
        inner: CallSiteRun | None = run
        while inner is not None:
            site = self.assignment.call_sites[inner.site]
            parts.append(f"%{site.computation.name}")
            if site.caller is not None:
                times = "" if inner.iteration is None else f" (iteration {inner.iteration})"
                parts.append(f"%{site.caller.name}{times}")
            inner = inner.caller
        return " > ".join(reversed(parts))

    def _position(self, moment: Moment) -> int:
        """The position of a step in the flattened schedule."""
        if self._positions is None:
            self._positions = self._numbered()
        run, step = moment
        return self._positions[run.site, step.number]

    def _numbered(self) -> dict[tuple[int, int], int]:
        """The steps of all call sites, those of callees before their callers."""
        positions: dict[tuple[int, int], int] = {}
        stack: list[tuple[int, ArenaStep | None]] = [(0, None)]
        while stack:
            site, step = stack.pop()
            if step is not None:
                positions[site, step.number] = len(positions)
                continue
            code = self.code(self.assignment.call_sites[site].computation)
            for inner in reversed(code.steps):
                stack.append((site, inner))
                callees = self._callees.get((site, inner.instruction), ())
                stack.extend([(callee, None) for callee in reversed(callees)])
        return positions
