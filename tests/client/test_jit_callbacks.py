"""JAX's calls back into Python through `lowtide.jit`: values, effects, order, errors, threads."""

import gc
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from tests.support import HANG_SECONDS

import lowtide
from lowtide.options import Options

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax
io_callback = pytest.importorskip("jax.experimental").io_callback

X = np.arange(4, dtype=np.float32)
jit = partial(lowtide.jit, options=Options(cache=False))


def scalar(dtype="float32"):
    return jax.ShapeDtypeStruct((), dtype)


def sine(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def check_like_jax(function, *arguments):
    found, wanted = jit(function)(*arguments), jax.jit(function)(*arguments)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, wanted)


# -- values --------------------------------------------------------------------------------------


KINDS = "bool int4 uint2 int8 uint16 int32 float16 bfloat16 float8_e5m2 complex64"


@pytest.mark.parametrize("dtype", KINDS.split())
@pytest.mark.parametrize("sizes", [(), (0, 2), (3, 4)], ids=str)
def test_arrays_of_every_type_come_and_go(dtype, sizes):
    x = jnp.ones(sizes, dtype)
    seen = []

    def function(x):
        seen.append(x)
        return x

    found = jit(lambda x: jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(x)
    assert bool(seen) == bool(x.size)  # Nothing is asked where there is one answer.
    assert all(isinstance(y, jax.Array) and y.dtype == x.dtype for y in seen)
    assert found.dtype == x.dtype and found.shape == sizes
    assert found.tobytes() == np.asarray(x).tobytes()


def test_trees_go_in_and_out_and_numbers_come_back():
    spec = {"a": scalar(), "b": (scalar("int32"), jax.ShapeDtypeStruct((4,), "float32"))}

    def function(tree, *, scale):
        return {"a": 1.5, "b": (2, tree["x"] * scale)}

    check_like_jax(lambda x: jax.pure_callback(function, spec, {"x": x}, scale=x[1] + 2), X)


def test_vmap_grad_scan_and_branches_over_callbacks():
    @jax.custom_jvp
    def smooth(x):
        return sine(x)

    smooth.defjvps(lambda t, answer, x: t * jax.pure_callback(np.cos, x, x))
    check_like_jax(jax.grad(lambda x: smooth(x * 2).sum()), X)
    for method in ("sequential", "expand_dims", "broadcast_all"):
        call = partial(jax.pure_callback, np.sin, scalar(), vmap_method=method)
        check_like_jax(jax.vmap(call), X)
    check_like_jax(lambda x: lax.scan(lambda c, y: (sine(c) + y, c), x[0], x), X)
    check_like_jax(lambda x: lax.map(sine, x), X)
    check_like_jax(lambda x: lax.cond(x[0] > 1, sine, lambda x: x, x), X)
    check_like_jax(lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: sine(c) + c + 2, x), X)
    check_like_jax(jax.checkpoint(lambda x: sine(sine(x) * 2) + x), X)


def test_a_branch_that_is_not_taken_is_not_called():
    def fail(x):
        raise AssertionError("taken")

    call = partial(jax.pure_callback, fail, scalar())
    f = jit(lambda x: lax.cond(x > 3, call, lambda x: x, x))
    assert f(np.float32(2)) == 2
    with pytest.raises(AssertionError, match="taken"):
        f(np.float32(4))
    zero = jit(lambda n, x: lax.fori_loop(0, n, lambda i, x: call(x), x))
    assert zero(0, np.float32(4)) == 4


def test_callbacks_call_jitted_functions():
    inner = jit(lambda x: x * 2 + 1)
    outer = jit(lambda x: sine(jax.pure_callback(lambda y: jnp.cumsum(inner(y)), x, x)))
    np.testing.assert_allclose(outer(X), np.sin(np.cumsum(X * 2 + 1)), rtol=1e-5)


def test_64_bits_count_where_they_did_when_the_program_was_made():
    kinds = []
    with jax.enable_x64(True):
        f = jit(lambda x: jax.pure_callback(lambda x: (kinds.append(x.dtype), x * 2)[1], x, x))
        found = f(np.ones(2))
    assert kinds == [np.float64] and found.dtype == np.float64


# -- effects -------------------------------------------------------------------------------------


def test_effects_run_once_each_in_the_order_of_the_program():
    log = []

    def note(tag, x):
        log.append((tag, float(x)))

    @jax.jit
    def layer(x):
        jax.debug.callback(partial(note, "layer"), x)
        return x * 2

    def function(x):
        jax.debug.callback(partial(note, "first"), x)
        y = layer(x)
        io_callback(partial(note, "ordered"), None, y, ordered=True)
        z = layer(y)
        io_callback(partial(note, "unordered"), None, x)
        for i in range(3):
            jax.debug.callback(partial(note, f"late {i}"), y, ordered=i % 2 == 0)
        return z

    f = jit(function)
    expected = [("first", 1), ("layer", 1), ("ordered", 2), ("layer", 2), ("unordered", 1)]
    expected += [(f"late {i}", 2) for i in range(3)]
    for _ in range(2):
        log.clear()
        assert f(np.float32(1)) == 4
        assert log == expected


def test_effects_stay_where_nothing_reads_them_and_under_a_budget():
    log = []

    def function(x):
        io_callback(lambda x: log.append(float(x)), None, x.sum())
        unread = io_callback(lambda x: (log.append(-1.0), x)[1], x, x)  # noqa: F841
        y = jnp.sin(x) @ x
        z = jnp.cos(y) @ y + y
        io_callback(lambda x: log.append(float(x)), None, y[0, 0])
        return z @ x + y

    x = np.eye(64, dtype=np.float32)
    plain = jit(function).lower(x).compile()
    plain(x)
    expected, need = list(log), plain.memory["ladder"]["arena_bytes"]
    assert len(expected) == 3 and -1.0 in expected
    log.clear()
    jit(function, memory=need)(x)
    assert log == expected


def test_effects_in_loops_run_once_a_trip_in_order():
    log = []

    def body(c, x):
        jax.debug.callback(lambda c, x: log.append((int(c), int(x))), c, x)
        io_callback(lambda x: log.append(int(x)), None, x, ordered=True)
        return c + 1, io_callback(lambda x: x * 3, scalar("int32"), x)

    last, found = jit(lambda xs: lax.scan(body, 0, xs))(np.arange(5, dtype=np.int32))
    assert last == 5 and found.tolist() == [0, 3, 6, 9, 12]
    assert log == [y for i in range(5) for y in ((i, i), i)]


def test_prints_look_as_jax_prints_them(capsys):
    def function(x):
        jax.debug.print("x = {x}, y = {}", x * 2, x=x)
        jax.debug.print("{}", x.sum(), ordered=True)
        return x

    jit(function)(X)
    ours = capsys.readouterr().out
    jax.jit(function)(X)
    jax.effects_barrier()
    assert ours == "x = [0. 1. 2. 3.], y = [0. 2. 4. 6.]\n6.0\n"
    assert sorted(ours.splitlines()) == sorted(capsys.readouterr().out.splitlines())


# -- errors --------------------------------------------------------------------------------------


class MineError(Exception):
    pass


def test_the_exception_of_a_callback_is_the_error_of_the_call():
    after = []

    def fail(x):
        raise MineError("on purpose")

    def function(x):
        io_callback(fail, None, x, ordered=True)
        io_callback(after.append, None, x, ordered=True)
        return x + 1

    f = jit(function)
    for _ in range(3):
        with pytest.raises(MineError, match="on purpose") as error:
            f(X)
        assert error.traceback[-1].name == "fail"
        assert error.value.__context__ is None
    assert not after
    with pytest.raises(lowtide.LowtideError, match=r"output shape .* jax\.pure_callback: "):
        jit(lambda x: jax.pure_callback(lambda x: x[:2], x, x))(X)


def test_an_interrupt_in_a_callback_ends_the_call():
    def interrupted(x):
        signal.raise_signal(signal.SIGINT)
        return x

    f = jit(lambda x: jax.pure_callback(interrupted, x, x))
    with pytest.raises(KeyboardInterrupt):
        f(X)
    assert jit(lambda x: x + 1)(X)[0] == 1


def test_several_threads_call_back_at_once():
    meeting = threading.Barrier(4, timeout=HANG_SECONDS)

    def wait(x):
        meeting.wait()  # Only four calls in progress at once get beyond this.
        return x + threading.get_ident() * 0

    f = jit(lambda x: jax.pure_callback(wait, x, x * 2) + 1)
    f.lower(X).compile()

    def work(seed):
        return float(f(np.full(4, seed, np.float32))[0])

    meeting_first = ThreadPoolExecutor(4)
    assert sorted(meeting_first.map(work, range(4))) == [1, 3, 5, 7]


def test_a_function_lives_as_long_as_what_calls_it():
    class Held:
        def __call__(self, x):
            return x + 1

    held = Held()
    watched = weakref.ref(held)
    f = jit(lambda x, held=held: jax.pure_callback(held, x, x))
    compiled = f.lower(X).compile()
    del held, f
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(compiled(X), X + 1)
    del compiled
    gc.collect()
    assert watched() is None


def test_a_first_call_is_checked_unless_that_would_repeat_an_effect():
    log = []
    checked = Options(cache=False, check="first")
    np.testing.assert_allclose(lowtide.jit(sine, options=checked)(X), np.sin(X), rtol=1e-6)
    f = lowtide.jit(lambda x: io_callback(lambda x: (log.append(1), x)[1], x, x), options=checked)
    with pytest.warns(RuntimeWarning, match="has a side effect"):
        f(X)
    assert log == [1]


# -- programs ------------------------------------------------------------------------------------


def test_error_checks_of_equinox_raise_only_where_they_should():
    eqx = pytest.importorskip("equinox")
    f = jit(lambda x: eqx.error_if(x, x < 0, "must be positive") + 1)
    assert f(np.float32(3)) == 4
    with pytest.raises(Exception, match="must be positive"):
        f(np.float32(-3))
    assert f(np.float32(3)) == 4


def test_a_solve_of_diffrax_has_its_gradient():
    diffrax = pytest.importorskip("diffrax")

    def solve(start, rate):
        term = diffrax.ODETerm(lambda t, y, rate: -rate * y)
        steps = diffrax.PIDController(rtol=1e-5, atol=1e-6)
        found = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.1, start, rate, stepsize_controller=steps
        )
        return found.ys.sum()

    arguments = np.array([1, 2], np.float32), np.float32(0.5)
    value, slopes = jit(jax.value_and_grad(solve, argnums=(0, 1)))(*arguments)
    np.testing.assert_allclose(value, 3 * np.exp(-0.5), rtol=1e-4)
    np.testing.assert_allclose(slopes[0], np.exp(-0.5), rtol=1e-4)
    np.testing.assert_allclose(slopes[1], -3 * np.exp(-0.5), rtol=1e-4)


def test_small_kernels_around_a_callback_hand_their_values_over():
    """What small kernels compute lies in memory where a callback reads it, in loops too."""

    def step(i, state):
        x, total = state
        y = x * jnp.sort(x)[i % 2] + x.sum()
        z = sine(y)
        return (x + z.sum(), total + z.max() * jnp.sort(z)[0])

    def run(x):
        return lax.fori_loop(0, 3, step, (x, jnp.float32(0)))

    found, wanted = jit(run)(X), jax.jit(run)(X)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3), found, wanted)
