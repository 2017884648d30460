"""Small independent loops become one kernel; each result still lies where it may."""

import pytest
from tests.fusion.test_multi_output import arena, kernels
from tests.transforms.simplify.cases.notation import body, outside

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.horizontal import fuse_small_kernels
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Module, Opcode
from lowtide.ir.annotations import Annotations
from lowtide.ir.clone import clone_module
from lowtide.testing.check_pass import assert_same_values
from lowtide.testing.check_rule import module_of
from lowtide.verifier import verify

CASES = [
    (
        "loops over different spaces",
        "x: f32[8]; y: f32[5]; s = f32[8] sine(x); c = f32[5] cosine(y); "
        "t = (f32[8], f32[5]) tuple(s, c)",
        "loops(x, y): s* c*",
    ),
    (
        "loops over one space",
        "x: f32[8]; y: f32[8]; s = f32[8] sine(x); c = f32[8] cosine(y); "
        "t = (f32[8], f32[8]) tuple(s, c)",
        "loop(x, y): s* c*",
    ),
    (
        "not one after the other",
        "x: f32[8]; y: f32[5]; s = f32[8] sine(x); k = f32[8] sort(s), dimensions={0}, "
        "to_apply=less_of_one; r = f32[8] negate(k); c = f32[5] cosine(y); "
        "t = (f32[8], f32[5]) tuple(r, c)",
        "s | k | loops(k, y): r* c*",
    ),
    (
        "nothing large",
        "x: f32[64,64]; y: f32[64,64]; s = f32[64,64] sine(x); c = f32[64,64] cosine(y); "
        "t = (f32[64,64], f32[64,64]) tuple(s, c)",
        "s | c",
    ),
    (
        "no reductions",
        "x: f32[8]; y: f32[8,8]; z: f32[] = 0; s = f32[8] sine(x); "
        "c = f32[8] reduce(y, z), dimensions={1}, to_apply=add_f32; "
        "t = (f32[8], f32[8]) tuple(s, c)",
        "s | c",
    ),
    (
        "control edges",
        "x: f32[8]; y: f32[5]; s = f32[8] sine(x); c = f32[5] cosine(y), "
        "control-predecessors={s}; t = (f32[8], f32[5]) tuple(s, c)",
        "s | c",
    ),
]


def fused(module: Module) -> Module:
    """Fuse small kernels; check that it computes the same, and that this settles."""
    original = clone_module(module)
    fuse_small_kernels(module)
    verify(module)
    assert_same_values(original, module, seeds=1)
    assert fuse_small_kernels(module) == 0
    return module


@pytest.mark.parametrize(("title", "before", "after"), CASES, ids=[case[0] for case in CASES])
def test_kernels(title: str, before: str, after: str) -> None:
    assert kernels(fused(module_of(body(before), outside(before)))) == after


def test_many_become_few() -> None:
    count = 3 * CPU_TARGET.most_arrays
    lines = [f"x{i}: f32[{i + 1}]; made{i} = f32[{i + 1}] sine(x{i})" for i in range(count)]
    shapes = ", ".join([f"f32[{i + 1}]" for i in range(count)])
    names = ", ".join([f"made{i}" for i in range(count)])
    module = fused(module_of(body("; ".join([*lines, f"t = ({shapes}) tuple({names})"]))))
    fusions = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    assert len(fusions) == 6
    assert all(
        len(x.operands) + len(x.shape.tuple_shapes) <= CPU_TARGET.most_arrays for x in fusions
    )


UPDATES = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
ENTRY main {
  p = f32[8] parameter(0)
  q = f32[5] parameter(1)
  g = f32[8] parameter(2)
  h = f32[5] parameter(3)
  p1 = f32[8] subtract(p, g)
  q1 = f32[5] subtract(q, h)
  ROOT t = (f32[8], f32[5]) tuple(p1, q1)
}"""


def test_updates_stay_in_place() -> None:
    module = fused(parse_hlo(UPDATES))
    assert kernels(module) == "loops(p, g, q, h): p1* q1*"
    assert arena(module) == 0
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert check_plan(plan.module, plan.assignment) == ()


def test_what_one_overwrites_no_other_one_reads() -> None:
    text = UPDATES.replace("subtract(q, h)", "slice(p), slice={[0:5]}")
    module = fused(parse_hlo(text))
    assert kernels(module) in ("p1 | q1", "q1 | p1")


def test_the_checker_knows_that_loops_run_in_turn() -> None:
    """Marked as loops, a result may not lie over what a later one reads."""
    text = """HloModule m, input_output_alias={ {0}: (0, {}) }
fused {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  a = f32[8] sine(p)
  b = f32[8] add(p, q)
  ROOT r = (f32[8], f32[8]) tuple(a, b)
}
ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  ROOT f = (f32[8], f32[8]) fusion(p, q), kind=kLoop, calls=fused
}"""
    module = parse_hlo(text)
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert plan.report.ladder.arena_bytes == 32
    assert check_plan(plan.module, plan.assignment) == ()
    for x in plan.module.entry.instructions.values():
        if x.opcode is Opcode.FUSION:
            x.set_annotations(Annotations(backend_config='{"kernel":"loops"}'))
    assert check_plan(plan.module, plan.assignment)
