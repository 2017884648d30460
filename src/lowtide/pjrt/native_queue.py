"""Machine code for dispatch: a call runs at once where that is short, else on a worker in order.

Execute makes the buffers of the results and returns. Threads push jobs on a list without a lock;
the worker of the device takes them all and turns their order round. Those that need no Python it
runs by itself.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    I32,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Address,
    NativeRecord,
    address_of,
    at,
    external,
    futex_wait,
    native,
    offset,
    the,
)
from lowtide.pjrt.blocks import Launch, PluginErrorBlock, Queue, QueuedCall, RunFrame
from lowtide.pjrt.native_answers import release_python, take_python
from lowtide.pjrt.native_calls import ExecuteCall, announce, claim
from lowtide.pjrt.native_events import happen_unseen, sleep_at, wait_for
from lowtide.pjrt.native_idle import settle, signal, use_extent
from lowtide.pjrt.native_jobs import finish, fits, give_frame, run_job, take_frame
from lowtide.pjrt.native_python import EXECUTE, python_of, run_nested, state

MOST_JOBS: Final = 32
"""How many calls of a device may wait before the next one waits to be accepted."""

INLINE_NANOSECONDS: Final = 5_000_000
"""Work that is expected to take less runs on the thread that calls: to hand it to a worker and to
wake who waits for it takes 50 to 100 us, which may be more than 3% of it. What takes longer than
expected goes on where it is, and the call returns once it is done."""

FREE_JOBS: Final = 2
"""How many may wait however many bytes they need: one runs, and the next one is there."""

INTERRUPTED_CALL: Final = 4
"""What the system says of a wait that a signal ended."""

SWEEP: Final = 1
"""What `next_job` returns where Python is to let go of things."""

BY_PYTHON: Final = 0
"""The size that a call of Python's gives its arguments: machine code does not ask back for it."""

REFUSED: Final = -1
"""What `arena_run` returns where it did not run."""

TIME_AT: Final = offset(Queue, "seconds")
"""Where a queue has how long memory waits."""


class ErrorNumber(NativeRecord):
    """Where the C library notes why a call of the system failed."""

    value: I32


@external
def __errno_location() -> ErrorNumber:
    """Return where the number of the last error is."""
    raise NotImplementedError


@external
def pthread_self() -> int:
    """Return the number of the thread."""
    raise NotImplementedError


# -- the side of those who call ------------------------------------------------------------------


@native
def enqueue(queue: Queue, job: QueuedCall) -> None:
    """Have a job wait for its turn."""
    job.is_queued = 1
    queue.bytes.add(job.launch.nbytes, SEQ_CST)
    queue.jobs.add(1, SEQ_CST)
    while True:
        first = queue.pushed.load(RELAXED)
        job.next = first
        if queue.pushed.compare_exchange(first, job, SEQ_CST) is first:
            break
    signal(queue)


@native
def back_pressure(queue: Queue) -> None:
    """Wait while too many calls or bytes are in flight.

    It ends also with a signal to this thread, so that Python can see to it.
    """
    while True:
        seen = queue.finished.load(SEQ_CST)
        jobs, nbytes = queue.jobs.load(SEQ_CST), queue.bytes.load(SEQ_CST)
        if jobs <= MOST_JOBS and (nbytes <= queue.most_bytes or jobs <= FREE_JOBS):
            return
        errno = __errno_location()
        errno.value = 0
        queue.waiting.add(1, SEQ_CST)
        saved = release_python()
        sleep_at(queue.finished, seen)
        found = errno.value
        take_python(saved)
        queue.waiting.add(-1, SEQ_CST)
        if found == INTERRUPTED_CALL:
            return


@native
def execute(a: ExecuteCall) -> Address:
    """Serve LoadedExecutable_Execute.

    Python is asked where the call is wrong in some way, so that it can say how.
    """
    launch = launch_of(a)
    if launch is not None:
        place = launch.device if a.device is None else a.device
        if place.of:
            queue = at(Queue, place.of)
            job = claim(a, launch, place, queue)
            if job is not None:
                announce(a, job)
                start(queue, job)
                return 0
    return python_of(address_of(a), EXECUTE)


@native
def launch_of(a: ExecuteCall) -> Launch | None:
    """Return the launch of a call that machine code may see to."""
    if the(state).refusing.load(RELAXED) or not a.program.of:
        return None
    launch = at(Launch, a.program.of)
    if launch.elsewhere and a.size != BY_PYTHON:
        return None
    return launch if launch.argument_count == a.argument_count else None


@native
def start(queue: Queue, job: QueuedCall) -> None:
    """Run a job at once, or have it wait; the worker itself must not wait for itself."""
    launch = job.launch
    if not job.waits and launch.expected.load(RELAXED) < INLINE_NANOSECONDS:
        if launch.is_native:
            if fits(job) and run_here(queue, job):
                return
        elif not queue.jobs.load(RELAXED):
            run_nested(queue, job)
            return
    if pthread_self() == queue.worker:
        run_nested(queue, job)
        return
    enqueue(queue, job)
    back_pressure(queue)


# -- runs ----------------------------------------------------------------------------------------


@native
def run_here(queue: Queue, job: QueuedCall) -> bool:
    """Run a job in a frame of the program's, else in the arena of the queue.

    It returns False where there is room in neither.
    """
    launch = job.launch
    frame = take_frame(launch)
    if frame:
        status = run_job(job, at(RunFrame, frame))
        give_frame(launch, frame)
    else:
        status = arena_run(queue, job)
        if status == REFUSED:
            return False
    close(job, status)
    return True


@native
def arena_run(queue: Queue, job: QueuedCall) -> int:
    """Run a job in the arena of the queue; return what `run_job` does.

    It is REFUSED where the arena is too small or where a run has arena or frame, which this one is
    nested in.
    """
    launch = job.launch
    if queue.arena_bytes < launch.arena_bytes:
        return REFUSED
    arena = queue.arena.exchange(0, ACQUIRE)
    if not arena:
        return REFUSED
    status = REFUSED
    frame = launch.bare.exchange(0, ACQUIRE)
    if frame:
        bases = at(RunFrame, frame).bases
        for number in range(launch.place_count):
            place = launch.places[number]
            bases[place.base] = arena + place.offset
        use_extent(queue, arena, launch.arena_bytes)
        status = run_job(job, at(RunFrame, frame))
        queue.hollow.store(launch.moved, RELAXED)
        launch.bare.store(frame, RELEASE)
    queue.arena.store(arena, RELEASE)
    return status


@native
def close(job: QueuedCall, status: int) -> None:
    """End a run: where there was no memory for the results Python says so, on the worker."""
    if not status:
        if not job.is_queued:  # The caller has no result yet: nobody else knows of the event.
            happen_unseen(job.event)
        finish(job, None)
        return
    job.is_full = 1
    if job.is_queued:
        again(job.queue, job)
    else:
        enqueue(job.queue, job)


# -- the side of the worker ----------------------------------------------------------------------


@native
def again(queue: Queue, job: QueuedCall) -> None:
    """Have a job be the next one of the worker."""
    job.next = queue.first
    queue.first = job


@native
def turned(newest: QueuedCall | None) -> QueuedCall | None:
    """Return a list of jobs in the other order."""
    done: QueuedCall | None = None
    left = newest
    while left is not None:
        rest = left.next
        left.next = done
        done = left
        left = rest
    return done


@native
def failed(job: QueuedCall) -> PluginErrorBlock | None:
    """Return a copy of the error of an argument, if one has any; wait for all before it."""
    for number in range(job.argument_count):
        event = job.events[number]
        if event is not None:
            error = wait_for(event)
            if error is not None:
                return error
    return None


@native
def next_job(queue: Queue, patient: int) -> Address:
    """Return the next job that needs Python, or SWEEP.

    What needs no Python is run meanwhile. Where there is nothing to do it sleeps, or returns 0
    where that is not `patient`; so it does at the end.
    """
    while True:
        seen = queue.signal.load(SEQ_CST)
        if queue.sweep.exchange(0, SEQ_CST):
            return SWEEP
        job = next_of(queue)
        if job is not None:
            if not done_here(queue, job):
                return address_of(job)
        elif queue.ended.load(RELAXED) or not patient:
            return 0
        else:
            queue.asleep.store(1, SEQ_CST)
            rest(queue, seen)
            queue.asleep.store(0, SEQ_CST)


@native
def next_of(queue: Queue) -> QueuedCall | None:
    """Take the job that came first, if there is one."""
    if queue.first is None:
        queue.first = turned(queue.pushed.exchange(None, SEQ_CST))
    job = queue.first
    if job is not None:
        queue.first = job.next
    return job


@native
def done_here(queue: Queue, job: QueuedCall) -> bool:
    """Run a job that needs no Python, or fail it where an argument did.

    Of a program that several devices run, Python waits for the arguments too.
    """
    launch = job.launch
    if launch.is_shared:
        return False
    error = failed(job)
    if error is not None:
        finish(job, error)
        return True
    if job.is_full or not launch.is_native or not fits(job):
        return False
    return run_here(queue, job)


@native
def rest(queue: Queue, seen: int) -> None:
    """Sleep as the worker until `signal` is another one.

    Where memory waits it ends with the time of the queue, and what waits goes to the system if no
    call came meanwhile.
    """
    queue.watched.store(0, SEQ_CST)
    idle, extent = queue.idle.load(SEQ_CST), queue.extent.load(SEQ_CST)
    unsettled, before = queue.unsettled.load(SEQ_CST), queue.count.load(SEQ_CST)
    if not idle | extent | unsettled:
        sleep_at(queue.signal, seen)
        return
    queue.watched.store(1, SEQ_CST)
    futex_wait(queue.signal, seen, address_of(queue) + TIME_AT)
    if queue.signal.load(SEQ_CST) == seen and queue.count.load(SEQ_CST) == before:
        settle(queue)


@native
def take_arena(queue: Queue) -> Address:
    """Return the arena, or 0 where a run has it."""
    return queue.arena.exchange(0, ACQUIRE)
