"""Machine code for the side of those who call: jobs of arguments, and results to come."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function
from lowtide.pjrt.blocks import Launch, QueuedCall, ResultRecord
from lowtide.pjrt.native_jobs import record, set_item
from lowtide.pjrt.native_objects import FREE, RETAIN, argument, get, go_unless, place, put

_NEW_EVENT: Final = external("new_event", "ptr")


def new_results_function(new_storage: Function, new_cell: Function) -> Function:
    """Write `void new_results(ptr job, ptr to)`: the buffers of results to come."""
    f = Function("new_results", parameters(job="ptr", to="ptr"), linkage="internal")
    event = f.call(_NEW_EVENT, [])
    put(f, QueuedCall, "%job", "event", event, "ptr")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    made, outputs = (
        get(f, Launch, launch, "results", "ptr"),
        get(f, QueuedCall, "%job", "outputs", "ptr"),
    )
    queue, device = (get(f, QueuedCall, "%job", x, "ptr") for x in ("queue", "device"))
    with f.loop(0, get(f, QueuedCall, "%job", "result_count")) as each:
        spec = record(f, ResultRecord, made, each.index)
        nbytes = get(f, ResultRecord, spec, "nbytes")
        storage = f.call(new_storage, [queue, "null", nbytes, 0])
        f.call(RETAIN, [storage])
        f.call(RETAIN, [event])
        set_item(f, outputs, each.index, storage)
        kind = place(f, ResultRecord, spec, "dimensions")
        cell = f.call(new_cell, [device, kind, nbytes, storage, event])
        set_item(f, "%to", each.index, cell)
    return f


def claim_function(parts: dict[str, Function]) -> Function:
    """Write `ptr claim(ptr a, ptr launch, ptr device, ptr queue)`: the job of a call's arguments.

    `a` is what Execute is given, for one device. The job has what was donated; it is null where an
    argument was deleted, or donated and given twice.
    """
    f = Function("claim", parameters(a="ptr", launch="ptr", device="ptr", queue="ptr"), "ptr")
    given = _list_at(f, 32, get(f, Launch, "%launch", "argument_count"))
    job = f.call(parts["new_job"], ["%launch", "%device", "%queue", given])
    go_unless(f, f.op(f"icmp ne ptr {job}, null"), "none")
    with f.when(f.compare("ne", get(f, Launch, "%launch", "donated_count"), 0)):
        taken = f.call(parts["donate"], [job, argument(f, 24), given])
        go_unless(f, taken, "refused")
    f.do(f"ret ptr {job}")
    f.label("refused")
    f.call(parts["discard"], [job])
    f.do("br label %none")
    f.label("none")
    f.ret("ptr", "null")
    return f


def discard_function(drop_inputs: Function, release_block: Function) -> Function:
    """Write `void discard(ptr job)`, of one that has no results yet."""
    f = Function("discard", parameters(job="ptr"))
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    f.call(drop_inputs, ["%job"])
    f.call(release_block, [launch])
    f.call(FREE, ["%job"])
    return f


def announce_function(new_results: Function) -> Function:
    """Write `void announce(ptr a, ptr job)`: the results to come, and the event if it is wanted.

    `a` is what Execute is given, for one device.
    """
    f = Function("announce", parameters(a="ptr", job="ptr"))
    to = _list_at(f, 56, get(f, QueuedCall, "%job", "result_count"))
    f.call(new_results, ["%job", to])
    event, completes = get(f, QueuedCall, "%job", "event", "ptr"), argument(f, 64)
    with f.when(f.op(f"icmp ne ptr {completes}, null")):
        f.call(RETAIN, [event])
        f.store("ptr", event, completes, 8)
    return f


def _list_at(f: Function, at: int, count: str) -> str:
    """The list for the one device, or null, as the list of lists may be, where nothing is in it."""
    some = f.compare("ne", count, 0)
    given = argument(f, at)
    return f.choose(some, ["ptr"], lambda: [f.load("ptr", given, 8)], lambda: ["null"])[0]
