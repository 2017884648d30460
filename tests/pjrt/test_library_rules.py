"""Lowering rules that JAX has for platforms by name: calls of Python, partitioners of users."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("jax")

from tests.pjrt.test_plugin import run
from tests.pjrt.test_sharded import run_both

from lowtide.pjrt import PLATFORM, library_rules


class _Context:
    """What a rule of JAX is given, for some platforms."""

    def __init__(self, *platforms: str) -> None:
        self.module_context = SimpleNamespace(platforms=platforms)

    def replace(self, **_: object) -> _Context:
        return self


def _emitted(context: _Context, **given: object) -> object:
    usual = ["as JAX does"], None, None
    arguments = (context, list, None, [], [], [])
    return library_rules.emit_call(
        lambda *_, **__: usual, *arguments, has_side_effect=False, **given
    )


def test_calls_for_several_platforms_are_written_as_jax_writes_them() -> None:
    for platforms in [(PLATFORM, "cpu"), ("cpu",)]:
        assert _emitted(_Context(*platforms)) == (["as JAX does"], None, None)


@pytest.mark.parametrize("partitioned", [False, True])
def test_calls_run_on_each_device_where_the_library_says_so(
    monkeypatch: pytest.MonkeyPatch, partitioned: bool
) -> None:
    seen: list[object] = []

    def write_call(*_: object, **given: object) -> list[object]:
        seen.append(given["partitioned"])
        return []

    monkeypatch.setattr(library_rules, "write_call", write_call)
    _emitted(_Context(PLATFORM), partitioned=partitioned)
    assert seen == [partitioned]


@pytest.mark.parametrize("platforms", ["lowtide", "lowtide,cpu"])
def test_rules_of_libraries_call_python(tmp_path: Path, platforms: str) -> None:
    script = """
    from jax.experimental import sparse
    matrix = np.eye(5, dtype=np.float32) * 3 + np.tri(5, dtype=np.float32)
    kept = sparse.BCSR.fromdense(matrix)
    @jax.jit
    def solved(b):
        return sparse.linalg.spsolve(kept.data, kept.indices, kept.indptr, b)
    b = jnp.arange(5.0)
    np.testing.assert_allclose(solved(b), np.linalg.solve(matrix, b), rtol=1e-5)
    found = jax.grad(lambda b: solved(b).sum())(b)
    np.testing.assert_allclose(found, np.linalg.solve(matrix.T, np.ones(5)), rtol=1e-5)
    """
    run(script, tmp_path, platforms)


def test_such_calls_get_and_give_numpy_arrays_and_tokens(tmp_path: Path) -> None:
    script = """
    from jax.extend.core import Primitive
    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo
    kinds = []
    def both(x, y):
        kinds.append((type(x).__name__, x.dtype.name))
        return x + y, np.float64(x.sum()).astype(np.float32)
    def lower(ctx, *operands):
        given = ctx.avals_in, ctx.avals_out
        token = stablehlo.create_token()
        results, token, kept = mlir.emit_python_callback(
            ctx, both, token, list(operands), *given, has_side_effect=True
        )
        assert token is not None and kept is not None
        return results
    pair = Primitive("pair")
    pair.multiple_results = True
    pair.def_abstract_eval(lambda x, y: (x, x.update(shape=())))
    mlir.register_lowering(pair, lower, platform="cpu")
    x = jnp.arange(3, dtype=jnp.float32)
    total, sum_ = jax.jit(lambda x: pair.bind(x, x))(x)
    assert total.tolist() == [0, 2, 4] and sum_ == 3 and kinds == [("ndarray", "float32")]
    """
    run(script, tmp_path)


def test_failed_checks_of_the_user_are_raised_by_the_program(tmp_path: Path) -> None:
    script = """
    import logging
    logging.disable()
    from jax.experimental import checkify
    jax.config.update("jax_experimental_unsafe_xla_runtime_errors", True)
    @jax.jit
    def checked(x):
        checkify.check(x > 0, "{x} is not above 0", x=x)
        return x + 1
    assert checked(1.0) == 2
    try:
        checked(-1.0).block_until_ready()
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError as error:
        print("-1.0 is not above 0" in str(error))
    """
    assert run(script, tmp_path) == "True\n"


def test_functions_with_a_partitioner_of_the_user_give_what_xla_gives(tmp_path: Path) -> None:
    script = """
    from jax.experimental.custom_partitioning import custom_partitioning
    def shardings(shapes):
        return jax.tree.map(lambda x: x.sharding, shapes)

    def plain(x, scale):
        y = jnp.fft.fft(x) * scale
        return y.real, jnp.abs(y).sum(1)
    spectra = custom_partitioning(plain)

    def partition(mesh, given, made):
        return mesh, plain, shardings(made), shardings(given)

    whole = ("j",)
    rule = "i j, -> i j, i"
    spectra.def_partition(partition, sharding_rule=rule, need_replication_factors=whole)

    def program(mesh):
        x = put(mesh, (8, 6), "x")
        within = lambda x: spectra(x + 1, x[0, 0])[1] * 2
        return jax.jit(lambda x: spectra(x, 2.0))(x), jax.jit(within)(x)
    both(program)

    @custom_partitioning
    def badly_ruled(x):
        return x
    badly_ruled.def_partition(partition, sharding_rule=lambda *_: 3)
    mesh = mesh_of("lowtide", (4, 2), "xy")
    try:
        jax.jit(badly_ruled)(put(mesh, (8, 6), "x"))
    except ValueError as error:
        print("sharding_rule callable" in str(error))
    """
    assert run_both(script, tmp_path) == "True\n"
