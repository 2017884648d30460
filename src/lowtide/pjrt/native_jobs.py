"""Machine code for calls: a job is made of a call's arguments, run without Python, and finished.

A job has its own references to the storages of arguments and results, so that buffers may be
deleted and destroyed at any time. An argument that was donated is no longer its buffer's; it is
overwritten only where the job has the last reference to its memory.
"""

from __future__ import annotations

import ctypes
from typing import Final

from lowtide.llvm.callee import COPY, external, parameters, pointed
from lowtide.llvm.function import Function, Integer
from lowtide.pjrt.blocks import (
    CONSUME,
    FRAMES,
    MOVE,
    WORD,
    ArgumentRecord,
    BufferStorage,
    HandleCell,
    Launch,
    Queue,
    QueuedCall,
    ResultRecord,
)
from lowtide.pjrt.native_objects import (
    FREE,
    MALLOC,
    RELEASE_EVENT,
    RETAIN,
    add,
    get,
    place,
    put,
    return_any,
    unlock,
)
from lowtide.runtime.cpu.entry import Fill

LINE: Final = 64
"""What the address of a result is a multiple of."""

_HAS_HAPPENED: Final = external("has_happened", "i1", "ptr")
_COMPLETE: Final = external("complete", "void", "ptr", "ptr")
_EVENT_ERROR: Final = 16


def item(f: Function, list_: str, number: Integer, type_: str = "ptr") -> str:
    """Load a word of a list."""
    return f.load(type_, f.gep(list_, number, "i64"), 8)


def set_item(f: Function, list_: str, number: Integer, value: Integer, type_: str = "ptr") -> None:
    """Store a word of a list."""
    f.store(type_, value, f.gep(list_, number, "i64"), 8)


def record(f: Function, block: type[ctypes.Structure], list_: str, number: Integer) -> str:
    """Return the address of a record of a list."""
    return f.gep(list_, f.mul(number, ctypes.sizeof(block) // WORD), "i64")


def happened_well(f: Function, event: str) -> str:
    """Return whether an event has happened, and without an error."""
    done = f.call(_HAS_HAPPENED, [event])
    error = f.load("ptr", f.gep(event, _EVENT_ERROR), 8)
    return f.op(f"and i1 {done}, {f.op(f'icmp eq ptr {error}, null')}")


# -- making --------------------------------------------------------------------------------------


def new_job_function(lock: Function, drop_inputs: Function) -> Function:
    """Write `ptr new_job(ptr launch, ptr device, ptr queue, ptr arguments)`.

    It is null where an argument was deleted.
    """
    given = parameters(launch="ptr", device="ptr", queue="ptr", arguments="ptr")
    f = Function("new_job", given, "ptr", linkage="internal")
    count = get(f, Launch, "%launch", "argument_count")
    results = get(f, Launch, "%launch", "result_count")
    words = f.add(f.mul(count, 3), results)
    job = f.call(MALLOC, [f.add(f.mul(words, WORD), ctypes.sizeof(QueuedCall))])
    lists = f.gep(job, ctypes.sizeof(QueuedCall))
    inputs, events = lists, f.gep(lists, count, "i64")
    taken = f.gep(events, count, "i64")
    outputs = f.gep(taken, count, "i64")
    for name, pointer in (
        ("next", "null"),
        ("launch", "%launch"),
        ("device", "%device"),
        ("event", "null"),
        ("queue", "%queue"),
        ("inputs", inputs),
        ("events", events),
        ("taken", taken),
        ("outputs", outputs),
    ):
        put(f, QueuedCall, job, name, pointer, "ptr")
    put(f, QueuedCall, job, "result_count", results)
    put(f, QueuedCall, job, "is_queued", 0)
    put(f, QueuedCall, job, "is_full", 0)
    waits = f.stack("i64", 1, 8)
    f.store("i64", 0, waits, 8)
    with f.loop(0, count) as each:
        put(f, QueuedCall, job, "argument_count", each.index)
        cell = item(f, "%arguments", each.index)
        good = f.fresh_label("good")
        f.do(f"br i1 {f.call(lock, [cell])}, label %{good}, label %deleted")
        f.label(good)
        storage = get(f, HandleCell, cell, "of", "ptr")
        f.call(RETAIN, [storage])
        unlock(f, cell)
        set_item(f, inputs, each.index, storage)
        set_item(f, taken, each.index, 0, "i64")
        event = get(f, HandleCell, cell, "event", "ptr")
        is_done = happened_well(f, event)
        set_item(f, events, each.index, f.select(is_done, "ptr", "null", event))
        with f.when(f.op(f"xor i1 {is_done}, true")):
            f.call(RETAIN, [event])
            f.store("i64", f.add(f.load("i64", waits, 8), 1), waits, 8)
    put(f, QueuedCall, job, "argument_count", count)
    put(f, QueuedCall, job, "waits", f.load("i64", waits, 8))
    f.call(RETAIN, ["%launch"])
    f.do(f"ret ptr {job}")
    f.label("deleted")
    f.call(drop_inputs, [job])
    f.call(FREE, [job])
    f.ret("ptr", "null")
    return f


def drop_inputs_function(release_block: Function) -> Function:
    """Write `void drop_inputs(ptr job)`, which gives back what a job has of its arguments."""
    f = Function("drop_inputs", parameters(job="ptr"), linkage="internal")
    inputs, events = (get(f, QueuedCall, "%job", x, "ptr") for x in ("inputs", "events"))
    with f.loop(0, get(f, QueuedCall, "%job", "argument_count")) as each:
        f.call(release_block, [item(f, inputs, each.index)])
        event = item(f, events, each.index)
        with f.when(f.op(f"icmp ne ptr {event}, null")):
            f.call(RELEASE_EVENT, [event])
    return f


def donate_function(lock: Function, release_block: Function) -> Function:
    """Write `i1 donate(ptr job, ptr options, ptr arguments)`, which takes donated arguments.

    It takes none and returns false where one of them is given twice.
    """
    given = parameters(job="ptr", options="ptr", arguments="ptr")
    f = Function("donate", given, "i1", linkage="internal")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    count = get(f, QueuedCall, "%job", "argument_count")
    inputs, taken = (get(f, QueuedCall, "%job", x, "ptr") for x in ("inputs", "taken"))
    donated, bad = get(f, Launch, launch, "donated", "ptr"), f.stack("i64", 1, 8)
    f.store("i64", 0, bad, 8)
    many = get(f, Launch, launch, "donated_count")
    with f.loop(0, many) as each:
        set_item(f, taken, item(f, donated, each.index, "i64"), 1, "i64")
    with f.when(f.op("icmp ne ptr %options, null")):
        kept = f.load("ptr", f.gep("%options", KEPT), 8)
        with f.loop(0, f.load("i64", f.gep("%options", KEPT + WORD), 8)) as each:
            number = item(f, kept, each.index, "i64")
            with f.when(f.compare("ult", number, count)):
                set_item(f, taken, number, 0, "i64")
    with f.loop(0, many) as each:
        number = item(f, donated, each.index, "i64")
        with f.when(f.compare("ne", item(f, taken, number, "i64"), 0)):
            cell = item(f, "%arguments", number)
            alive = f.call(lock, [cell])
            with f.when(alive):
                unlock(f, cell, 1)
                f.call(release_block, [item(f, inputs, number)])
            with f.when(f.op(f"xor i1 {alive}, true")):
                set_item(f, taken, number, 0, "i64")
                f.store("i64", 1, bad, 8)
    with f.loop(0, count) as each:
        own = f.compare("eq", item(f, taken, each.index, "i64"), 0)
        cell = item(f, "%arguments", each.index)
        word = place(f, HandleCell, cell, "is_deleted")
        state = f.op(f"load atomic i64, ptr {word} acquire, align 8")
        with f.when(f.op(f"and i1 {own}, {f.compare('eq', state, 1)}")):
            f.store("i64", 1, bad, 8)
    good = f.compare("eq", f.load("i64", bad, 8), 0)
    with f.when(f.op(f"xor i1 {good}, true")), f.loop(0, count) as each:
        is_taken = f.compare("ne", item(f, taken, each.index, "i64"), 0)
        with f.when(is_taken):
            f.call(RETAIN, [item(f, inputs, each.index)])
            unlock(f, item(f, "%arguments", each.index))
    f.ret("i1", good)
    return f


KEPT: Final = 56
"""Where the options of a call have the numbers of arguments that are not donated, then how many."""


# -- frames --------------------------------------------------------------------------------------


def take_frame_function() -> Function:
    """Write `ptr take_frame(ptr launch)`: a frame with an arena of its own, or null."""
    f = Function("take_frame", parameters(launch="ptr"), "ptr", linkage="internal")
    first = place(f, Launch, "%launch", "frame0")
    return_any(f, first, FRAMES)
    return f


def give_frame_function() -> Function:
    """Write `void give_frame(ptr launch, ptr frame)`: there is room for each that was taken."""
    f = Function("give_frame", parameters(launch="ptr", frame="ptr"), linkage="internal")
    first = place(f, Launch, "%launch", "frame0")
    f.do("br label %again")
    f.label("again")
    with f.loop(0, FRAMES) as each:
        slot = f.gep(first, each.index, "i64")
        pair = f.op(f"cmpxchg ptr {slot}, ptr null, ptr %frame release monotonic")
        done = f.op(f"extractvalue {{ ptr, i1 }} {pair}, 1")
        with f.when(done):
            f.do("ret void")
            f.label(f.fresh_label("never"))
    f.do("br label %again")
    return f


# -- running -------------------------------------------------------------------------------------


def fits_function() -> Function:
    """Write `i1 fits(ptr job)`: whether machine code takes the arguments as they lie."""
    f = Function("fits", parameters(job="ptr"), "i1", linkage="internal")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    wanted = get(f, Launch, launch, "arguments", "ptr")
    inputs = get(f, QueuedCall, "%job", "inputs", "ptr")
    with f.loop(0, get(f, QueuedCall, "%job", "argument_count")) as each:
        spec, storage = record(f, ArgumentRecord, wanted, each.index), item(f, inputs, each.index)
        same = f.compare(
            "eq", get(f, BufferStorage, storage, "nbytes"), get(f, ArgumentRecord, spec, "nbytes")
        )
        bits = get(f, ArgumentRecord, spec, "odd_bits")
        odd = f.op(f"and i64 {get(f, BufferStorage, storage, 'data')}, {bits}")
        odd = f.op(f"or i64 {odd}, {get(f, BufferStorage, storage, 'is_odd')}")
        good = f.op(f"and i1 {same}, {f.compare('eq', odd, 0)}")
        fine = f.fresh_label("fine")
        f.do(f"br i1 {good}, label %{fine}, label %odd")
        f.label(fine)
    f.do("ret i1 true")
    f.label("odd")
    f.ret("i1", "false")
    return f


def room_function(account: Function) -> Function:
    """Write `ptr room(ptr storage)`: memory for a storage, or null where there is none."""
    f = Function("room", parameters(storage="ptr"), "ptr", linkage="internal")
    nbytes = get(f, BufferStorage, "%storage", "nbytes")
    block = f.call(MALLOC, [f.add(nbytes, LINE)])
    with f.when(f.op(f"icmp ne ptr {block}, null")):
        begin = f.op(f"ptrtoint ptr {block} to i64")
        odd = f.op(f"and i64 {f.sub(0, begin)}, {LINE - 1}")
        data = f.gep(block, odd)
        put(f, BufferStorage, "%storage", "block", block, "ptr")
        put(f, BufferStorage, "%storage", "data", data, "ptr")
        f.call(account, [get(f, BufferStorage, "%storage", "queue", "ptr"), nbytes])
        f.do(f"ret ptr {data}")
        f.label(f.fresh_label("never"))
    f.ret("ptr", "null")
    return f


def steal_function() -> Function:
    """Write `ptr steal(ptr job, i64 number, ptr storage)`: the memory of a donated argument.

    It is null where the argument was not donated, or where somebody else has its memory.
    """
    given = parameters(job="ptr", number="i64", storage="ptr")
    f = Function("steal", given, "ptr", linkage="internal")
    taken = item(f, get(f, QueuedCall, "%job", "taken", "ptr"), "%number", "i64")
    _refuse_unless(f, f.compare("ne", taken, 0))
    source = item(f, get(f, QueuedCall, "%job", "inputs", "ptr"), "%number")
    parent = get(f, BufferStorage, source, "parent", "ptr")
    has_parent = f.op(f"icmp ne ptr {parent}, null")
    root = f.select(has_parent, "ptr", parent, source)
    for block in (source, root):
        _refuse_unless(f, f.compare("eq", get(f, BufferStorage, block, "refs"), 1))
    f.call(RETAIN, [root])
    data = get(f, BufferStorage, source, "data", "ptr")
    put(f, BufferStorage, "%storage", "parent", root, "ptr")
    put(f, BufferStorage, "%storage", "data", data, "ptr")
    f.do(f"ret ptr {data}")
    f.label("refused")
    f.ret("ptr", "null")
    return f


def _refuse_unless(f: Function, condition: str) -> None:
    good = f.fresh_label("good")
    f.do(f"br i1 {condition}, label %{good}, label %refused")
    f.label(good)


def run_function(
    room: Function, steal: Function, account: Function, refill: Function, take_over: Function
) -> Function:
    """Write `i64 run_job(ptr job, ptr frame)`: 0, or 1 where there is no memory for the results.

    The lock of Python is not held, and is not taken.
    """
    f = Function("run_job", parameters(job="ptr", frame="ptr"), "i64", linkage="internal")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    table, bases, control = (item(f, "%frame", x) for x in range(3))
    inputs, outputs = (get(f, QueuedCall, "%job", x, "ptr") for x in ("inputs", "outputs"))
    wanted = get(f, Launch, launch, "arguments", "ptr")
    with f.loop(0, get(f, QueuedCall, "%job", "argument_count")) as each:
        spec = record(f, ArgumentRecord, wanted, each.index)
        data = get(f, BufferStorage, item(f, inputs, each.index), "data")
        set_item(f, bases, get(f, ArgumentRecord, spec, "base"), data, "i64")
    made, count = (
        get(f, Launch, launch, "results", "ptr"),
        get(f, QueuedCall, "%job", "result_count"),
    )
    with f.loop(0, count) as each:
        _begin_result(f, each.index, record(f, ResultRecord, made, each.index), bases, room, steal)
    queue = get(f, QueuedCall, "%job", "queue", "ptr")
    arena = get(f, Launch, launch, "arena_bytes")
    waits = f.op(f"load atomic i64, ptr {place(f, Queue, queue, 'idle')} monotonic, align 8")
    with f.when(f.compare("ne", waits, 0)), f.loop(0, count) as each:
        spec = record(f, ResultRecord, made, each.index)
        with f.when(f.compare("eq", get(f, ResultRecord, spec, "fill"), MOVE)):
            f.call(refill, [queue, spec, _source(f, spec, bases)])
    f.call(account, [queue, arena])
    run = pointed(get(f, Launch, launch, "run", "ptr"), "i64", "ptr", "ptr", "ptr")
    f.call(run, [table, bases, control])
    f.call(account, [queue, f.sub(0, arena)])
    with f.loop(0, count) as each:
        spec = record(f, ResultRecord, made, each.index)
        fill = get(f, ResultRecord, spec, "fill")
        source = _source(f, spec, bases)
        storage = item(f, outputs, each.index)
        with f.when(f.compare("eq", fill, Fill.COPY.value)):
            target = get(f, BufferStorage, storage, "data", "ptr")
            _copy(f, target, source, get(f, ResultRecord, spec, "nbytes"))
        with f.when(f.compare("eq", fill, MOVE)):
            moved = f.call(take_over, [spec, storage, source])
            good = f.fresh_label("good")
            f.do(f"br i1 {moved}, label %{good}, label %full")
            f.label(good)
    f.do("ret i64 0")
    f.label("full")
    f.ret("i64", "1")
    return f


def _source(f: Function, spec: str, bases: str) -> str:
    """Where a result lies once the program has run."""
    base = item(f, bases, get(f, ResultRecord, spec, "base"))
    return f.gep(base, get(f, ResultRecord, spec, "offset"))


def _begin_result(
    f: Function, number: Integer, spec: str, bases: str, room: Function, steal: Function
) -> None:
    """Give a result its memory, and have the program write there where it is to."""
    storage = item(f, get(f, QueuedCall, "%job", "outputs", "ptr"), number)
    fill = get(f, ResultRecord, spec, "fill")
    consumes = f.compare("eq", fill, CONSUME)
    source = get(f, ResultRecord, spec, "argument")
    (stolen,) = f.choose(
        consumes, ["ptr"], lambda: [f.call(steal, ["%job", source, storage])], lambda: ["null"]
    )
    missing = f.op(f"icmp eq ptr {stolen}, null")
    with f.when(f.op(f"and i1 {missing}, {f.compare('ne', fill, MOVE)}")):
        data = f.call(room, [storage])
        good = f.fresh_label("good")
        f.do(f"br i1 {f.op(f'icmp ne ptr {data}, null')}, label %{good}, label %full")
        f.label(good)
        base = f.gep(bases, get(f, ResultRecord, spec, "base"), "i64")
        renews = f.op(f"or i1 {consumes}, {f.compare('eq', fill, Fill.RENEW.value)}")
        with f.when(renews):
            before = f.load("ptr", base, 8)
            _copy(f, data, before, get(f, ResultRecord, spec, "nbytes"))
        with f.when(f.op(f"or i1 {renews}, {f.compare('eq', fill, Fill.PLACE.value)}")):
            f.store("ptr", data, base, 8)


def _copy(f: Function, target: str, source: str, nbytes: str) -> None:
    f.call(COPY, [target, source, nbytes, "false"])


# -- the end -------------------------------------------------------------------------------------


def finish_function(drop_inputs: Function, release_block: Function, wake: Function) -> Function:
    """Write `void finish(ptr job, ptr error)`: all references go, then the event happens.

    At the end of the process nothing does: those who wait may be gone.
    """
    f = Function("finish", parameters(job="ptr", error="ptr"))
    queue = get(f, QueuedCall, "%job", "queue", "ptr")
    with f.when(f.compare("ne", get(f, Queue, queue, "ended"), 0)):
        f.do("ret void")
        f.label(f.fresh_label("never"))
    f.call(drop_inputs, ["%job"])
    outputs = get(f, QueuedCall, "%job", "outputs", "ptr")
    with f.loop(0, get(f, QueuedCall, "%job", "result_count")) as each:
        f.call(release_block, [item(f, outputs, each.index)])
    event = get(f, QueuedCall, "%job", "event", "ptr")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    queued = f.compare("ne", get(f, QueuedCall, "%job", "is_queued"), 0)
    nbytes = get(f, Launch, launch, "nbytes")
    f.call(_COMPLETE, [event, "%error"])
    f.call(RELEASE_EVENT, [event])
    f.call(release_block, [launch])
    f.call(FREE, ["%job"])
    with f.when(queued):
        add(f, Queue, queue, "bytes", f.sub(0, nbytes))
        add(f, Queue, queue, "jobs", -1)
        add(f, Queue, queue, "finished", 1)
        waiting = place(f, Queue, queue, "waiting")
        sleeps = f.op(f"load atomic i64, ptr {waiting} seq_cst, align 8")
        with f.when(f.compare("ne", sleeps, 0)):
            f.call(wake, [place(f, Queue, queue, "finished"), 1 << 30])
    return f
