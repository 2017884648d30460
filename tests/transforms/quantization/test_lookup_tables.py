"""Tables of functions of one number of 8 bits: which are made, and what they hold."""

import numpy as np
import pytest

from lowtide import evaluate, parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.transforms.quantization.lookup_tables import make_lookup_tables

CHAIN = """
HloModule m
ENTRY e {{
  q = {type}[64,40] parameter(0)
  y = f32[64,40] parameter(1)
  s = f32[] constant(0.1)
  ss = f32[64,40] broadcast(s), dimensions={{}}
  wide = f32[64,40] convert(q)
  x = f32[64,40] multiply(wide, ss)
  g = f32[64,40] logistic(x)
  h = f32[64,40] divide(g, ss)
  n = {type}[64,40] convert(h)
  back = f32[64,40] convert(n)
  z = f32[64,40] multiply(back, x)
  t = f32[64,40] tanh(z)
  ROOT r = f32[64,40] {end}
}}
"""


def _gathers(module: Module) -> int:
    found = module.entry.instructions.values()
    return sum([x.opcode is Opcode.GATHER for x in found])


@pytest.mark.parametrize("type_", ["u8", "s8"])
def test_all_numbers_have_their_entry(type_: str) -> None:
    """One table for the whole chain, whose parts read its numbers twice."""
    text = CHAIN.format(type=type_, end="add(t, y)")
    module, changed = parse_hlo(text), parse_hlo(text)
    assert make_lookup_tables(changed) == _gathers(changed) == 1
    numbers = np.resize(np.arange(256, dtype=np.uint8), (64, 40)).view(
        np.uint8 if type_ == "u8" else np.int8
    )
    y = np.ones((64, 40), np.float32)
    np.testing.assert_array_equal(evaluate(changed, [numbers, y]), evaluate(module, [numbers, y]))


@pytest.mark.parametrize("change", [("64,40", "4,5"), ("logistic", "negate")])
def test_what_is_cheap_or_small_is_left_alone(change: tuple[str, str]) -> None:
    text = CHAIN.format(type="u8", end="add(t, y)").replace(*change).replace("tanh", "abs")
    assert make_lookup_tables(parse_hlo(text)) == 0


def test_a_function_of_what_another_table_gives_is_kept() -> None:
    """Of two ends of one chain the second one is a function of what the first is made of."""
    text = CHAIN.format(type="s8", end="add(t, y)").replace("ROOT r", "r")
    more = """  e = f32[64,40] exponential(t)
  f = f32[64,40] add(e, y)
  ROOT both = (f32[64,40], f32[64,40]) tuple(r, f)
}
"""
    text = text.rstrip().removesuffix("}") + more
    module, changed = parse_hlo(text), parse_hlo(text)
    assert make_lookup_tables(changed) == _gathers(changed) == 2
    numbers = np.resize(np.arange(-128, 128, dtype=np.int8), (64, 40))
    given = [numbers, np.ones((64, 40), np.float32)]
    for x, y in zip(evaluate(changed, given), evaluate(module, given), strict=True):
        np.testing.assert_array_equal(x, y)


RESHAPED = """
HloModule m
ENTRY e {
  q = u8[64,40] parameter(0)
  z = f32[] constant(3)
  zs = f32[64,40] broadcast(z), dimensions={}
  s = f32[] constant(0.1)
  ss = f32[64,40] broadcast(s), dimensions={}
  wide = f32[64,40] convert(q)
  less = f32[64,40] subtract(wide, zs)
  x = f32[64,40] multiply(less, ss)
  y = f32[8,8,40] reshape(x)
  rs = f32[8,8,40] broadcast(s), dimensions={}
  rz = f32[8,8,40] broadcast(z), dimensions={}
  t = f32[8,8,40] TANH(y)
  d = f32[8,8,40] divide(t, rs)
  r = f32[8,8,40] round-nearest-even(d)
  a = f32[8,8,40] add(r, rz)
  ROOT n = u8[8,8,40] convert(a)
}
"""


def test_reshapes_are_seen_through() -> None:
    text = RESHAPED.replace("TANH", "tanh")
    module, changed = parse_hlo(text), parse_hlo(text)
    assert make_lookup_tables(changed) == _gathers(changed) == 1
    numbers = np.resize(np.arange(256, dtype=np.uint8), (64, 40))
    np.testing.assert_array_equal(evaluate(changed, [numbers]), evaluate(module, [numbers]))


def test_numbers_quantized_again_by_their_own_scale_are_as_they_were() -> None:
    text = RESHAPED.replace("TANH", "copy")
    text = text.replace("t = f32[8,8,40] copy(y)\n", "").replace("divide(t,", "divide(y,")
    text = text.replace("ROOT n", "n").replace(
        "\n}",
        """
  more = f32[8,8,40] convert(n)
  ROOT last = f32[8,8,40] multiply(more, rs)
}""",
    )
    changed = parse_hlo(text)
    assert make_lookup_tables(changed) == 1
    left = {x.opcode for x in changed.entry.instructions.values()}
    assert left.isdisjoint({Opcode.DIVIDE, Opcode.ROUND_NEAREST_EVEN, Opcode.GATHER})
    numbers = np.resize(np.arange(256, dtype=np.uint8), (64, 40))
    expected = evaluate(parse_hlo(text), [numbers])
    np.testing.assert_array_equal(evaluate(changed, [numbers]), expected)
