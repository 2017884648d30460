"""Calls on the platform "lowtide" that are not done when they return, each in its own process."""

from __future__ import annotations

from pathlib import Path

from tests.pjrt.test_plugin import run

SLOW = """
import time
def slow(x, trips=200):
    return jax.lax.fori_loop(0, trips, lambda _, y: jnp.tanh(y @ y) * 0.1, x)
step = jax.jit(slow)
x = jnp.ones((400, 400))
step(x).block_until_ready()
"""

HELD = (
    SLOW
    + """
import gc, threading
from lowtide.pjrt.launching import UNKNOWN, LaunchedProgram
let_go = threading.Event()
def wait(x):
    let_go.wait()
    return x
held = jax.jit(lambda x: jax.pure_callback(wait, jax.typeof(x), x))
let_go.set()
held(x).block_until_ready()
for program in gc.get_objects():
    if isinstance(program, LaunchedProgram) and program.block.elsewhere:
        program.block.expected = UNKNOWN  # Such a program is not run on the thread that calls.
"""
)
"""`held(x)` is x, but not before `let_go`, however fast the machine is or whatever it does."""


def test_a_call_returns_before_its_results_are_there(tmp_path: Path) -> None:
    script = (
        HELD
        + """
let_go.clear()
y = step(held(x))
assert y.shape == (400, 400) and not y.is_ready()
z = jax.jit(lambda y: y[0, 0] + 1)(step(y))
assert not z.is_ready()
let_go.set()
expected = slow(slow(x))[0, 0] + 1
np.testing.assert_allclose(float(z), float(expected), rtol=1e-6)
assert y.is_ready() and z.is_ready()
"""
    )
    run(script, tmp_path)


def test_host_views_of_pending_arrays_have_their_values(tmp_path: Path) -> None:
    script = (
        SLOW
        + """
for get in (np.asarray, jax.device_get, np.array, lambda y: np.asarray(jax.device_put(y)),
            lambda y: np.asarray(jnp.copy(y))):
    y = step(x)
    y.copy_to_host_async()
    np.testing.assert_array_equal(get(y), np.asarray(step(x)))
large = jax.jit(lambda x: jnp.sin(x) + 1)
zeros = jnp.zeros(400_000)
for _ in range(5):
    view = np.asarray(large(zeros))
    assert (view == 1).all()
"""
    )
    run(script, tmp_path)


def test_calls_that_wait_run_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    """All come while the worker has one; each takes what the one before it makes."""
    script = (
        SLOW
        + """
scaled = jax.jit(lambda y: jax.lax.fori_loop(0, 3, lambda i, z: jnp.roll(z, 1) * 2, y))
expected = np.asarray(slow(x))
for _ in range(6):
    expected = np.asarray(scaled(expected))
for _ in range(3):
    y = step(x)
    for _ in range(6):
        y = scaled(y)
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-5)
"""
    )
    run(script, tmp_path)


def test_pending_arrays_may_be_dropped_deleted_and_donated(tmp_path: Path) -> None:
    script = (
        SLOW
        + """
double = jax.jit(lambda y: y * 2, donate_argnums=0)
expected = np.asarray(step(x)) * 2
for size in range(3):
    y = step(x)
    z = double(y)
    assert y.is_deleted()
    np.testing.assert_array_equal(z, expected)
y = step(x)
z = step(y)
y.delete()
del y
np.testing.assert_array_equal(z, step(step(x)))
for _ in range(10):
    step(x)
kept = step(x)
reader = jax.jit(lambda y: slow(y).sum())
found = reader(kept)
other = double(kept)
np.testing.assert_allclose(float(found), float(reader(step(x))))
"""
    )
    run(script, tmp_path)


def test_a_failed_call_fails_its_results_and_who_takes_them(tmp_path: Path) -> None:
    script = """
    import resource
    make = jax.jit(lambda x: jnp.sin(x)[None] * jnp.arange(4000.0)[:, None, None])
    x = jnp.ones((512, 512))
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 1_000_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    y = make(x)
    later = y[0, 0, 0] + 1
    for wait in (y.block_until_ready, later.block_until_ready, lambda: np.asarray(y)):
        try:
            wait()
        except jax.errors.JaxRuntimeError as error:
            text = str(error)
            assert text.startswith("RESOURCE_EXHAUSTED"), text
            assert "arguments" in text and "bound" in text and "bytes" in text, text
        else:
            raise AssertionError("no error")
    assert float((x + 1)[0, 0]) == 2
    """
    run(script, tmp_path)


def test_an_interrupt_of_a_wait_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    """Smaller products: the steps on the way still run to their end."""
    script = (
        SLOW.replace("(400, 400)", "(200, 200)")
        + """
import os, signal, threading
def steps():
    y = x
    while True:
        y = step(y)
def waits():
    y = x
    for _ in range(20):
        y = step(y)
    y.block_until_ready()
    time.sleep(1800)
for work in (steps, waits):
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        work()
    except KeyboardInterrupt:
        print("interrupted")
assert np.isfinite(np.asarray(step(x))).all()
"""
    )
    assert run(script, tmp_path) == "interrupted\ninterrupted\n"


def test_the_process_ends_with_calls_in_flight(tmp_path: Path) -> None:
    script = (
        SLOW
        + """
import threading
def forever():
    while True:
        step(x)
for _ in range(8):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
print("end")
"""
    )
    assert run(script, tmp_path) == "end\n"


def test_a_forked_process_is_told_so_and_a_spawned_one_works(tmp_path: Path) -> None:
    script = """
    import multiprocessing, warnings
    warnings.simplefilter("ignore")
    def work(queue):
        found = []
        for call in (lambda: add(np.ones(3)), lambda: jax.jit(jnp.sin)(x), lambda: jnp.arange(7)):
            try:
                found.append(len(np.asarray(call())))
            except Exception as error:
                found.append("forked" in str(error))
        queue.put(found)
    add = jax.jit(lambda x: x + 1)
    if __name__ == "__main__":
        x = add(np.ones(3))
        for kind in ("fork", "spawn"):
            context = multiprocessing.get_context(kind)
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get())
            process.join()
            assert process.exitcode == 0
    else:
        x = np.ones(3)
    """
    lines = run(script, tmp_path).splitlines()
    assert lines == ["[True, True, True]", "[3, 3, 7]"]


def test_first_calls_of_many_threads_share_one_queue_and_one_launch(tmp_path: Path) -> None:
    script = """
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier
    from lowtide.pjrt.queues import all_queues
    add = jax.jit(lambda x: x + 1).lower(np.ones(4, np.float32)).compile()
    together = Barrier(8)
    def first(number):
        together.wait()
        return float(add(np.full(4, number, np.float32))[0])
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(first, range(8))) == [x + 1 for x in range(8)]
    assert len(all_queues()) == 1
    """
    run(script, tmp_path)


def test_a_loop_of_steps_has_one_arena_and_bounded_arrays(tmp_path: Path) -> None:
    script = """
    step = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jnp.roll(y, i) + x, x))
    x = jnp.ones(1 << 20)
    step(x).block_until_ready()
    before = jax.devices()[0].memory_stats()
    for _ in range(200):
        y = step(x)
    y.block_until_ready()
    after = jax.devices()[0].memory_stats()
    assert after["peak_pool_bytes"] == before["peak_pool_bytes"], (before, after)
    assert after["bytes_in_use"] <= 12 << 20, after
    """
    run(script, tmp_path)


BUSY = (
    HELD
    + """
def is_done_at_once(call):
    # Whether a call is done when it returns, while the worker has another one.
    let_go.clear()
    busy = held(x)
    y = call()
    found = y.is_ready()
    assert not busy.is_ready()
    let_go.set()
    busy.block_until_ready()
    y.block_until_ready()
    return found
"""
)


def test_a_short_loop_of_known_length_runs_on_the_thread_that_calls(tmp_path: Path) -> None:
    script = (
        BUSY
        + """
short = jax.jit(lambda y: jax.lax.fori_loop(0, 50, lambda i, z: z * 0.5 + 1, y))
short = short.lower(1.0).compile()
one = jnp.float32(1)
assert is_done_at_once(lambda: short(one))
assert not is_done_at_once(lambda: step(x))
np.testing.assert_allclose(short(one), 2)
"""
    )
    run(script, tmp_path)


def test_a_loop_of_unknown_length_runs_where_its_last_run_says(tmp_path: Path) -> None:
    """At first nothing is known. What turns out long goes on where it is, and is done then.

    What a short run takes depends on the machine's load, and so it is set here.
    """
    script = (
        BUSY
        + """
rolled = jax.jit(lambda y, n: jax.lax.fori_loop(0, n, lambda i, z: jnp.roll(z, 1) + 1, y))
rolled = rolled.lower(jnp.zeros(20_000), 1).compile()
zeros, few, many = jnp.zeros(20_000), jnp.int32(2), jnp.int32(20_000)
assert not is_done_at_once(lambda: rolled(zeros, few))
blocks = [x.block for x in gc.get_objects() if isinstance(x, LaunchedProgram)]
(block,) = [x for x in blocks if x.argument_count == 2]
for _ in range(2):
    assert 0 < block.expected < UNKNOWN
    block.expected = 4_000_000
    assert is_done_at_once(lambda: rolled(zeros, few))
    block.expected = 6_000_000
    assert not is_done_at_once(lambda: rolled(zeros, few))
    block.expected = 4_000_000
    y = rolled(zeros, many)
    assert y.is_ready()
    np.testing.assert_array_equal(y, np.full(20_000, 20_000))
    assert not is_done_at_once(lambda: rolled(zeros, many))
    rolled(zeros, many).block_until_ready()
"""
    )
    run(script, tmp_path)


def test_a_loop_waits_for_arguments_that_are_still_to_come(tmp_path: Path) -> None:
    script = (
        HELD
        + """
short = jax.jit(lambda y: jax.lax.fori_loop(0, 50, lambda i, z: z * 0.5 + 1, y[0, 0]))
expected = float(short(slow(x)))
for _ in range(3):
    let_go.clear()
    z = short(step(held(x)))
    assert not z.is_ready()
    let_go.set()
    np.testing.assert_allclose(float(z), expected, rtol=1e-5)
"""
    )
    run(script, tmp_path)
