"""The state of the pipeline: all that it knows of a module between two of its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from time import perf_counter
from typing import TYPE_CHECKING, final

from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.donation import Alias
from lowtide.analysis.live_range import LiveRanges
from lowtide.buffers.assignment import HostPlaces
from lowtide.buffers.copy_insertion import CopyInsertion
from lowtide.buffers.packing import PackedBuffers
from lowtide.compiler.options import PlanOptions
from lowtide.ir import Module
from lowtide.records import dataclass
from lowtide.records.late import Late
from lowtide.scheduling.module_bound import Bounds
from lowtide.scheduling.module_search import Searches

if TYPE_CHECKING:
    from lowtide.report.memory import MemoryReport


@dataclass(frozen=True, eq=False, slots=True)
class StageClock:
    """Wall seconds by stage, in the order in which stages began."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what runs within as time of a stage."""
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


@dataclass(frozen=True, eq=False, slots=True)
class OptimizedModule:
    """A copy of a module that was taken to a stage, unless it was scheduled."""

    module: Module
    options: PlanOptions
    was_scheduled: bool
    clock: StageClock


@dataclass(frozen=True, eq=False, slots=True)
class OrderedModule:
    """A module with the copies of values that it needs, scheduled; `bounds` count no scratch."""

    optimized: OptimizedModule
    copies: CopyInsertion
    flows: Dataflow
    bounds: Bounds
    aliases: tuple[Alias, ...]
    searches: Searches

    @property
    def module(self) -> Module:
        """The module."""
        return self.optimized.module

    @property
    def clock(self) -> StageClock:
        """The clock of the whole pipeline."""
        return self.optimized.clock

    @property
    def options(self) -> PlanOptions:
        """The options of the whole pipeline, whose deadline runs."""
        return self.optimized.options


@dataclass(frozen=True, eq=False, slots=True)
class PlacedModule:
    """A scheduled module, where its values lie, and what every order needs with scratch.

    `host` are the places in the host's memory, which count nowhere else.
    """

    ordered: OrderedModule
    ranges: LiveRanges
    packed: PackedBuffers
    bounds: Bounds
    host: HostPlaces | None


@final
class LateReport:
    """The report that `make` returns, made once; `seconds` of its stages are known before."""

    def __init__(
        self,
        make: Callable[[], MemoryReport],
        seconds: Mapping[str, float],
        *,
        is_made: bool = False,
    ) -> None:
        self._made = Late(make)
        self.seconds = seconds
        self.is_made = is_made
        """Whether it was made with the plan, of which nothing is to be kept for it."""

    @property
    def made(self) -> MemoryReport:
        """The report; what it was made of is given up."""
        return self._made.get()
