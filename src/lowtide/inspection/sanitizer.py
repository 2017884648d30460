"""Native code under watch: each thunk writes its results only, and what the evaluator computes.

A kernel first runs in a process of its own, which may crash. Then it runs twice, on memory with
other contents, with its pieces in another order and on other threads. What it reads and has not
written shows in its results, and so does what depends on how pieces are shared out. Loads from
memory that is not the kernel's are seen by values only.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import warnings
from collections.abc import Sequence
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from lowtide.client.errors import SanitizerError
from lowtide.client.executable.anew import compile_anew
from lowtide.evaluator.device_groups import GroupDevice
from lowtide.inspection.expected_results import Expected
from lowtide.inspection.watched_memory import WatchedMemory
from lowtide.ir import Instruction, Module
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.errors import InputError, place_of
from lowtide.ir.given_arrays import check_count
from lowtide.ir.literal import Array
from lowtide.ir.thunk import (
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCallThunk,
    KernelEntry,
    KernelThunk,
    Phase,
    Thunk,
    WhileThunk,
    unbundled,
)
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import as_array
from lowtide.runtime.cpu.linked import Linked
from lowtide.runtime.cpu.native import native
from lowtide.runtime.cpu.program import NativeProgram, nested
from lowtide.runtime.cpu.walker import COPY_BYTES
from lowtide.runtime.devices.collective_block import CollectiveBlock

POISONS: Final = (0xFF, 0x3C)
"""The bytes that fill memory for the two runs of a kernel: as f32 NaN and 0.0115, as integers -1
and 0x3C3C3C3C."""

PIECES: Final = 7
"""How many pieces the second run shares out."""

PATIENCE_SECONDS: Final = 120
"""How long one kernel may run."""

MOST_CHECKS: Final = 8
"""How often a thunk in a loop is checked; after that it just runs."""


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A run without a fault: the result, and how many thunks were checked.

    `not_compared` are instructions whose results the evaluator does not say.
    """

    result: Any
    thunks: int
    not_compared: tuple[str, ...]
    seconds: float


def sanitize(module: Module, arguments: Sequence[Any], options: Options | None = None) -> Sanitized:
    """Return the result of a module, compiled and run thunk by thunk under watch.

    Raises SanitizerError at the first fault, which names the thunk, and what `compile_module` and
    calls raise.
    """
    made = compile_anew(module, options)
    return check_program(made.program, made.plan.module, arguments)


def check_program(program: NativeProgram, module: Module, arguments: Sequence[Any]) -> Sanitized:
    """Return the result of a program, run thunk by thunk under watch, as `sanitize` does.

    `module` is the scheduled one that it was made of.
    """
    if program.first_collective:
        raise InputError(
            f"{program.name} runs on {program.devices} devices, and is checked on all at once"
        )
    arrays = checked_arguments(program, arguments)
    start = perf_counter()
    run = WatchedRun(program, module, arrays)
    run.sequence(unbundled(program.thunks))
    results = run.results()
    run.expected.check_whole(module, arrays, results)
    return Sanitized(
        nested(program.interface.structure, results),
        run.count,
        tuple(sorted(run.expected.not_compared)),
        perf_counter() - start,
    )


def checked_arguments(program: NativeProgram, arguments: Sequence[Any]) -> list[Array]:
    """Return arguments as a program takes them; raises InputError where they do not fit."""
    wanted = program.interface.arguments
    check_count(wanted, len(arguments))
    return [as_array(x, given) for x, given in zip(wanted, arguments, strict=True)]


class WatchedDevice(Protocol):
    """One of the devices of a run, which share a linked program."""

    @property
    def evaluated(self) -> GroupDevice:
        """The device in the evaluator."""

    @property
    def linked(self) -> Linked:
        """The program of all devices."""

    def meet(self, collective: CollectiveBlock, words: npt.NDArray[np.uint64]) -> None:
        """Meet others, given the words of a workspace; raises RendezvousError where they do not."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What one thunk does: phases on buffers, what it reads, what it writes."""

    name: str
    phases: tuple[Phase, ...]
    addresses: tuple[int, ...]
    scratch: BufferSlice | None
    reads: tuple[BufferSlice, ...]
    writes: tuple[BufferSlice, ...]

    @property
    def touched(self) -> tuple[BufferSlice, ...]:
        """All that it may write to."""
        return self.writes if self.scratch is None else (*self.writes, self.scratch)


class WatchedRun:
    """One run of a program, thunk by thunk; `device` is the one that runs, if there are several."""

    def __init__(
        self,
        program: NativeProgram,
        module: Module,
        arguments: list[Array],
        device: WatchedDevice | None = None,
    ) -> None:
        self.program = program
        self.memory = WatchedMemory(program, arguments, POISONS[0])
        self.instructions = {
            x.name: x for c in module.computations.values() for x in c.instructions.values()
        }
        self.device = device
        self.expected = Expected(module, None if device is None else device.evaluated)
        self.count = 0
        self._checks: dict[KernelThunk | CopyThunk, int] = {}
        self._linked = Linked(program, native()) if device is None else device.linked
        word, number = ctypes.c_void_p, ctypes.c_int64
        self._prototype = ctypes.CFUNCTYPE(None, word, word, number, number, number)

    def results(self) -> list[Array]:
        """The results, as the last thunk left them."""
        return [self.memory.read(x.place, x.shape) for x in self.program.interface.results]

    # -- thunks --------------------------------------------------------------------------------

    def sequence(self, thunks: Sequence[Thunk]) -> None:
        """Run thunks one after the other; nests as deeply as loops and branches do."""
        for thunk in thunks:
            if isinstance(thunk, WhileThunk):
                self.loop(thunk)
            elif isinstance(thunk, ConditionalThunk):
                self.branch(thunk)
            elif isinstance(thunk, HostCallThunk):
                self.host_call(thunk)
            elif isinstance(thunk, CollectiveThunk):
                self.collective(thunk)
            elif isinstance(thunk, KernelThunk | CopyThunk):
                self.work(thunk)

    def loop(self, thunk: WhileThunk) -> None:
        """Run a loop; one that changes nothing ends, as in the evaluator."""
        while True:
            self.sequence(thunk.condition)
            if not self.memory.view(thunk.predicate)[0]:
                return
            self.sequence(thunk.body)
            if not thunk.condition and not thunk.body:
                return

    def branch(self, thunk: ConditionalThunk) -> None:
        """Run one of the branches."""
        view = self.memory.view(thunk.selector)
        if thunk.is_predicate:
            chosen = 0 if view[0] else 1
        else:
            chosen = int(view[:4].copy().view(np.int32)[0])
            if not 0 <= chosen < len(thunk.branches):
                chosen = len(thunk.branches) - 1
        self.sequence(thunk.branches[chosen])

    def host_call(self, thunk: HostCallThunk) -> None:
        """Call a function outside once; the evaluator calls it again, unless it has an effect."""
        count = len(thunk.call.operands)
        pairs = zip(thunk.buffers, thunk.call.operands, strict=False)
        operands = [self.memory.read(place, shape) for place, shape in pairs if shape.is_array]
        at = self.memory.address
        words = np.array([*[at(x) for x in thunk.buffers], 0], np.uint64)
        self._linked.runner(thunk.call)(words.ctypes.data)
        arrays = zip(thunk.buffers[count:], thunk.call.results, strict=True)
        writes = tuple([place for place, shape in arrays if shape.is_array])
        self.memory.accept(writes, thunk.name)
        if thunk.call.has_side_effect:
            self.expected.not_compared.add(thunk.name)
            return
        job = _Job(thunk.name, (), (), None, thunk.buffers[:count], writes)
        self._compare(self.instructions[thunk.name], job, operands)

    def collective(self, thunk: CollectiveThunk) -> None:
        """Meet other devices, natively and in the evaluator; both give the same."""
        assert self.device is not None
        self.count += 1
        count = len(thunk.collective.operands)
        pairs = zip(thunk.buffers, thunk.collective.operands, strict=False)
        operands = [self.memory.read(*pair) for pair in pairs]
        found = self._linked.collectives[thunk.name]
        words = np.zeros(found.workspace, np.uint64)
        at = self.memory.address
        places = [*[at(x) for x in thunk.buffers], at(thunk.scratch)]
        words[: len(places)] = places
        self.device.meet(found, words)
        writes = thunk.buffers[count:]
        touched = writes if thunk.scratch is None else (*writes, thunk.scratch)
        self.memory.accept(touched, thunk.name)
        arrays = zip(writes, thunk.collective.results, strict=True)
        received = [self.memory.read(*pair) for pair in arrays]
        instruction = self.instructions[thunk.name]
        wrong = self.expected.collective_difference(instruction, operands, received)
        if wrong:
            raise self.fault(thunk.name, f"does not give what the evaluator does: {wrong}")

    def work(self, thunk: KernelThunk | CopyThunk) -> None:
        """Run a kernel or a copy, and check it unless it was checked often enough."""
        job = self._job(thunk)
        done = self._checks.get(thunk, 0)
        self._checks[thunk] = done + 1
        if done >= MOST_CHECKS:
            self._run(job, in_order=True)
            self.memory.accept(job.touched, job.name)
            return
        self.count += 1
        if isinstance(thunk, CopyThunk):
            self._check(job)
            if (self.memory.view(thunk.source) != self.memory.view(thunk.target)).any():
                raise self.fault(job.name, "the copy differs from its source")
            return
        self._check_kernel(thunk, job)

    def _job(self, thunk: KernelThunk | CopyThunk) -> _Job:
        at = self.memory.address
        if isinstance(thunk, CopyThunk):
            size = thunk.source.nbytes
            phase = Phase("", -(-size // COPY_BYTES), 0.0)
            addresses = (at(thunk.source), at(thunk.target), size)
            return _Job(thunk.name, (phase,), addresses, None, (thunk.source,), (thunk.target,))
        kernel: KernelEntry = self.program.kernels[thunk.kernel]
        reads, writes = thunk.buffers[: thunk.results], thunk.buffers[thunk.results :]
        places = tuple([at(x) for x in thunk.buffers])
        return _Job(thunk.name, kernel.phases, places, thunk.scratch, reads, writes)

    # -- one thunk under watch -----------------------------------------------------------------

    def _check_kernel(self, thunk: KernelThunk, job: _Job) -> None:
        instruction = self.instructions[thunk.name]
        shapes = [
            leaf for x in instruction.operands for _, leaf in x.shape.leaves() if leaf.is_array
        ]
        pairs = zip(job.reads, shapes, strict=True)
        operands = [self.memory.read(place, shape) for place, shape in pairs]
        try:
            self._check(job)
            self._compare(instruction, job, operands)
        except SanitizerError as error:
            error.operands = tuple(operands)
            raise

    def _compare(self, instruction: Instruction, job: _Job, operands: list[Array]) -> None:
        leaves = [leaf for _, leaf in instruction.shape.leaves() if leaf.is_array]
        found = [
            self.memory.read(place, leaf) for place, leaf in zip(job.writes, leaves, strict=True)
        ]
        wrong = self.expected.difference(instruction, operands, found)
        if wrong:
            raise self.fault(job.name, f"does not compute what the evaluator does: {wrong}")

    def _check(self, job: _Job) -> None:
        """Run a thunk twice; raise unless it writes its own only, and the same both times."""
        saved = [self.memory.view(x).copy() for x in job.reads]
        self._probe(job, saved)
        first = self._poisoned(job, saved, POISONS[0], in_order=True)
        self._check_strays(job)
        second = self._poisoned(job, saved, POISONS[1], in_order=False)
        self._check_strays(job)
        if _same(first, second):
            return
        third = self._poisoned(job, saved, POISONS[1], in_order=True)
        if _same(first, third):
            why = "its result depends on the order of its pieces, or on the threads that do them"
        else:
            why = "reads what it has not written: its result depends on what memory held before"
        raise self.fault(job.name, why)

    def _probe(self, job: _Job, operands: Sequence[Array]) -> None:
        """Run a thunk in a process of its own; raise where that crashes or does not end.

        Only on the main thread: a fork waits for the threads of NumPy's linear algebra, and never
        ends where another thread waits for those.
        """
        if not hasattr(os, "fork") or current_thread() is not main_thread():
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Other libraries warn of forks; nothing is run there.
            child = os.fork()
        if not child:
            faulthandler.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE_SECONDS)
            self._poisoned(job, operands, POISONS[0], in_order=True)
            self._poisoned(job, operands, POISONS[1], in_order=False)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            return
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            raise self.fault(job.name, f"does not end within {PATIENCE_SECONDS} s")
        raise self.fault(job.name, f"crashes: {signal.Signals(number).name}")

    def _poisoned(
        self, job: _Job, operands: Sequence[Array], poison: int, *, in_order: bool
    ) -> list[Array]:
        """Run a thunk on its operands, with all else that it may write to filled with a byte."""
        for place in job.touched:
            self.memory.view(place)[:] = poison
        for place, saved in zip(job.reads, operands, strict=True):
            self.memory.view(place)[:] = saved
        self._run(job, in_order=in_order)
        return [self.memory.view(x).copy() for x in job.writes]

    def _check_strays(self, job: _Job) -> None:
        self.memory.accept(job.touched, job.name)
        stray = self.memory.stray()
        if stray is not None:
            raise self.fault(
                job.name,
                f"writes where it must not: {stray.place} was 0x{stray.before:02x} and is "
                f"0x{stray.after:02x}",
            )

    def _run(self, job: _Job, *, in_order: bool) -> None:
        buffers = np.array([*job.addresses, 0], np.uint64)
        scratch = self.memory.address(job.scratch)
        for phase in job.phases:
            address = (
                self._linked.address(phase.function) if phase.function else self._linked.native.copy
            )
            function = self._prototype(address)
            for begin, end, thread in self._pieces(phase.units, in_order=in_order):
                function(buffers.ctypes.data, scratch, begin, end, thread)

    def _pieces(self, units: int, *, in_order: bool) -> list[tuple[int, int, int]]:
        """Begin, end and thread of the pieces that a phase is done in."""
        if not units:
            return []
        if in_order:
            return [(0, units, 0)]
        count = min(units, PIECES)
        ends = [units * x // count for x in range(count + 1)]
        threads = self.program.threads
        return [(ends[x], ends[x + 1], x % threads) for x in reversed(range(count))]

    def fault(self, name: str, what: str) -> SanitizerError:
        """Return the error about a thunk."""
        instruction: Instruction = self.instructions[name]
        return SanitizerError(
            f"{place_of(instruction)}: {instruction.opcode.value} (%{name}): {what}", name
        )


def _same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
