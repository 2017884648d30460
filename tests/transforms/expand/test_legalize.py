"""Legalization: all expanders at once, and the names of what is left."""

from lowtide.ir import Opcode
from lowtide.ir.clone import clone_module
from lowtide.testing.check_pass import assert_same_values
from lowtide.testing.check_rule import module_of
from lowtide.transforms.expand.legalize import FILES, MIXED_TYPES, legalize, outside_core, rules_in
from lowtide.verifier import verify

OUTSIDE = """
smooth { a = f32[] parameter(0)
  ROOT b = f32[] logistic(a) }

before { a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  c.1 = f32[] logistic(a.1)
  d.1 = f32[] logistic(b.1)
  ROOT e.1 = pred[] compare(c.1, d.1), direction=GE, type=TOTALORDER }

add { a.2 = f32[] parameter(0)
  b.2 = f32[] parameter(1)
  ROOT c.2 = f32[] add(a.2, b.2) }
"""


def test_expanders_meet_what_others_made() -> None:
    """A map brings a logistic; the selection of a select-and-scatter, one in a comparison."""
    module = module_of(
        """x = f32[8] parameter(0)
        y = f32[8] map(x), dimensions={0}, to_apply=smooth
        s = f32[4] parameter(1)
        v = f32[] parameter(2)
        z = f32[8] select-and-scatter(y, s, v), window={size=2 stride=2}, select=before, """
        "scatter=add",
        OUTSIDE,
    )
    assert outside_core(module) == {Opcode.LOGISTIC: 3, Opcode.MAP: 1}
    before = clone_module(module)
    assert legalize(module)
    verify(module)
    assert not outside_core(module)
    assert legalize(module) == 0
    assert_same_values(before, module)


def test_what_stays_is_named() -> None:
    module = module_of("x = c64[4] parameter(0)\n y = c64[4] logistic(x)")
    assert legalize(module) == 0
    assert outside_core(module) == {Opcode.LOGISTIC: 1}


def test_the_table_of_files_names_the_opcodes_that_they_have_rules_for() -> None:
    """A file is not loaded for another opcode, so that its rules would not be tried."""
    for file, opcodes in FILES.items():
        about = {opcode for rule in rules_in(file) for opcode in rule.opcodes}
        assert (opcodes is None) == (file == MIXED_TYPES)
        assert opcodes is None or opcodes == about
