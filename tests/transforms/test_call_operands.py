"""Operands of calls that are made within what is called."""

import numpy as np
import pytest
from tests.ways_to_run import run, run_emulated, run_native

import lowtide
from lowtide.compiler.options import PlanOptions
from lowtide.compiler.pipeline import plan
from lowtide.fusion.target_record import CPU_TARGET, GPU_TARGET
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify

DRAWN = """
drawn {
  key = u32[] parameter(0)
  n = u32[8] parameter(1)
  shift = u32[8] parameter(2)
  keys = u32[8] broadcast(key), dimensions={}
  sum = u32[8] add(n, shift)
  ROOT y = u32[8] xor(keys, sum)
}
"""
IOTA = "iota(), iota_dimension=0"


def called(first: str, second: str, callee: str = DRAWN, more: str = "") -> str:
    """Two calls, whose operand 1 is made by the last line of some lines each."""
    return f"""HloModule m
{callee}
ENTRY main {{
  k = u32[] parameter(0)
  s = u32[8] parameter(1)
  {first}
  a = u32[8] call(k, i, s), to_apply=drawn
  {second}
  b = u32[8] call(k, j, a), to_apply=drawn
  {more}
  ROOT c = u32[8] add(a, b)
}}"""


def made_within(text: str) -> tuple[Module, int]:
    module = lowtide.parse_hlo(text)
    verify(module)
    original = clone_module(module)
    (step,) = parse_passes("call-operands")
    changes = step.run(module)
    verify(module)
    assert step.run(module) == 0
    assert_same_values(original, module)
    return module, changes


def opcodes(module: Module, name: str) -> list[Opcode]:
    return [x.opcode for x in module.computations[name].instructions.values()]


def test_numbers_of_elements_are_made_where_they_are_read() -> None:
    module, changes = made_within(called(f"i = u32[8] {IOTA}", f"j = u32[8] {IOTA}"))
    assert changes == 1
    assert Opcode.IOTA in opcodes(module, "drawn")
    assert Opcode.IOTA not in opcodes(module, "main")
    parameters = module.computations["drawn"].parameters
    assert [str(x.attributes) for x in parameters] == [
        str(x.attributes) for x in module.entry.parameters
    ]


def test_several_operations_come_along() -> None:
    lines = "{0}0 = u32[2,4] iota(), iota_dimension=1\n{0}1 = u32[] constant(3)\n"
    lines += "{0}2 = u32[2,4] broadcast({0}1), dimensions={{}}\n"
    lines += "{0}3 = u32[2,4] multiply({0}0, {0}2)\n{0} = u32[8] reshape({0}3)"
    module, changes = made_within(called(lines.format("i"), lines.format("j")))
    assert changes == 1
    assert opcodes(module, "main").count(Opcode.RESHAPE) == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"i = u32[8] {IOTA}", "j = u32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})"),
        (f"i = u32[8] {IOTA}", "j = u32[8] negate(s)"),
        ("i = u32[8] broadcast(k), dimensions={}", "j = u32[8] broadcast(k), dimensions={}"),
    ],
)
def test_what_calls_make_differently_or_of_something_stays(first: str, second: str) -> None:
    assert made_within(called(first, second))[1] == 0


def test_dear_values_stay() -> None:
    line = "{0}0 = f32[8] iota(), iota_dimension=0\n{0}1 = f32[8] sine({0}0)\n"
    line += "{0} = u32[8] convert({0}1)"
    assert made_within(called(line.format("i"), line.format("j")))[1] == 0


def test_what_others_read_stays_for_them() -> None:
    more = "d = u32[8] negate(i)"
    module, changes = made_within(
        called(f"i = u32[8] {IOTA}", f"j = u32[8] {IOTA}", more=more).replace(
            "ROOT c = u32[8] add(a, b)", "e = u32[8] add(a, b)\n ROOT c = u32[8] add(d, e)"
        )
    )
    assert changes == 1
    assert opcodes(module, "main").count(Opcode.IOTA) == 1


def test_calls_within_calls_get_it_too() -> None:
    outer = """
outer {
  key = u32[] parameter(0)
  n = u32[8] parameter(1)
  shift = u32[8] parameter(2)
  once = u32[8] call(key, n, shift), to_apply=drawn
  ROOT twice = u32[8] call(key, n, once), to_apply=drawn
}
"""
    text = called(f"i = u32[8] {IOTA}", f"j = u32[8] {IOTA}", DRAWN + outer)
    module, changes = made_within(
        text.replace("s), to_apply=drawn\n  j", "s), to_apply=outer\n  j")
    )
    assert changes == 2
    assert Opcode.IOTA not in opcodes(module, "main") + opcodes(module, "outer")


ROUNDS = "\n".join(
    [
        f"  m{i} = u32[64,64] multiply(v{i}, v{i})\n  v{i + 1} = u32[64,64] add(m{i}, sum)"
        for i in range(140)
    ]
)

DRAWS = f"""HloModule m

all {{
  u = u32[] parameter(0)
  v = u32[] parameter(1)
  ROOT w = u32[] add(u, v)
}}

drawn {{
  key = u32[] parameter(0)
  n = u32[64,64] parameter(1)
  keys = u32[64,64] broadcast(key), dimensions={{}}
  sum = u32[64,64] add(n, keys)
  v0 = u32[64,64] xor(keys, sum)
{ROUNDS}
  ROOT last = u32[64,64] negate(v140)
}}

ENTRY main {{
  k = u32[] parameter(0)
  n = u32[64,64] iota(), iota_dimension=0
  a = u32[64,64] call(k, n), to_apply=drawn
  h = u32[] negate(k)
  b = u32[64,64] call(h, n), to_apply=drawn
  zero = u32[] constant(0)
  c = u32[] reduce(a, zero), dimensions={{0,1}}, to_apply=all
  d = u32[] reduce(b, zero), dimensions={{0,1}}, to_apply=all
  ROOT t = (u32[], u32[]) tuple(c, d)
}}"""


@pytest.mark.parametrize("target", [CPU_TARGET, GPU_TARGET])
def test_drawings_of_one_shape_hold_no_numbers_between_them(target) -> None:
    made = plan(lowtide.parse_hlo(DRAWS), PlanOptions(target=target))
    array = 64 * 64 * 4
    assert made.report.to_json()["ladder"]["arena_bytes"] < array + array // 2


def test_drawings_run() -> None:
    given = [np.uint32(12345)]
    wanted = [x.tobytes() for x in run(DRAWS, given)]
    assert [x.tobytes() for x in run_native(DRAWS, given)] == wanted
    assert [x.tobytes() for x in run_emulated(DRAWS, given)] == wanted
