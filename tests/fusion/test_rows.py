"""Softmax and its like become one kernel that works row by row, over its operand."""

import numpy as np
import pytest

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.ir import Module, Opcode
from lowtide.ir.annotations import Annotations
from lowtide.testing.check_pass import seeded_arguments

SOFTMAX = """HloModule m
greater { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,16,32] parameter(0)
  s = f32[64,16,32] sine(x)
  b = f32[64,16,32] custom-call(s), custom_call_target="opaque"
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  most = f32[64,16] reduce(b, low), dimensions={2}, to_apply=greater
  column = f32[64,16,1] reshape(most)
  flat = f32[64,16] reshape(column)
  wide = f32[64,16,32] broadcast(flat), dimensions={0,1}
  d = f32[64,16,32] subtract(b, wide)
  e = f32[64,16,32] exponential(d)
  sum = f32[64,16] reduce(e, zero), dimensions={2}, to_apply=plus
  sums = f32[64,16,32] broadcast(sum), dimensions={0,1}
  ROOT p = f32[64,16,32] divide(e, sums)
}"""


def fused(text: str) -> Module:
    module = parse_hlo(text)
    fuse_by_priority(module)
    return module


def test_softmax_is_one_kernel_that_writes_over_its_operand() -> None:
    module = fused(SOFTMAX)
    kernels = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    assert [x.annotations.backend_config for x in kernels] == ['{"kernel":"rows"}']
    plan = compiler.plan(module)
    assert plan.report.ladder.arena_bytes == 2 * 64 * 16 * 32 * 4
    assert check_plan(plan.module, plan.assignment) == ()


def test_it_computes_the_same_inside_its_plan() -> None:
    module = parse_hlo(SOFTMAX.replace(' custom-call(s), custom_call_target="opaque"', " tanh(s)"))
    arguments = seeded_arguments(module, 0)
    expected = evaluate(module, arguments)
    fuse_by_priority(module)
    plan = compiler.plan(module)
    found = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert differing_leaves(plan.module, found, expected) == []
    assert np.isfinite(np.asarray(expected)).all()


@pytest.mark.parametrize("dimensions", ["0,1", "1"])
def test_reductions_of_columns_do_not_work_in_rows(dimensions: str) -> None:
    kept = "16,32" if dimensions == "0" else "64,32" if dimensions == "1" else "32"
    places = {"0,1": "2", "1": "0,2"}[dimensions]
    text = (
        SOFTMAX.replace("dimensions={2}", f"dimensions={{{dimensions}}}")
        .replace("f32[64,16]", f"f32[{kept}]")
        .replace("f32[64,16,1]", f"f32[{kept},1]")
        .replace("dimensions={0,1}\n  d", f"dimensions={{{places}}}\n  d")
        .replace("broadcast(sum), dimensions={0,1}", f"broadcast(sum), dimensions={{{places}}}")
    )
    module = fused(text)
    assert "rows" not in str(module)


def test_the_checker_refuses_rows_that_are_not_marked() -> None:
    module = fused(SOFTMAX)
    plan = compiler.plan(module)
    for instruction in plan.module.entry.instructions.values():
        if instruction.opcode is Opcode.FUSION:
            instruction.set_annotations(Annotations())
    assert check_plan(plan.module, plan.assignment)


NORM = """HloModule m
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[BATCH,64,32] parameter(0)
  zero = f32[] constant(0)
  sum = f32[BATCH,64] reduce(x, zero), dimensions={2}, to_apply=plus
  sums = f32[BATCH,64,32] broadcast(sum), dimensions={0,1}
  d = f32[BATCH,64,32] subtract(x, sums)
  e = f32[BATCH,64,32] multiply(d, d)
  squares = f32[BATCH,64] reduce(e, zero), dimensions={2}, to_apply=plus
  wide = f32[BATCH,64,32] broadcast(squares), dimensions={0,1}
  ROOT p = f32[BATCH,64,32] divide(d, wide)
}"""


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_of_one_works_in_rows(batch: int) -> None:
    module = parse_hlo(NORM.replace("BATCH", str(batch)))
    compiler.optimize(module, compiler.PlanOptions("layout"))
    fuse_by_priority(module)
    kernels = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    assert [x.annotations.backend_config for x in kernels] == ['{"kernel":"rows"}']
