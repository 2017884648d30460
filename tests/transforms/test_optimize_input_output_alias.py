"""Donors are paired with outputs of their size, as XLA pairs them."""

import pytest

from lowtide import evaluate, parse_hlo
from lowtide.analysis.donation import aliases
from lowtide.compiler import PlanOptions, explain
from lowtide.transforms.optimize_input_output_alias import optimize_input_output_alias

MODULE = """HloModule m, buffer_donor={ DONORS }
ENTRY main {
  a = f32[8] parameter(0)
  b = f32[16] parameter(1)
  c = (s32[16], f32[8]{0:S(1)}) parameter(2)
  d = f32[<=8] parameter(3)
  x = f32[8] negate(a)
  y = u8[64] constant({...})
  z = f32[8]{0:S(1)} get-tuple-element(c), index=1
  w = f32[8]{0:S(1)} negate(z)
  v = (f32[8]{0:S(1)}, f32[8]) tuple(w, x)
  ROOT r = (f32[8], u8[64], (f32[8]{0:S(1)}, f32[8])) tuple(x, y, v)
}
"""


@pytest.mark.parametrize(
    ("donors", "pairs", "left"),
    [
        ("(0, {})", [((0,), 0, ())], []),
        # Only bytes count, not shapes and types; of equal ones the first.
        ("(1, {}), (2, {0})", [((1,), 1, ())], [(2, (0,))]),
        # Memory spaces are not mixed.
        ("(2, {1})", [((2, 0), 2, (1,))], []),
        # Dynamic shapes and tuples take no part.
        ("(3, {}), (2, {})", [], [(2, ()), (3, ())]),
        # A donor that is named twice is one.
        ("(0, {}), (0, {})", [((0,), 0, ())], []),
    ],
)
def test_pairs(donors, pairs, left):
    module = parse_hlo(MODULE.replace("DONORS", donors))
    before = aliases(module)
    assert optimize_input_output_alias(module) == bool(pairs)
    found = [(x.output_index, x.parameter, x.parameter_index) for x in module.input_output_aliases]
    assert found == pairs
    assert not any(x.must for x in module.input_output_aliases)
    assert [(x.parameter, x.parameter_index) for x in module.buffer_donors] == left
    assert aliases(module) == before
    assert len(before) == len(pairs)
    assert not optimize_input_output_alias(module)


def test_outputs_and_parameters_of_the_table_are_taken():
    text = MODULE.replace("buffer_donor={ DONORS }", "input_output_alias={ {0}: (0, {}) }")
    module = parse_hlo(text.replace("HloModule m, ", "HloModule m, buffer_donor={ (3, {}) }, "))
    assert not optimize_input_output_alias(module)
    assert len(module.input_output_aliases) == 1


SWAP = """HloModule swap, buffer_donor={ (0, {}), (1, {}) }
ENTRY main {
  a = f32[4096] parameter(0)
  b = f32[4096] parameter(1)
  x = f32[4096] sine(b)
  y = f32[4096] cosine(a)
  ROOT r = (f32[4096], f32[4096]) tuple(x, y)
}
"""


def test_the_figures_are_those_of_the_donors():
    module = parse_hlo(SWAP)
    before = explain(module, PlanOptions("input"))
    optimize_input_output_alias(module)
    assert explain(module, PlanOptions("input")).alias_bytes == before.alias_bytes == 2 * 16384
    arguments = evaluate(
        parse_hlo("""HloModule i
ENTRY e {
  i = f32[4096] iota(), iota_dimension=0
  ROOT t = (f32[4096], f32[4096]) tuple(i, i)
}"""),
        [],
    )
    results = [evaluate(x, arguments) for x in (module, parse_hlo(SWAP))]
    assert all((x == y).all() for x, y in zip(*results, strict=True))
