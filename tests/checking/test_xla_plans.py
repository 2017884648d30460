"""The plans of XLA itself pass, and what is broken in them is found."""

from dataclasses import replace

import pytest

from lowtide.checking import check_plan
from lowtide.frontend.hlo_proto import read_buffer_assignment, read_hlo_proto
from lowtide.ir import Opcode
from lowtide.ir.buffer import BufferSlice

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def attention(x, w):
    q, k, v = (x @ w[i] for i in range(3))
    return jax.nn.softmax(q @ k.T) @ v


def recurrence(x, w):
    def step(h, row):
        h = jnp.tanh(h @ w[0] + row)
        return h, (h, jnp.sort(row))

    return jax.lax.scan(step, x[0], x)


def choose(x, w):
    def one(_, y):
        return jax.lax.cond(y.sum() > 0, lambda z: z @ w[0], lambda z: jnp.cos(z), y)

    return jax.lax.fori_loop(0, 5, one, x)


def write(x, w):
    x = x.at[3].set(w[0, 0])
    x = jax.lax.dynamic_update_slice(x, w[1, :2], (x[0, 0].astype(int), 0))
    return x.at[jnp.array([1, 1, 5])].add(w[2, :3]), x.sum()


def train(x, w):
    return jax.grad(lambda v: attention(x, v).sum())(w), attention(x, w)


PROGRAMS = {f.__name__: f for f in (attention, recurrence, choose, write, train)}


@pytest.fixture(scope="module", params=[(n, d) for n in PROGRAMS for d in ((), (0, 1))])
def compiled(request):
    """A module and its plan; with all arguments donated, or none."""
    name, donated = request.param
    x, w = jnp.ones((16, 32)), jnp.ones((3, 32, 32))
    lowered = jax.jit(PROGRAMS[name], donate_argnums=donated, keep_unused=True).lower(x, w)
    executable = lowered.compile()
    (hlo,) = executable.runtime_executable().hlo_modules()
    module = read_hlo_proto(hlo.as_serialized_hlo_module_proto())
    blob = executable.memory_analysis().serialized_buffer_assignment_proto
    return module, read_buffer_assignment(blob, module)


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_plans_of_xla_are_right(compiled):
    assert check_plan(*compiled) == ()


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_a_product_over_its_operand_is_found(compiled):
    module, plan = compiled
    tried = 0
    for number, site in enumerate(plan.call_sites):
        for instruction, operand in products(site):
            held, (place,) = site.slices[operand][0], site.slices[instruction]
            moved = {instruction: (BufferSlice(held.allocation, held.offset, place.nbytes),)}
            sites = list(plan.call_sites)
            sites[number] = replace(site, slices={**site.slices, **moved})
            assert check_plan(module, replace(plan, call_sites=tuple(sites), values=()))
            tried += 1
    if not tried:
        pytest.skip("no product of arrays with places of their own")


def products(site):
    """Yield (product, operand with a place); their results need all of the operand."""
    for instruction in site.slices:
        if instruction.opcode is Opcode.DOT or "ynn_fusion" in instruction.name:
            for operand in instruction.operands:
                if operand.shape.rank == 2 and operand in site.slices:
                    yield instruction, operand
                    break
