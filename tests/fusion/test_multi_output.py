"""Which kernels are merged that keep all of their results, and that it computes the same."""

import re

import pytest
from tests.counting import counted
from tests.fusion.multi_output_cases import CASES
from tests.random_modules import MEMORY, Recipe, random_module
from tests.transforms.simplify.cases.notation import body, outside

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.evaluator import evaluate
from lowtide.evaluator.in_arena import differing_leaves, run_in_arena
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.horizontal import fuse_small_kernels
from lowtide.fusion.multi_output import fuse_multiple_outputs
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.annotations import Annotations
from lowtide.ir.attributes import Fusion
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import post_order
from lowtide.passes import run_pipeline
from lowtide.passes.registry import passes
from lowtide.scheduling.module_scheduler import best_of
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.testing.check_rule import module_of
from lowtide.verifier import verify

HIDDEN = (Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE)


def merged(module: Module) -> Module:
    """Merge kernels of a module; check that it computes the same, and that this settles."""
    original = clone_module(module)
    fuse_multiple_outputs(module)
    verify(module)
    if "custom-call" not in str(module):
        assert_same_values(original, module, seeds=1)
    assert fuse_multiple_outputs(module) == 0
    return module


def kernels(module: Module) -> str:
    """Return the kernels of the entry as the cases have them."""
    shown = [x for x in post_order(module.entry) if x.opcode not in HIDDEN]
    return " | ".join([kernel(x) for x in shown])


def kernel(x: Instruction) -> str:
    if x.opcode is not Opcode.FUSION:
        return name(x)
    root = x.called_computations[0].root
    results = root.operands if root.opcode is Opcode.TUPLE else (root,)
    order = [y for y in post_order(x.called_computations[0]) if y.opcode not in HIDDEN]
    members = " ".join([name(y) + "*" * (y in results) for y in order])
    operands = ", ".join([name(y) for y in x.operands if y.opcode is not Opcode.CONSTANT])
    marked = re.search(r'"kernel":"(\w+)"', x.annotations.backend_config)
    kind = x.attributes_as(Fusion).kind[1:].lower()
    return f"{marked[1] if marked else kind}({operands}): {members}"


def name(x: Instruction) -> str:
    return re.sub(r"\.\d+$", "", x.name)


@pytest.mark.parametrize(("title", "before", "after"), CASES, ids=[case[0] for case in CASES])
def test_kernels(title: str, before: str, after: str | None) -> None:
    module = module_of(body(before), outside(before))
    unchanged = str(module)
    found = kernels(merged(module))
    if after is None:
        assert str(module) == unchanged
    else:
        assert found == after


def test_kernels_of_several_results_take_in_more() -> None:
    module = merged(
        parse_hlo("""HloModule m
fused {
  p = f32[64,64] parameter(0)
  a = f32[64,64] sine(p)
  b = f32[64,64] cosine(p)
  ROOT r = (f32[64,64], f32[64,64]) tuple(a, b)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  f = (f32[64,64], f32[64,64]) fusion(x), kind=kLoop, calls=fused
  a = f32[64,64] get-tuple-element(f), index=0
  b = f32[64,64] get-tuple-element(f), index=1
  d = f32[64,64] multiply(a, x)
  ROOT t = (f32[64,64], f32[64,64]) tuple(b, d)
}""")
    )
    assert kernels(module) == "loop(x): b* a d*"


def test_kernels_stay_within_limits() -> None:
    count = 3 * CPU_TARGET.most_arrays
    lines = [f"y{i}: f32[8]; a{i} = f32[8] add(x, y{i})" for i in range(count)]
    shapes, names = ", ".join(["f32[8]"] * count), ", ".join([f"a{i}" for i in range(count)])
    module = merged(
        module_of(body("; ".join(["x: f32[8]", *lines, f"t = ({shapes}) tuple({names})"])))
    )
    fusions = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    arrays = [len(x.operands) + len(x.shape.tuple_shapes) for x in fusions]
    assert len(fusions) < count // 8
    assert max(arrays) <= CPU_TARGET.most_arrays
    lines = [f"a{i + 1} = f32[8] negate(a{i})" for i in range(2 * CPU_TARGET.most_members)]
    module = merged(module_of(body("; ".join(["a0: f32[8]", *lines]))))
    fusions = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    assert 1 < len(fusions) <= 4
    assert all(
        len(x.called_computations[0].instructions) <= CPU_TARGET.most_members + 1 for x in fusions
    )


@pytest.mark.slow
@pytest.mark.parametrize("operand", ["x", "a{}"], ids=["fan", "chain"])
def test_time_is_linear_in_siblings_and_in_chains(operand: str) -> None:
    lines_of = []
    for count in (1_000, 8_000):
        lines = [f"a{i + 1} = f32[8] negate({operand.format(i)})" for i in range(count)]
        shapes = ", ".join(["f32[8]"] * count)
        names = ", ".join([f"a{i + 1}" for i in range(count)])
        argument = f"{operand.format(0)}: f32[8]"
        lines = [argument, *lines, f"t = ({shapes}) tuple({names})"]
        module = module_of(body("; ".join(lines)))
        found, work = counted(lambda module=module: fuse_multiple_outputs(module, best_of))
        assert found > count * 0.9
        lines_of.append(work)
    assert lines_of[1] < 12 * lines_of[0]


# -- memory ------------------------------------------------------------------------------------


def arena(module: Module) -> int:
    """Return the bytes of the plan of a module, in which it computes what it should."""
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert [str(x) for x in check_plan(plan.module, plan.assignment)] == []
    arguments = seeded_arguments(module, 0)
    found = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert differing_leaves(plan.module, found, evaluate(plan.module, arguments)) == []
    return plan.report.ladder.arena_bytes


def copies(module: Module) -> int:
    """Return how many copies the plan of a module needs."""
    inside = compiler.plan(module, compiler.PlanOptions("input")).module.computations.values()
    return sum([x.opcode is Opcode.COPY for y in inside for x in y.instructions.values()])


ADAM = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}), {2}: (2, {}) }
ENTRY main {
  p = f32[64,64] parameter(0)
  m = f32[64,64] parameter(1)
  v = f32[64,64] parameter(2)
  g = f32[64,64] parameter(3)
  m1 = f32[64,64] add(m, g)
  gg = f32[64,64] multiply(g, g)
  v1 = f32[64,64] maximum(v, gg)
  r = f32[64,64] sqrt(v1)
  u = f32[64,64] divide(m1, r)
  p1 = f32[64,64] subtract(p, u)
  ROOT t = (f32[64,64], f32[64,64], f32[64,64]) tuple(p1, m1, v1)
}"""


def test_an_optimizer_stays_in_place() -> None:
    module = merged(parse_hlo(ADAM))
    assert kernels(module) == "loop(m, g, v, p): m1* gg v1* r u p1*"
    assert arena(module) == copies(module) == 0


def test_who_reads_an_argument_that_is_overwritten_runs_first() -> None:
    """Merging f with the update of p would have h read the new p, or a copy of the old one."""
    module = merged(
        parse_hlo("""HloModule m, input_output_alias={ {0}: (0, {}) }
ENTRY main {
  p = f32[64,64] parameter(0)
  f = f32[64,64] sine(p)
  k = f32[64,64] transpose(f), dimensions={1,0}
  h = f32[64,64] dot(k, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[64,64] negate(p)
  ROOT t = (f32[64,64], f32[64,64]) tuple(n, h)
}""")
    )
    assert " n*" not in kernels(module)
    assert copies(module) == 0


LOOP = """HloModule m
body {
  s = (s32[], f32[64], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[64] get-tuple-element(s), index=1
  ys = f32[8,64] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  e = f32[64] sine(h)
  r = f32[1,64] broadcast(e), dimensions={1}
  new = f32[8,64] dynamic-update-slice(ys, r, i, zero)
  ROOT t = (s32[], f32[64], f32[8,64]) tuple(next, e, new)
}
condition {
  s = (s32[], f32[64], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  h = f32[64] parameter(0)
  ys = f32[8,64] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[64], f32[8,64]) tuple(zero, h, ys)
  ROOT w = (s32[], f32[64], f32[8,64]) while(init), condition=condition, body=body
}"""


def test_loops_carry_and_store_in_one_kernel() -> None:
    module = merged(parse_hlo(LOOP))
    loop = module.computations["body"]
    found = [kernel(x) for x in loop.instructions.values() if x.opcode is Opcode.FUSION]
    assert found == ["one_pass(h, ys, i): e* r new*"]
    assert arena(module) < arena(parse_hlo(LOOP))
    assert copies(module) == copies(parse_hlo(LOOP))


def test_what_is_reduced_is_stored_over_what_it_is_made_of() -> None:
    text = """HloModule m
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  q = f32[64,64] transpose(x), dimensions={1,0}
  k = f32[64,64] opt-barrier(q)
  d = f32[64,64] sine(k)
  s = f32[64] reduce(d, zero), dimensions={0}, to_apply=plus
  ROOT t = (f32[64,64], f32[64]) tuple(d, s)
}"""
    module = merged(parse_hlo(text))
    assert kernels(module) == "q | k | one_pass(k): d* s*"
    assert arena(module) == 64 * 64 * 4 + 64 * 4


EPILOGUE = """HloModule m, input_output_alias={ {1}: (2, {}) }
ENTRY main {
  x = f32[64,64] parameter(0)
  m = f32[64,64] parameter(1)
  p = f32[64,64] parameter(2)
  d = f32[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  m1 = f32[64,64] add(d, m)
  p1 = f32[64,64] subtract(p, m1)
  ROOT t = (f32[64,64], f32[64,64]) tuple(m1, p1)
}"""


def test_an_epilogue_writes_over_its_operand() -> None:
    module = merged(parse_hlo(EPILOGUE))
    assert kernels(module) == "epilogue(x, m, p): d m1* p1*"
    assert arena(module) == 64 * 64 * 4


@pytest.mark.parametrize("text", [EPILOGUE, LOOP], ids=["epilogue", "one pass"])
def test_the_checker_refuses_kernels_that_are_not_marked(text: str) -> None:
    module = merged(parse_hlo(text))
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    for computation in plan.module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is Opcode.FUSION:
                x.set_annotations(Annotations())
    assert check_plan(plan.module, plan.assignment)


def test_the_peak_remains() -> None:
    """Both sines at once would need another array while a product is computed."""
    text = """HloModule m
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[4,64] parameter(1)
  a = f32[64,64] sine(x)
  p = f32[4,64] dot(y, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] cosine(x)
  q = f32[4,64] dot(p, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[4,64] add(p, q)
}"""
    module = parse_hlo(text)
    before = arena(module)
    fuse_multiple_outputs(module, best_of)
    assert kernels(module).startswith("a | p | b")
    assert arena(module) == before


RECIPES = (MEMORY, Recipe(max_instructions=40))


def check(seed: int) -> None:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    original = clone_module(module)
    named = passes()
    if seed % 3:
        run_pipeline(module, [named["algsimp"], named["dce"], named["priority-fusion"]])
    fuse_multiple_outputs(module, best_of if seed % 2 else None)
    fuse_small_kernels(module, best_of if seed % 2 else None)
    run_pipeline(module, [named["cse"], named["dce"]])
    verify(module)
    assert_same_values(original, module, seeds=1)
    plan = compiler.plan(module, compiler.PlanOptions("input"))
    assert [str(x) for x in check_plan(plan.module, plan.assignment)] == []
    arguments = seeded_arguments(module, seed)
    found = run_in_arena(plan.module, plan.assignment, arguments, sanitize=True)
    assert differing_leaves(plan.module, found, evaluate(plan.module, arguments)) == []


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_modules(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2_000, 100))
def test_many_random_modules(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
