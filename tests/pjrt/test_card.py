"""Programs of JAX on the platform "lowtide" whose device is an emulated graphics processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from tests.support import HANG_SECONDS

from lowtide.emulator.device import DeviceFaults, EmulatedDriver
from lowtide.pjrt.card_memory import GRAIN, CardMemory
from lowtide.runtime.gpu.driver import DeviceMemoryError
from lowtide.runtime.gpu.execution import STREAMS

pytest.importorskip("jax")

CARD = {"LOWTIDE_OPTIONS": "target=cuda:emulated"}
HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from threading import Thread
lax = jax.lax
close = lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5)
def expect(text, call):
    try:
        jax.block_until_ready(call())
    except Exception as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"no error that says {text!r}")
"""


def run(
    script: str, folder: Path, platforms: str = "lowtide", code: int = 0, **settings: str
) -> tuple[str, str]:
    """Return what a script prints, and what it prints as errors but for JAX's line."""
    path = folder / "script.py"
    path.write_text(HEAD + dedent(script))
    settings = settings or CARD
    found = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": platforms, **settings},
        timeout=HANG_SECONDS,
    )
    errors = [x for x in found.stderr.splitlines() if "is experimental" not in x]
    assert found.returncode == code, found.stderr
    return found.stdout, "\n".join(errors)


def run_quietly(script: str, folder: Path, platforms: str = "lowtide") -> None:
    """Run a script in which nothing is left to the processor."""
    assert run(script, folder, platforms)[1] == ""


def test_functions_give_the_results_of_xla(tmp_path: Path) -> None:
    script = """
    cpu = jax.devices("cpu")[0]
    assert jax.devices()[0].device_kind == "an emulated device" and len(jax.devices()) == 1
    def check(function, *arguments):
        ours = jax.jit(function)(*arguments)
        with jax.default_device(cpu):
            theirs = jax.jit(function)(*[jax.device_put(np.asarray(x), cpu) for x in arguments])
        assert all(x.devices() == {jax.devices()[0]} for x in jax.tree.leaves(ours))
        jax.tree.map(close, ours, theirs)
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    check(lambda x: (x @ x.T + 1, x.T, x[:0]), x)
    check(lambda x: (x[::-1].T, jnp.sort(x, 1), jnp.cumsum(x, 0)), x)
    check(jax.value_and_grad(lambda x: jnp.sum(jnp.tanh(x @ x.T) ** 2)), x)
    check(lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), x)
    check(lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5), (0, x)), x)
    check(lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), x)
    check(lambda x: jax.random.normal(jax.random.key(3), (4,)) + x[0, 0], x)
    check(lambda x: jnp.fft.fft(x.astype(jnp.complex64)).real, x)
    check(lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(5)), x)
    check(lambda x: (), x)
    """
    run_quietly(script, tmp_path, "lowtide,cpu")


def test_arrays_of_every_type_go_there_and_back_whole(tmp_path: Path) -> None:
    script = """
    import ml_dtypes
    for name in "bool int4 uint4 int8 uint16 int32 float16 bfloat16 float8_e5m2 complex64".split():
        kind = jnp.dtype(name)
        for x in (np.arange(6).reshape(2, 3), np.zeros((0, 2)), np.array(1), np.arange(8)[::-2]):
            x = x.astype(kind)
            for y in (jnp.asarray(x), jax.device_put(x), jnp.copy(jnp.asarray(x))):
                assert y.dtype == kind and y.shape == x.shape, name
                np.testing.assert_array_equal(np.asarray(y).astype("c8"), x.astype("c8"))
            np.testing.assert_array_equal(np.asarray(y.T).astype("c8"), x.T.astype("c8"))
    x = np.asfortranarray(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    y = jax.device_put(x)
    x[:] = 0
    np.testing.assert_array_equal(y, np.arange(12).reshape(3, 4))
    """
    run_quietly(script, tmp_path)


def test_arrays_in_orders_of_their_own_are_taken(tmp_path: Path) -> None:
    script = """
    from jax.experimental.layout import Format, Layout
    x = jnp.arange(12.0).reshape(3, 4)
    turned = Format(Layout((1, 0)), x.sharding)
    y = jax.device_put(x, turned)
    assert y.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(jax.jit(lambda x: x * 2)(y), np.arange(12).reshape(3, 4) * 2)
    made = jax.jit(lambda x: x + 1, out_shardings=turned)(x)
    np.testing.assert_array_equal(made, np.arange(12).reshape(3, 4) + 1)
    np.testing.assert_array_equal(jnp.asarray(made) + y, np.arange(12).reshape(3, 4) * 2 + 1)
    """
    run_quietly(script, tmp_path)


def test_a_training_loop_with_donation_keeps_its_memory(tmp_path: Path) -> None:
    script = """
    device = jax.devices()[0]
    def loss(w, x):
        return jnp.mean((jnp.tanh(x @ w) - 0.5) ** 2)
    @jax.jit
    def plain(w, x):
        return w - 0.1 * jax.grad(loss)(w, x)
    step = jax.jit(plain, donate_argnums=0)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32))
    w, reference = jnp.zeros((64, 64)), np.zeros((64, 64), np.float32)
    for _ in range(4):
        before, w = w, step(w, x)
        assert before.is_deleted()
        reference = np.asarray(plain(reference, x))
    np.testing.assert_array_equal(w, reference)
    first = device.memory_stats()
    for _ in range(4):
        w = step(w, x)
    last = device.memory_stats()
    assert last["pool_bytes"] == first["pool_bytes"] and last["bytes_limit"] == 1 << 40
    assert first["pool_bytes"] >= first["bytes_in_use"] > 64 * 64 * 4
    expect("deleted", lambda: step(before, x))
    expect("donate", lambda: jax.jit(lambda x, y: x + y, donate_argnums=0)(w, w))
    seen = np.asarray(w)
    was = seen.copy()
    step(w, x)
    np.testing.assert_array_equal(seen, was)
    """
    run_quietly(script, tmp_path)


def test_deleted_arrays_and_programs_give_their_memory_back(tmp_path: Path) -> None:
    script = """
    device = jax.devices()[0]
    f = jax.jit(lambda x: jnp.sin(x) + 1)
    x = jnp.ones(1 << 16)
    y = f(x)
    before = device.memory_stats()["bytes_in_use"]
    y.delete()
    expect("deleted", lambda: y + 1)
    assert before - device.memory_stats()["bytes_in_use"] == 4 << 16
    for size in range(1, 5):  # What is let go of is taken again.
        f.clear_cache()
        z = f(x)
        del z
    assert device.memory_stats()["peak_pool_bytes"] < 8 * (4 << 16)
    """
    run_quietly(script, tmp_path)


def test_what_the_host_has_to_do_runs_there_and_is_said_once_for_each_program(
    tmp_path: Path,
) -> None:
    script = """
    log = []
    @jax.jit
    def step(x):
        y = jax.pure_callback(np.sin, x, x)
        jax.debug.callback(lambda x: log.append(float(x[0])), y)
        return y * 2
    x = jnp.ones(4)
    for _ in range(2):
        x = step(x)
    jax.effects_barrier()
    close(log, [np.sin(1), np.sin(2 * np.sin(1))])
    close(x, 2 * np.sin(2 * np.sin(1)) * np.ones(4))
    inner = jax.jit(lambda x: x * 3)
    nested = jax.jit(lambda x: jax.pure_callback(lambda x: inner(x), x, x))
    close(nested(x), x * 3)
    def fail(x):
        raise KeyError("out of luck")
    expect("out of luck", lambda: jax.jit(lambda x: jax.pure_callback(fail, x, x))(x))
    """
    _, errors = run(script, tmp_path)
    said = [x for x in errors.splitlines() if "runs on the processor" in x]
    assert [x.split()[0] for x in said] == ["jit_step", "jit__lambda", "jit__lambda"]
    assert all("a function of the host" in x for x in said)


def test_factorizations_are_right(tmp_path: Path) -> None:
    script = """
    x = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32))
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    close(u * s @ v, x)
    q, r = jnp.linalg.qr(x)
    close(q @ r, x)
    w, z = jnp.linalg.eigh(x.T @ x)
    close(z * w @ z.T, x.T @ x)
    close(jnp.linalg.solve(x.T @ x, x.T @ x), np.eye(3))
    """
    run_quietly(script, tmp_path)


def test_threads_call_at_once(tmp_path: Path) -> None:
    script = """
    f = jax.jit(lambda x, y: x @ y + 1)
    wrong = []
    def work(number):
        x = np.full((8, 8), number, np.float32)
        for _ in range(5):
            z = f(x, jnp.asarray(x))
            if not (np.asarray(z) == 8 * number * number + 1).all():
                wrong.append(number)
    threads = [Thread(target=work, args=(i,)) for i in range(6)]
    [x.start() for x in threads]
    [x.join() for x in threads]
    assert not wrong
    """
    run_quietly(script, tmp_path)


def test_programs_are_stored_and_kept_by_jax(tmp_path: Path) -> None:
    script = """
    from jax.experimental import serialize_executable as stored
    jax.config.update("jax_compilation_cache_dir", DIR)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_raise_persistent_cache_errors", True)
    x = jnp.arange(6.0).reshape(2, 3)
    constant = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    f = jax.jit(lambda x: jnp.tanh(x) @ constant)
    wanted = np.asarray(f(x))
    jax.clear_caches()
    np.testing.assert_array_equal(f(x), wanted)
    compiled = f.lower(x).compile()
    again = stored.deserialize_and_load(*stored.serialize(compiled))
    np.testing.assert_array_equal(again(x), wanted)
    assert compiled.memory_analysis().argument_size_in_bytes == 24
    assert compiled.cost_analysis()["flops"] and "HloModule" in compiled.as_text()
    import os
    assert any("lambda" in x for x in os.listdir(DIR))
    """
    run_quietly(script.replace("DIR", repr(str(tmp_path / "jax"))), tmp_path)


def test_dlpack_hands_out_the_memory_of_the_device(tmp_path: Path) -> None:
    script = """
    x = jnp.arange(6.0).reshape(2, 3)
    y = np.from_dlpack(x)  # The memory of an emulated device is the host's.
    assert y.ctypes.data == x.unsafe_buffer_pointer()
    x.delete()
    jnp.ones((2, 3)) + 1
    np.testing.assert_array_equal(y, np.arange(6).reshape(2, 3))
    given = np.arange(4.0, dtype=np.float32)
    taken = jax.dlpack.from_dlpack(given)
    given[:] = 9
    np.testing.assert_array_equal(taken + 1, [1, 2, 3, 4])
    assert not hasattr(taken, "__cuda_array_interface__")
    assert np.from_dlpack(jnp.zeros((0, 2))).shape == (0, 2)
    """
    run_quietly(script, tmp_path)


def test_errors_are_those_of_the_call_and_the_next_one_runs(tmp_path: Path) -> None:
    script = """
    f = jax.jit(lambda x: jnp.zeros(1 << 41, jnp.int8) + x)
    expect("RESOURCE_EXHAUSTED", lambda: f(jnp.int8(1)))
    close(jax.jit(lambda x: x + 1)(1.0), 2.0)
    checked = jax.jit(lambda x: x + 1, compiler_options={"check": "first"})
    expect("check compares calls of processors", lambda: checked(1.0))
    close(jax.jit(lambda x: x + 1, compiler_options={"target": "cpu"})(1.0), 2.0)
    other = jax.jit(lambda x: x + 1, compiler_options={"target": "cuda:sm_80"})
    expect("cuda:emulated", lambda: other(1.0))
    """
    run_quietly(script, tmp_path)


def test_programs_that_do_not_run_make_room_and_run_again(tmp_path: Path) -> None:
    script = """
    import lowtide.emulator.device as emulated
    whole, most = emulated.EmulatedDriver, emulated.DeviceFaults(memory=1 << 21)
    emulated.EmulatedDriver = lambda: whole(faults=most)
    x = jnp.ones(1 << 16)  # 256 KiB: a program takes 512 of them, its result 256 more.
    programs = [jax.jit(lambda x, i=i: x * i + 1) for i in range(6)]
    for turn in range(2):
        for i, f in enumerate(programs):
            np.testing.assert_array_equal(f(x), np.full(1 << 16, i + 1))
    stats = jax.devices()[0].memory_stats()
    assert stats["pool_bytes"] <= stats["bytes_limit"] == 1 << 21
    large = jax.jit(lambda x: jnp.tile(x, 16))
    expect("RESOURCE_EXHAUSTED", lambda: large(x))
    expect("takes 262,144 for arguments", lambda: large(x))
    np.testing.assert_array_equal(programs[2](x), np.full(1 << 16, 3))
    y = jax.device_put(np.ones(3 << 17, np.float32))  # The last program gives way, too.
    assert jax.devices()[0].memory_stats()["pool_bytes"] == 7 << 18
    expect("RESOURCE_EXHAUSTED", lambda: jax.device_put(np.ones(3 << 17, np.float32)))
    y.delete()
    np.testing.assert_array_equal(programs[2](x), np.full(1 << 16, 3))
    """
    run_quietly(script, tmp_path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"LOWTIDE_OPTIONS": "target=cuda:emulatd"}, "did you mean 'cuda:emulated'"),
        ({"LOWTIDE_TARGET": "cuda:emulated", "LOWTIDE_DEVICES": "2"}, "LOWTIDE_DEVICES"),
        ({"LOWTIDE_OPTIONS": "check=contracts,target=cuda:emulated"}, "check=contracts"),
    ],
)
def test_what_cannot_be_is_one_error_when_jax_starts(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    script = """
    try:
        jax.devices()
    except RuntimeError as error:
        print(error)
    """
    lines = run(script, tmp_path, **settings)[0].splitlines()
    assert len(lines) == 1 and said in lines[0] and "'lowtide'" in lines[0]


def test_the_short_form_says_the_same(tmp_path: Path) -> None:
    script = """
    assert jax.devices()[0].device_kind == "an emulated device"
    close(jnp.ones(3) + 1, [2, 2, 2])
    """
    assert run(script, tmp_path, LOWTIDE_TARGET="cuda:emulated")[1] == ""


# -- memory --------------------------------------------------------------------------------------


def test_memory_that_was_given_back_is_that_of_the_next_array() -> None:
    memory = CardMemory(EmulatedDriver(), lambda: False)
    first = memory.allocate(100)
    second = memory.allocate(100)
    memory.free(first)
    assert memory.allocate(GRAIN) == first != second
    assert memory.stats() == {"pool_bytes": 2 * GRAIN, "peak_pool_bytes": 2 * GRAIN}


def test_what_waits_and_then_what_others_use_gives_way() -> None:
    driver = EmulatedDriver(faults=DeviceFaults(memory=8 * GRAIN))
    held: list[int] = []

    def make_room() -> bool:
        if held:
            memory.free(held.pop())
            return True
        return False

    memory = CardMemory(driver, make_room)
    held.append(memory.allocate(2 * GRAIN))
    memory.free(memory.allocate(4 * GRAIN))
    memory.allocate(6 * GRAIN)
    assert held
    memory.allocate(2 * GRAIN - 1)
    assert not held
    with pytest.raises(DeviceMemoryError):
        memory.allocate(1)
    assert memory.stats()["pool_bytes"] == driver.room()[1]


def test_streams_are_few_and_differ_within_a_program() -> None:
    memory = CardMemory(EmulatedDriver(), lambda: False)
    memory.stream()
    found = [memory.stream() for _ in range(2 * STREAMS)]
    assert len(set(found)) == len(set(found[:STREAMS])) == STREAMS
    assert np.all(np.array(found[:STREAMS]) == found[STREAMS:])
