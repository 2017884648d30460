"""Threads: many runs, sleeping workers, calls from several Python threads, fork, end of process."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.cpu.handmade import ARGUMENTS, Draft, kernel
from tests.support import HANG_SECONDS

from lowtide.ir.thunk import CollectiveThunk
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import AARCH64, host_target, restricted
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable, load
from lowtide.runtime.cpu.grouping import Stage
from lowtide.runtime.cpu.native import RUNTIME, native
from lowtide.runtime.cpu.pool import pool_of
from lowtide.runtime.cpu.signals import CONTROL_WORDS
from lowtide.runtime.devices.collective_block import CollectiveBlock

LONG = 1e-3
ROOT = Path(__file__).parents[3]


def chain(threads: int, steps: int = 6, units: int = 24) -> tuple[Draft, LinkedExecutable]:
    """A program that is shared out in each of its steps: the sum of two arguments, many times."""
    draft = Draft(units=units, seconds=LONG)
    a, b = draft.argument(), draft.argument()
    places = [draft.temporary() for _ in range(2)]
    read = [a, *[places[step % 2] for step in range(steps - 1)]]
    thunks = [kernel(0, x, b, places[step % 2]) for step, x in enumerate(read)]
    draft.result(places[(steps - 1) % 2])
    return draft, load(draft.program(thunks, threads=threads))


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_thousands_of_runs(threads: int) -> None:
    draft, run = chain(threads)
    one = np.ones(draft.count, np.float32)
    for k in range(1500):
        assert (run(one * (k % 7), one) == k % 7 + 6).all()


def test_workers_that_fell_asleep_are_woken() -> None:
    draft, run = chain(3)
    one = np.ones(draft.count, np.float32)
    for k in range(60):
        time.sleep(0.0003 * (k % 6))
        assert (run(one * k, one) == k + 6).all()


def test_no_more_arenas_are_kept_than_wanted() -> None:
    draft, run = chain(1)
    one = np.ones(draft.count, np.float32)
    run(one, one)
    each = run.idle_bytes
    ready = threading.Barrier(8)

    def work() -> None:
        ready.wait()
        for _ in range(100):
            run(one, one)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert each <= run.idle_bytes <= CallOptions().idle_arenas * each


def counts() -> Function:
    """Unit u adds 1 to the u-th i64 of the buffer, and thread t to the 64 + t-th."""
    f = Function("counts", ARGUMENTS)
    place = f.load("ptr", "%buffers", 8)
    with f.loop("%begin", "%end") as unit:
        at = f.gep(place, unit.index, "i64")
        f.store("i64", f.add(f.load("i64", at, 8), 1), at, 8)
        f.op(f"atomicrmw add ptr {f.gep(place, f.add('%thread', 64), 'i64')}, i64 1 monotonic")
    return f


@pytest.mark.parametrize("members", [1, 3])
def test_each_unit_is_done_once_and_by_workers_too(members: int) -> None:
    library = Library(
        [KernelCompiler(host_target()).object_code(module_text([counts()]))],
        ["counts"],
        host_target(),
    )
    runtime = native()
    pool = pool_of(3, runtime)
    pool.start()
    found = np.zeros((members, 128), np.int64)
    from lowtide.runtime.cpu.table import _Builder  # the words of one stage

    collectives: dict[CollectiveThunk, CollectiveBlock] = {}
    builder = _Builder((), lambda _: 0, 0, lambda _: 0, collectives.__getitem__, 3, 0, False)
    stage = Stage(library["counts"], 50, LONG)
    slots = [int(row.ctypes.data) for row in found]
    builder.stage([(stage, x, members) for x in range(members)])
    builder.words.append(0)
    words = np.array(builder.words, np.int64)
    workspace = np.array([*slots, 0], np.int64)
    control = np.zeros(CONTROL_WORDS, np.int64)
    control[:4] = pool.block, workspace.ctypes.data, 0, 2
    runs, end = 0, time.monotonic() + HANG_SECONDS
    while runs < 3000 or (not found[:, 64:67].sum(axis=0).all() and time.monotonic() < end):
        runtime.run_alone(words.ctypes.data, 0, control.ctypes.data)
        runs += 1
    assert (found[:, :50] == runs).all()
    by_thread = found[:, 64:67].sum(axis=0)
    assert by_thread.sum() == 50 * runs * members
    assert (by_thread > 0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_from_many_python_threads(threads: int) -> None:
    draft, run = chain(threads)
    wrong: list[int] = []

    def work(number: int) -> None:
        one = np.ones(draft.count, np.float32)
        good = [(run(one * (number + k), one) == number + k + 6).all() for k in range(150)]
        wrong.append(good.count(False))

    workers = [threading.Thread(target=work, args=(100 * x,)) for x in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == [0] * 8


CHILD = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
import numpy as np
from tests.runtime.cpu.test_pool import chain
draft, run = chain(3)
one = np.ones(draft.count, np.float32)
stop = []
def work():
    while not stop:
        assert (run(one, one) == 7).all()
other = threading.Thread(target=work)
other.start()
for k in range(20):
    child = os.fork()
    if child == 0:
        good = all((run(one * j, one) == j + 6).all() for j in range(20))
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.append(1)
other.join()
assert (run(one, one) == 7).all()
print(threading.active_count(), len(os.listdir("/proc/self/task")))
"""


def python(code: str) -> str:
    paths = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=paths,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_forked_process_starts_workers_of_its_own() -> None:
    python(CHILD.format(root=str(ROOT)))


EXIT = """
import atexit, sys
sys.path.insert(0, {root!r})
import numpy as np
from tests.runtime.cpu.test_pool import chain
late = []
atexit.register(lambda: print((late[0](late[1], late[1]) == 7).all()))
import lowtide.runtime.cpu.pool
atexit.register(lambda: print((late[0](late[1], late[1]) == 7).all()))
draft, run = chain(3)
one = np.ones(draft.count, np.float32)
late += [run, one]
run(one, one)
"""


def test_calls_work_while_the_process_ends() -> None:
    assert python(EXIT.format(root=str(ROOT))).split() == ["True", "True"]


def test_the_runtime_compiles_for_other_processors() -> None:
    for target in (restricted(host_target(), "avx2"), AARCH64):
        assert KernelCompiler(target).object_code(RUNTIME.text(target.triple))


def test_a_pool_has_a_thread() -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        pool_of(0, native())
