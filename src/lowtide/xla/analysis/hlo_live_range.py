"""Live ranges of the values of a scheduled module, as in XLA's HloLiveRange.

The schedule is flattened to one sequence, and a time is a place in it. Values of one HloBuffer
touch and do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, final

from lowtide.analysis.call_graph import while_body
from lowtide.ir import Instruction, Module, Opcode, Schedule
from lowtide.ir.shape import index_text
from lowtide.records import dataclass
from lowtide.xla.analysis.flat_sequence import FlatSequence, flat_sequence
from lowtide.xla.analysis.hlo_alias import HloAliasAnalysis, HloBuffer
from lowtide.xla.analysis.hlo_value import HloValue, Use

_CHAIN: Final = frozenset({Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})
_CONTEXTS: Final = 2
"""From this element of the result of an async-start on, there are contexts."""


@dataclass(frozen=True, slots=True)
class TimeBound:
    """The times of the definition and of the last use of a value, both included."""

    start: int
    end: int


def hlo_live_range(
    module: Module, alias: HloAliasAnalysis, schedule: Schedule | None = None
) -> HloLiveRange:
    """Return the live ranges of the values of a module; `schedule` is by default its own.

    Raises InvalidModuleError where something that runs has no order, or runs from several places.
    """
    schedule = schedule or module.schedule or Schedule()
    sequence = flat_sequence(module.entry, schedule)
    return HloLiveRange(alias, sequence, _Ranges(module, alias, sequence).normalised())


@final
class HloLiveRange:
    """The live ranges of a scheduled module; it does not change once made. See `hlo_live_range`.

    `ranges` has the values that computations which run as control flow define, in order of their
    numbers. Arguments that no output overwrites are live to the end, the others to their last use.
    """

    def __init__(
        self, alias: HloAliasAnalysis, sequence: FlatSequence, ranges: Mapping[HloValue, TimeBound]
    ) -> None:
        self.alias = alias
        self.sequence = sequence
        self.ranges = ranges

    @property
    def end(self) -> int:
        """The time behind the last instruction, at which the results of the entry are live."""
        return self.sequence.end

    def time_of(self, instruction: Instruction) -> int:
        """Return the time of an instruction; raises KeyError for those within kernels."""
        return self.sequence.time[instruction]

    def live_at(self, time: int) -> list[HloValue]:
        """Return the values that are live at a time, in order of their numbers."""
        return [value for value, x in self.ranges.items() if x.start <= time <= x.end]

    @cached_property
    def profile(self) -> tuple[int, ...]:
        """The bytes of the live values at each time, from 0 to `end` included.

        Where a value takes the place of another one of its buffer, both count.
        """
        change = [0] * (self.end + 2)
        for value, bound in self.ranges.items():
            change[bound.start] += value.nbytes
            change[bound.end + 1] -= value.nbytes
        sums, total = [], 0
        for step in change[:-1]:
            total += step
            sums.append(total)
        return tuple(sums)

    @property
    def peak_moment(self) -> int:
        """The earliest time at which most bytes are live."""
        return self.profile.index(max(self.profile))

    def __str__(self) -> str:
        lines = [f"HloLiveRange (max {self.end}):", "  InstructionSequence:"]
        lines += [f"    {t}:{x.name}" for t, x in enumerate(self.sequence.instructions)]
        lines.append("  BufferLiveRange:")
        lines += [f"    {_name(v)}:{x.start}-{x.end}" for v, x in self.ranges.items()]
        moment = self.peak_moment
        lines.append(f"  Live ranges at {moment} (peak):")
        lines += [f"    {_name(value)}: {value.nbytes} bytes" for value in self.live_at(moment)]
        return "\n".join(lines) + "\n"


def _name(value: HloValue) -> str:
    return f"{value.instruction.name}{index_text(value.index)}"


class _Ranges:
    """Finds the range of each value."""

    def __init__(self, module: Module, alias: HloAliasAnalysis, sequence: FlatSequence) -> None:
        self.module = module
        self.alias = alias
        self.sequence = sequence
        self.donated = {
            (module.entry.parameters[x.parameter], x.parameter_index)
            for x in module.input_output_aliases
        }

    def normalised(self) -> dict[HloValue, TimeBound]:
        """Return the ranges, those of the values of one buffer cut where the next one starts."""
        found: dict[HloValue, TimeBound] = {}
        for buffer in self.alias.buffers:
            found.update(_in_turn(self._of_buffer(buffer)))
        return {value: found[value] for value in self.alias.dataflow.values if value in found}

    def _of_buffer(self, buffer: HloBuffer) -> list[tuple[int, int, HloValue]]:
        return [
            (start, max(start, *self._ends(value)), value)
            for value in buffer.values
            for start in self._start(value)
        ]

    def _start(self, value: HloValue) -> Iterator[int]:
        """Yield when a value appears, if it does: parameters do when their computation starts."""
        instruction = value.instruction
        if instruction.opcode is Opcode.PARAMETER:
            span = self.sequence.spans.get(instruction.parent)
            if span is not None:
                yield span.start
        elif instruction in self.sequence.time:
            yield self.sequence.time[instruction]

    def _ends(self, value: HloValue) -> Iterator[int]:
        """Yield the times up to which a value is needed; there is at least one."""
        sequence = self.sequence
        yield 0
        for place in value.positions:
            instruction = place.instruction
            if instruction is instruction.parent.root and instruction.parent in sequence.spans:
                yield sequence.spans[instruction.parent].end
            yield sequence.time.get(instruction, 0)
        for use in value.uses:
            yield self._time_of_use(use)
        if value.instruction.opcode is Opcode.PARAMETER and self._is_read_only(value):
            yield sequence.end
        if value.instruction.opcode is Opcode.ASYNC_START and value.index[:1] >= (_CONTEXTS,):
            yield from [sequence.time[x] for x in _chain(value.instruction)]

    def _time_of_use(self, use: Use) -> int:
        """A call reads nothing: its callee does; a loop takes its operand when its body starts."""
        user = use.instruction
        if user.opcode is Opcode.CALL:
            return 0
        if user.opcode is Opcode.WHILE:
            user = while_body(user).parameters[0]
        return self.sequence.time.get(user, 0)

    def _is_read_only(self, value: HloValue) -> bool:
        place = value.instruction, value.index
        return value.instruction.parent is self.module.entry and place not in self.donated


def _chain(start: Instruction) -> Iterator[Instruction]:
    """Yield the async-updates and the async-done that follow a start."""
    following: Instruction | None = start
    while following is not None:
        following = next((x for x in following.users if x.opcode in _CHAIN), None)
        if following is not None:
            yield following


def _in_turn(ranges: list[tuple[int, int, HloValue]]) -> dict[HloValue, TimeBound]:
    """Cut each range where the next one starts, and let that one last as long as both did."""
    ordered = sorted(ranges, key=lambda x: (x[0], x[1], x[2].number))
    bounds: dict[HloValue, TimeBound] = {}
    until = 0
    for i, (start, end, value) in enumerate(ordered):
        until = max(end, until)
        following = ordered[i + 1][0] if i + 1 < len(ordered) else until
        bounds[value] = TimeBound(start, min(until, following))
    return bounds
