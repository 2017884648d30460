"""Queues of calls, one for each device, with the arena that its programs share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Lock, Thread, get_ident, local
from time import monotonic, sleep
from typing import Any, Final
from weakref import WeakSet, finalize

from lowtide.llvm.file_pages import llvm_pages
from lowtide.native import make
from lowtide.pjrt.blocks import Queue
from lowtide.pjrt.devices import PluginDevice
from lowtide.pjrt.handles import cell_of, sweep
from lowtide.pjrt.native_code import immortal, native_code
from lowtide.pjrt.native_idle import LEAST_KEPT
from lowtide.pjrt.native_queue import SWEEP
from lowtide.runtime.cpu.arena import NO_ARENA, Arena
from lowtide.runtime.cpu.handover import Recycled
from lowtide.runtime.cpu.pages import resident

MOST_BYTES: Final = 1 << 30
"""What calls in flight may need before the next one waits, unless there are few of them."""


MOST_ALIKE: Final = 64
"""How many stretches of memory of one form wait for results of calls that Python makes."""

_SMALL_BYTES: Final = 1 << 15
"""Arenas of so many bytes count as resident."""

REST_NANOSECONDS: Final = 100_000_000
"""How long memory waits for a next call before it goes back to the system."""


class DeviceQueue:
    """The queue of a device, and its arena: as large as the largest program so far needed.

    Calls of a device run one after the other, and so one arena is enough; a call that is made while
    another one runs, by a callback, gets one for itself. `block` is what machine code sees.
    `reserved` are the bytes of code and constants of the programs that were called.
    """

    def __init__(self) -> None:
        self.block: Any = make(Queue, most_bytes=MOST_BYTES, nanoseconds=REST_NANOSECONDS)
        self.address = ctypes.addressof(self.block)
        self._lock = Lock()
        self._arena: Arena | None = None
        self._arenas: WeakSet[Arena] = WeakSet()
        self._small = 0
        self.reserved = self.peak_reserved = 0
        self.recycled = Recycled(MOST_ALIKE, self._has_room)
        self.note_compilation()

    def take(self, nbytes: int) -> Arena:
        """Return the arena, made larger if need be; raises OutOfMemoryError."""
        if not nbytes:
            return NO_ARENA
        with self._lock:
            if self._arena is not None and not native_code().take_arena(self.address):
                return self.new_arena(nbytes)
            arena, self._arena = self._arena, None
        if arena is None or arena.nbytes < nbytes:
            if arena is not None:
                arena.close()
                self._arenas.discard(arena)
            arena = self.new_arena(nbytes)
        return arena

    def give(self, arena: Arena) -> None:
        """Have an arena be that of the next calls, unless there is a larger one."""
        if not arena.nbytes:
            return
        unwanted: Arena | None = arena
        with self._lock:
            if self._arena is None or native_code().take_arena(self.address):
                if self._arena is None or self._arena.nbytes < arena.nbytes:
                    unwanted, self._arena = self._arena, arena
                    self.block.arena_bytes = self.block.extent = arena.nbytes
                    self.block.hollow = arena.nbytes - resident(arena.address, arena.nbytes)
                self.block.arena = self._arena.address
                native_code().notice(self.address)
        if unwanted is not None:
            unwanted.close()
            self._arenas.discard(unwanted)

    def is_taken(self) -> bool:
        """Whether machine code uses the arena, in a call that this one is nested in."""
        return self._arena is not None and not self.block.arena

    def new_arena(self, nbytes: int) -> Arena:
        """Return a new arena that counts as one of this device's."""
        arena = Arena(nbytes, huge=True)
        count = self._count_arena
        if nbytes > _SMALL_BYTES:
            self._arenas.add(arena)
        else:
            count = self._count_small
        finalize(arena, count, -nbytes).atexit = False
        count(nbytes)
        self.block.peak_pool = max(self.block.peak_pool, self.block.mapped + self.block.idle)
        return arena

    def note_compilation(self) -> None:
        """Have LLVM's pages, if it is loaded, go before much memory comes into use."""
        self.block.text, self.block.text_bytes = llvm_pages()
        self.block.compiled = 1

    def _count_arena(self, nbytes: int) -> None:
        self.block.mapped += nbytes

    def _count_small(self, nbytes: int) -> None:
        self._small += nbytes
        self._count_arena(nbytes)

    @property
    def pool_bytes(self) -> int:
        """The bytes that are resident of all arenas, in use or not, and of what waits.

        Small arenas count whole: JAX asks after each compilation, and there may be a thousand.
        """
        arenas = [resident(x.address, x.nbytes) for x in list(self._arenas) if x.address]
        return sum(arenas) + self._small + int(self.block.idle) + self.recycled.nbytes

    def _has_room(self, nbytes: int) -> bool:
        """Whether so many bytes may wait, too, for results of calls that Python makes."""
        native_code().unsettle(self.address)
        waits = self.block.idle + self.recycled.nbytes
        return bool(waits + nbytes <= self.block.used + LEAST_KEPT)

    def reserve(self, owner: Any, nbytes: int) -> None:
        """Count the bytes of a program's code and constants for as long as its owner lives."""
        self.reserved += nbytes
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        finalize(owner, self._unreserve, nbytes).atexit = False

    def _unreserve(self, nbytes: int) -> None:
        self.reserved -= nbytes

    # -- the worker ----------------------------------------------------------------------------

    def start(self, number: int) -> None:
        """Start the thread that runs the calls of a device."""
        name = f"lowtide device {number}"
        Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        self.block.worker = get_ident()
        _here.queue = self
        self._serve(lambda job: _run[0](self, job), patient=True)

    def run_until(self, event: int, is_left: Callable[[int], bool]) -> None:
        """Run what waits, from within a call of the worker's, until an event has happened.

        Jobs that are to be left wait until the worker is back.
        """
        code, left = native_code(), list[int]()

        def run(job: int) -> None:
            if is_left(job):
                left.append(job)
            else:
                _run[0](self, job)

        while not code.has_happened(event) and not self.block.ended:
            self._serve(run, patient=False)
        for job in reversed(left):
            code.again(self.address, job)

    def _serve(self, run: Callable[[int], None], *, patient: bool) -> None:
        """Run calls; return at the end, or where none waits and that is not `patient`."""
        code = native_code()
        while True:
            job = code.next_job(self.address, patient)
            if not job:
                return
            if job == SWEEP:
                sweep()
                if self.block.rested:
                    self.block.rested = 0
                    self.recycled.empty()
            else:
                run(job)

    def end(self, seconds: float) -> None:
        """Wait for the calls in flight, at most for so long, and take no other ones."""
        deadline = monotonic() + seconds
        while self.block.jobs and monotonic() < deadline:
            sleep(0.001)
        self.block.ended = 1
        native_code().signal(self.address)


class WorkerArenas:
    """The arenas of programs that several devices run: each call takes that of its worker."""

    @property
    def recycled(self) -> Recycled:
        """The pages of results of this thread's device."""
        return _own_queue().recycled

    def take(self, nbytes: int) -> Arena:
        """Return the arena of this thread's device; raises OutOfMemoryError."""
        return _own_queue().take(nbytes)

    def give(self, arena: Arena) -> None:
        """Take back an arena on the thread that took it."""
        _own_queue().give(arena)


WORKER_ARENAS: Final = WorkerArenas()
_here: Final = local()


def _own_queue() -> DeviceQueue:
    queue: DeviceQueue = _here.queue
    return queue


def is_worker() -> bool:
    """Whether this thread runs the calls of a device."""
    return hasattr(_here, "queue")


_run: Final[list[Callable[[DeviceQueue, int], None]]] = []
_queues: Final[dict[int, DeviceQueue]] = immortal({})


def run_jobs_with(run: Callable[[DeviceQueue, int], None]) -> None:
    """Have a function run the jobs that machine code does not; it finishes them in any case."""
    _run.append(run)


def queue_of(device: PluginDevice) -> DeviceQueue:
    """Return the queue of a device, which its handle knows from now on."""
    cell: Any = cell_of(device.address)
    with _making:
        if not cell.of:
            queue: DeviceQueue = immortal(DeviceQueue())
            _queues[queue.address] = queue
            queue.start(device.number)
            native_code().set_sweeper(queue.address)
            cell.memory, cell.of = device.memory.address, queue.address
    return _queues[cell.of]


_making: Final = Lock()


def queue_at(address: int) -> DeviceQueue:
    """Return the queue whose block is at an address."""
    return _queues[address]


def all_queues() -> list[DeviceQueue]:
    """Return the queues of all devices that were used so far."""
    return list(_queues.values())
