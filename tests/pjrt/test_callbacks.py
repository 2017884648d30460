"""Calls back into Python and into foreign functions on the platform "lowtide"."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tests.pjrt.test_plugin import run

pytest.importorskip("jax")

HEAD = "from jax.experimental import io_callback\nfrom functools import partial\nlax = jax.lax\n"


@pytest.mark.parametrize("platforms", ["lowtide", "lowtide,cpu"])
def test_callbacks_return_values_and_effects_keep_their_order(
    tmp_path: Path, platforms: str
) -> None:
    script = """
    log = []
    @jax.jit
    def step(x):
        jax.debug.print("start {}", x[0])
        y = jax.pure_callback(np.sin, x, x)
        io_callback(lambda x: log.append(float(x[0])), None, y, ordered=True)
        jax.debug.print("ordered {}", y[0], ordered=True)
        jax.debug.callback(lambda x: log.append("seen"), y)
        return y + io_callback(lambda x: x * 2, x, x)
    x = jnp.zeros(4)
    for _ in range(2):
        x = step(x) + 1
    jax.effects_barrier()
    wanted = np.sin(1) + 3
    np.testing.assert_allclose(x, np.full(4, wanted), rtol=1e-6)
    print(log[0] == 0, abs(log[2] - np.sin(1)) < 1e-6, log[1::2])
    """
    found = run(HEAD + dedent(script), tmp_path, platforms).splitlines()
    first, *rest = [x.split()[0] for x in found]
    assert [first, *rest] == ["start", "ordered", "start", "ordered", "True"]
    assert found[-1] == "True True ['seen', 'seen']"


def test_loops_branches_vmap_and_jitted_functions_inside(tmp_path: Path) -> None:
    script = """
    sine = lambda x: jax.pure_callback(np.sin, x, x, vmap_method="sequential")
    x = jnp.arange(4.0)
    close = partial(np.testing.assert_allclose, rtol=1e-5)
    close(jax.jit(jax.vmap(sine))(x), np.sin(np.arange(4)))
    close(jax.jit(lambda x: lax.scan(lambda c, y: (sine(c) + y, c), x[0], x))(x)[0], 3.907)
    fail = lambda x: 1 / 0
    f = jax.jit(lambda x: lax.cond(x > 3, lambda x: jax.pure_callback(fail, x, x), sine, x))
    close(f(1.0), np.sin(1.0))
    inner = jax.jit(lambda x: jnp.cumsum(x) * 2)
    close(jax.jit(lambda x: jax.pure_callback(inner, x, x) + 1)(x), np.cumsum(np.arange(4)) * 2 + 1)
    """.replace("3.907", "float(np.sin(np.sin(np.sin(0.0)+1.0)+2.0)+3.0)")
    for platforms in ("lowtide", "lowtide,cpu"):
        run(HEAD + dedent(script), tmp_path, platforms)


def test_what_a_callback_raises_is_shown_with_its_traceback(tmp_path: Path) -> None:
    script = """
    import logging
    from jax._src import dispatch
    logging.disable()
    after = []
    def on_purpose(x):
        raise KeyError("mine")
    @jax.jit
    def f(x):
        io_callback(on_purpose, None, x, ordered=True)
        io_callback(after.append, None, x, ordered=True)
        return x
    for _ in range(2):
        try:
            jax.block_until_ready(f(jnp.ones(3)))
            jax.effects_barrier()
        except jax.errors.JaxRuntimeError as error:
            text = str(error)
            dispatch.runtime_tokens.clear()  # Else the failed effect is told of again at the end.
            print("jax.io_callback failed" in text, "in on_purpose" in text, "'mine'" in text)
    print(after, jax.jit(lambda x: x + 1)(1))
    """
    lines = run(HEAD + dedent(script), tmp_path).splitlines()
    assert lines == ["True True True", "True True True", "[] 2"]


def test_an_error_of_a_callback_is_that_of_its_call_and_no_later_one(tmp_path: Path) -> None:
    script = """
    import logging
    logging.disable(logging.CRITICAL)
    def fail(x):
        raise ValueError("oh no")
    def loop(call):
        return jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: (call(i), c + 1)[1], 0))
    def told(f, *arguments):
        try:
            f(*arguments)
        except Exception as error:
            return "oh no" in str(error)
    for ordered in (False, True):
        callback = partial(jax.debug.callback, fail, ordered=ordered)
        print(told(jax.jit(callback), 1), told(loop(callback), 2), told(callback, 1))
        jax.effects_barrier()
        jax.jit(lambda x: jax.debug.print("fine {}", x, ordered=ordered))(3)
        jax.effects_barrier()
    mine = jax.jit(lambda x: (jax.debug.callback(fail, x), x + 1)[1], donate_argnums=0)
    x = jnp.zeros(1000)
    print(told(mine, x), x.is_deleted(), jax.devices()[0].memory_stats()["bytes_in_use"])
    """
    found = run(HEAD + dedent(script), tmp_path, "lowtide").splitlines()
    assert found[:-1] == ["True True True", "fine 3"] * 2
    assert found[-1] == "True True 0"


def test_callbacks_write_into_buffers(tmp_path: Path) -> None:
    script = """
    from jax.experimental.buffer_callback import ExecutionStage, buffer_callback
    like = jax.ShapeDtypeStruct((3,), jnp.float32)
    def twice(context, out, x, *, more):
        assert context.stage == ExecutionStage.EXECUTE and out["a"].writeable and not x.writeable
        assert (x.shape, x.ndim, x.dtype, x.__dlpack_device__()) == ((3,), 1, np.float32, (1, 0))
        np.from_dlpack(out["a"])[...] = np.asarray(x) * 2
        np.asarray(out["b"])[...] = np.asarray(more[0], np.float64)
    f = buffer_callback(twice, {"a": like, "b": like}, vmap_method="sequential")
    made = jax.jit(f)(jnp.arange(3.0), more=[jnp.ones(3)])
    print(made["a"].tolist(), made["b"].tolist())
    many = jax.vmap(lambda x: f(x, more=[x]))(jnp.ones((2, 3)))
    print(many["a"].tolist())
    def first(context, out, x):
        np.asarray(out)[0] = 7
    x = jnp.arange(3.0)
    print(buffer_callback(first, like, input_output_aliases={0: 0})(x).tolist(), x.tolist())
    seen = []
    note = buffer_callback(lambda c, o, x: seen.append(np.asarray(x)[0]), (), has_side_effect=True)
    jax.jit(note)(x + 1)
    print(seen == [1])
    import logging
    logging.disable(logging.CRITICAL)
    try:
        jax.block_until_ready(buffer_callback(lambda c, o, x: 1, like)(x))
    except Exception as error:
        print("must not return any values" in str(error))
    """
    found = run(HEAD + dedent(script), tmp_path, "lowtide").splitlines()
    assert found[0] == "[0.0, 2.0, 4.0] [1.0, 1.0, 1.0]"
    assert found[1] == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]"
    assert found[2:] == ["[7.0, 1.0, 2.0] [0.0, 1.0, 2.0]", "True", "True"]


def test_an_effect_runs_on_the_thread_that_calls_and_behind_what_waits(tmp_path: Path) -> None:
    script = """
    import threading
    lock, seen = threading.RLock(), []
    def locked(x):
        with lock:
            seen.append(float(x))
    f = jax.jit(lambda x: (jax.debug.callback(locked, x), x)[1])
    long = jax.jit(lambda x: lax.fori_loop(0, 30, lambda i, y: jnp.tanh(y @ y), x))
    late = jax.jit(lambda x: (jax.debug.callback(locked, x[0, 0] * 0 + 1), x)[1])
    with lock:
        f(0.0)
    x = late(long(jnp.ones((200, 200))))
    f(2.0)
    jax.effects_barrier()
    print(seen)
    threads = [threading.Thread(target=lambda: [f(float(i)) for i in range(50)]) for _ in range(4)]
    [x.start() for x in threads]
    big = jax.jit(lambda x: jax.pure_callback(np.sin, x, x) @ x)
    y = [big(jnp.ones((300, 300))) for _ in range(10)]
    [x.join() for x in threads]
    jax.effects_barrier()
    print(len(seen), len({float(z.sum()) for z in y}))
    """
    found = run(HEAD + dedent(script), tmp_path, "lowtide").splitlines()
    assert found == ["[0.0, 1.0, 2.0]", "203 1"]


@pytest.mark.parametrize("platforms", ["lowtide", "lowtide,cpu"])
def test_prints_outside_of_compiled_functions(tmp_path: Path, platforms: str) -> None:
    script = """
    x = jnp.arange(3)
    jax.debug.print("x = {} {name}", x, name=x.sum(), ordered=True)
    jax.debug.callback(lambda x: print(isinstance(x, jax.Array), x), x)
    jax.vmap(lambda x: jax.debug.print("{}", x))(x)
    """
    wanted = ["x = [0 1 2] 3", "True [0 1 2]", "0", "1", "2"]
    assert run(HEAD + dedent(script), tmp_path, platforms).splitlines() == wanted


def test_threads_call_back_at_once(tmp_path: Path) -> None:
    script = """
    from concurrent.futures import ThreadPoolExecutor
    f = jax.jit(lambda x: jax.pure_callback(lambda x: np.cumsum(x) + 1, x, x) * 2)
    f(jnp.ones(8))
    def work(seed):
        x = jnp.full(8, float(seed))
        for _ in range(50):
            assert float(f(x)[-1]) == (8 * seed + 1) * 2
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    """
    run(HEAD + dedent(script), tmp_path)


def test_foreign_functions_are_found_on_both_platforms(tmp_path: Path) -> None:
    script = """
    import ctypes
    pointers = ctypes.POINTER(ctypes.c_void_p)
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, pointers)
    def double(result, operands):
        given = (ctypes.c_float * 3).from_address(operands[0])
        (ctypes.c_float * 3).from_address(result)[:] = [2 * x for x in given]
    capsule = jax.ffi.pycapsule(ctypes.cast(double, ctypes.c_void_p).value)
    for name, platform in (("mine", "lowtide"), ("theirs", "cpu")):
        jax.ffi.register_ffi_target(name, capsule, platform=platform, api_version=0)
        spec = jax.ShapeDtypeStruct((3,), np.float32)
        call = jax.ffi.ffi_call(name, spec, custom_call_api_version=1)
        print(jax.jit(lambda x: call(x) + 1)(jnp.arange(3.0)).tolist())
    lower, middle = jnp.array([0.0, 1, 2]), jnp.full(3, 5.0)
    found = lax.linalg.tridiagonal_solve(lower, middle, lower, jnp.ones((3, 1)))
    print(found.shape)
    """
    expected = ["[1.0, 3.0, 5.0]", "[1.0, 3.0, 5.0]", "(3, 1)"]
    assert run(HEAD + dedent(script), tmp_path, "lowtide,cpu").splitlines() == expected


def test_error_checks_of_equinox_and_a_solve_of_diffrax(tmp_path: Path) -> None:
    pytest.importorskip("diffrax")
    script = """
    import equinox, diffrax, logging
    logging.disable()
    f = equinox.filter_jit(lambda x: equinox.error_if(x, x < 0, "must be positive") + 1)
    print(float(f(jnp.float32(3))))
    try:
        f(jnp.float32(-3))
    except Exception as error:
        print("must be positive" in str(error))
    def solve(start, rate):
        term = diffrax.ODETerm(lambda t, y, rate: -rate * y)
        steps = diffrax.PIDController(rtol=1e-5, atol=1e-6)
        arguments = term, diffrax.Tsit5(), 0.0, 1.0, 0.1, start, rate
        return diffrax.diffeqsolve(*arguments, stepsize_controller=steps).ys.sum()
    value, slope = jax.jit(jax.value_and_grad(solve))(jnp.array([1.0, 2.0]), 0.5)
    np.testing.assert_allclose(value, 3 * np.exp(-0.5), rtol=1e-4)
    np.testing.assert_allclose(slope, np.exp(-0.5), rtol=1e-4)
    """
    assert run(HEAD + dedent(script), tmp_path).splitlines() == ["4.0", "True"]


def test_shardings_inside_of_programs_are_told(tmp_path: Path) -> None:
    script = """
    from jax import lax
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = jax.device_put(jnp.arange(32.0).reshape(8, 4), jax.NamedSharding(mesh, jax.P("x", "y")))
    told = []
    def look(x):
        jax.debug.inspect_array_sharding(x, callback=told.append)
        return x
    def function(x):
        look(look(x).T * 2)
        look(lax.with_sharding_constraint(x, jax.NamedSharding(mesh, jax.P(None, "x"))))
        return lax.scan(lambda c, _: (look(c) + 1, None), x, None, length=3)[0]
    y = jax.jit(function)(x)
    print([str(s.spec) for s in told], y.sharding.spec)
    assert all(s.mesh == mesh for s in told)
    def fail(sharding):
        raise KeyError("not wanted")
    try:
        jax.jit(lambda x: jax.debug.inspect_array_sharding(x, callback=fail))(x)
    except Exception as error:
        print(type(error).__name__, "not wanted" in str(error))
    jax.debug.inspect_array_sharding(x, callback=lambda s: print(s.spec))
    jax.jit(look)(jnp.ones(3))
    print(len(told), told[-1].is_fully_replicated)
    """
    assert run(script, tmp_path, LOWTIDE_DEVICES="8").splitlines() == [
        "[\"P('x', 'y')\", \"P('y', 'x')\", \"P(None, 'x')\", \"P('x', 'y')\"] P('x', 'y')",
        "JaxRuntimeError True",
        "P('x', 'y')",
        "5 True",
    ]


def test_partitioned_calls_are_made_by_each_device_with_its_tiles(tmp_path: Path) -> None:
    script = """
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = jax.device_put(jnp.arange(8).reshape(4, 2), jax.NamedSharding(mesh, jax.P("x")))
    found = []
    def note(x, y):
        found.append((np.asarray(x).tolist(), int(y)))
    def function(x, y):
        jax.debug.callback(note, x * 2, y, partitioned=True)
        jax.debug.callback(note, x[:1, :1], 5)
        jax.debug.print("{}", x.sum(), partitioned=True)
        return x + 1
    jax.block_until_ready(jax.jit(function)(x, 3))
    jax.effects_barrier()
    tiles = [([[0, 2], [4, 6]], 3), ([[8, 10], [12, 14]], 3)]
    assert sorted(found) == sorted([*tiles, *tiles, ([[0]], 5)]), found
    """
    assert run(script, tmp_path, LOWTIDE_DEVICES="4") == "28\n" * 4


def test_partitioned_calls_get_tiles_that_the_mesh_can_name(tmp_path: Path) -> None:
    script = """
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    places = [jax.NamedSharding(mesh, p) for p in (jax.P("x"), jax.P(None, "x"))]
    found = []
    def function(x, y):
        note = lambda *given: found.append([z.tolist() for z in given])
        jax.debug.callback(note, x, y, partitioned=True)
    rows = jax.jit(jax.vmap(function, in_axes=(0, 1)), in_shardings=places)
    rows(jnp.arange(8).reshape(4, 2), jnp.arange(8).reshape(2, 4))
    jax.effects_barrier()
    assert sorted(found) == sorted([[[2 * i, 2 * i + 1], [i, i + 4]] for i in range(4)] * 4), found
    """
    run(script, tmp_path, LOWTIDE_DEVICES="4")


def test_calls_on_a_device_of_the_mesh_return_what_the_function_does(tmp_path: Path) -> None:
    """Whichever device runs it; XLA's processor returns zeros but for the first one."""
    script = """
    from jax.experimental import io_callback
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("x")))
    kind, counts = jax.ShapeDtypeStruct((8,), jnp.float32), []
    def function(v):
        counts[-1] += 1
        return np.asarray(v) * 2
    for device in jax.devices():
        counts.append(0)
        place = jax.sharding.SingleDeviceSharding(device)
        found = jax.jit(lambda v: v + io_callback(function, kind, v + 1, sharding=place))(x)
        assert found.tolist() == [3 * i + 2 for i in range(8)], found
    assert counts == [1] * 4, counts
    """
    run(script, tmp_path, LOWTIDE_DEVICES="4")


def test_outside_of_programs_functions_get_arrays(tmp_path: Path) -> None:
    script = """
    jax.debug.print("{} {x}", 2, x=3.5)
    jax.debug.callback(lambda x, y: print(type(x).__name__, y.dtype), 2, jnp.arange(2))
    print(jax.pure_callback(lambda x: np.asarray(x) + 1, jax.ShapeDtypeStruct((), "int32"), 4))
    """
    assert run(script, tmp_path) == "2 3.5\nArrayImpl int32\n5\n"
