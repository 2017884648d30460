"""Machine code for calls: a job is made of a call's arguments, run without Python, and finished.

A job has its own references to the storages of arguments and results, so that buffers may be
deleted and destroyed at any time. An argument that was donated is no longer its buffer's; it is
overwritten only where the job has the last reference to its memory.
"""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQUIRE,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Address,
    NativeItems,
    NativeRecord,
    allocate,
    array_at,
    behind,
    copy_bytes,
    free,
    inline,
    native,
    new,
    offset,
)
from lowtide.pjrt.blocks import (
    CONSUME,
    FRAMES,
    MOVE,
    WORD,
    BufferStorage,
    HandleCell,
    Launch,
    PluginErrorBlock,
    PluginEvent,
    Queue,
    QueuedCall,
    ResultRecord,
    RunFrame,
)
from lowtide.pjrt.native_events import EVERYBODY, complete, has_happened, release, retain, wake
from lowtide.pjrt.native_homes import refill, settle_in, take_over
from lowtide.pjrt.native_idle import account, forget_code
from lowtide.pjrt.native_objects import (
    ALIVE,
    DELETED,
    begin_storage,
    lock,
    new_storage,
    release_block,
    storage_of,
    unlock,
)
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.signals import monotonic_time

LINE: Final = 64
"""What the address of a result is a multiple of."""

NEAR_BYTES: Final = 4096
"""Bytes of arrays that lie behind the record of their storage."""


class ExecuteOptions(NativeRecord):
    """The options of a call: among them the numbers of arguments that are not donated."""

    before: NativeItems[int] = inline(7)
    kept: NativeItems[int]
    kept_count: int


KEPT: Final = offset(ExecuteOptions, "kept")


# -- making --------------------------------------------------------------------------------------


@native
def new_job(
    launch: Launch, device: HandleCell, queue: Queue, arguments: NativeItems[HandleCell]
) -> QueuedCall | None:
    """Return a job with references to its arguments; None where one of them was deleted."""
    count, results = launch.argument_count, launch.result_count
    job = new(QueuedCall, (3 * count + results) * WORD)
    lists = behind(job)
    job.inputs = array_at(BufferStorage, lists)
    job.events = array_at(PluginEvent, lists + count * WORD)
    job.taken = array_at(int, lists + 2 * count * WORD)
    job.outputs = array_at(BufferStorage, lists + 3 * count * WORD)
    job.launch, job.device, job.queue = launch, device, queue
    job.result_count, job.waits, job.is_queued, job.is_full = results, 0, 0, 0
    for number in range(count):
        job.argument_count = number
        cell = arguments[number]
        if not lock(cell):
            drop_inputs(job)
            free(job)
            return None
        storage, event = storage_of(cell), cell.event
        retain(storage)
        unlock(cell, ALIVE)
        assert event is not None
        job.inputs[number], job.taken[number] = storage, 0
        if has_happened(event) and event.error is None:
            job.events[number] = None
        else:
            job.events[number] = event
            retain(event)
            job.waits += 1
    job.argument_count = count
    retain(launch)
    return job


@native
def drop_inputs(job: QueuedCall) -> None:
    """Give back what a job has of its arguments."""
    for number in range(job.argument_count):
        release_block(job.inputs[number])
        event = job.events[number]
        if event is not None:
            release(event)


@native
def donate(
    job: QueuedCall, options: ExecuteOptions | None, arguments: NativeItems[HandleCell]
) -> bool:
    """Take donated arguments; take none and return False where one of them is given twice."""
    mark_donated(job, options)
    launch, is_good = job.launch, True
    for i in range(launch.donated_count):
        number = launch.donated[i]
        if job.taken[number]:
            cell = arguments[number]
            if lock(cell):
                unlock(cell, DELETED)
                release_block(job.inputs[number])
            else:
                job.taken[number] = 0
                is_good = False
    for number in range(job.argument_count):
        if not job.taken[number] and arguments[number].is_deleted.load(ACQUIRE) == DELETED:
            is_good = False
    if is_good:
        return True
    for number in range(job.argument_count):
        if job.taken[number]:
            retain(job.inputs[number])
            unlock(arguments[number], ALIVE)
    return False


@native
def mark_donated(job: QueuedCall, options: ExecuteOptions | None) -> None:
    """Note which arguments are donated: those of the program that the call does not keep."""
    launch = job.launch
    for i in range(launch.donated_count):
        job.taken[launch.donated[i]] = 1
    if options is not None:
        for i in range(options.kept_count):
            number = options.kept[i]
            if 0 <= number < job.argument_count:
                job.taken[number] = 0


# -- frames --------------------------------------------------------------------------------------


@native
def take_frame(launch: Launch) -> Address:
    """Return a frame with an arena of its own, or 0."""
    for number in range(FRAMES):
        found = launch.frames[number].exchange(0, ACQUIRE)
        if found:
            return found
    return 0


@native
def give_frame(launch: Launch, frame: Address) -> None:
    """Give a frame back: there is room for each that was taken."""
    while True:
        for number in range(FRAMES):
            if not launch.frames[number].compare_exchange(0, frame, RELEASE):
                return


# -- running -------------------------------------------------------------------------------------


@native
def fits(job: QueuedCall) -> bool:
    """Return whether machine code takes the arguments as they lie."""
    for number in range(job.argument_count):
        wanted, storage = job.launch.arguments[number], job.inputs[number]
        if storage.nbytes != wanted.nbytes or storage.is_odd | storage.data & wanted.odd_bits:
            return False
    return True


@native
def coming_storage(queue: Queue, nbytes: int) -> BufferStorage:
    """Return a storage with one reference, whose memory comes by `room`.

    That of small arrays lies behind it: one block is allocated and freed in place of two.
    """
    if nbytes > NEAR_BYTES:
        return new_storage(queue, 0, nbytes, 0)
    found = new(BufferStorage, nbytes + LINE)
    begin_storage(found, queue, nbytes)
    found.near = lined(behind(found))
    return found


@native
def lined(block: Address) -> Address:
    """Return the first address from one on where a line begins."""
    return block + (-block & (LINE - 1))


@native
def room(storage: BufferStorage) -> Address:
    """Return memory for a storage, which it has from then on, or 0 where there is none."""
    data = storage.near
    if not data:
        block = allocate(storage.nbytes + LINE)
        if not block:
            return 0
        storage.block = block
        data = lined(block)
    storage.data = data
    account(storage.queue, storage.nbytes)
    return data


@native
def steal(job: QueuedCall, number: int, storage: BufferStorage) -> Address:
    """Return the memory of a donated argument.

    It is 0 where the argument was not donated, or where somebody else has its memory.
    """
    if not job.taken[number]:
        return 0
    source = job.inputs[number]
    root = source if source.parent is None else source.parent
    if source.refs.load(ACQUIRE) != 1 or root.refs.load(ACQUIRE) != 1:
        return 0
    retain(root)
    storage.parent = root
    storage.data = source.data
    return source.data


@native
def run_job(job: QueuedCall, frame: RunFrame) -> int:
    """Run a job; return 0, or 1 where there is no memory for the results.

    The lock of Python is not held, and is not taken.
    """
    launch, queue, bases = job.launch, job.queue, frame.bases
    forget_code(queue, launch.nbytes)  # Results and temporaries come into use one by one.
    for number in range(job.argument_count):
        bases[launch.arguments[number].base] = job.inputs[number].data
    for number in range(job.result_count):
        if not begin_result(job, number, bases):
            return 1
    if queue.idle.load(RELAXED):
        for number in range(job.result_count):
            result = launch.results[number]
            if result.fill == MOVE:
                refill(queue, result, source_of(result, bases))
    if launch.arena_bytes:
        account(queue, launch.arena_bytes)
    begin = monotonic_time() if launch.is_timed else 0
    launch.run(frame.table, bases, frame.control)
    if launch.is_timed:
        launch.expected.store(monotonic_time() - begin, RELAXED)
    if launch.arena_bytes:
        account(queue, -launch.arena_bytes)
    for number in range(job.result_count):
        result, storage = launch.results[number], job.outputs[number]
        if result.fill == Fill.COPY:
            copy_bytes(storage.data, source_of(result, bases), result.nbytes)
        elif result.fill == MOVE and not take_over(result, storage, source_of(result, bases)):
            return 1
    return 0


@native
def source_of(result: ResultRecord, bases: NativeItems[Address]) -> Address:
    """Return where a result lies once the program has run."""
    return bases[result.base] + result.offset


@native
def begin_result(job: QueuedCall, number: int, bases: NativeItems[Address]) -> bool:
    """Give a result its memory, and have the program write there where it is to."""
    result, storage = job.launch.results[number], job.outputs[number]
    fill = result.fill
    if fill == MOVE or (fill == CONSUME and steal(job, result.argument, storage)):
        return True
    data = settle_in(result, storage) if result.pages else room(storage)
    if not data:
        return False
    if fill == CONSUME or fill == Fill.RENEW:
        copy_bytes(data, bases[result.base], result.nbytes)
        bases[result.base] = data
    elif fill == Fill.PLACE:
        bases[result.base] = data
    return True


# -- the end -------------------------------------------------------------------------------------


@native
def finish(job: QueuedCall, error: PluginErrorBlock | None) -> None:
    """End a job: all references go, then its event happens.

    At the end of the process nothing does: those who wait may be gone.
    """
    queue, launch, event = job.queue, job.launch, job.event
    if queue.ended.load(RELAXED):
        return
    drop_inputs(job)
    for number in range(job.result_count):
        release_block(job.outputs[number])
    is_queued, nbytes = job.is_queued, launch.nbytes
    if not has_happened(event):
        complete(event, error)
    release(event)
    release_block(launch)
    free(job)
    if is_queued:
        queue.bytes.add(-nbytes, SEQ_CST)
        queue.jobs.add(-1, SEQ_CST)
        queue.finished.add(1, SEQ_CST)
        if queue.waiting.load(SEQ_CST):
            wake(queue.finished, EVERYBODY)
