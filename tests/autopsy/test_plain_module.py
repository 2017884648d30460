"""Optimized modules made plain: they compute the same, to the last bit."""

import numpy as np
import pytest

from lowtide.autopsy.autopsy import without_copies
from lowtide.autopsy.plain_module import plain_module
from lowtide.cli.inputs import generated
from lowtide.evaluator import evaluate, value_leaves
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.verifier import verify

OPTIMIZED = """HloModule optimized, is_scheduled=true, input_output_alias={ {1}: (1, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

inner {
  p = f32[4,6]{1,0} parameter(0)
  turned = f32[6,4]{0,1} bitcast(p)
  ROOT e = f32[6,4]{0,1} exponential(turned)
}

outer {
  q = f32[4,6]{1,0} parameter(0)
  z = f32[] parameter(1)
  f = f32[6,4]{0,1} fusion(q), kind=kLoop, calls=inner
  r = f32[6]{0} reduce(f, z), dimensions={1}, to_apply=add
  ROOT both = (f32[6]{0}, f32[6,4]{0,1}) tuple(r, f)
}

ENTRY main {
  x = f32[24]{0} parameter(0)
  y = f32[3,2]{0,1} parameter(1)
  zero = f32[] constant(0)
  grid = f32[4,6]{1,0} bitcast(x)
  fused = (f32[6]{0}, f32[6,4]{0,1}) fusion(grid, zero), kind=kCustom, calls=outer, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
  r.1 = f32[6]{0} get-tuple-element(fused), index=0
  f.1 = f32[6,4]{0,1} get-tuple-element(fused), index=1
  rows = f32[2,2,6]{2,1,0} bitcast(f.1)
  bits = s32[6]{0} bitcast(r.1)
  relaid = f32[6,4]{1,0} copy(f.1)
  y.1 = f32[3,2]{0,1} copy(y)
  flat = f32[6]{0} bitcast(y.1)
  sum = f32[6]{0} add(flat, r.1)
  back = f32[3,2]{0,1} bitcast(sum)
  ROOT out = (f32[2,2,6]{2,1,0}, f32[3,2]{0,1}, s32[6]{0}, f32[6,4]{1,0}) tuple(rows, back, bits, relaid)
}
"""  # noqa: E501


def outputs(module: Module) -> list[bytes]:
    arguments = generated(list(parameter_leaves(module)), 7)
    return [np.asarray(x).tobytes() for x in value_leaves(evaluate(module, arguments))]


def opcodes(module: Module) -> set[Opcode]:
    return {x.opcode for c in module.computations.values() for x in c.instructions.values()}


def test_a_plain_module_computes_the_same():
    module = parse_hlo(OPTIMIZED)
    verify(module)
    plain = plain_module(module)
    verify(plain)
    assert not opcodes(plain) & {Opcode.FUSION, Opcode.BITCAST, Opcode.COPY}
    assert not plain.is_scheduled
    assert plain.input_output_aliases == module.input_output_aliases
    assert outputs(plain) == outputs(module)


def test_all_layouts_of_a_plain_module_are_the_default():
    plain = plain_module(parse_hlo(OPTIMIZED))
    for computation in plain.computations.values():
        for instruction in computation.instructions.values():
            assert instruction.shape is instruction.shape.with_default_layout()


def test_copies_that_keep_the_layout_are_left_out_and_the_order_kept():
    module = parse_hlo(OPTIMIZED)
    bare = without_copies(module)
    verify(bare)
    names = set(bare.entry.instructions)
    assert "y.1" not in names
    assert "relaid" in names
    assert bare.schedule is not None and module.schedule is not None
    before = [x.name for x in module.schedule.sequences[module.entry] if x.name != "y.1"]
    assert [x.name for x in bare.schedule.sequences[bare.entry]] == before
    assert outputs(bare) == outputs(module)
    assert "y.1" in module.entry.instructions


TWICE = """HloModule twice

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

add.1 {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT s.1 = f32[] add(a.1, b.1)
}

fused {
  p = f32[8,8] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(p, z), dimensions={1}, to_apply=add.1
}

ENTRY main {
  x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  zero = f32[] constant(0)
  first = f32[8] reduce(x, zero), dimensions={1}, to_apply=add
  again = f32[8] fusion(x), kind=kLoop, calls=fused
  other = f32[8] reduce(y, zero), dimensions={1}, to_apply=add
  cheap = f32[8,8] negate(x)
  cheap.1 = f32[8,8] negate(x)
  ROOT all = (f32[8], f32[8], f32[8], f32[8,8], f32[8,8]) tuple(first, again, other, cheap, cheap.1)
}
"""


def test_what_is_dear_and_computed_twice_stays_so():
    module = parse_hlo(TWICE)
    plain = plain_module(module)
    verify(plain)
    barriers = [
        x for x in plain.entry.instructions.values() if x.opcode is Opcode.OPTIMIZATION_BARRIER
    ]
    assert [x.operands[0].name for x in barriers] == ["x"]
    assert [x.name for x in barriers[0].users] == ["r"]
    assert outputs(plain) == outputs(module)


def programs():
    """Small functions which XLA:CPU optimizes in different ways, with their arguments."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def loop(x):
        return jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c.sum()), x[0], x)

    def convolution(x):
        image = x.reshape(1, 8, 8, 1)
        return jax.lax.conv_general_dilated(
            image,
            jnp.ones((1, 2, 3, 3)),
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "IOHW", "NCHW"),
        )

    return jax, {
        "loop": loop,
        "convolution": convolution,
        "softmax": lambda x: jax.nn.softmax(x @ x.T).T,
        "sort": lambda x: jnp.sort(x, axis=0)[::-1],
        "branch": lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    }


@pytest.mark.parametrize("name", ["loop", "convolution", "softmax", "sort", "branch"])
def test_what_xla_optimized_computes_the_same_when_made_plain(name: str):
    jax, functions = programs()
    shape = jax.ShapeDtypeStruct((8, 8), np.float32)
    text = jax.jit(functions[name]).lower(shape).compile().as_text()
    module = parse_hlo(text)
    plain = plain_module(module)
    verify(plain)
    assert outputs(plain) == outputs(module)
