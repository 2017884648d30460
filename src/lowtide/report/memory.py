"""The memory report of a module: its sizes, what its peak is made of, what would lower it.

`MemoryReport.to_json` is the schema "lowtide.memory/1"; all sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from lowtide.analysis.donation import Donation
from lowtide.analysis.flat_schedule import FlatSchedule
from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Module
from lowtide.ir.attributes import Parameter
from lowtide.records import dataclass
from lowtide.report.causes import PeakCause, peak_causes
from lowtide.report.constants import HeldConstant
from lowtide.report.copies import Inserted, LoopCopies, NeededCopy, loop_copies, needed_copies
from lowtide.report.donations import DonationOutcome, donation_outcomes
from lowtide.report.peak import Peak
from lowtide.report.peak_making import Donor, PeakContext, peak_in
from lowtide.report.schema import Json, TextReport

if TYPE_CHECKING:
    from lowtide.report.compilation_cut import CompilationCut
    from lowtide.report.what_if import WhatIf

SCHEMA: Final = "lowtide.memory/1"


@dataclass(frozen=True, slots=True)
class Ladder:
    """Needs of a call beyond its arguments, in bytes; each figure is at most the next one.

    `bound_bytes`: no order of the instructions needs less. `live_bytes`: the most that is live at
    once in the order at hand. `arena_bytes`: what it takes with every buffer at its offset.
    `compilation_bound_bytes` is less than all of them: no compilation of the class that
    docs/optimality.md defines needs less; None where that is not known.
    """

    bound_bytes: int
    live_bytes: int
    arena_bytes: int
    compilation_bound_bytes: int | None = None

    def check(self) -> None:
        """Raise AssertionError where a plan needs less than every compilation is said to need."""
        least = self.compilation_bound_bytes or 0
        if self.live_bytes < least:
            raise AssertionError(
                f"the plan has {self.live_bytes:,} bytes live, and the bound on every compilation "
                f"is {least:,}: the plan stands, the bound is wrong"
            )

    @property
    def optimal(self) -> bool:
        """Whether the three meet, so that neither order nor offsets can be better."""
        return self.bound_bytes == self.arena_bytes

    def to_json(self) -> Json:
        """Return the ladder as in the schema."""
        least = self.compilation_bound_bytes
        return {
            "bound_bytes": self.bound_bytes,
            "live_bytes": self.live_bytes,
            "arena_bytes": self.arena_bytes,
            "optimal": self.optimal,
            **({} if least is None else {"compilation_bound_bytes": least}),
        }


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """Bytes that do not depend on time.

    `temp_bytes` is the end of the highest temporary, `least_arena_bytes` the arena that buffers
    which must share a place make necessary, `constant_bytes` what constants take.
    """

    temp_bytes: int
    least_arena_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class SpaceMemory:
    """Needs of a call in one memory space besides the usual one, which is 0; 5 is the host's.

    `live_bytes` is the most that is live there at once beyond arguments, `arena_bytes` what that
    takes with every buffer at its offset. What is in the host's memory counts here only.
    """

    space: int
    argument_bytes: int
    output_bytes: int
    live_bytes: int
    arena_bytes: int

    def to_json(self) -> Json:
        """Return the entry of the schema's `memory_spaces`."""
        return {x.name: getattr(self, x.name) for x in fields(self)}


@dataclass(frozen=True, slots=True)
class ComputationMemory:
    """The ladder of a loop body or another called computation, by itself.

    `role` says as what it runs; `caller` is the first of its `call_sites` callers.
    """

    name: str
    role: str
    caller: Instruction
    call_sites: int
    instructions: int
    ladder: Ladder

    def to_json(self) -> Json:
        """Return the entry of the schema's `computations`."""
        return {
            "name": self.name,
            "role": self.role,
            "caller": self.caller.name,
            "call_sites": self.call_sites,
            "instructions": self.instructions,
            "ladder": self.ladder.to_json(),
        }


@dataclass(frozen=True, slots=True)
class DonationSaving:
    """Bytes saved by donating one argument of the entry computation.

    `parameter` is its number and `name` what the program calls it; `leaves` is the number of its
    elements that outputs would overwrite.
    """

    parameter: int
    name: str
    leaves: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Execution:
    """Needs of a run of the module as planned besides memory: copies, largest first.

    `loops` says which loops keep their state in its place, `donations_asked` what became of the
    donations that the module asks for.
    """

    copies: tuple[NeededCopy, ...]
    loops: tuple[LoopCopies, ...]
    donations_asked: tuple[DonationOutcome, ...]

    def to_json(self) -> Json:
        """Return the schema's `copies`, `loops` and `donations_asked`."""
        return {
            "copies": [x.to_json() for x in self.copies],
            "loops": [x.to_json() for x in self.loops],
            "donations_asked": [x.to_json() for x in self.donations_asked],
        }


@dataclass(frozen=True, slots=True)
class MemoryReport(TextReport):
    """All that is known about the memory of a module in one order; sizes in bytes.

    `total_bytes` is arguments, outputs that overwrite none, constants and temporaries.
    `temp_bytes` includes `scratch_bytes`. In this order, no offsets make the arena smaller than
    `least_arena_bytes`. `seconds` are wall times by stage. `execution` is None in the report on a
    plan that another one made. `spaces` are those besides 0, in order. `has_given_order` says that
    the module was scheduled when it came, so that only the offsets are ours. `what_if` are changes
    of the program that pay, None where none were sought. `largest_constant` is None where no
    constant takes memory, and in the report on a plan that another one made. `compilation_cut`
    shows what every compilation needs, where that is known.
    """

    module: str
    instructions: int
    steps: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    constant_bytes: int
    temp_bytes: int
    scratch_bytes: int
    least_arena_bytes: int
    ladder: Ladder
    peak: Peak
    computations: tuple[ComputationMemory, ...]
    donations: tuple[DonationSaving, ...]
    seconds: Mapping[str, float]
    caveats: tuple[str, ...]
    execution: Execution | None = None
    spaces: tuple[SpaceMemory, ...] = ()
    has_given_order: bool = False
    what_if: WhatIf | None = None
    largest_constant: HeldConstant | None = None
    compilation_cut: CompilationCut | None = None

    @property
    def total_bytes(self) -> int:
        """All memory of one call."""
        returned = self.output_bytes - self.alias_bytes
        return self.argument_bytes + returned + self.constant_bytes + self.temp_bytes

    @property
    def causes(self) -> tuple[PeakCause, ...]:
        """Why all memory of one call is taken, largest first; the bytes sum to `total_bytes`."""
        return peak_causes(self)

    def in_all_frames(self) -> MemoryReport:
        """Return the report with blame on the innermost calls, also where libraries have them."""
        return replace(self, peak=self.peak.in_all_frames())

    def __repr__(self) -> str:
        from lowtide.report.drawing import visible
        from lowtide.report.units import unit_for

        unit = unit_for(self.total_bytes)
        ladder = self.ladder
        return visible(
            f"<MemoryReport {self.module}: {unit.text(ladder.arena_bytes)} beyond its arguments "
            f"(bound {unit.number(ladder.bound_bytes)}), {unit.text(self.total_bytes)} in all>"
        )

    def __str__(self) -> str:
        from lowtide.report.drawing import visible
        from lowtide.report.text import explain_text

        return visible(explain_text(self))

    def to_json(self) -> Json:
        """Return the report in the schema "lowtide.memory/1"."""
        return {
            "schema": SCHEMA,
            "module": self.module,
            "instructions": self.instructions,
            "argument_bytes": self.argument_bytes,
            "output_bytes": self.output_bytes,
            "alias_bytes": self.alias_bytes,
            "constant_bytes": self.constant_bytes,
            "largest_constant": self.largest_constant and self.largest_constant.to_json(),
            "temp_bytes": self.temp_bytes,
            "scratch_bytes": self.scratch_bytes,
            "total_bytes": self.total_bytes,
            "ladder": self.ladder.to_json(),
            "peak": self.peak.to_json(),
            "causes": [x.to_json() for x in self.causes],
            "computations": [x.to_json() for x in self.computations],
            **({} if self.execution is None else self.execution.to_json()),
            **({"memory_spaces": [x.to_json() for x in self.spaces]} if self.spaces else {}),
            **(
                {}
                if self.compilation_cut is None
                else {"compilation_cut": self.compilation_cut.to_json()}
            ),
            **({} if self.what_if is None else {"what_if": self.what_if.to_json()}),
            "seconds": dict(self.seconds),
            "caveats": list(self.caveats),
        }


def memory_report(
    module: Module,
    ranges: LiveRanges,
    ladder: Ladder,
    sizes: FixedSizes,
    computations: Sequence[ComputationMemory],
    donations: Sequence[Donation],
    inserted: Sequence[Inserted],
    seconds: Mapping[str, float],
    caveats: Sequence[str],
) -> MemoryReport:
    """Return the report of a module whose entry has the live ranges `ranges`.

    `inserted` are the copies that were put into it.
    """
    values = ranges.flat.values
    execution = _execution(module, inserted)
    context = PeakContext({x.copy: x for x in execution.copies}, _donors(ranges.flat, donations))
    return MemoryReport(
        module=module.name,
        instructions=module.instruction_count,
        steps=ranges.flat.length,
        argument_bytes=sum([values.nbytes[value] for value in ranges.flat.parameters]),
        output_bytes=ranges.output_bytes,
        alias_bytes=ranges.alias_bytes,
        constant_bytes=sizes.constant_bytes,
        temp_bytes=sizes.temp_bytes,
        scratch_bytes=max([int(ranges.nbytes[x]) for x in ranges.scratch.values()], default=0),
        least_arena_bytes=sizes.least_arena_bytes,
        ladder=ladder,
        peak=peak_in(ranges, context),
        computations=tuple(computations),
        donations=donation_savings(donations),
        seconds=seconds,
        caveats=tuple(caveats),
        execution=execution,
    )


def _execution(module: Module, inserted: Sequence[Inserted]) -> Execution:
    copies = needed_copies(module, inserted)
    return Execution(copies, loop_copies(module, copies), donation_outcomes(module, copies))


# -- donation ----------------------------------------------------------------------------------


def _donors(flat: FlatSchedule, donations: Sequence[Donation]) -> dict[int, Donor]:
    """Return the arguments that could be overwritten, by the number of the output leaf."""
    values = flat.values
    last = {(values.maker[x], values.leaf[x]): values.last[x] for x in flat.parameters}
    found = {}
    for donation in donations:
        parameter = donation.parameter
        leaf = [index for index, _ in parameter.shape.leaves()].index(donation.index)
        found[donation.output] = Donor(_program_name(parameter), last[parameter, leaf])
    return found


def donation_savings(donations: Sequence[Donation]) -> tuple[DonationSaving, ...]:
    """Return what donating each argument saves, by parameter of the entry, largest first."""
    by_parameter: dict[Instruction, list[Donation]] = {}
    for donation in donations:
        by_parameter.setdefault(donation.parameter, []).append(donation)
    savings = [
        DonationSaving(
            parameter.attributes_as(Parameter).number,
            _program_name(parameter),
            len(group),
            sum([donation.nbytes for donation in group]),
        )
        for parameter, group in by_parameter.items()
    ]
    return tuple(sorted(savings, key=lambda saving: (-saving.nbytes, saving.parameter)))


def _program_name(parameter: Instruction) -> str:
    """What the user's program calls an argument."""
    return parameter.metadata.op_name or parameter.name
