"""A program as it runs: kernels on slices of memory, and the control flow between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Self, TypeAlias

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.collective import DeviceCollective
from lowtide.ir.loop_counter import LoopCounter
from lowtide.ir.shape import Shape
from lowtide.records import dataclass

ASSUMED_TRIPS: Final = 10
"""How often a loop's body is taken to run where a rough weight is enough."""


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """One function, run by `blocks` blocks of `threads` threads each.

    `function` is the symbol of `void (ptr, ptr, ...)`, which gets the addresses of the operands'
    arrays, depth first, then of the results', then of the scratch. Blocks run in any order. Each
    has `shared_bytes` of shared memory, beside what the function itself defines.
    """

    function: str
    blocks: int
    threads: int
    shared_bytes: int = 0

    @property
    def grid(self) -> tuple[int, int, int]:
        """The number of blocks, of threads of a block, and of bytes of its shared memory."""
        return self.blocks, self.threads, self.shared_bytes


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel: launches, each of which begins when the one before is done.

    `template` is the name of what wrote it, `buffers` the number of its operands and results, and
    `scratch_bytes` is how much scratch it needs.
    """

    template: str
    launches: tuple[GridLaunch, ...]
    buffers: int
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Phase:
    """Pieces of work, numbered from 0 to `units` - 1, that run in any order and on any thread.

    `function` is the symbol of `void (ptr buffers, ptr scratch, i64 begin, i64 end, i64 thread)`,
    which does the pieces from `begin` to `end`, the latter excluded. `unit_seconds` is about how
    long one piece takes on one thread.
    """

    function: str
    units: int
    unit_seconds: float


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel: phases, each of which begins when the one before is done.

    Its scratch has `shared_bytes` for all threads, then `thread_bytes` for each; both are multiples
    of 64.
    """

    phases: tuple[Phase, ...]
    shared_bytes: int = 0
    thread_bytes: int = 0


class _Step:
    """The protocol of thunks; by default one touches no bytes and runs no others."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """What the thunk itself reads, not those within it."""
        return ()

    @property
    def writes(self) -> tuple[BufferSlice, ...]:
        """What the thunk itself writes, scratch excluded."""
        return ()

    @property
    def touches(self) -> tuple[BufferSlice, ...]:
        """What the thunk itself reads and writes, and then its scratch."""
        return (*self.reads, *self.writes)

    @property
    def sequences(self) -> tuple[tuple[Thunk, ...], ...]:
        """The sequences of thunks that the thunk runs, in order."""
        return ()

    def map_sequences(self, change: Callable[[tuple[Thunk, ...]], tuple[Thunk, ...]]) -> Self:
        """Return the thunk with what each of its sequences becomes."""
        return self


@dataclass(frozen=True, slots=True)
class KernelThunk(_Step):
    """One run of a kernel, for the instruction `name`.

    `kernel` is its number in the program; `buffers` are what it reads, then what it writes, from
    number `results` on. What is updated in place stands there twice.
    """

    name: str
    kernel: int
    buffers: tuple[BufferSlice, ...]
    results: int
    scratch: BufferSlice | None = None

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """What the kernel reads."""
        return self.buffers[: self.results]

    @property
    def writes(self) -> tuple[BufferSlice, ...]:
        """What the kernel writes."""
        return self.buffers[self.results :]

    @property
    def touches(self) -> tuple[BufferSlice, ...]:
        """What the kernel reads and writes, and its scratch."""
        return (*self.buffers, *_only(self.scratch))


@dataclass(frozen=True, slots=True)
class CopyThunk(_Step):
    """The bytes of `source` are copied to `target`; the slices are equally long and disjoint."""

    name: str
    source: BufferSlice
    target: BufferSlice

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """The bytes that are copied."""
        return (self.source,)

    @property
    def writes(self) -> tuple[BufferSlice, ...]:
        """The bytes that they become."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class WhileThunk(_Step):
    """While `condition` leaves a byte other than 0 in `predicate`, `body` runs.

    So often it is said to run, for estimates only: `trips`, None where nothing is known. Where it
    is certain how often it runs, `counter` says it, and `counted` are the counter and, if the loop
    carries it, the limit.
    """

    name: str
    condition: tuple[Thunk, ...]
    predicate: BufferSlice
    body: tuple[Thunk, ...]
    trips: int | None = None
    counter: LoopCounter | None = None
    counted: tuple[BufferSlice, ...] = ()

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """The predicate, and what says how often the loop runs."""
        return self.predicate, *self.counted

    @property
    def sequences(self) -> tuple[tuple[Thunk, ...], ...]:
        """Condition and body."""
        return self.condition, self.body

    def map_sequences(self, change: Callable[[tuple[Thunk, ...]], tuple[Thunk, ...]]) -> Self:
        """Return the loop with what condition and body become."""
        return replace(self, condition=change(self.condition), body=change(self.body))


@dataclass(frozen=True, slots=True)
class ConditionalThunk(_Step):
    """One of the branches runs.

    `selector` is a 32-bit signed number; one that is out of range runs the last branch. With
    `is_predicate` it is a byte: other than 0 runs branch 0, 0 runs branch 1.
    """

    name: str
    selector: BufferSlice
    is_predicate: bool
    branches: tuple[tuple[Thunk, ...], ...]

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """The selector."""
        return (self.selector,)

    @property
    def sequences(self) -> tuple[tuple[Thunk, ...], ...]:
        """The branches."""
        return self.branches

    def map_sequences(self, change: Callable[[tuple[Thunk, ...]], tuple[Thunk, ...]]) -> Self:
        """Return the choice with what each branch becomes."""
        return replace(self, branches=tuple([change(x) for x in self.branches]))


@dataclass(frozen=True, slots=True)
class HostCall:
    """What a call of a function outside of the program asks for.

    `target`, `api_version` and `config` are those of the custom call that names the function.
    `operands` and `results` are the shapes of all leaves, depth first, tokens included. `is_tuple`
    says whether the result is one. `aliases` pairs leaves of operands and of results that are one
    piece of memory.
    """

    target: str
    api_version: str
    config: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    is_tuple: bool
    has_side_effect: bool
    aliases: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HostCallThunk(_Step):
    """One call of a function outside of the program, for the instruction `name`.

    `buffers` are those of the operands, then of the results, as `call` has their shapes; a token
    has no bytes.
    """

    name: str
    call: HostCall
    buffers: tuple[BufferSlice, ...]

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """The operands."""
        return self.buffers[: len(self.call.operands)]

    @property
    def writes(self) -> tuple[BufferSlice, ...]:
        """The results."""
        return self.buffers[len(self.call.operands) :]


@dataclass(frozen=True, slots=True)
class CollectiveThunk(_Step):
    """One collective of a device with others, for the instruction `name`.

    `buffers` are those of what it brings, then of what it receives.
    """

    name: str
    collective: DeviceCollective
    buffers: tuple[BufferSlice, ...]
    scratch: BufferSlice | None = None

    @property
    def reads(self) -> tuple[BufferSlice, ...]:
        """What the device brings."""
        return self.buffers[: len(self.collective.operands)]

    @property
    def writes(self) -> tuple[BufferSlice, ...]:
        """What the device receives."""
        return self.buffers[len(self.collective.operands) :]

    @property
    def touches(self) -> tuple[BufferSlice, ...]:
        """What the device brings and receives, and its scratch."""
        return (*self.buffers, *_only(self.scratch))


@dataclass(frozen=True, slots=True)
class BundleThunk(_Step):
    """Small thunks that one function runs on the caller's thread.

    `function` is the symbol of `i64 (ptr bases, ptr state)`, which gets the addresses of the
    allocations and the state of the walker, and returns other than 0 where the run is to end.
    Running `parts` one after the other does the same. One trip of each loop takes about `seconds`.
    """

    name: str
    function: str
    seconds: float
    parts: tuple[Thunk, ...]

    @property
    def sequences(self) -> tuple[tuple[Thunk, ...], ...]:
        """The parts."""
        return (self.parts,)

    def map_sequences(self, change: Callable[[tuple[Thunk, ...]], tuple[Thunk, ...]]) -> Self:
        """Return the bundle with what its parts become."""
        return replace(self, parts=change(self.parts))


Thunk: TypeAlias = (
    KernelThunk
    | CopyThunk
    | WhileThunk
    | ConditionalThunk
    | HostCallThunk
    | CollectiveThunk
    | BundleThunk
)


def _only(place: BufferSlice | None) -> tuple[BufferSlice, ...]:
    return () if place is None else (place,)


def all_thunks(thunks: Sequence[Thunk]) -> Iterator[Thunk]:
    """Yield thunks and those within them, each before those that it runs."""
    stack = list(reversed(thunks))
    while stack:
        thunk = stack.pop()
        yield thunk
        stack += reversed([x for inner in thunk.sequences for x in inner])


def host_calls(thunks: Sequence[Thunk]) -> tuple[HostCallThunk, ...]:
    """Return the calls of functions outside of a program, those of loops and branches too."""
    return tuple([x for x in all_thunks(thunks) if isinstance(x, HostCallThunk)])


def collective_thunks(thunks: Sequence[Thunk]) -> tuple[CollectiveThunk, ...]:
    """Return the collectives with other devices, those of loops and branches too."""
    return tuple([x for x in all_thunks(thunks) if isinstance(x, CollectiveThunk)])


def kernels_of_bundles(thunks: Sequence[Thunk]) -> frozenset[int]:
    """Return the numbers of the kernels that only bundles run."""
    within: set[int] = set()
    alone: set[int] = set()
    stack = [(x, alone) for x in thunks]
    while stack:
        thunk, found = stack.pop()
        if isinstance(thunk, KernelThunk):
            found.add(thunk.kernel)
        elif isinstance(thunk, CollectiveThunk):
            alone.update([x.kernel for x in thunk.collective.steps])
        elif isinstance(thunk, BundleThunk):
            found = within
        stack += [(x, found) for inner in thunk.sequences for x in inner]
    return frozenset(within - alone)


def unbundled(thunks: Sequence[Thunk]) -> tuple[Thunk, ...]:
    """Return thunks with the parts of each bundle in its place; nests as loops and branches do."""
    found: list[Thunk] = []
    for thunk in thunks:
        if isinstance(thunk, BundleThunk):
            found += unbundled(thunk.parts)
        else:
            found.append(thunk.map_sequences(unbundled))
    return tuple(found)
