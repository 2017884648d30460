"""Programs that can be called: arguments in, one native run, results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol
from weakref import finalize

import numpy as np

from lowtide.native import NativeUnit
from lowtide.records import dataclass
from lowtide.runtime.cpu import layout
from lowtide.runtime.cpu.arena import NO_ARENA, Arena
from lowtide.runtime.cpu.arguments import is_row_major
from lowtide.runtime.cpu.binding import Binding
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.frame import Frame
from lowtide.runtime.cpu.handover import Recycled, new_array, refill, taken_over
from lowtide.runtime.cpu.launch import LaunchPlan, launch_plan
from lowtide.runtime.cpu.profile import Span, new_record, spans
from lowtide.runtime.cpu.program import NativeProgram, Structure, nested
from lowtide.runtime.cpu.results import Made, counts_of_sizes, reshaped
from lowtide.runtime.cpu.signals import PARTICIPANT
from lowtide.runtime.cpu.slow_path import opened, prepared, run
from lowtide.runtime.devices.native_rendezvous import UNMET
from lowtide.runtime.devices.rendezvous import participant_for, rendezvous_error

_empty = np.empty
_REFUSED: Final = object()


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How calls use memory, and what they compute with.

    `huge_pages` says whether the system may use them for arenas. At most `idle_arenas` arenas, of
    `idle_bytes` bytes together but at least one, are kept between calls, and as many times the
    pages of results; of results of one size as many as a call has of them, within `idle_bytes`. Of
    a program of several devices as many arenas are kept for each of them. Calls take denormals for
    0, as operands and as results, if they are `without_denormals`.
    """

    huge_pages: bool = True
    idle_arenas: int = 4
    idle_bytes: int = 1 << 30
    without_denormals: bool = False


class Arenas(Protocol):
    """The home of arenas that several programs use, each for one call at a time.

    `recycled` has the pages of their results.
    """

    @property
    def recycled(self) -> Recycled:
        """The pages of results for calls on this thread."""

    def take(self, nbytes: int) -> Arena:
        """Return an arena of at least that many bytes; raises OutOfMemoryError."""

    def give(self, arena: Arena) -> None:
        """Take back an arena."""


class LinkedExecutable:
    """A program that is linked and can be called, by several threads at once."""

    def __init__(
        self,
        program: NativeProgram,
        compile_unit: Callable[[NativeUnit], bytes] | None = None,
        options: CallOptions | None = None,
    ) -> None:
        self._options = options or CallOptions()
        without_denormals = self._options.without_denormals
        self._binding = binding = Binding(
            program, compile_unit, without_denormals=without_denormals
        )
        self._pool = binding.pool
        self._entry = binding.native.entry
        arena = max(binding.arena.nbytes, 1)
        most = self._options.idle_arenas * program.devices
        self._most_idle = max(1, min(most, self._options.idle_bytes // arena))
        self._idle: list[Frame] = []
        self._arenas: Arenas | None = None
        self._program = program
        self._meets = bool(program.first_collective)
        idle = self._options.idle_bytes
        alike = {x: min(n, idle // max(x, 1)) for x, n in counts_of_sizes(binding.made).items()}
        self._recycled = Recycled(self._most_idle, alike=alike, huge=self._options.huge_pages)
        self._structure = binding.interface.structure
        arguments = binding.interface.arguments
        self._direct = layout.is_known() and all(is_row_major(x.shape) for x in arguments)
        self._plain = _Kind(binding.made, self._structure, consume=False)
        self._consuming = _Kind(binding.consuming, self._structure, consume=True)
        finalize(self, self._recycled.close).atexit = False

    def __call__(self, *arguments: Any, consume: bool = False) -> Any:
        """Return the results for arguments, which are the leaves of the parameters, depth first.

        Results are new arrays, nested as the module's root is. Arguments are not written to; with
        `consume` those that the module aliases to results are overwritten and become these.

        Raises InputError where an argument does not fit its parameter or cannot be consumed, and
        OutOfMemoryError where the system has not the memory for the call. A program of several
        devices is called by each of them within a rendezvous; where that fails, RendezvousError is
        raised. What the handler of a
        signal raises, such as KeyboardInterrupt, ends the run between two of its steps; consumed
        arguments then hold anything.
        """
        pool = self._pool
        if pool is not None and not pool.alive:
            pool.start()
        if self._meets:
            participant_for(self._program)
        kind = self._consuming if consume else self._plain
        found = self._quick(arguments, kind) if self._direct else _REFUSED
        if found is not _REFUSED:
            return found
        arrays = opened(self._binding, arguments)
        found = self._quick(arrays, kind) if self._direct else _REFUSED
        if found is not _REFUSED:
            return found
        arrays = prepared(self._binding, arrays, kind.made)
        found = self._quick(arrays, kind) if self._direct else _REFUSED
        if found is not _REFUSED:
            return found
        frame = self._frame(kind)
        results = run(self._binding, frame, arrays, kind.made, self._pages)
        return self._finished(frame, kind, arrays, results)

    def profile(self, *arguments: Any) -> tuple[Any, tuple[Span, ...]]:
        """Return the results of a call, and when each thunk ran, in order of their ends.

        Each thunk then runs by itself, also where it could run beside others, in memory that an
        earlier call used. Of more than a million events the last ones are returned.
        """
        if self._meets:
            participant_for(self._program)
        table = self._binding.linked.stamped
        record = new_record()
        arrays = prepared(self._binding, opened(self._binding, arguments), self._binding.made)
        idle = self._frame(self._plain)
        frame = Frame(self._binding.frames, idle.arena, table.workspace)
        frame.control[PARTICIPANT] = idle.control[PARTICIPANT]
        frame.replace_table(table.words.ctypes.data)
        frame.control[2] = record.ctypes.data
        results = run(self._binding, frame, arrays, self._binding.made, self._pages)
        found = self._finished(frame, self._plain, arrays, results, keep=False)
        self._release(idle)
        return found, spans(record, table.names)

    def empty(self) -> None:
        """Give the memory that is kept for later calls back to the system."""
        while self._idle:
            self._idle.pop().arena.close()
        self._recycled.empty()

    @property
    def idle_bytes(self) -> int:
        """The bytes that are kept for later calls."""
        return sum([x.arena.nbytes for x in list(self._idle)]) + self._recycled.nbytes

    def launch_plan(self) -> LaunchPlan:
        """Return how the program is run by others than Python; its threads are started for that."""
        if self._pool is not None and not self._pool.alive:
            self._pool.start()
        return launch_plan(self._binding, self._program.thunks)

    def use_arenas(self, arenas: Arenas) -> None:
        """Take arenas and pages of later calls from there, and keep none."""
        self.empty()
        self._arenas = arenas

    @property
    def _pages(self) -> Recycled:
        """The pages of results that are gone."""
        return self._recycled if self._arenas is None else self._arenas.recycled

    # -- parts of a call -----------------------------------------------------------------------

    def _quick(self, arguments: tuple[Any, ...], kind: _Kind) -> Any:
        """Return the results where native code takes the arguments as they are, else _REFUSED."""
        frame = self._frame(kind)
        if kind.only is not None:
            results: tuple[Any, ...] = (_empty(*kind.only),)
        elif kind.is_placed:
            recycled = self._pages
            results = tuple([new_array(x, recycled) for x in kind.made])
        else:
            results = tuple([_empty(sizes, dtype) for sizes, dtype in kind.new])
        status = self._entry(arguments, results, frame.consuming if kind.consume else frame.address)
        if status:
            self._release(frame)
            if status == UNMET:
                raise rendezvous_error(self._program, self._binding.linked.collectives)
            return _REFUSED
        if kind.single or kind.flat:
            self._release(frame)
            return results[0] if kind.single else results
        return self._finished(frame, kind, arguments, results)

    def _frame(self, kind: _Kind) -> Frame:
        try:
            frame = self._idle.pop()
        except IndexError:
            return self._new_frame()
        if self._arenas is not None:
            frame.rest_on(self._arenas.take(self._binding.arena.nbytes))
            for x in kind.made:
                if x.moved:
                    begin = int(frame.bases[x.allocation]) + x.offset
                    refill(begin, x, self._arenas.recycled)
        if self._meets:
            frame.control[PARTICIPANT] = participant_for(self._program).address
        return frame

    def _new_frame(self) -> Frame:
        nbytes = self._binding.arena.nbytes
        if self._arenas is None:
            arena = Arena(nbytes, huge=self._options.huge_pages)
        else:
            arena = self._arenas.take(nbytes)
        frame = Frame(self._binding.frames, arena)
        if self._meets:
            frame.control[PARTICIPANT] = participant_for(self._program).address
        return frame

    def _release(self, frame: Frame) -> None:
        if self._arenas is not None:
            self._arenas.give(frame.arena)
            frame.rest_on(NO_ARENA)
        if len(self._idle) < self._most_idle:
            self._idle.append(frame)

    def _finished(
        self,
        frame: Frame,
        kind: _Kind,
        arguments: Sequence[Any],
        results: Sequence[Any],
        keep: bool = True,
    ) -> Any:
        """Take results that are not arrays of their own yet, and release the frame."""
        found = []
        for x, result in zip(kind.made, results, strict=True):
            array = result
            if x.consumed >= 0:
                array = reshaped(arguments[x.consumed], x)
            elif x.moved:
                begin = int(frame.bases[x.allocation]) + x.offset
                array = taken_over(begin, x, self._pages, fill=self._arenas is None)
            found.append(x.finished(array))
        if keep:
            self._release(frame)
        return nested(self._structure, found)


class _Kind:
    """How calls that do or do not consume make their results.

    `new` are sizes and dtypes of the arrays made before the run, some of which want memory of a
    kind of its own if `is_placed`; `only` is the one that there is, where it wants none. Those are
    all that is to be returned where the one result is `single`, or the results are `flat`.
    """

    __slots__ = ("consume", "flat", "is_placed", "made", "new", "only", "single")

    def __init__(self, made: tuple[Made, ...], structure: Structure, *, consume: bool) -> None:
        self.consume = consume
        simple = all(x.turned is None and x.fill is not Fill.NONE for x in made)
        self.made = made
        self.new = [((0,) if x.fill is Fill.NONE else x.sizes, x.dtype) for x in made]
        self.is_placed = any(x.is_placed for x in made)
        self.only = self.new[0] if len(made) == 1 and not self.is_placed else None
        self.single = simple and structure == 0
        self.flat = simple and structure == tuple(range(len(made)))


def load(
    program: NativeProgram,
    compile_unit: Callable[[NativeUnit], bytes] | None = None,
    options: CallOptions | None = None,
) -> LinkedExecutable:
    """Return a program as an executable of this process.

    `compile_unit` makes the object file of a unit of native code, for the runtime itself; LLVM does
    by default. Raises LowtideError where the processor is not one for which the program was made.
    """
    program.check_host()
    return LinkedExecutable(program, compile_unit, options)
