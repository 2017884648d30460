"""The time that each thunk of a program takes, and the rates that it achieves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lowtide.client.executable import Executable
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion
from lowtide.ir.metadata import SourceLocation
from lowtide.ir.thunk import (
    BundleThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCallThunk,
    Thunk,
    WhileThunk,
    all_thunks,
)
from lowtide.ops.cost import Memo, cost
from lowtide.records import dataclass
from lowtide.runtime.cpu.profile import Span


@dataclass(frozen=True, slots=True)
class ThunkTime:
    """All runs of one thunk in a call.

    `kind` is "kernel", "copy", "while" or "conditional"; `calls` how often it ran in a call and
    `seconds` how long in all, without the thunks that it runs. `flops` and `nbytes`, which are read
    and written, are those of all its runs.
    """

    name: str
    kind: str
    opcode: str
    source: SourceLocation | None
    calls: float
    seconds: float
    flops: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a call spends where, the mean of `runs` calls, and the spans of the last call.

    `rows` are in the order of time, the longest first; `rows_by_number` has each thunk's. An
    ordinary call runs `bundled` of the thunks in bundles, which takes less than their times here.
    """

    rows: tuple[ThunkTime, ...]
    rows_by_number: tuple[ThunkTime, ...]
    spans: tuple[Span, ...]
    runs: int
    bundled: int = 0

    @property
    def seconds(self) -> float:
        """The time of all thunks."""
        return sum([x.seconds for x in self.rows])


def profile(executable: Executable, arguments: Sequence[Any], runs: int = 1) -> Profile:
    """Return what a call spends where; thunks run one after the other, after one call unmeasured.

    The work of an instruction is counted by the rules of XLA's HloCostAnalysis.
    """
    executable.profile(*arguments)
    thunks = list(numbered(executable.program.thunks))
    calls, seconds = [0] * len(thunks), [0.0] * len(thunks)
    spans: tuple[Span, ...] = ()
    for _ in range(runs):
        _, spans = executable.profile(*arguments)
        for span, own in _own_times(spans):
            calls[span.number] += 1
            seconds[span.number] += own
    work = _Work(executable.module)
    rows = [
        work.row(thunk, calls[number] / runs, seconds[number] / runs)
        for number, thunk in enumerate(thunks)
    ]
    order = sorted(range(len(rows)), key=lambda x: (-rows[x].seconds, x))
    bundles = [x for x in all_thunks(executable.program.thunks) if isinstance(x, BundleThunk)]
    bundled = sum([len(list(numbered(x.parts))) for x in bundles])
    return Profile(tuple([rows[x] for x in order]), tuple(rows), spans, runs, bundled)


def numbered(thunks: Sequence[Thunk]) -> Iterator[Thunk]:
    """Yield thunks in the order of the numbers that spans have: each before those within it.

    A bundle has none: its parts run by themselves then.
    """
    return (x for x in all_thunks(thunks) if not isinstance(x, BundleThunk))


def _own_times(spans: Sequence[Span]) -> Iterator[tuple[Span, float]]:
    """Yield each span with its seconds, without those of the spans within it."""
    within: dict[int, int] = {}
    open_: list[tuple[int, Span]] = []
    order = sorted(range(len(spans)), key=lambda x: (spans[x].begin, -spans[x].end, -x))
    for place in order:
        span = spans[place]
        while open_ and open_[-1][1].end <= span.begin:
            open_.pop()
        if open_:
            outer = open_[-1][0]
            within[outer] = within.get(outer, 0) + span.end - span.begin
        open_.append((place, span))
    for place, span in enumerate(spans):
        yield span, (span.end - span.begin - within.get(place, 0)) * 1e-9


class _Work:
    """What the thunks of a module are for, and how much they do."""

    def __init__(self, module: Module) -> None:
        self._memo: Memo = {}
        self._instructions: Mapping[str, Instruction] = {
            x.name: x for c in module.computations.values() for x in c.instructions.values()
        }

    def row(self, thunk: Thunk, calls: float, seconds: float) -> ThunkTime:
        instruction = self._instructions[thunk.name]
        kind, flops, nbytes = "kernel", 0.0, 0.0
        if isinstance(thunk, CopyThunk):
            kind, nbytes = "copy", 2.0 * thunk.source.nbytes
        elif isinstance(thunk, WhileThunk):
            kind = "while"
        elif isinstance(thunk, ConditionalThunk):
            kind = "conditional"
        elif isinstance(thunk, HostCallThunk):
            kind = "host call"
        elif isinstance(thunk, CollectiveThunk):
            kind = "collective"
        else:
            flops, nbytes = self._of_kernel(instruction)
        return ThunkTime(
            thunk.name,
            kind,
            instruction.opcode.value,
            instruction.source,
            calls,
            seconds,
            calls * flops,
            calls * nbytes,
        )

    def _of_kernel(self, instruction: Instruction) -> tuple[float, float]:
        found = cost(instruction, self._memo)
        is_custom = instruction.opcode is Opcode.CUSTOM_CALL or (
            instruction.opcode is Opcode.FUSION
            and instruction.attributes_as(Fusion).kind == "kCustom"
        )
        if not is_custom:
            return found.flops, found.bytes_accessed
        shapes = [instruction.shape, *[x.shape for x in instruction.operands]]
        return found.flops, sum([leaf.nbytes for shape in shapes for _, leaf in shape.leaves()])
