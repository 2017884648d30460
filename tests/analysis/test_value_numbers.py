"""Value numbers: what counts as computed in the same way."""

from collections.abc import Hashable
from dataclasses import replace

import pytest

from lowtide.analysis.value_numbers import ValueNumbers, plain_form, text_key
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Attributes, Instruction, Module, Opcode
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.traversal import post_order

TEXT = """
HloModule m

one { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
two { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(y, x) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] subtract(y, x) }

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  zero = f32[] constant(0)
  sum = f32[4] add(p, q)
  swapped = f32[4] add(q, p), metadata={op_name="s"}
  sharded = f32[4] add(p, q), sharding={replicated}
  late = f32[4] add(p, q), control-predecessors={zero}
  difference = f32[4] subtract(p, q)
  reversed = f32[4] subtract(q, p)
  total = f32[] reduce(p, zero), dimensions={0}, to_apply=one
  again = f32[] reduce(p, zero), dimensions={0}, to_apply=two
  other = f32[] reduce(p, zero), dimensions={0}, to_apply=less
  hidden = f32[4] constant({...})
  covered = f32[4] constant({...})
  pair = (f32[4], f32[4]) tuple(p, sum)
  held = (f32[4], f32[4]) opt-barrier(pair)
  held.2 = (f32[4], f32[4]) opt-barrier(pair)
  direct = f32[4] get-tuple-element(pair), index=1
  behind = f32[4] get-tuple-element(held), index=1
  ROOT r = (f32[4], f32[4]) tuple(behind, direct)
}
"""


def same(module: Module, numbers: ValueNumbers) -> set[frozenset[str]]:
    """Return the names of instructions of one number, where there are several."""
    found: dict[int, set[str]] = {}
    for x, number in numbers.of_instructions(module.entry, {}).items():
        found.setdefault(number, set()).add(x.name)
    return {frozenset(names) for names in found.values() if len(names) > 1}


def groups(*names: str) -> set[frozenset[str]]:
    return {frozenset(group.split()) for group in names}


def with_sharding(x: Instruction) -> Hashable:
    return (plain_form(x), x.annotations)


def is_parameter(x: Instruction) -> bool:
    return x.opcode is Opcode.PARAMETER


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (ValueNumbers(), groups("sum swapped sharded direct", "total again")),
        (ValueNumbers(form=with_sharding), groups("sum swapped direct", "total again")),
        (ValueNumbers(inside=False), groups("sum swapped sharded direct")),
        (
            ValueNumbers(through_barriers=True),
            groups("sum swapped sharded direct behind", "total again", "pair held held.2"),
        ),
        (
            ValueNumbers(alone=is_parameter),
            groups("sum swapped sharded late direct", "total again", "held held.2"),
        ),
    ],
    ids=["plain", "form", "inside", "through barriers", "alone"],
)
def test_equal_numbers_are_for_equal_values(
    numbers: ValueNumbers, expected: set[frozenset[str]]
) -> None:
    assert same(parse_hlo(TEXT), numbers) == expected


def test_given_numbers_stand_for_what_comes_from_outside() -> None:
    module, numbers = parse_hlo(TEXT), ValueNumbers()
    p, q = module.entry.parameters
    value = numbers.of_key("outside")
    found = numbers.of_instructions(module.entry, {p: value, q: value})
    names = module.entry.instructions
    assert found[names["difference"]] == found[names["reversed"]]


def test_computations_are_told_apart_by_what_they_do_and_by_effects() -> None:
    module, numbers = parse_hlo(TEXT), ValueNumbers()
    one, two, less = (
        numbers.of_computation(module.computations[x]) for x in ("one", "two", "less")
    )
    assert one == two
    assert one != less
    for name in ("one", "two"):
        computation = module.computations[name]
        computation.root.add_control_predecessor(computation.parameters[0])
    fresh = ValueNumbers()
    first, second = (fresh.of_computation(module.computations[x]) for x in ("one", "two"))
    assert first != second


def test_computations_that_are_not_looked_into_can_be_given_numbers() -> None:
    module, numbers = parse_hlo(TEXT), ValueNumbers(inside=False)
    computations = [module.computations[name] for name in ("one", "two", "less")]
    assert len({numbers.of_computation(x) for x in computations}) == 3
    numbers = ValueNumbers(inside=False)
    for computation in computations:
        found: dict[Instruction, int] = {}
        for x in post_order(computation):
            found[x] = numbers.of(x, found)
        numbers.set_computation(computation, found)
    one, two, less = [numbers.of_computation(x) for x in computations]
    assert one == two
    assert one != less


def test_keys_of_text_leave_nothing_out() -> None:
    known = parse_hlo(TEXT).entry.instructions
    numbers = {x: number for number, x in enumerate(known.values())}
    keys = {name: text_key(x, numbers) for name, x in known.items()}
    assert keys["sum"] != keys["swapped"]
    assert keys["swapped"] != keys["sharded"]
    assert keys["held"] == keys["held.2"]
    assert keys["hidden"] != keys["covered"]
    assert keys["late"] is known["late"]


def test_custom_calls_are_told_apart_by_what_they_are_asked_to_do() -> None:
    call = 'custom-call(x), custom_call_target="some", backend_config='
    module = parse_hlo(f"""
HloModule m
ENTRY main {{
  x = f32[3,3] parameter(0)
  a = f32[3,3] {call}"lower"
  b = f32[3,3] {call}"upper"
  c = f32[3,3] {call}"lower"
  ROOT r = (f32[3,3], f32[3,3], f32[3,3]) tuple(a, b, c)
}}
""")
    found = ValueNumbers().of_instructions(module.entry, {})
    a, b, c = [found[module.entry.instructions[name]] for name in "abc"]
    assert a == c != b


def test_equal_annotations_and_attributes_need_not_be_one_object() -> None:
    entry = parse_hlo(TEXT).entry
    total, number = entry.instructions["sum"], {x: i for i, x in enumerate(entry.parameters)}
    before = text_key(total, number)
    total.set_annotations(replace(NO_ANNOTATIONS))
    total.set_attributes(Attributes())
    assert total.annotations is not NO_ANNOTATIONS
    assert text_key(total, number) == before
    sharded = entry.instructions["sharded"]
    assert text_key(sharded, number) != before
