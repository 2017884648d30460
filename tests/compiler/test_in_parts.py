"""Programs whose largest values run in parts, where that takes little time."""

import pytest

from lowtide import compiler
from lowtide.compiler.in_parts import LEAST_BYTES, Needs, in_parts
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.testing.check_pass import assert_same_values

HIDDEN = 4 * 2048
"""Bytes of the hidden layer of a row."""


def network(rows: int, last: str = "ROOT r = f32[{rows},16] dot(t, v), {along}") -> Module:
    """Three layers, the hidden ones larger than the others."""
    along = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return parse_hlo(f"""HloModule network

add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}}

ENTRY main {{
  x = f32[{rows},512] parameter(0)
  w = f32[512,2048] parameter(1)
  v = f32[2048,16] parameter(2)
  u = f32[2048,2048] parameter(3)
  zero = f32[] constant(0)
  h = f32[{rows},2048] dot(x, w), {along}
  g = f32[{rows},2048] dot(h, u), {along}
  t = f32[{rows},2048] tanh(g)
  {last.format(rows=rows, along=along)}
}}
""")


def loops_of(module: Module) -> int:
    return sum([x.opcode is Opcode.WHILE for x in module.entry.instructions.values()])


ROWS = 2 * LEAST_BYTES // HIDDEN


def test_large_hidden_layers_run_in_parts() -> None:
    module = network(ROWS)
    whole = compiler.plan(module, compiler.PlanOptions(memory_priority=0.0))
    parts = compiler.plan(module)
    assert loops_of(parts.module) > loops_of(whole.module) == 0
    assert whole.report.ladder.arena_bytes >= 2 * ROWS * HIDDEN
    assert parts.report.ladder.arena_bytes <= ROWS * HIDDEN + (1 << 20)


def test_parts_give_the_same_values() -> None:
    module = network(ROWS)
    optimized = clone_module(module)
    compiler.optimize(optimized)
    assert loops_of(optimized)
    assert_same_values(module, optimized, seeds=1)


def test_the_bound_is_of_the_program_in_parts() -> None:
    report = compiler.explain(network(ROWS))
    report.ladder.check()
    bound = report.ladder.compilation_bound_bytes
    assert bound is not None
    assert bound <= report.ladder.arena_bytes <= ROWS * HIDDEN + (1 << 20)


@pytest.mark.parametrize(
    "module",
    [
        network(ROWS // 8),
        network(ROWS, "ROOT r = f32[2048] reduce(t, zero), dimensions={{0}}, to_apply=add"),
    ],
    ids=["small", "sums over what would be split"],
)
def test_others_run_whole(module: Module) -> None:
    assert not loops_of(compiler.plan(module).module)


def test_no_kernels_are_made_where_reading_weights_anew_takes_too_long() -> None:
    """Half of the time allowed is enough to read the weights of one network only."""
    module = network(ROWS)
    asked: list[Module] = []

    def propose(other: Module) -> tuple[None, Needs]:
        asked.append(other)
        return None, (LEAST_BYTES, seconds)

    options = compiler.PlanOptions()
    for seconds in (1e-3, 1.0):
        found = in_parts(clone_module(module), (4 * LEAST_BYTES, seconds), options, propose)
        assert bool(asked) == (found is not None) == (seconds == 1.0)
