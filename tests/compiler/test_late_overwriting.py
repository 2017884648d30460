"""Donated arguments never raise what is needed: results may wait beside what they overwrite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lowtide import compiler
from lowtide.compiler import PlanOptions, late_overwriting
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.testing.check_pass import assert_same_values

UP = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
DOWN = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
ACROSS = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"


def step(offered: bool) -> Module:
    """Two layers of size 16: the gradient of the first reads the weight of the second."""
    large, small = "f32[64,16]", "f32[16,16]"
    head = "HloModule m"
    if offered:
        head += ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    return parse_hlo(f"""{head}

ENTRY main {{
  u = {small} parameter(0)
  v = {small} parameter(1)
  x = {large} parameter(2)
  a = {large} dot(x, u), {UP}
  c = {large} dot(a, v), {UP}
  d = {large} dot(c, v), {DOWN}
  gv = {small} dot(a, c), {ACROSS}
  e = {large} multiply(d, a)
  gu = {small} dot(x, e), {ACROSS}
  w = {small} subtract(u, gu)
  y = {small} subtract(v, gv)
  ROOT results = ({small}, {small}) tuple(w, y)
}}
""")


def needed(module: Module, priority: float = 0.03) -> tuple[int, list[str]]:
    """All bytes of a plan, and the copies in it; what it computes is compared."""
    plan = compiler.plan(module, PlanOptions(memory_priority=priority))
    assert_same_values(module, plan.module)
    instructions = plan.module.entry.instructions.values()
    return plan.report.total_bytes, [x.name for x in instructions if x.opcode is Opcode.COPY]


def test_an_update_is_made_beside_a_weight_that_is_read_later() -> None:
    plain, none = needed(step(offered=False))
    offered, copies = needed(step(offered=True))
    assert offered <= plain
    assert len(copies) == 1 and not none


def test_without_time_for_memory_an_update_waits_for_other_readers() -> None:
    offered, copies = needed(step(offered=True), priority=0.0)
    assert not copies
    assert offered > needed(step(offered=True))[0]


def test_copies_that_take_too_long_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_overwriting, "_BRIEF", 0.0)
    monkeypatch.setattr(late_overwriting, "_LONGER", 0.01)
    assert not needed(step(offered=True))[1]


def numbers(sizes: tuple[int, ...]) -> Any:
    return np.zeros(sizes, np.float32)


def linear(size: int, depth: int) -> tuple[Any, Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights:
            x = jax.nn.relu(x @ w)
        return jnp.mean((x - y) ** 2)

    weights = [numbers((size, size))] * depth
    batch = numbers((2 * size, size))
    return weights, loss, (batch, batch)


def convolutional(size: int, depth: int) -> tuple[Any, Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights:
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"))
        return jnp.mean((x.mean((2, 3)) - y) ** 2)

    weights = [numbers((size, size, 3, 3))] * depth
    image = numbers((4, size, 16, 16))
    return weights, loss, (image, numbers((4, size)))


def attention(size: int, depth: int) -> tuple[Any, Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights:
            q, k, v = jnp.split(x @ w, 3, axis=-1)
            x = x + jax.nn.softmax(q @ k.T / size**0.5) @ v
        return jnp.mean((x - y) ** 2)

    weights = [numbers((size, 3 * size))] * depth
    tokens = numbers((2 * size, size))
    return weights, loss, (tokens, tokens)


def descent(parameter: Any, gradient: Any) -> Any:
    return parameter - 0.1 * gradient


def momentum(state: Any, gradient: Any) -> Any:
    parameter, m = state
    m = 0.9 * m + gradient
    return parameter - 0.1 * m, m


def adam(state: Any, gradient: Any) -> Any:
    parameter, m, n = state
    m = 0.9 * m + 0.1 * gradient
    n = 0.99 * n + 0.01 * gradient**2
    return parameter - 0.1 * m / (n**0.5 + 1e-8), m, n


@pytest.mark.parametrize("update", [descent, momentum, adam])
@pytest.mark.parametrize("net", [linear, convolutional, attention])
@pytest.mark.parametrize(("size", "depth"), [(8, 1), (64, 2), (32, 5)])
def test_training_steps_need_no_more_where_their_state_is_donated(
    net: Callable[..., Any], update: Callable[..., Any], size: int, depth: int
) -> None:
    jax = pytest.importorskip("jax")
    weights, loss, batch = net(size, depth)
    copies = {descent: 1, momentum: 2, adam: 3}[update]
    state = [w if copies == 1 else (w,) * copies for w in weights]

    def train(state: Any, batch: Any) -> Any:
        parameters = [x if copies == 1 else x[0] for x in state]
        gradients = jax.grad(loss)(parameters, *batch)
        return [update(x, g) for x, g in zip(state, gradients, strict=True)]

    plain, donated = [
        compiler.plan(
            parse_hlo(
                jax.jit(train, donate_argnums=given)
                .lower(state, batch)
                .compiler_ir("hlo")
                .as_hlo_text()
            )
        ).report
        for given in ((), (0,))
    ]
    # Single numbers that kernels have from outside are constants of 4 bytes, in either plan others.
    numbers = donated.constant_bytes - plain.constant_bytes
    assert numbers < 64
    assert donated.total_bytes - numbers <= plain.total_bytes
