"""Machine code for dispatch: a call runs at once where that is short, else on a worker in order.

Execute makes the buffers of the results and returns. Threads push jobs on a list without a lock;
the worker of the device takes them all and turns their order round. Those that need no Python it
runs by itself.
"""

from __future__ import annotations

from typing import Final

from lowtide.llvm.callee import external, parameters
from lowtide.llvm.function import Function
from lowtide.pjrt.blocks import (
    BufferStorage,
    HandleCell,
    Launch,
    Queue,
    QueuedCall,
    offset,
)
from lowtide.pjrt.native_jobs import (
    item,
    set_item,
)
from lowtide.pjrt.native_objects import (
    FREE,
    add,
    argument,
    ask_python,
    get,
    go_unless,
    is_null,
    place,
    put,
)
from lowtide.runtime.cpu.system import System

_NEW_EVENT: Final = external("new_event", "ptr")
_NESTED: Final = external("run_nested", "void", "ptr", "ptr")
_HAS_HAPPENED: Final = external("has_happened", "i1", "ptr")
_COPIED_ERROR: Final = external("failure", "ptr", "ptr")
_THREAD: Final = external("pthread_self", "i64")

MOST_JOBS: Final = 32
"""How many calls of a device may wait before the next one waits to be accepted."""

FREE_JOBS: Final = 2
"""How many may wait however many bytes they need: one runs, and the next one is there."""

INTERRUPTED_CALL: Final = 4
"""What the system says of a wait that a signal ended."""

SWEEP: Final = 1
"""What `next_job` returns where Python is to let go of things."""


# -- waiting -------------------------------------------------------------------------------------


def wake_function(system: System) -> Function:
    """Write `void wake(ptr word, i64 count)`."""
    f = Function("wake", parameters(word="ptr", count="i64"), linkage="internal")
    system.wake(f, "%word", "%count")
    return f


def sleep_function(system: System) -> Function:
    """Write `void sleep_at(ptr word, i64 value)`: until the word has another value, or less."""
    f = Function("sleep_at", parameters(word="ptr", value="i64"), linkage="internal")
    system.wait(f, "%word", f.op("and i64 %value, 4294967295"))
    return f


def rest_function(system: System, sleep: Function, settle: Function) -> Function:
    """Write `void rest(ptr queue, i64 seen)`: the worker's sleep until `signal` is another one.

    Where memory waits it ends with the time of the queue, and what waits goes to the system if no
    call came meanwhile.
    """
    f = Function("rest", parameters(queue="ptr", seen="i64"), linkage="internal")
    signal, watched = (place(f, Queue, "%queue", x) for x in ("signal", "watched"))
    f.do(f"store atomic i64 0, ptr {watched} seq_cst, align 8")
    idle, extent, more, before = (
        f.op(f"load atomic i64, ptr {place(f, Queue, '%queue', x)} seq_cst, align 8")
        for x in ("idle", "extent", "unsettled", "count")
    )
    some = f.compare("ne", f.op(f"or i64 {f.op(f'or i64 {idle}, {extent}')}, {more}"), 0)
    f.do(f"br i1 {some}, label %some, label %none")
    f.label("none")
    f.call(sleep, [signal, "%seen"])
    f.do("ret void")
    f.label("some")
    f.do(f"store atomic i64 1, ptr {watched} seq_cst, align 8")
    low = f.op("and i64 %seen, 4294967295")
    system.wait_for(f, signal, low, place(f, Queue, "%queue", "seconds"))
    now, after = (
        f.op(f"load atomic i64, ptr {place(f, Queue, '%queue', x)} seq_cst, align 8")
        for x in ("signal", "count")
    )
    calm = f.op(f"and i1 {f.compare('eq', now, '%seen')}, {f.compare('eq', before, after)}")
    with f.when(calm):
        f.call(settle, ["%queue"])
    return f


def wake_sleepers_function(wake: Function) -> Function:
    """Write `void wake_sleepers(ptr event)`, of an event that has happened."""
    f = Function("wake_sleepers", parameters(event="ptr"), linkage="internal")
    done, sleepers = f.gep("%event", _DONE), f.gep("%event", _SLEEPERS)
    f.do(f"store atomic i64 1, ptr {done} seq_cst, align 8")
    some = f.op(f"load atomic i64, ptr {sleepers} seq_cst, align 8")
    with f.when(f.compare("ne", some, 0)):
        f.call(wake, [done, 1 << 30])
    return f


def wait_for_function(sleep: Function) -> Function:
    """Write `ptr wait_for(ptr event)`: null or a copy of the error, once an event has happened."""
    f = Function("wait_for", parameters(event="ptr"), "ptr")
    sleepers = f.gep("%event", _SLEEPERS)
    f.do("br label %look")
    f.label("look")
    go_unless(f, f.op(f"xor i1 {f.call(_HAS_HAPPENED, ['%event'])}, true"), "end")
    f.op(f"atomicrmw add ptr {sleepers}, i64 1 seq_cst")
    f.call(sleep, [f.gep("%event", _DONE), 0])
    f.op(f"atomicrmw add ptr {sleepers}, i64 -1 seq_cst")
    f.do("br label %look")
    f.label("end")
    f.ret("ptr", f.call(_COPIED_ERROR, ["%event"]))
    return f


_DONE: Final = 24
_SLEEPERS: Final = 32
"""Where events have whether they happened, for those who sleep, and how many these are."""


def _release_lock(f: Function) -> str:
    """Write that Python's lock is released if the thread has it; return where that is noted."""
    state = f.stack("ptr", 1, 8)
    f.store("ptr", "null", state, 8)
    locked = f.call(external("PyGILState_Check", "i32"), [])
    with f.when(f.op(f"icmp ne i32 {locked}, 0")):
        f.store("ptr", f.call(external("PyEval_SaveThread", "ptr"), []), state, 8)
    return state


def _take_lock(f: Function, state: str) -> None:
    """Write that the lock is taken again if it was released."""
    saved = f.load("ptr", state, 8)
    with f.when(f.op(f"icmp ne ptr {saved}, null")):
        f.call(external("PyEval_RestoreThread", "void", "ptr"), [saved])


def pointer_function(borrow: Function, wait_for: Function, release_block: Function) -> Function:
    """Write Buffer_UnsafePointer, which waits until the array is there.

    C++ may call it with Python's lock, which the worker may need before that.
    """
    f = Function("pointer", parameters(a="ptr"), "ptr")
    cell = argument(f, 16)
    storage = f.call(borrow, [cell])
    go_unless(f, f.op(f"icmp ne ptr {storage}, null"), "gone")
    event = get(f, HandleCell, cell, "event", "ptr")
    waits = f.op(f"xor i1 {f.call(_HAS_HAPPENED, [event])}, true")
    with f.when(waits):
        state = _release_lock(f)
        f.call(FREE, [f.call(wait_for, [event])])
        _take_lock(f, state)
    error = f.call(_COPIED_ERROR, [event])
    f.store("ptr", get(f, BufferStorage, storage, "data", "ptr"), f.gep("%a", 24), 8)
    f.call(release_block, [storage])
    f.do(f"ret ptr {error}")
    f.label("gone")
    f.ret("ptr", f.call(external("deleted_error", "ptr"), []))
    return f


# -- the side of those who call ------------------------------------------------------------------


def enqueue_function(signal: Function) -> Function:
    """Write `void enqueue(ptr queue, ptr job)`."""
    f = Function("enqueue", parameters(queue="ptr", job="ptr"))
    put(f, QueuedCall, "%job", "is_queued", 1)
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    add(f, Queue, "%queue", "bytes", get(f, Launch, launch, "nbytes"))
    add(f, Queue, "%queue", "jobs", 1)
    word = place(f, Queue, "%queue", "pushed")
    f.do("br label %again")
    f.label("again")
    first = f.op(f"load atomic ptr, ptr {word} monotonic, align 8")
    put(f, QueuedCall, "%job", "next", first, "ptr")
    pair = f.op(f"cmpxchg ptr {word}, ptr {first}, ptr %job seq_cst monotonic")
    f.do(f"br i1 {f.op(f'extractvalue {{ ptr, i1 }} {pair}, 1')}, label %done, label %again")
    f.label("done")
    f.call(signal, ["%queue"])
    return f


def back_pressure_function(sleep: Function) -> Function:
    """Write `void back_pressure(ptr queue)`: a wait while too many calls or bytes are in flight.

    It ends also with a signal to this thread, so that Python can see to it.
    """
    f = Function("back_pressure", parameters(queue="ptr"))
    waiting = place(f, Queue, "%queue", "waiting")
    f.do("br label %look")
    f.label("look")
    seen = f.op(f"load atomic i64, ptr {place(f, Queue, '%queue', 'finished')} seq_cst, align 8")
    jobs, nbytes = (
        f.op(f"load atomic i64, ptr {place(f, Queue, '%queue', x)} seq_cst, align 8")
        for x in ("jobs", "bytes")
    )
    many = f.compare("sgt", jobs, MOST_JOBS)
    large = f.compare("sgt", nbytes, get(f, Queue, "%queue", "most_bytes"))
    large = f.op(f"and i1 {large}, {f.compare('sgt', jobs, FREE_JOBS)}")
    f.do(f"br i1 {f.op(f'or i1 {many}, {large}')}, label %wait, label %end")
    f.label("wait")
    errno = f.call(external("__errno_location", "ptr"), [])
    f.store("i32", "0", errno, 4)
    f.op(f"atomicrmw add ptr {waiting}, i64 1 seq_cst")
    state = _release_lock(f)
    f.call(sleep, [place(f, Queue, "%queue", "finished"), seen])
    found = f.load("i32", errno, 4)
    _take_lock(f, state)
    f.op(f"atomicrmw add ptr {waiting}, i64 -1 seq_cst")
    is_signal = f.op(f"icmp eq i32 {found}, {INTERRUPTED_CALL}")
    f.do(f"br i1 {is_signal}, label %end, label %look")
    f.label("end")
    return f


BY_PYTHON: Final = 0
"""The size that a call of Python's gives its arguments: machine code does not ask back for it."""


def execute_function(parts: dict[str, Function]) -> Function:
    """Write LoadedExecutable_Execute; `parts` are other functions by name.

    Python is asked where the call is wrong in some way, so that it can say how, and where the
    worker itself calls, which must not wait for itself.
    """
    f = Function("execute", parameters(a="ptr"), "ptr")
    refusing = f.op("load atomic i64, ptr @refusing monotonic, align 8")
    go_unless(f, f.compare("eq", refusing, 0), "python")
    launch = get(f, HandleCell, argument(f, 16), "of", "ptr")
    go_unless(f, f.op(f"icmp ne ptr {launch}, null"), "python")
    here = f.compare("eq", get(f, Launch, launch, "elsewhere"), 0)
    by_python = f.compare("eq", argument(f, 0, "i64"), BY_PYTHON)
    go_unless(f, f.op(f"or i1 {here}, {by_python}"), "python")
    count = get(f, Launch, launch, "argument_count")
    go_unless(f, f.compare("eq", count, argument(f, 48, "i64")), "python")
    asked = argument(f, 72)
    own = get(f, Launch, launch, "device", "ptr")
    device = f.select(is_null(f, asked), "ptr", own, asked)
    queue = get(f, HandleCell, device, "of", "ptr")
    go_unless(f, f.op(f"icmp ne ptr {queue}, null"), "python")
    job = f.call(parts["claim"], ["%a", launch, device, queue])
    go_unless(f, f.op(f"icmp ne ptr {job}, null"), "python")
    f.call(parts["announce"], ["%a", job])
    waits = get(f, QueuedCall, job, "waits")
    inline = f.compare("ne", get(f, Launch, launch, "is_inline"), 0)
    go_unless(f, f.op(f"and i1 {inline}, {f.compare('eq', waits, 0)}"), "later")
    native = f.compare("ne", get(f, Launch, launch, "is_native"), 0)
    go_unless(f, native, "calling")
    go_unless(f, f.call(parts["fits"], [job]), "later")
    _run_here(f, parts, (launch, job, queue), "ret ptr null", "later")
    f.label("calling")
    idle = f.compare("eq", get(f, Queue, queue, "jobs"), 0)
    f.do(f"br i1 {idle}, label %nested, label %later")
    f.label("later")
    thread = f.call(_THREAD, [])
    nested = f.compare("eq", thread, get(f, Queue, queue, "worker"))
    f.do(f"br i1 {nested}, label %nested, label %queued")
    f.label("nested")
    f.call(_NESTED, [queue, job])
    f.do("ret ptr null")
    f.label("queued")
    f.call(parts["enqueue"], [queue, job])
    f.call(parts["back_pressure"], [queue])
    f.do("ret ptr null")
    f.label("python")
    f.ret("ptr", ask_python(f, "execute"))
    return f


def _run_here(
    f: Function, parts: dict[str, Function], call: tuple[str, str, str], done: str, refused: str
) -> None:
    """Write a run in a frame of the program's, else in the arena of the queue; then what is `done`.

    `call` is launch, job and queue. It goes on at the label `refused` where there is room in
    neither.
    """
    launch, job, queue = call
    frame = f.call(parts["take_frame"], [launch])
    f.do(f"br i1 {is_null(f, frame)}, label %arena, label %framed")
    f.label("framed")
    f.call(parts["run_and_finish"], [job, frame])
    f.do(done)
    f.label("arena")
    status = f.call(parts["arena_run"], [job, queue])
    go_unless(f, f.compare("ne", status, -1), refused)
    f.call(parts["close"], [job, status])
    f.do(done)


def run_and_finish_function(run: Function, give_frame: Function, close: Function) -> Function:
    """Write `void run_and_finish(ptr job, ptr frame)`: a run in a frame with its own arena."""
    f = Function("run_and_finish", parameters(job="ptr", frame="ptr"), linkage="internal")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    status = f.call(run, ["%job", "%frame"])
    f.call(give_frame, [launch, "%frame"])
    f.call(close, ["%job", status])
    return f


def close_function(finish: Function, again: Function, enqueue: Function) -> Function:
    """Write `void close(ptr job, i64 status)`: the end of a run.

    Where there was no memory for the results Python is to say so, on the worker.
    """
    f = Function("close", parameters(job="ptr", status="i64"), linkage="internal")
    queue = get(f, QueuedCall, "%job", "queue", "ptr")
    is_queued = f.compare("ne", get(f, QueuedCall, "%job", "is_queued"), 0)
    f.do(f"br i1 {f.compare('eq', '%status', 0)}, label %well, label %full")
    f.label("full")
    put(f, QueuedCall, "%job", "is_full", 1)
    f.do(f"br i1 {is_queued}, label %first, label %later")
    f.label("first")
    f.call(again, [queue, "%job"])
    f.do("br label %end")
    f.label("later")
    f.call(enqueue, [queue, "%job"])
    f.do("br label %end")
    f.label("well")
    f.call(finish, ["%job", "null"])
    f.do("br label %end")
    f.label("end")
    return f


# -- the side of the worker ----------------------------------------------------------------------


def turned_function() -> Function:
    """Write `ptr turned(ptr list)`: a list of jobs in the other order."""
    f = Function("turned", parameters(list="ptr"), "ptr", linkage="internal")
    f.do("br label %test")
    f.label("test")
    left = f.fresh("left")
    done = f.fresh("done")
    rest = f.fresh("rest")
    f.do(f"{left} = phi ptr [ %list, %entry ], [ {rest}, %move ]")
    f.do(f"{done} = phi ptr [ null, %entry ], [ {left}, %move ]")
    f.do(f"br i1 {is_null(f, left)}, label %end, label %move")
    f.label("move")
    word = f.gep(left, offset(QueuedCall, "next"))
    f.do(f"{rest} = load ptr, ptr {word}, align 8")
    f.store("ptr", done, word, 8)
    f.do("br label %test")
    f.label("end")
    f.ret("ptr", done)
    return f


def failed_function(wait_for: Function) -> Function:
    """Write `ptr failed(ptr job)`, which waits for the arguments; null or a copy of an error."""
    f = Function("failed", parameters(job="ptr"), "ptr")
    events = get(f, QueuedCall, "%job", "events", "ptr")
    with f.loop(0, get(f, QueuedCall, "%job", "argument_count")) as each:
        event = item(f, events, each.index)
        with f.when(f.op(f"icmp ne ptr {event}, null")):
            error = f.call(wait_for, [event])
            with f.when(f.op(f"icmp ne ptr {error}, null")):
                f.do(f"ret ptr {error}")
                f.label(f.fresh_label("never"))
    f.ret("ptr", "null")
    return f


def arena_run_function(run: Function, use_extent: Function) -> Function:
    """Write `i64 arena_run(ptr job, ptr queue)`: a run in the arena of the queue.

    It returns what `run_job` does, or -1 where the arena is too small or where a run has arena or
    frame, which this one is nested in.
    """
    f = Function("arena_run", parameters(job="ptr", queue="ptr"), "i64", linkage="internal")
    launch = get(f, QueuedCall, "%job", "launch", "ptr")
    needed = get(f, Launch, launch, "arena_bytes")
    go_unless(f, f.compare("sge", get(f, Queue, "%queue", "arena_bytes"), needed), "refused")
    home, slot = place(f, Queue, "%queue", "arena"), place(f, Launch, launch, "bare")
    arena = f.op(f"atomicrmw xchg ptr {home}, ptr null acquire")
    go_unless(f, f.op(f"icmp ne ptr {arena}, null"), "refused")
    frame = f.op(f"atomicrmw xchg ptr {slot}, ptr null acquire")
    go_unless(f, f.op(f"icmp ne ptr {frame}, null"), "frameless")
    bases, places = item(f, frame, 1), get(f, Launch, launch, "places", "ptr")
    with f.loop(0, get(f, Launch, launch, "place_count")) as each:
        pair = f.gep(places, f.mul(each.index, 2), "i64")
        begin = f.gep(arena, f.load("i64", f.gep(pair, 8), 8))
        set_item(f, bases, f.load("i64", pair, 8), begin)
    f.call(use_extent, ["%queue", arena, needed])
    status = f.call(run, ["%job", frame])
    put(f, Queue, "%queue", "hollow", get(f, Launch, launch, "moved"))
    f.do(f"store atomic ptr {frame}, ptr {slot} release, align 8")
    f.do(f"store atomic ptr {arena}, ptr {home} release, align 8")
    f.do(f"ret i64 {status}")
    f.label("frameless")
    f.do(f"store atomic ptr {arena}, ptr {home} release, align 8")
    f.do("br label %refused")
    f.label("refused")
    f.ret("i64", "-1")
    return f


def next_job_function(parts: dict[str, Function]) -> Function:
    """Write `ptr next_job(ptr queue, i64 patient)`: the next job that needs Python, or SWEEP.

    What needs no Python is run meanwhile; of a program that several devices run, Python waits for
    the arguments too. Where there is nothing to do it sleeps, or returns null
    where that is not `patient`; so it does at the end.
    """
    f = Function("next_job", parameters(queue="ptr", patient="i64"), "ptr")
    queue = "%queue"
    first = place(f, Queue, queue, "first")
    signal = place(f, Queue, queue, "signal")
    asleep = place(f, Queue, queue, "asleep")
    f.do("br label %look")
    f.label("look")
    seen = f.op(f"load atomic i64, ptr {signal} seq_cst, align 8")
    swept = f.op(f"atomicrmw xchg ptr {place(f, Queue, queue, 'sweep')}, i64 0 seq_cst")
    go_unless(f, f.compare("eq", swept, 0), "sweep")
    with f.when(is_null(f, f.load("ptr", first, 8))):
        pushed = f.op(f"atomicrmw xchg ptr {place(f, Queue, queue, 'pushed')}, ptr null seq_cst")
        f.store("ptr", f.call(parts["turned"], [pushed]), first, 8)
    job = f.load("ptr", first, 8)
    f.do(f"br i1 {is_null(f, job)}, label %idle, label %some")
    f.label("idle")
    go_unless(f, f.compare("eq", get(f, Queue, queue, "ended"), 0), "end")
    go_unless(f, f.compare("ne", "%patient", 0), "end")
    f.do(f"store atomic i64 1, ptr {asleep} seq_cst, align 8")
    f.call(parts["rest"], [queue, seen])
    f.do(f"store atomic i64 0, ptr {asleep} seq_cst, align 8")
    f.do("br label %look")
    f.label("some")
    f.store("ptr", get(f, QueuedCall, job, "next", "ptr"), first, 8)
    launch = get(f, QueuedCall, job, "launch", "ptr")
    go_unless(f, f.compare("eq", get(f, Launch, launch, "is_shared"), 0), "python")
    error = f.call(parts["failed"], [job])
    go_unless(f, is_null(f, error), "fail")
    go_unless(f, f.compare("eq", get(f, QueuedCall, job, "is_full"), 0), "python")
    native = f.compare("ne", get(f, Launch, launch, "is_native"), 0)
    go_unless(f, native, "python")
    go_unless(f, f.call(parts["fits"], [job]), "python")
    _run_here(f, parts, (launch, job, queue), "br label %look", "python")
    f.label("fail")
    f.call(parts["finish"], [job, error])
    f.do("br label %look")
    f.label("python")
    f.do(f"ret ptr {job}")
    f.label("sweep")
    f.do(f"ret ptr inttoptr (i64 {SWEEP} to ptr)")
    f.label("end")
    f.ret("ptr", "null")
    return f


def take_arena_function() -> Function:
    """Write `ptr take_arena(ptr queue)`: the arena, or null where a run has it."""
    f = Function("take_arena", parameters(queue="ptr"), "ptr")
    home = place(f, Queue, "%queue", "arena")
    f.ret("ptr", f.op(f"atomicrmw xchg ptr {home}, ptr null acquire"))
    return f


def again_function() -> Function:
    """Write `void again(ptr queue, ptr job)`: the job is the next one, of the worker's."""
    f = Function("again", parameters(queue="ptr", job="ptr"))
    first = get(f, Queue, "%queue", "first", "ptr")
    put(f, QueuedCall, "%job", "next", first, "ptr")
    put(f, Queue, "%queue", "first", "%job", "ptr")
    return f
