"""`lowtide.jit` over a mesh: JAX's shardings, on devices that JAX does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P
from tests.runtime.mpi.launching import needs_mpi, run_script

import lowtide

MESH = {"x": 4, "y": 2}
ABSTRACT = AbstractMesh((4, 2), ("x", "y"))
SHARDINGS = ({"a": P(None, "y"), "b": P("y")}, P("x"), P("x"))


def loss(w: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)


def step(w: Any, x: Any, y: Any) -> Any:
    found, slopes = jax.value_and_grad(loss)(w, x, y)
    return jax.tree.map(lambda p, q: p - 0.1 * q, w, slopes), found


def given() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)

    def array(*sizes: int) -> Any:
        return rng.normal(size=sizes).astype(np.float32)

    return {"a": array(16, 32), "b": array(32, 4)}, array(64, 16), array(64, 4)


@pytest.mark.parametrize("mesh", [MESH, ABSTRACT])
def test_a_step_of_training_is_that_of_one_device(mesh: Any) -> None:
    run = lowtide.jit(step, mesh=mesh, in_shardings=SHARDINGS)
    text = run.lower(*given()).compile().as_text()
    assert "all-reduce" in text
    found, wanted = run(*given()), jax.jit(step)(*given())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_axes_of_the_mesh_are_known_in_the_function() -> None:
    def constrained(x: Any) -> Any:
        return jnp.sum(jax.lax.with_sharding_constraint(x * 2, P("x", "y")), axis=0)

    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(lowtide.jit(constrained, mesh=MESH)(x), x.sum(0) * 2)
    added = jax.shard_map(
        lambda a: jax.lax.psum(a, "x"), mesh=ABSTRACT, in_specs=P("x"), out_specs=P()
    )
    np.testing.assert_array_equal(lowtide.jit(added, mesh=MESH)(x), x.reshape(4, 2, 8).sum(axis=0))


def test_donated_arguments_and_named_shardings() -> None:
    rows = NamedSharding(ABSTRACT, P("x"))
    run = lowtide.jit(
        lambda x: x + 1, donate_argnums=0, mesh=MESH, in_shardings=rows, out_shardings=rows
    )
    x = np.ones((8, 3), np.float32)
    np.testing.assert_array_equal(run(x), np.full((8, 3), 2))


def test_what_is_no_mesh_or_sharding_is_refused() -> None:
    with pytest.raises(TypeError, match="mesh is a mesh of JAX or sizes"):
        lowtide.jit(step, mesh=[4, 2])
    with pytest.raises(TypeError, match="no option 'in_sharding'; did you mean 'in_shardings'"):
        lowtide.jit(step, in_sharding=P("x"))
    with pytest.raises(TypeError, match="in_shardings needs a mesh"):
        lowtide.jit(step, in_shardings=P("x"))
    with pytest.raises(TypeError, match="expected a PartitionSpec"):
        lowtide.jit(step, mesh=MESH, in_shardings="x")
    with pytest.raises(ValueError, match="z"):
        lowtide.jit(step, mesh=MESH, in_shardings=P("z"))


def test_inside_of_a_trace_it_says_what_to_do() -> None:
    run = lowtide.jit(lambda x: jnp.sum(x), mesh=MESH)
    with pytest.raises(lowtide.InputError, match="use these inside of it"):
        jax.grad(run)(jnp.ones(8))


SCRIPT = """
import numpy as np
from mpi4py import MPI
from tests.client.test_jit_meshes import P, given, step

import lowtide

shardings = ({"a": P(), "b": P()}, P("x"), P("x"))
run = lowtide.jit(step, mesh={"x": 2}, comm=MPI.COMM_WORLD, in_shardings=shardings)
here = lowtide.jit(step, mesh={"x": 2}, in_shardings=shardings)
found, loss = run(*given())
wanted, other = here(*given())
assert loss == other and all((found[k] == wanted[k]).all() for k in wanted)
if MPI.COMM_WORLD.rank == 0:
    print("equal")
"""


@needs_mpi
def test_ranks_have_the_bits_of_threads(tmp_path: Path) -> None:
    ended = run_script(2, tmp_path, SCRIPT)
    assert ended.status == 0, ended.stderr
    assert ended.output.strip() == "equal"
