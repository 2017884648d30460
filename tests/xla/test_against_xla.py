"""Plans of programs that XLA compiled and scheduled: they hold, and are as small as those of XLA.

The slack is for tuple tables, which XLA counts, and for its alignment of each output.
"""

import pytest
from tests.analysis.memory_machine import MemoryMachine

from lowtide.compiler import PlanOptions, explain, plan
from lowtide.frontend.hlo_text import parse_hlo

jax = pytest.importorskip("jax")


def train_step(parameters, x, y):
    from jax import numpy as jnp

    def loss(parameters):
        hidden = x
        for w in parameters[:-1]:
            hidden = jnp.tanh(hidden @ w)
        return ((hidden @ parameters[-1] - y) ** 2).mean()

    gradients = jax.grad(loss)(parameters)
    return [w - 0.1 * g for w, g in zip(parameters, gradients, strict=True)]


def scan(h, xs):
    from jax import lax
    from jax import numpy as jnp

    def step(h, x):
        h = jnp.tanh(h @ h + x)
        return h, h.sum(axis=0)

    return lax.scan(step, h, xs)


def choose(i, x, y):
    from jax import lax

    return lax.switch(i, [lambda x, y: x @ y, lambda x, y: x, lambda x, y: (x + y).T], x, y)


def update_cache(cache, x, i):
    from jax import lax

    cache = lax.dynamic_update_slice(cache, x, (i, 0))
    return cache, (cache @ cache.T).sum()


def spec(*dimensions, dtype="float32"):
    return jax.ShapeDtypeStruct(dimensions, dtype)


PROGRAMS = {
    "train_step": (
        train_step, ([spec(64, 64)] * 4, spec(256, 64), spec(256, 64)), (0,)),
    "scan": (scan, (spec(32, 32), spec(20, 32, 32)), ()),
    "choose": (choose, (spec(dtype="int32"), spec(64, 64), spec(64, 64)), ()),
    "update_cache": (update_cache, (spec(128, 64), spec(1, 64), spec(dtype="int32")), (0,)),
    "update_cache_not_donated": (
        update_cache, (spec(128, 64), spec(1, 64), spec(dtype="int32")), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plan_holds_and_is_as_small_as_that_of_xla(name):
    function, specs, donated = PROGRAMS[name]
    with jax.default_device(jax.devices("cpu")[0]):
        compiled = jax.jit(function, donate_argnums=donated).lower(*specs).compile()
    module = parse_hlo(compiled.as_text())
    assert module.is_scheduled
    for branch in range(3):
        MemoryMachine(plan(module, PlanOptions("input")), 2, branch).run()
    report, xla = explain(module, PlanOptions("input")), compiled.memory_analysis()
    outputs = len(jax.tree.leaves(compiled.out_info))
    assert report.argument_bytes == xla.argument_size_in_bytes
    assert report.alias_bytes == xla.alias_size_in_bytes
    assert report.output_bytes == xla.output_size_in_bytes - (8 * outputs if outputs > 1 else 0)
    needed = xla.output_size_in_bytes - xla.alias_size_in_bytes + xla.temp_size_in_bytes
    assert report.ladder.arena_bytes <= 1.02 * needed + 512
