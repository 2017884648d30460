"""The memory report of a module: its sizes, what its peak is made of, what would lower it.

`MemoryReport.to_json` is the schema "lowtide.memory/1"; all sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Final

from lowtide.analysis.donation import Donation
from lowtide.analysis.flat_schedule import FlatSchedule, Values
from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Module, Opcode, SourceLocation
from lowtide.ir.attributes import GetTupleElement, Parameter
from lowtide.report.copies import Inserted, LoopCopies, NeededCopy, loop_copies, needed_copies
from lowtide.report.donations import DonationOutcome, donation_outcomes
from lowtide.report.schema import Json, source_json

SCHEMA: Final = "lowtide.memory/1"


@dataclass(frozen=True, slots=True)
class Ladder:
    """Needs of a call beyond its arguments, in bytes; each figure is at most the next one.

    `bound_bytes`: no order of the instructions needs less. `live_bytes`: the most that is live at
    once in the order at hand. `arena_bytes`: what it takes with every buffer at its offset.
    """

    bound_bytes: int
    live_bytes: int
    arena_bytes: int

    @property
    def optimal(self) -> bool:
        """Whether the three meet, so that neither order nor offsets can be better."""
        return self.bound_bytes == self.arena_bytes

    def to_json(self) -> Json:
        """Return the ladder as in the schema."""
        return {
            "bound_bytes": self.bound_bytes,
            "live_bytes": self.live_bytes,
            "arena_bytes": self.arena_bytes,
            "optimal": self.optimal,
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
class PeakBuffer:
    """A buffer that is taken at the peak, and the value that it then holds.

    `op_name` and `source` are those of the instruction that makes the value; where it has none,
    those of the nearest instruction that uses it, or of the one that calls its computation.
    `live` are the positions of the value's definition and of its last use, both included. `kind`
    is "temporary", "output", "argument" for one that an output overwrites, or "scratch" for what
    the step at the peak needs only while it runs.
    """

    name: str
    nbytes: int
    instruction: str
    opcode: str
    shape: str
    kind: str
    op_name: str
    source: SourceLocation | None
    live: tuple[int, int]

    def to_json(self) -> Json:
        """Return the entry of the schema's `peak.buffers`."""
        return {
            "name": self.name,
            "bytes": self.nbytes,
            "instruction": self.instruction,
            "op_name": self.op_name,
            "source": source_json(self.source),
            "live": list(self.live),
        }


@dataclass(frozen=True, slots=True)
class PeakGroup:
    """The buffers of the peak that one source line made, largest first.

    `live` spans from the first definition to the last use among them.
    """

    source: SourceLocation | None
    nbytes: int
    buffers: tuple[PeakBuffer, ...]

    @property
    def live(self) -> tuple[int, int]:
        """The first and the last position at which any of them is live."""
        return min([x.live[0] for x in self.buffers]), max([x.live[1] for x in self.buffers])


@dataclass(frozen=True, slots=True)
class Peak:
    """The step at which most is live: its position, its instruction, and all buffers taken then.

    Buffers stand largest first. Their bytes add up to `live_bytes` plus `alias_bytes`.
    """

    position: int
    instruction: str
    source: SourceLocation | None
    buffers: tuple[PeakBuffer, ...]

    def groups(self) -> tuple[PeakGroup, ...]:
        """Return the buffers by source line, largest sum first; buffers without line by opcode."""
        found: dict[tuple[object, ...], list[PeakBuffer]] = {}
        for buffer in self.buffers:
            source = buffer.source
            key = (source.file, source.line) if source else (buffer.kind, buffer.opcode)
            found.setdefault(key, []).append(buffer)
        groups = [
            PeakGroup(members[0].source, sum([x.nbytes for x in members]), tuple(members))
            for members in found.values()
        ]
        return tuple(sorted(groups, key=lambda group: -group.nbytes))


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
class MemoryReport:
    """All that is known about the memory of a module in one order; sizes in bytes.

    `total_bytes` is arguments, outputs that overwrite none, constants and temporaries.
    `temp_bytes` includes `scratch_bytes`. In this order, no offsets make the arena smaller than
    `least_arena_bytes`. `seconds` are wall times by stage. `execution` is None in the report on a
    plan that another one made. `spaces` are those besides 0, in order.
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

    @property
    def total_bytes(self) -> int:
        """All memory of one call."""
        returned = self.output_bytes - self.alias_bytes
        return self.argument_bytes + returned + self.constant_bytes + self.temp_bytes

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
            "temp_bytes": self.temp_bytes,
            "scratch_bytes": self.scratch_bytes,
            "total_bytes": self.total_bytes,
            "ladder": self.ladder.to_json(),
            "peak": {
                "position": self.peak.position,
                "instruction": self.peak.instruction,
                "buffers": [buffer.to_json() for buffer in self.peak.buffers],
            },
            "computations": [x.to_json() for x in self.computations],
            **({} if self.execution is None else self.execution.to_json()),
            **({"memory_spaces": [x.to_json() for x in self.spaces]} if self.spaces else {}),
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
        peak=_peak(ranges),
        computations=tuple(computations),
        donations=donation_savings(donations),
        seconds=seconds,
        caveats=tuple(caveats),
        execution=_execution(module, inserted),
    )


def _execution(module: Module, inserted: Sequence[Inserted]) -> Execution:
    copies = needed_copies(module, inserted)
    return Execution(copies, loop_copies(module, copies), donation_outcomes(module, copies))


# -- the peak ----------------------------------------------------------------------------------


def _peak(ranges: LiveRanges) -> Peak:
    position = ranges.peak_position
    held = []
    for value in ranges.values_at(position):
        buffer = ranges.colocation.buffer_of[value]
        held.append((value, int(ranges.nbytes[buffer]), _kind(ranges, buffer)))
    scratch = ranges.scratch.get(position)
    nbytes = 0 if scratch is None else int(ranges.nbytes[scratch])
    return peak_of(ranges.flat, position, held, nbytes)


def peak_of(
    flat: FlatSchedule, position: int, held: Sequence[tuple[int, int, str]], scratch_bytes: int = 0
) -> Peak:
    """Return the peak at a position, given (value, bytes, kind) of each buffer taken then.

    The step there needs `scratch_bytes` while it runs.
    """
    elements: dict[Instruction, list[tuple[str, str]]] = {}
    buffers = [_peak_buffer(flat, *row, elements) for row in held]
    if scratch_bytes:
        buffers.append(_scratch_buffer(flat, position, scratch_bytes))
    buffers.sort(key=lambda buffer: (-buffer.nbytes, buffer.live, buffer.name))
    if not flat.length:
        return Peak(0, "", None, tuple(buffers))
    instruction = flat.instructions[position]
    chain = _callers(flat, instruction, flat.site_of[position])
    return Peak(position, instruction.name, _source(_witnesses(chain)), tuple(buffers))


def _peak_buffer(
    flat: FlatSchedule,
    value: int,
    nbytes: int,
    kind: str,
    elements: dict[Instruction, list[tuple[str, str]]],
) -> PeakBuffer:
    values: Values = flat.values
    maker = values.maker[value]
    if maker not in elements:
        elements[maker] = _elements(maker)
    index, shape = elements[maker][values.leaf[value]]
    chain = _callers(flat, maker, values.site[value])
    witnesses = chain if maker.opcode is Opcode.PARAMETER else _witnesses(chain)
    witnesses = [*_reader_of(maker, values.leaf[value]), *witnesses]
    path = "/".join([x.name for x in reversed(chain)])
    end = flat.length - 1
    return PeakBuffer(
        name=path + index,
        nbytes=nbytes,
        instruction=maker.name,
        opcode=maker.opcode.value,
        shape=shape,
        kind=kind,
        op_name=_op_name(witnesses),
        source=_source(witnesses),
        live=(min(values.first[value], end), min(values.last[value], end)),
    )


def _scratch_buffer(flat: FlatSchedule, position: int, nbytes: int) -> PeakBuffer:
    """What the instruction at a position needs while it runs."""
    instruction = flat.instructions[position]
    chain = _callers(flat, instruction, flat.site_of[position])
    witnesses = _witnesses(chain)
    return PeakBuffer(
        name="/".join([x.name for x in reversed(chain)]) + " (scratch)",
        nbytes=nbytes,
        instruction=instruction.name,
        opcode=instruction.opcode.value,
        shape=f"u8[{nbytes}]",
        kind="scratch",
        op_name=_op_name(witnesses),
        source=_source(witnesses),
        live=(position, position),
    )


def _reader_of(fusion: Instruction, leaf: int) -> list[Instruction]:
    """What takes a result out of a fusion with several; it knows where that one comes from."""
    if fusion.opcode is not Opcode.FUSION or not fusion.shape.is_tuple:
        return []
    readers = [x for x in fusion.users if x.opcode is Opcode.GET_TUPLE_ELEMENT]
    return [x for x in readers if x.attributes_as(GetTupleElement).index == leaf]


def _elements(instruction: Instruction) -> list[tuple[str, str]]:
    """Per leaf of the result its tuple index as `{1,0}`, empty for an array, and its shape."""
    if not instruction.shape.is_tuple:
        return [("", instruction.shape.text(layout=False))]
    return [
        ("{" + ",".join(map(str, index)) + "}", shape.text(layout=False))
        for index, shape in instruction.shape.leaves()
    ]


def _callers(flat: FlatSchedule, instruction: Instruction, site: int) -> list[Instruction]:
    """An instruction, its caller, the caller's caller, up to the entry."""
    chain = [instruction]
    sites = flat.sites
    while True:
        caller = sites[site].caller
        if caller is None:
            return chain
        chain.append(caller)
        site = sites[site].parent


_USERS_ASKED: Final = 20


def _witnesses(chain: Sequence[Instruction]) -> list[Instruction]:
    """Who knows where the first of `chain` comes from: itself, its nearest users, its callers."""
    nearby = {chain[0]: None}
    queue = [chain[0]]
    for instruction in queue:
        fresh = [user for user in islice(instruction.users, _USERS_ASKED) if user not in nearby]
        fresh = fresh[: _USERS_ASKED - len(queue)]
        nearby.update(dict.fromkeys(fresh))
        queue += fresh
    return [*nearby, *chain[1:]]


def _source(witnesses: Sequence[Instruction]) -> SourceLocation | None:
    """The source line of the first one that has any."""
    for instruction in witnesses:
        source = instruction.source
        if source is not None and source.file:
            return source
    return None


def _op_name(witnesses: Sequence[Instruction]) -> str:
    """The name in the user's program of the first one that has any."""
    return next((x.metadata.op_name for x in witnesses if x.metadata.op_name), "")


def _kind(ranges: LiveRanges, buffer: int) -> str:
    if ranges.colocation.argument[buffer] >= 0:
        return "argument"
    return "output" if ranges.colocation.output[buffer] >= 0 else "temporary"


# -- donation ----------------------------------------------------------------------------------


def donation_savings(donations: Sequence[Donation]) -> tuple[DonationSaving, ...]:
    """Return what donating each argument saves, by parameter of the entry, largest first."""
    by_parameter: dict[Instruction, list[Donation]] = {}
    for donation in donations:
        by_parameter.setdefault(donation.parameter, []).append(donation)
    savings = [
        DonationSaving(
            parameter.attributes_as(Parameter).number,
            parameter.metadata.op_name or parameter.name,
            len(group),
            sum([donation.nbytes for donation in group]),
        )
        for parameter, group in by_parameter.items()
    ]
    return tuple(sorted(savings, key=lambda saving: (-saving.nbytes, saving.parameter)))
