"""Programs of JAX on the platform "lowtide", each in a process of its own, as users start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support import HANG_SECONDS

pytest.importorskip("jax")


def run(script: str, folder: Path, platforms: str = "lowtide", **settings: str) -> str:
    """Return what a script prints; stderr has nothing but JAX's one line on the platform."""
    path = folder / "script.py"
    path.write_text("import jax\nimport jax.numpy as jnp\nimport numpy as np\n" + dedent(script))
    environment = {**os.environ, "JAX_PLATFORMS": platforms, **settings}
    found = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=HANG_SECONDS,
    )
    errors = [x for x in found.stderr.splitlines() if "is experimental" not in x]
    assert found.returncode == 0 and not errors, found.stderr
    return found.stdout


def test_functions_run_in_lowtide_and_give_the_results_of_xla(tmp_path: Path) -> None:
    script = """
    cpu = jax.devices("cpu")[0]
    def check(function, *arguments):
        ours = jax.jit(function)(*arguments)
        with jax.default_device(cpu):
            theirs = jax.jit(function)(*[jax.device_put(np.asarray(x), cpu) for x in arguments])
        assert all(x.devices() == {jax.devices()[0]} for x in jax.tree.leaves(ours))
        close = lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)
        jax.tree.map(close, ours, theirs)
    assert jax.default_backend() == "lowtide" and jax.devices()[0].platform == "lowtide"
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    check(lambda x: x @ x.T + 1, x)
    check(lambda x: x.T, x)
    check(lambda x: (x[::-1].T, jnp.sort(x, 1), jnp.cumsum(x, 0)), x)
    check(jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), x)
    check(lambda x: jnp.linalg.eigh(x @ x.T)[0], x)
    check(lambda x: jax.lax.fori_loop(0, 5, lambda i, y: y * 0.5 + i, x), x)
    check(lambda x: jax.random.normal(jax.random.key(3), (4,)) + x[0, 0], x)
    check(lambda x: jnp.fft.fft(x.astype(jnp.complex64)).real, x)
    check(lambda x: (), x)
    check(lambda x: x[:0], x)
    print("done")
    """
    assert run(script, tmp_path, "lowtide,cpu") == "done\n"


def test_arrays_of_every_type_go_in_and_out_whole(tmp_path: Path) -> None:
    script = """
    import ml_dtypes
    for name in "bool int4 uint4 int8 uint16 int32 float16 bfloat16 float8_e5m2 complex64".split():
        kind = jnp.dtype(name)
        for x in (np.arange(6).reshape(2, 3), np.zeros((0, 2)), np.array(1), np.arange(8)[::-2]):
            x = x.astype(kind)
            y = jnp.asarray(x)
            assert y.dtype == kind and y.shape == x.shape, name
            np.testing.assert_array_equal(np.asarray(y).astype("c8"), x.astype("c8"))
            np.testing.assert_array_equal(np.asarray(jnp.copy(y).T).astype("c8"), x.T.astype("c8"))
    """
    run(script, tmp_path)


def test_donated_arguments_are_gone_and_refused_twice(tmp_path: Path) -> None:
    script = """
    step = jax.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = jnp.ones(1000), jnp.ones(1000)
    assert float(step(x, y)[0][0]) == 2 and x.is_deleted() and not y.is_deleted()
    for arguments in ((x, y), (y, y)):
        try:
            step(*arguments)
        except (RuntimeError, ValueError) as error:
            print(type(error).__name__, str(error)[:70])
    """
    lines = run(script, tmp_path).splitlines()
    assert len(lines) == 2
    assert "deleted or donated" in lines[0] and "donate" in lines[1].lower()


def test_what_others_still_read_is_not_overwritten_by_a_donation(tmp_path: Path) -> None:
    script = """
    from threading import Thread
    step = jax.jit(lambda x: x * 2, donate_argnums=0)
    x, seen = jnp.ones(4), []
    for _ in range(4):
        seen.append(np.asarray(x))
        x = step(x)
    assert [float(y[0]) for y in seen] == [1, 2, 4, 8]
    spread, found = jax.jit(lambda x: jnp.max(x) - jnp.min(x)), []
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    def read(x):
        try:
            found.append(float(spread(x)))
        except (RuntimeError, ValueError) as error:
            assert "deleted" in str(error)
    for _ in range(20):
        x = jnp.zeros(1_000_000)
        reader = Thread(target=read, args=(x,))
        reader.start()
        add(x)
        reader.join()
    assert not any(found)
    """
    run(script, tmp_path)


def test_an_interrupt_ends_a_loop_of_calls_and_nothing_else(tmp_path: Path) -> None:
    script = """
    import os, signal, sys, threading
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(jnp.ones(8))
    sys.unraisablehook = lambda found: None  # another's hook: what was raised is not known then
    for _ in range(5):
        try:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                x = step(x)
        except (KeyboardInterrupt, jax.errors.JaxRuntimeError) as error:
            assert "nterrupt" in f"{type(error).__name__} {error}"
    assert float(x[0]) == 2
    """
    run(script, tmp_path)


SIGNALS = """
import signal, sys
class Stop(Exception):
    pass
def is_call(frame):
    code = frame.f_code
    return code.co_name == "call" and code.co_filename.endswith("table.py")
def is_within(frame):
    return frame.f_back is not None and is_call(frame.f_back)
def plain(error):
    def stop(number, frame):
        raise error
    return stop
def named(error):
    def stop(*given, error=error):
        raise error
    return stop
def careful(error):
    def stop(number, frame):
        del frame
        signal.signal(number, signal.SIG_DFL)
        raise error
    return stop
BOTH = [signal.SIGUSR1, signal.SIGUSR2]
x = jnp.ones(8)
count = 0
def compiled():
    global count
    count += 1
    return jax.jit(lambda x: x * count)(x)
def found(event, is_place, handlers):
    def profile(frame, *rest):
        hit = rest[0] == event and is_place(frame)
        del frame  # or it had the looks of a handler
        if hit:
            sys.setprofile(None)
            signal.pthread_sigmask(signal.SIG_BLOCK, BOTH)
            for number in BOTH[:len(handlers)]:
                signal.raise_signal(number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, BOTH)
    for number, handler in zip(BOTH, handlers):
        signal.signal(number, handler)
    compiled()
    try:
        sys.setprofile(profile)
        compiled()
    except BaseException as error:
        return error
    finally:
        sys.setprofile(None)
PLACES = (("call", is_call), ("call", is_within), ("return", is_within), ("return", is_call))
"""


def test_what_handlers_of_signals_raise_comes_out_of_calls_as_it_is(tmp_path: Path) -> None:
    """Before the first line of what C++ calls, within, and behind it; the call is done all the
    same, and those after it are none of the handler's."""
    script = """
for place in PLACES:
    for make in (plain, named, careful):
        for error in (Stop("told to"), KeyboardInterrupt(), SystemExit(3)):
            assert found(*place, [make(error)]) is error, (place, make)
            assert float(compiled()[0]) == count
"""
    run(SIGNALS + script, tmp_path)


def test_what_two_handlers_raise_in_one_call_comes_out_of_that_call(tmp_path: Path) -> None:
    """Also where they say the same: the former is the context of the latter."""
    script = """
for place in PLACES:
    for texts in (("one", "two"), ("same", "same")):
        errors = [Stop(x) for x in texts]
        last = found(*place, [careful(x) for x in errors])
        assert last is errors[1] and last.__context__ is errors[0], (place, repr(last))
        assert float(compiled()[0]) == count
"""
    run(SIGNALS + script, tmp_path)


def test_what_a_call_itself_raises_is_its_error(tmp_path: Path) -> None:
    """It is known by its coming again."""
    script = """
from lowtide.pjrt import host_memory
given, take, begun = np.ones((64, 64), np.float32), host_memory.dense_copy, []
def broken(*given):
    begun.append(given)
    raise KeyError("a fault")
jax.device_put(given).block_until_ready()
for _ in range(2):
    host_memory.dense_copy = broken
    begun.clear()
    try:
        jax.device_put(given[:, ::2]).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        assert "KeyError: 'a fault'" in str(error), error
    else:
        raise AssertionError("nothing was raised")
    assert len(begun) == 2, len(begun)
    host_memory.dense_copy = take
    assert float(jax.device_put(given[:, ::2]).sum()) == 64 * 32
"""
    run(SIGNALS + script, tmp_path)


def test_what_is_raised_in_a_thread_stays_there(tmp_path: Path) -> None:
    """No handler runs but in the main thread; what a tracer raises is an error of the call."""
    silent = """
import sys
sys.unraisablehook = lambda found: None  # the plugin's hook, made later, tells it of tracers
"""
    script = """
import threading
def work(is_place):
    def trace(frame, event, _):
        call = frame if is_place is is_call else frame.f_back
        if is_place(frame) and call.f_locals["may_fail"]:
            sys.settrace(None)
            raise Stop("of the tracer")
    sys.settrace(trace)
    try:
        compiled()
    except Exception as error:
        seen.append(f"{type(error).__name__} {error}")
    finally:
        sys.settrace(None)
for is_place in (is_call, is_within):
    seen = []
    thread = threading.Thread(target=work, args=(is_place,))
    thread.start()
    thread.join()
    assert len(seen) == 1 and "JaxRuntimeError" in seen[0] and "of the tracer" in seen[0], seen
    assert float(compiled()[0]) == count
"""
    run(silent + SIGNALS + script, tmp_path)


def test_factorizations_are_those_of_the_processor(tmp_path: Path) -> None:
    script = """
    x = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32))
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(u * s @ v, x, atol=1e-5)
    q, r = jnp.linalg.qr(x)
    np.testing.assert_allclose(q @ r, x, atol=1e-5)
    np.testing.assert_allclose(jnp.linalg.lstsq(x, x[:, 0])[0], [1, 0, 0], atol=1e-5)
    """
    run(script, tmp_path)


def test_a_compiled_program_tells_its_schedule_and_its_memory(tmp_path: Path) -> None:
    script = """
    x = jnp.ones((64, 64))
    compiled = jax.jit(lambda x: jnp.exp(x) @ x).lower(x).compile()
    assert "is_scheduled=true" in compiled.as_text()
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 64 * 64 * 4
    assert memory.temp_size_in_bytes >= 0 and memory.generated_code_size_in_bytes > 0
    """
    run(script, tmp_path)


def test_values_are_pinned_in_memory(tmp_path: Path) -> None:
    """What XLA's processor has no code for."""
    script = """
    from jax._src.state.primitives import pin, unpin
    x = jnp.arange(6.0).reshape(2, 3)
    for place in (None, "hbm", "vmem"):
        found = jax.jit(lambda v: unpin(pin(v * 2, to=place)) + v)(x)
        assert found.tolist() == (np.asarray(x) * 3).tolist()
    given = jax.jit(lambda v: unpin(pin(v)) + 1, donate_argnums=0)(x + 0)
    assert given.tolist() == (np.asarray(x) + 1).tolist()
    """
    run(script, tmp_path)


def test_what_is_missing_is_an_exception_that_says_so(tmp_path: Path) -> None:
    script = """
    def function(x):
        return jax.ffi.ffi_call("nobody", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    try:
        jax.jit(function)(jnp.ones(3))
    except Exception as error:
        assert "register_ffi_target" in str(error)
    print(jax.jit(lambda x: x + 1)(1))
    """
    assert run(script, tmp_path).splitlines()[-1] == "2"


def test_arrays_die_while_an_exception_is_pending(tmp_path: Path) -> None:
    script = """
    def failing():
        kept = [jnp.ones(10) * i for i in range(20)]
        raise KeyError("mine")
    for _ in range(20):
        try:
            failing()
        except KeyError as error:
            assert error.args == ("mine",)
    """
    run(script, tmp_path)


def test_threads_call_and_fetch_at_once(tmp_path: Path) -> None:
    script = """
    from concurrent.futures import ThreadPoolExecutor
    step = jax.jit(lambda x: x * 2 + 1)
    def work(seed):
        x = jnp.full(16, float(seed))
        for _ in range(100):
            x = step(x) * 0.25
            x.block_until_ready()
        return float(np.asarray(x)[0])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    np.testing.assert_allclose(found, 0.5, rtol=1e-6)
    """
    run(script, tmp_path)


def test_nothing_leaks(tmp_path: Path) -> None:
    script = """
    from lowtide.pjrt.handles import held_count
    step = jax.jit(lambda x: (x + 1, x * 2))
    x = jnp.ones(100)
    def counted():
        for _ in range(50):
            y, z = step(x)
        del y, z
        return held_count()
    counted()
    first = counted()
    assert counted() == first, (first, counted())
    """
    run(script, tmp_path)


def test_devices_have_arrays_of_their_own(tmp_path: Path) -> None:
    script = """
    first, second = jax.devices()
    x = jax.device_put(np.arange(4.0, dtype=np.float32), second)
    y = jax.jit(lambda x: x + 1)(x)
    assert y.devices() == {second}
    z = jax.device_put(y, first)
    assert z.devices() == {first} and z.tolist() == [1, 2, 3, 4]
    mesh = jax.make_mesh((2,), ("a",))
    parts = jax.NamedSharding(mesh, jax.P("a"))
    w = jax.jit(lambda x: x + 1, in_shardings=parts)(np.ones(4, np.float32))
    assert w.sharding == parts and [x.data.tolist() for x in w.addressable_shards] == [[2, 2]] * 2
    """
    run(script, tmp_path, LOWTIDE_DEVICES="2")


def test_numbers_of_devices_may_take_two_bytes(tmp_path: Path) -> None:
    script = """
    last = jax.devices()[-1]
    x = jax.jit(lambda x: x + 1)(jax.device_put(np.ones(3, np.float32), last))
    assert x.devices() == {last} and last.id == 299
    """
    run(script, tmp_path, LOWTIDE_DEVICES="300")


def test_devices_have_a_fingerprint_for_the_cache_of_programs(tmp_path: Path) -> None:
    """Without one, JAX logs an error for each program that its cache on disk is asked for."""
    script = """
    import logging
    from jax._src.lib import xla_client
    print(xla_client.get_topology_for_devices(jax.devices()).fingerprint())
    logging.basicConfig(level=logging.INFO)
    jax.jit(lambda x: x + 1)(jnp.ones(3))
    """
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "kept")}
    found = [run(script, tmp_path, LOWTIDE_DEVICES=x, **settings) for x in ("1", "1", "2")]
    assert found[0] == found[1] != found[2] and int(found[0]) > 0


def test_jax_starts_no_platform_that_nobody_asked_for(tmp_path: Path) -> None:
    script = """
    import sys
    assert jax.default_backend() == "cpu"
    assert "lowtide.pjrt.table" not in sys.modules
    """
    run(script, tmp_path, "")
    run(script, tmp_path, "cpu")
