"""The rewriter applies rules until none fits, removes what is dead, and stops rules that loop."""

import pytest

import lowtide
from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.passes.rewriting import DEAD, Rewriter, rewrite, rule
from lowtide.transforms.simplify.algebraic_simplifier import simplify

TEXT = """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x), metadata={op_name="first"}
  b = f32[4] negate(a), metadata={op_name="second"}
  c = f32[4] negate(b)
  d = f32[4] negate(c)
  ROOT sum = f32[4] add(d, x)
}
"""


@rule(Opcode.NEGATE)
def double_negation(outer: Instruction, at: Rewriter) -> Instruction | None:
    inner = outer.operands[0]
    return inner.operands[0] if inner.opcode is Opcode.NEGATE else None


@rule(Opcode.ADD)
def doubled(add: Instruction, at: Rewriter) -> Op | None:
    left, right = add.operands
    return at(left) * at(left) if left is right else None


@rule(Opcode.NEGATE)
def for_ever(outer: Instruction, at: Rewriter) -> Op | None:
    return -at(outer.operands[0])


def test_rules_apply_where_operands_changed() -> None:
    module = lowtide.parse_hlo(TEXT)
    fired = rewrite(module, [doubled, double_negation])
    assert fired == {"double-negation": 2, "doubled": 1, DEAD: 5}
    lowtide.verify(module)
    assert [x.opcode.value for x in module.entry.instructions.values()] == ["parameter", "multiply"]


def test_rules_that_do_not_settle_are_named() -> None:
    with pytest.raises(RuntimeError, match="for-ever"):
        rewrite(lowtide.parse_hlo(TEXT), [for_ever])


def test_new_instructions_say_where_they_come_from() -> None:
    module = lowtide.parse_hlo(TEXT.replace("(d, x)", '(b, b), metadata={op_name="third"}'))
    rewrite(module, [doubled])
    assert module.entry.root.metadata.op_name == "third"


def test_control_edges_hold_an_instruction_in_place() -> None:
    text = TEXT.replace("d = f32[4] negate(c)", "d = f32[4] negate(c), control-predecessors={a}")
    module = lowtide.parse_hlo(text)
    rewrite(module, [double_negation])
    assert [x.name for x in module.entry.instructions.values()] == ["x", "a", "c", "d", "sum"]


def test_a_value_in_another_memory_space_stands_for_no_other() -> None:
    text = """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4]{0:S(1)} negate(x)
  ROOT b = f32[4]{0:S(1)} negate(a)
}
"""
    module = lowtide.parse_hlo(text)
    assert rewrite(module, [double_negation]) == {}
    assert len(module.entry.instructions) == 3


def test_what_a_rule_makes_in_vain_is_no_change() -> None:
    """The number of a lone device lies in tiles, which the constant in its place would not."""
    text = """
HloModule m

ENTRY main {
  ROOT number = u32[]{:T(128)} replica-id()
}
"""
    module = lowtide.parse_hlo(text)
    before = str(module)
    assert simplify(module) == 0
    assert str(module) == before
