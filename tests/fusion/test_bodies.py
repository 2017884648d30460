"""Kernels that compute the same call one body."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.bodies import Bodies
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import fused_computations
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

BOTH = """
HloModule m

ENTRY main {{
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  c = f32[] constant({0})
  cs = f32[64,64] broadcast(c), dimensions={{}}
  a = f32[64,64] multiply(x, cs)
  b = f32[64,64] sine(a)
  d = f32[] constant({1})
  ds = f32[64,64] broadcast(d), dimensions={{}}
  p = f32[64,64] multiply(y, ds)
  q = f32[64,64] {2}(p)
  ROOT r = (f32[64,64], f32[64,64]) tuple(b, q)
}}
"""


def fused(*parts: str) -> Module:
    module = parse_hlo(BOTH.format(*parts))
    before = clone_module(module)
    assert fuse_by_priority(module) == 2
    verify(module)
    assert_same_values(before, module)
    return module


@pytest.mark.parametrize(
    ("parts", "bodies"),
    [
        (("2", "2", "sine"), 1),
        (("2", "3", "sine"), 2),
        (("0", "-0", "sine"), 2),
        (("2", "2", "cosine"), 2),
    ],
)
def test_equal_bodies_are_one(parts: tuple[str, ...], bodies: int) -> None:
    assert len(fused_computations(fused(*parts))) == bodies


def test_operands_stay_with_their_fusion() -> None:
    module = fused("2", "2", "sine")
    kernels = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    assert [[y.name for y in x.operands] for x in kernels] == [["x"], ["y"]]


def test_constants_whose_value_is_not_known_are_not_equal() -> None:
    module = parse_hlo(
        """
HloModule m

ENTRY main {
  a = f32[4] constant({...})
  b = f32[4] constant({...})
  x = f32[4] sine(a)
  y = f32[4] sine(b)
  ROOT r = (f32[4], f32[4]) tuple(x, y)
}
"""
    )
    a, b, x, y, _ = module.entry.instructions.values()
    bodies = Bodies(module)
    first, second = bodies.of([a, x], x)[0], bodies.of([b, y], y)[0]
    assert first is not second
    assert bodies.of([a, x], x)[0] is first
