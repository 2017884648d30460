"""`jit` against `jax.jit`: values, types, trees, stages, settings, donation, errors, fallback."""

import subprocess
import sys
import warnings
from functools import partial
from threading import Thread

import numpy as np
import pytest
from tests.client.reference import Compiler
from tests.support import HANG_SECONDS

from lowtide.client.jit import jit as lowtide_jit
from lowtide.client.jit.arguments import leaf_keys
from lowtide.client.jit.jax_arrays import key_class, opened_key
from lowtide.ir import UnsupportedOpError
from lowtide.options import Options

jax = pytest.importorskip("jax")
jnp = jax.numpy
mlir = pytest.importorskip("jax.interpreters.mlir")
emit_python_callback = pytest.importorskip("jax._src.callback").emit_python_callback
primitive = pytest.importorskip("jax.extend.core").Primitive
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
KEY = jax.random.key(5)


def jit(function, compiler=None, **keywords):
    return lowtide_jit(function, compiler=compiler or Compiler(), **keywords)


def check_like_jax(function, *arguments, **keywords):
    found = jit(function)(*arguments, **keywords)
    wanted = jax.jit(function)(*arguments, **keywords)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(wanted)
    pairs = zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(wanted), strict=True)
    for ours, theirs in pairs:
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, 1e-6)


# -- values and types ------------------------------------------------------------------------------

LEAVES = {
    "committed": lambda: jax.device_put(X, jax.devices()[0]),
    "column major": lambda: np.asfortranarray(X),
    "view": lambda: X[:, ::-1],
    "memory map": lambda: X.view(np.memmap),
    "NumPy scalar": lambda: np.float64(2.5),
    "NumPy bool": lambda: np.bool_(True),
    "weak": lambda: jnp.asarray(2.5),
    "bfloat16 scalar": lambda: jnp.bfloat16.dtype.type(1.5),
    "int4": lambda: jnp.ones((2, 3), jnp.int4),
    "float8": lambda: jnp.ones((2, 3), jnp.float8_e4m3fn),
    "complex": lambda: X * 1j,
    "tangent of an integer": lambda: np.zeros((2, 3), jax.dtypes.float0),
    "key": lambda: jax.random.key(3),
    "keys": lambda: jax.random.split(jax.random.key(3), (2, 2)),
    "key of another kind": lambda: jax.random.key(3, impl="rbg"),
}


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("output", ["numpy", "jax"])
def test_leaves_of_any_type_go_in_and_come_out_as_of_jax(name, output):
    given = LEAVES[name]()
    ours = jit(lambda x: {"x": x}, output=output)
    for _ in range(2):  # The second time by the short way.
        found, wanted = ours(given)["x"], jax.jit(lambda x: x)(given)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if jnp.issubdtype(wanted.dtype, jax.dtypes.prng_key):
            found, wanted = jax.random.key_data(found), jax.random.key_data(wanted)
        assert found.dtype == wanted.dtype
        assert np.array_equal(np.asarray(found), np.asarray(wanted)) or found.dtype.kind == "V"
        if output == "jax" and found.dtype.kind != "V":
            assert found.weak_type == wanted.weak_type
            assert not found.committed


def test_functions_may_be_made_and_called_first_while_jax_traces_another():
    for cached in (leaf_keys, opened_key, key_class):
        cached.cache_clear()
    seen = []

    def outer(x):
        inner = jit(lambda a, key: a + jax.random.uniform(key, a.shape), output="jax")
        seen.append(inner(X, KEY))
        return inner(x, KEY)

    wanted = jax.jit(outer)(X)
    assert isinstance(seen[0], jax.Array)
    np.testing.assert_allclose(seen[0], wanted)
    check_like_jax(lambda x: x + 1, jnp.asarray(X))


def test_what_is_no_array_is_refused_and_falls_back():
    def double(ref):
        ref[...] = ref[...] * 2

    ref, token = jax.new_ref(jnp.ones(3)), jax.lax.create_token()
    with pytest.raises(UnsupportedOpError, match="only arrays and keys of random numbers"):
        jit(double)(ref)
    with pytest.raises(UnsupportedOpError, match="AbstractToken"):
        jit(lambda x: x)(token)
    with pytest.raises(UnsupportedOpError, match="closes over has to be constant"):
        jit(lambda x: ref[...] + x)(X[0])
    with pytest.warns(RuntimeWarning, match="only arrays"):
        jit(double, fallback=True)(ref)
    np.testing.assert_array_equal(ref[...], [2, 2, 2])


PROGRAMS = {
    "one array": (lambda x: x + 1, (X,)),
    "a scalar result": (lambda x: x.sum(), (X,)),
    "a tuple of one": (lambda x: (x * 2,), (X,)),
    "nothing": (lambda x: None, (X,)),
    "no arguments": (lambda: jnp.arange(3), ()),
    "an argument returned": (lambda x, y: (x, y + x, x), (X, Y)),
    "an unused argument": (lambda x, y: y * 2, (X, Y)),
    "trees": (lambda t, s: {"a": t["b"][0] - t["a"], "n": None, "s": s}, ({"a": X, "b": [Y]}, 2)),
    "weak int": (lambda x, n: x * n, (X.astype(np.int8), 3)),
    "weak float": (lambda x, n: x * n, (X.astype(np.float16), 2.5)),
    "strong scalar": (lambda x, n: x * n, (X.astype(np.float16), np.float32(2.5))),
    "bool": (lambda x, b: jnp.where(b, x, -x), (X, True)),
    "complex": (lambda x: x * 1j, (X,)),
    "bfloat16": (lambda x: x + 1, (X.astype(jnp.bfloat16),)),
    "wide array": (lambda x: x + 1, (X.astype(np.float64),)),
    "strided array": (lambda x: x + 1, (X[:, ::2],)),
    "a closed-over constant": (lambda x: x + Y, (X,)),
    "control flow": (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, a: jax.lax.cond(i > 1, jnp.cos, jnp.sin, a), x),
        (X,),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_jax(name):
    check_like_jax(PROGRAMS[name][0], *PROGRAMS[name][1])


def test_jax_arrays_keywords_and_random_keys_are_arguments():
    check_like_jax(lambda x, *, y: x - y, jnp.asarray(X), y=jnp.float32(2))
    f = jit(lambda key: (jax.random.split(key), jax.random.uniform(key, (3,))))
    key = jax.random.key(3)
    split, numbers = f(key)
    assert (jax.random.key_data(split) == jax.random.key_data(jax.random.split(key))).all()
    np.testing.assert_array_equal(numbers, jax.random.uniform(key, (3,)))


def test_64_bits_count_as_the_settings_say_at_the_call():
    f = jit(lambda x: x * 2.5)
    wide = X.astype(np.float64)
    assert f(wide).dtype == np.float32
    with jax.enable_x64(True):
        assert f(wide).dtype == np.float64
        assert f(1.0).dtype == np.float64
    assert f(wide).dtype == np.float32
    assert f(1.0).dtype == np.float32


# -- what is compiled ------------------------------------------------------------------------------


def test_one_program_serves_all_calls_with_equal_types():
    compiler = Compiler()
    f = jit(lambda x, y: x + y, compiler)
    for x in (X, Y, jnp.asarray(X), X[:, ::-1]):
        f(x, 1)
    assert len(compiler.made) == 1
    f(X, 1.0)  # another weak type
    f(X, np.int32(1))  # not weak
    f(X[:1], 1)
    f(X.astype(np.int32), 1)
    assert len(compiler.made) == 5
    assert f.statistics.misses == 5
    f.clear_cache()
    f(X, 1)
    assert len(compiler.made) == 6


def test_static_arguments_are_part_of_the_key_however_they_are_given():
    compiler = Compiler()

    def power(x, n, *, negate=False):
        assert isinstance(n, int)
        return -(x**n) if negate else x**n

    f = jit(power, compiler, static_argnames=("n", "negate"))
    np.testing.assert_array_equal(f(X, 2), X**2)
    np.testing.assert_array_equal(f(X, 3), X**3)
    np.testing.assert_array_equal(f(X, n=3), X**3)
    np.testing.assert_array_equal(f(X, 3, negate=True), -(X**3))
    np.testing.assert_array_equal(f(X, 2), X**2)
    assert f.statistics.misses == len(compiler.made) == 4
    g = jit(lambda flag, x: x if flag else -x, static_argnums=(-2,))
    np.testing.assert_array_equal(g(1, X), X)
    np.testing.assert_array_equal(g(False, X), -X)
    np.testing.assert_array_equal(g(True, X), X)


def test_threads_compile_one_type_once():
    compiler, found = Compiler(), []
    f = jit(lambda x: x + 1, compiler)
    threads = [Thread(target=lambda: found.append(f(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.made) == 1
    assert all(np.array_equal(x, X + 1) for x in found) and len(found) == 8


def test_within_jax_it_is_jax():
    compiler = Compiler()
    f = jit(lambda x: (x**3).sum(), compiler)
    np.testing.assert_allclose(jax.grad(f)(X), 3 * X**2, 1e-6)
    np.testing.assert_allclose(jax.vmap(f)(X), (X**3).sum(1), 1e-6)
    assert not compiler.made


def test_what_closes_over_a_value_that_jax_traces_is_jax_too():
    compiler = Compiler()

    def whole(weight):
        return jit(lambda x: (x * weight).sum(), compiler)(X)

    assert jax.grad(whole)(2.0) == X.sum()
    assert jax.jit(whole)(2.0) == 2 * X.sum()
    np.testing.assert_array_equal(jax.vmap(whole)(jnp.arange(3.0)), np.arange(3.0) * X.sum())
    assert not compiler.made
    assert whole(2.0) == 2 * X.sum()
    assert len(compiler.made) == 1


def test_methods_are_decorated_as_functions_are():
    class Model:
        weight = 3.0

        @partial(lowtide_jit, static_argnums=0, compiler=Compiler())
        def apply(self, x):
            """Scale."""
            return x * self.weight

    np.testing.assert_array_equal(Model().apply(X), 3 * X)
    assert Model.apply.__name__ == "apply"
    assert Model.apply.__doc__ == "Scale."


# -- stages ----------------------------------------------------------------------------------------


def test_stages_take_specs_and_the_compiled_program_checks_its_arguments():
    f = jit(lambda x, n, y: {"z": (x + y) * n}, static_argnums=1)
    spec = jax.ShapeDtypeStruct((2, 3), np.float32)
    lowered = f.lower(spec, 2, spec)
    assert lowered.as_text().startswith("HloModule")
    compiled = lowered.compile(options=Options(effort="fast"))
    assert compiled.executable.options.effort == "fast"
    assert compiled.executable.options.memory is None
    assert lowered.compile(memory="1KiB").executable.options.memory == 1024
    np.testing.assert_array_equal(compiled(X, Y)["z"], 2 * (X + Y))
    np.testing.assert_array_equal(compiled(X, jnp.asarray(Y))["z"], 2 * (X + Y))
    assert compiled.memory["schema"] == "lowtide.memory/1"
    assert compiled.as_text()
    with pytest.raises(TypeError, match=r"argument .*\[1\].*for float32\[2,3\], .* float32\[1,3\]"):
        compiled(X, Y[:1])
    with pytest.raises(TypeError, match="arguments of another structure"):
        compiled(X)
    assert f.eval_shape(spec, 2, spec)["z"].shape == (2, 3)
    assert f.explain(spec, 2, spec).to_json()["output_bytes"] == 24


# -- donation and output ---------------------------------------------------------------------------


def test_a_limit_of_memory_is_passed_on():
    compiler = Compiler()
    options = Options(effort="fast")
    jit(lambda x: x + 1, compiler, memory="1.5MB", options=options)(X)
    made = compiler.made[0].options
    assert (made.memory, made.effort) == (1_500_000, "fast")


def test_donated_arguments_are_consumed():
    compiler = Compiler()
    f = jit(lambda x, y: x + y, compiler, donate_argnums=0)
    x = jnp.asarray(X)
    np.testing.assert_array_equal(f(x, Y), X + Y)
    assert x.is_deleted()
    for donated in (X.copy(), np.broadcast_to(X[:1], (2, 3)), X.T.copy().T):
        f(donated, Y)
    assert compiler.made[0].consumed == [True] * 4
    (alias,) = compiler.made[0].module.input_output_aliases
    assert (alias.parameter, alias.output_index) == (0, ())


@pytest.mark.parametrize("name", ["one array", "nested"])
def test_arguments_in_one_memory_may_be_donated(name):
    f = lowtide_jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))
    base = np.arange(8, dtype=np.float32)
    x, y = {"one array": (base, base), "nested": (base[:6], base[2:])}[name]
    total, difference = x + y, x - y
    found = f(x, y)
    np.testing.assert_array_equal(found[0], total)
    np.testing.assert_array_equal(found[1], difference)


@pytest.mark.parametrize("form", ["jax", "read-only", "strided", "unaligned"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_array_may_be_donated_to_a_result_of_its_type_or_size(form, number):
    """The last one has the bytes of the sum, which has another shape."""
    f = lowtide_jit(lambda t: [t[0] + t[1], t[2] * 2, t[2].sum()], donate_argnums=0)
    one = np.ones(1, np.float32)
    odd = np.zeros(5, np.uint8)[1:].view(np.float32)
    odd[...] = 1
    read_only = one.copy()
    read_only.flags.writeable = False
    forms = {"jax": jnp.asarray(one), "read-only": read_only, "unaligned": odd}
    given = [one.copy() for _ in range(3)]
    given[number] = forms.get(form, np.ones(2, np.float32)[::2])
    assert [x.tolist() for x in f(given)] == [[2.0], [2.0], 1.0]


def test_what_cannot_be_donated_is_left_alone():
    f = lowtide_jit(lambda x: x.sum(), donate_argnums=0)
    x = jnp.asarray(X)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        assert f(x) == X.sum()
    assert not x.is_deleted()


@pytest.mark.parametrize("number", [3, 2.5, True, np.float32(2.5), X])
def test_jax_results_are_as_weakly_typed_as_those_of_jax(number):
    def function(x):
        return x * 2, -x if x.dtype != bool else x, jnp.float32(x)

    found = lowtide_jit(function, output="jax")(number)
    for ours, theirs in zip(found, jax.jit(function)(number), strict=True):
        assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
        np.testing.assert_array_equal(ours, theirs)


def test_results_are_jax_arrays_on_request_without_a_copy():
    made = []

    def aligned(module, options):
        def execute(*arrays, consume=False):
            buffer = np.zeros(24 + 64, np.uint8)
            start = -buffer.ctypes.data % 64
            made.append(buffer[start : start + 24].view(np.float32).reshape(2, 3))
            return made[-1]

        return execute

    result = jit(lambda x: x + 1, aligned, output="jax")(X)
    assert isinstance(result, jax.Array)
    assert result.unsafe_buffer_pointer() == made[0].ctypes.data
    with pytest.raises(
        ValueError, match="output is 'numpy' or 'jax' or 'device', not 'jac'; did you"
    ):
        jit(lambda x: x, output="jac")


# -- errors ----------------------------------------------------------------------------------------


def test_errors_of_tracing_are_those_of_jax():
    def wrong(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        jit(wrong)(X)
    with pytest.raises(TypeError) as ours:
        jit(wrong)("text")
    with pytest.raises(TypeError) as theirs:
        jax.jit(wrong)("text")
    assert str(ours.value) == str(theirs.value)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        jit(lambda x, n: x, static_argnums=1)(X, [])
    with pytest.raises(OverflowError):
        jit(lambda n: n)(2**40)


other = primitive("other")
"""An operation that calls Python by a rule of its own, which is for XLA's CPU."""

other.def_abstract_eval(lambda x: x)


def lower_other(context, x):
    return emit_python_callback(
        context,
        lambda x: (np.sin(x),),
        None,
        [x],
        context.avals_in,
        context.avals_out,
        has_side_effect=False,
        returns_token=False,
    )[0]


mlir.register_lowering(other, lower_other, platform="cpu")


def calls_python(x):
    return other.bind(x) + 1


def test_calls_by_rules_of_others_are_refused_with_their_line():
    line = calls_python.__code__.co_firstlineno + 1
    for run in (jit(calls_python), jit(calls_python).lower):
        with pytest.raises(UnsupportedOpError, match=rf"test_jit\.py:{line}: .*call back into"):
            run(X)


def test_fallback_runs_jax_and_says_so_once():
    f = jit(calls_python, fallback=True)
    with pytest.warns(RuntimeWarning, match="calls_python is run by jax.jit, since .*call") as said:
        result = f(X)
    assert [warning.filename for warning in said] == [__file__]
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, np.sin(X) + 1, 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(f(X[:1]), np.sin(X[:1]) + 1, 1e-6)
        np.testing.assert_allclose(f(X), np.sin(X) + 1, 1e-6)


def test_what_the_compiler_refuses_falls_back_too_and_other_errors_do_not():
    f = jit(lambda x: x + 1, Compiler(UnsupportedOpError("no such op")), fallback=True)
    with pytest.warns(RuntimeWarning, match="no such op"):
        np.testing.assert_array_equal(f(X), X + 1)
    with pytest.raises(UnsupportedOpError, match="no such op"):
        jit(lambda x: x + 1, Compiler(UnsupportedOpError("no such op")))(X)
    with pytest.raises(MemoryError):
        jit(lambda x: x + 1, Compiler(MemoryError()), fallback=True)(X)


SPREAD = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, lowtide, warnings
import jax.numpy as jnp
x = jnp.arange(4.0)
y = jax.device_put(x, jax.NamedSharding(jax.make_mesh((2,), ("i",)), jax.P("i")))
f = lowtide.jit(lambda x: x + 1, output="jax")
print(f(x))
try:
    f(y)
except lowtide.UnsupportedOpError as error:
    print(error)
warnings.simplefilter("ignore")
g = lowtide.jit(lambda x: x + 1, output="jax", fallback=True)
print(len(g(x).devices()), len(g(y).devices()), len(g(x).devices()))
"""


def test_what_lies_on_several_devices_is_refused_also_after_what_does_not():
    run = subprocess.run(
        [sys.executable, "-c", SPREAD], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert run.stderr == ""
    first, second, third = run.stdout.splitlines()
    assert first == "[1. 2. 3. 4.]"
    assert "an argument lies on 2 devices" in second
    assert third == "1 2 1"
