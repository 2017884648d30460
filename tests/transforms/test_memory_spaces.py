"""Copies between memory spaces are kept by all passes: a way through another memory is a wish."""

import pytest

import lowtide
from lowtide import compiler
from lowtide.ir import Module, Opcode

ARRAY, THERE = "f32[64,32]{1,0}", "f32[64,32]{1,0:S(K)}"
WAYS = {
    "there and back": f"""
  n = {ARRAY} negate(p)
  h = {THERE} copy(n)
  d = {ARRAY} copy(h)
  ROOT r = {ARRAY} cosine(d)""",
    "an argument": f"  h = {THERE} copy(p)\n  ROOT d = {ARRAY} copy(h)",
    "another layout": f"""
  h = f32[64,32]{{0,1:S(K)}} copy(p)
  d = {ARRAY} copy(h)
  ROOT r = {ARRAY} cosine(d)""",
    "a constant": f"""
  n = f32[] constant(2)
  h = f32[]{{:S(K)}} copy(n)
  d = f32[] copy(h)
  b = {ARRAY} broadcast(d), dimensions={{}}
  ROOT r = {ARRAY} add(b, p)""",
    "a broadcast": f"""
  z = f32[] constant(2)
  n = {ARRAY} broadcast(z), dimensions={{}}
  h = {THERE} copy(n)
  d = {ARRAY} copy(h)
  ROOT r = {ARRAY} add(d, p)""",
    "moved before and behind": f"""
  h = {THERE} copy(p)
  d = {ARRAY} copy(h)
  t = f32[32,64]{{1,0}} transpose(d), dimensions={{1,0}}
  ROOT r = f32[2048]{{0}} reshape(t)""",
    "in two halves": f"""
  s = ({THERE}, {ARRAY}, u32[]) copy-start(p)
  h = {THERE} copy-done(s)
  t = ({ARRAY}, {THERE}, u32[]) copy-start(h)
  d = {ARRAY} copy-done(t)
  ROOT r = {ARRAY} cosine(d)""",
    "work there": f"""
  h = {THERE} copy(p)
  c = {THERE} cosine(h)
  e = {THERE} exponential(c)
  d = {ARRAY} copy(e)
  ROOT r = {ARRAY} negate(d)""",
    "two others": f"""
  h = {THERE} copy(p)
  i = f32[64,32]{{1,0:S(2)}} copy(h)
  ROOT d = {ARRAY} copy(i)""",
}


def module_of(way: str, space: int) -> Module:
    body = WAYS[way].replace("S(K)", f"S({space})")
    module = lowtide.parse_hlo(f"HloModule m\nENTRY e {{\n  p = {ARRAY} parameter(0)\n{body}\n}}\n")
    lowtide.verify(module)
    return module


def crossings(module: Module) -> int:
    """Return how many copies lead from one memory space to another."""
    found = 0
    for computation in module.computations.values():
        for x in computation.instructions.values():
            source = x
            if x.opcode is Opcode.COPY:
                source = x.operands[0]
            elif x.opcode is Opcode.COPY_DONE:
                source = x.operands[0].operands[0]
            found += source.shape.memory_space != x.shape.memory_space
    return found


@pytest.mark.parametrize("space", [1, 5])
@pytest.mark.parametrize("way", WAYS)
def test_copies_between_memories_stay(way: str, space: int) -> None:
    module = module_of(way, space)
    before = crossings(module)
    compiler.optimize(module, compiler.PlanOptions("fused"))
    lowtide.verify(module)
    assert crossings(module) == before >= 2


def test_copies_in_one_memory_still_go() -> None:
    module = module_of("there and back", 0)
    compiler.optimize(module, compiler.PlanOptions("fused"))
    assert not [x for x in module.entry.instructions.values() if x.opcode is Opcode.COPY]
