"""What is merged, and what only looks equal."""

import pytest
from tests.counting import counted

import lowtide
from lowtide.ir import Opcode
from lowtide.passes.dead_code import remove_dead_code
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.common_subexpressions import merge_common_subexpressions


def test_constants_that_are_left_out_of_the_text_are_not_known_to_be_equal() -> None:
    module = lowtide.parse_hlo("""
HloModule m
ENTRY main {
  a = f32[64] constant({...})
  b = f32[64] constant({...})
  ROOT difference = f32[64] subtract(a, b)
}
""")
    assert merge_common_subexpressions(module) == 0


def test_no_value_is_read_of_a_constant_that_is_left_out_of_the_text() -> None:
    module = lowtide.parse_hlo("""
HloModule m
ENTRY main {
  i = s64[] parameter(0)
  a = s8[4000000000000] constant({...})
  ROOT one = s8[1] dynamic-slice(a, i), dynamic_slice_sizes={1}
}
""")
    assert merge_common_subexpressions(module) == 0


def test_copies_of_a_constant_that_is_left_out_of_the_text_are_equal() -> None:
    module = lowtide.parse_hlo("""
HloModule m
first { x = f32[] parameter(0)  a = f32[64] constant({...})
  w = f32[64] broadcast(x), dimensions={}  ROOT r = f32[64] add(a, w) }
other { x = f32[] parameter(0)  a = f32[64] constant({...})
  w = f32[64] broadcast(x), dimensions={}  ROOT r = f32[64] add(a, w) }
ENTRY main {
  x = f32[] parameter(0)
  here = f32[64] call(x), to_apply=first
  there = f32[64] call(x), to_apply=other
  ROOT difference = f32[64] subtract(here, there)
}
""")
    first, other = (module.computations[name] for name in ("first", "other"))
    assert merge_common_subexpressions(module) == 0
    other.instructions["a.1"].set_attributes(first.instructions["a"].attributes)
    assert merge_common_subexpressions(module) == 1


def test_operands_of_sums_may_stand_in_any_order_those_of_differences_not() -> None:
    text = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] OPCODE(x, y)
  b = f32[4] OPCODE(y, x)
  ROOT t = (f32[4], f32[4]) tuple(a, b)
}
"""
    check_pass(merge_common_subexpressions, text.replace("OPCODE", "maximum"), evaluate=True)
    check_pass(merge_common_subexpressions, text.replace("OPCODE", "subtract"), changed=False)


def test_barriers_keep_what_is_computed_again() -> None:
    text = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  first = f32[4] sine(x)
  kept = f32[4] opt-barrier(x)
  again = f32[4] sine(kept)
  ROOT t = (f32[4], f32[4]) tuple(first, again)
}
"""
    check_pass(merge_common_subexpressions, text, changed=False)


BODIES = """
HloModule m
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
sum { b = f32[] parameter(0)  a = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
first {
  p = f32[8] parameter(0)
  z = f32[] parameter(1)
  w = f32[8] sine(p)
  ROOT r = f32[] reduce(w, z), dimensions={0}, to_apply=plus
}
second {
  z = f32[] parameter(1)
  p = f32[8] parameter(0)
  w = f32[8] OPCODE(p)
  w2 = f32[8] OPCODE(p)
  ROOT r = f32[] reduce(w2, z), dimensions={0}, to_apply=sum
}
ENTRY main {
  x = f32[8] parameter(0)
  z = f32[] constant(0)
  a = f32[] fusion(x, z), kind=kInput, calls=first
  b = f32[] fusion(x, z), kind=KIND, calls=second
  ROOT t = (f32[], f32[]) tuple(a, b)
}
"""


def fusions_left(opcode: str, kind: str) -> int:
    text = BODIES.replace("OPCODE", opcode).replace("KIND", kind)
    module = check_pass(lambda m: bool(merge_common_subexpressions(m)), text, evaluate=True)
    assert merge_common_subexpressions(module) == 0
    return sum([x.opcode is Opcode.FUSION for x in module.entry.instructions.values()])


def test_fusions_are_equal_whose_bodies_compute_the_same() -> None:
    assert fusions_left("sine", "kInput") == 1
    assert fusions_left("cosine", "kInput") == 2
    assert fusions_left("sine", "kLoop") == 2


def test_fusions_that_draw_random_numbers_stay_apart() -> None:
    module = lowtide.parse_hlo("""
HloModule m
one { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = f32[8] rng(a, b), distribution=rng_uniform
}
two { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT r = f32[8] rng(a, b), distribution=rng_uniform
}
ENTRY main {
  z = f32[] constant(0)
  o = f32[] constant(1)
  a = f32[8] fusion(z, o), kind=kLoop, calls=one
  b = f32[8] fusion(z, o), kind=kLoop, calls=two
  ROOT d = f32[8] subtract(a, b)
}
""")
    assert merge_common_subexpressions(module) == 0


@pytest.mark.slow
def test_time_is_linear_in_the_operands_of_a_tuple() -> None:
    lines_of = []
    for count in (2_000, 16_000):
        lines = [f"  a{i} = f32[8] sine(x)" for i in range(count)]
        shapes = ", ".join(["f32[8]"] * count)
        names = ", ".join([f"a{i}" for i in range(count)])
        entry = "\n".join(["  x = f32[8] parameter(0)", *lines])
        text = f"HloModule m\nENTRY main {{\n{entry}\n  ROOT t = ({shapes}) tuple({names})\n}}\n"
        module = lowtide.parse_hlo(text)
        found, work = counted(lambda module=module: merge_common_subexpressions(module))
        assert found == count - 1
        lines_of.append(work)
    assert lines_of[1] < 12 * lines_of[0]


@pytest.mark.parametrize(
    "annotation", ["sharding={devices=[2]<=[2]}", 'frontend_attributes={kind="other"}']
)
def test_what_is_said_of_an_instruction_is_not_lost_to_an_equal_one(annotation) -> None:
    text = f"""
HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] sine(x), {annotation}
  ROOT t = (f32[4], f32[4]) tuple(a, b)
}}
"""
    check_pass(merge_common_subexpressions, text, changed=False)
    both = text.replace("sine(x)\n", f"sine(x), {annotation}\n")
    check_pass(merge_common_subexpressions, both, changed=True)


LOOPS = """HloModule m

less.1 { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }

less.2 { t = (s32[], f32[]) parameter(0)
  j = s32[] get-tuple-element(t), index=0
  m = s32[] constant(9)
  ROOT d = pred[] compare(j, m), direction=LT }

body.1 { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[] sine(x)
  ROOT t = (s32[], f32[]) tuple(j, y) }

body.2 { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(one, i)
  y = f32[] OPCODE
  ROOT t = (s32[], f32[]) tuple(j, y) }

ENTRY main {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[]) tuple(zero, x)
  a = (s32[], f32[]) while(start), condition=less.1, body=body.1
  b = (s32[], f32[]) while(start), condition=less.2, body=body.2
  ROOT t = ((s32[], f32[]), (s32[], f32[])) tuple(a, b) }
"""


@pytest.mark.parametrize(("opcode", "whiles"), [("sine(x)", 1), ("cosine(x)", 2)])
def test_loops_that_compute_the_same_are_one(opcode: str, whiles: int) -> None:
    module = lowtide.parse_hlo(LOOPS.replace("OPCODE", opcode))
    merge_common_subexpressions(module)
    opcodes = [x.opcode for x in module.entry.instructions.values()]
    assert opcodes.count(Opcode.WHILE) == whiles


@pytest.mark.parametrize(
    "line",
    [
        "f32[] rng(x, x), distribution=rng_uniform",
        "f32[] opt-barrier(x)",
        'f32[] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true',
    ],
)
def test_loops_that_draw_have_effects_or_barriers_stay(line: str) -> None:
    kind = line.removeprefix("f32[] ")
    text = LOOPS.replace("f32[] OPCODE", line).replace("f32[] sine(x)", f"f32[] {kind}")
    module = lowtide.parse_hlo(text)
    merge_common_subexpressions(module)
    opcodes = [x.opcode for x in module.entry.instructions.values()]
    assert opcodes.count(Opcode.WHILE) == 2


def test_what_has_nothing_to_merge_counts_as_unchanged() -> None:
    """What is known of a computation holds for one version of it."""
    text = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  ROOT d = f32[4] subtract(a, x)
}
"""
    module = lowtide.parse_hlo(text)
    before = module.entry.version
    assert merge_common_subexpressions(module) == remove_dead_code(module) == 0
    assert module.entry.version == before
    module.entry.root = module.entry.instructions["a"]
    assert remove_dead_code(module) == 1
    assert module.entry.version > before
