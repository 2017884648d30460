"""Which computations may be one."""

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.computation_deduplication import deduplicate_computations


def test_what_a_call_runs_is_no_body_of_a_fusion() -> None:
    text = """HloModule m
f { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }
g { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }
ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] call(x), to_apply=f
  ROOT b = f32[8] fusion(a), kind=kLoop, calls=g
}
"""
    check_pass(deduplicate_computations, text, changed=False)


def test_the_entry_stays() -> None:
    module = parse_hlo("""HloModule m
first { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }
second { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }
unused {
  x = f32[8] parameter(0)
  a = f32[8] fusion(x), kind=kLoop, calls=first
  ROOT b = f32[8] fusion(a), kind=kLoop, calls=second
}
ENTRY main { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }
""")
    assert deduplicate_computations(module) == 1
    assert sorted(module.computations) == ["first", "main", "unused"]
