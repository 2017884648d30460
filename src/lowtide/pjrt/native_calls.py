"""Machine code for the side of those who call: jobs of arguments, and results to come."""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    RELAXED,
    Address,
    NativeItems,
    NativeRecord,
    address_of,
    array_at,
    at,
    free,
    native,
    offset,
)
from lowtide.pjrt.blocks import (
    BufferKind,
    HandleCell,
    Launch,
    PluginEvent,
    Queue,
    QueuedCall,
    ResultRecord,
)
from lowtide.pjrt.native_events import new_event
from lowtide.pjrt.native_jobs import ExecuteOptions, coming_storage, donate, drop_inputs, new_job
from lowtide.pjrt.native_objects import new_cell, release_block

KIND_AT: Final = offset(ResultRecord, "dimensions")
"""Where the record of a result has its type."""


class ExecuteCall(NativeRecord):
    """What Execute is given; of the lists each device has its own."""

    size: int
    extension: Address
    program: HandleCell
    options: ExecuteOptions | None
    argument_lists: NativeItems[NativeItems[HandleCell]]
    device_count: int
    argument_count: int
    output_lists: NativeItems[NativeItems[HandleCell]]
    complete_events: NativeItems[PluginEvent] | None
    device: HandleCell | None


@native
def list_of(lists: NativeItems[NativeItems[HandleCell]], count: int) -> NativeItems[HandleCell]:
    """Return the list of the one device; the list of lists may be null where nothing is in it."""
    return lists[0] if count else array_at(HandleCell, 0)


@native
def new_results(job: QueuedCall, to: NativeItems[HandleCell]) -> None:
    """Make the buffers of results to come: the job has one reference to a storage, they another."""
    event, launch = job.event, job.launch
    for number in range(job.result_count):
        result = launch.results[number]
        storage = coming_storage(job.queue, result.nbytes)
        storage.refs.store(2, RELAXED)
        job.outputs[number] = storage
        kind = at(BufferKind, address_of(result) + KIND_AT)
        to[number] = new_cell(job.device, kind, result.nbytes, storage, event)


@native
def claim(a: ExecuteCall, launch: Launch, device: HandleCell, queue: Queue) -> QueuedCall | None:
    """Return the job of the arguments of a call on one device, which has what was donated.

    It is None where an argument was deleted, or donated and given twice.
    """
    given = list_of(a.argument_lists, launch.argument_count)
    job = new_job(launch, device, queue, given)
    if job is None or not launch.donated_count or donate(job, a.options, given):
        return job
    discard(job)
    return None


@native
def discard(job: QueuedCall) -> None:
    """Free a job that has no results yet."""
    launch = job.launch
    drop_inputs(job)
    release_block(launch)
    free(job)


@native
def announce(a: ExecuteCall, job: QueuedCall) -> None:
    """Give out the results to come of a call on one device, and the event if it is wanted."""
    event = new_event()
    owners = 1 + job.result_count
    if a.complete_events is not None:
        a.complete_events[0] = event
        owners += 1
    event.refs.store(owners, RELAXED)
    job.event = event
    new_results(job, list_of(a.output_lists, job.result_count))
