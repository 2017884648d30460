"""Results of JAX's programs lie row-major, also behind the transpose of a gradient."""

import numpy as np
import pytest

import lowtide
from lowtide.autopsy.jax_compiled import program_of_jax
from lowtide.client.library_jit import module_of_jitted

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
SHAPE = (96, 64)


def moments(mean, x, weights):
    gradient = jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(weights)
    return gradient * 0.1 + mean * 0.9, gradient.T


RANDOM = np.random.default_rng(0)
ARGUMENTS = [RANDOM.normal(size=sizes).astype(np.float32) for sizes in (SHAPE, (8, 96), SHAPE)]


def layouts(module):
    program = module.entry_layout or module.entry.program_shape
    return [str(x.layout) for x in (*program.parameters, *program.result.tuple_shapes)]


@pytest.mark.parametrize("way", ["jax.jit", "lowtide.jit", "StableHLO"])
def test_arguments_and_results_are_row_major(way, tmp_path):
    if way == "jax.jit":
        module = module_of_jitted(jax.jit(moments), ARGUMENTS, {}, program_of_jax)
    elif way == "lowtide.jit":
        module = lowtide.jit(moments).lower(*ARGUMENTS).module
    else:
        path = tmp_path / "moments.mlir"
        path.write_text(jax.jit(moments).lower(*ARGUMENTS).as_text())
        module = lowtide.read(path)
    assert layouts(module) == ["{1,0}"] * 5


@pytest.mark.parametrize("jit", [jax.jit, lowtide.jit])
def test_a_donated_moment_is_overwritten_without_a_copy(jit):
    report = lowtide.explain(jit(moments, donate_argnums=0), *ARGUMENTS)
    (outcome,) = report.execution.donations_asked
    assert outcome.verdict.value == "in place"
    before = lowtide.explain(moments, *ARGUMENTS)
    assert before.total_bytes - report.total_bytes > 0.9 * ARGUMENTS[0].nbytes


def test_results_are_those_of_jax():
    found, expected = lowtide.jit(moments)(*ARGUMENTS), moments(*ARGUMENTS)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
