"""Side effects in the order of the program: edges between calls, and what inlining does to them."""

from __future__ import annotations

from itertools import pairwise

from lowtide.compiler import plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.transforms.effect_order import order_effects
from lowtide.transforms.inline_calls import inline_calls
from lowtide.verifier import verify


def effect(operand: str, number: int) -> str:
    """A call of a Python function with a side effect."""
    return (
        f'() custom-call({operand}), custom_call_target="lowtide_python_function", '
        f"custom_call_has_side_effect=true, backend_config={{number = {number} : ui64}}"
    )


def needed_by(x: Instruction) -> set[Instruction]:
    """What runs before an instruction in every order."""
    found: set[Instruction] = set()
    waiting = [x]
    while waiting:
        y = waiting.pop()
        before = [z for z in (*y.operands, *y.control_predecessors) if z not in found]
        found.update(before)
        waiting += before
    return found


def numbers(module: Module) -> list[str]:
    """The configurations of the effects of the entry, in an order that the edges allow."""
    found = [x for x in post_order(module.entry) if has_side_effect(x)]
    for before, after in pairwise(found):
        assert before in needed_by(after), "another order is allowed, too"
    return [x.annotations.backend_config for x in found]


def named(*found: int) -> list[str]:
    return [f"{{number = {x} : ui64}}" for x in found]


def layer(name: str, first: int) -> str:
    """A computation with two effects that nothing connects."""
    return f"""
{name} {{
  x = f32[] parameter(0)
  a = {effect("x", first)}
  y = f32[] sine(x)
  b = {effect("y", first + 1)}
  ROOT r = f32[] add(x, y)
}}
"""


LAYERS = f"""
HloModule m
{layer("one", 10)}{layer("two", 20)}{layer("three", 30)}
ENTRY main {{
  p = f32[] parameter(0)
  first = {effect("p", 3)}
  c = f32[] call(p), to_apply=one
  second = {effect("p", 4)}
  d = f32[] call(c), to_apply=two
  ROOT e = f32[] call(d), to_apply=three
  last = {effect("p", 5)}
}}
"""

ORDER = (3, 10, 11, 4, 20, 21, 30, 31, 5)


def test_inlined_calls_keep_their_place_among_effects() -> None:
    module = parse_hlo(LAYERS)
    assert order_effects(module) == 3 + 5
    assert order_effects(module) == 0
    inline_calls(module)
    verify(module)
    assert not any(x.opcode is Opcode.CALL for x in module.entry.instructions.values())
    told = numbers(module)
    assert told == named(*ORDER)


def test_the_schedule_has_effects_in_their_order() -> None:
    module = parse_hlo(LAYERS)
    module = plan(module).module
    assert module.schedule is not None
    sequence = module.schedule.sequences[module.entry]
    told = [x.annotations.backend_config for x in sequence if has_side_effect(x)]
    assert told == named(*ORDER)


def test_effects_that_nothing_connects_have_one_order() -> None:
    lines = [f"e{i} = {effect('p', i)}" for i in (7, 3, 9, 1)]
    text = "HloModule m\nENTRY main {\nROOT p = f32[] parameter(0)\n" + "\n".join(lines) + "\n}\n"
    module = parse_hlo(text)
    assert order_effects(module) == 3
    assert numbers(module) == named(7, 3, 9, 1)


def test_other_modules_stay_as_they_are() -> None:
    others = LAYERS.replace("lowtide_python_function", "somebody")
    pure = LAYERS.replace("custom_call_has_side_effect=true, ", "")
    for text in (others, pure):
        assert order_effects(parse_hlo(text)) == 0
