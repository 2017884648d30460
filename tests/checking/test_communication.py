"""The check of collectives: right programs pass, broken ones are caught."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.checking.communication import check_communication
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError

DEVICES = 4
GROUPS = ("{{0,1,2,3}}", "{{0,1},{2,3}}", "{{0,2},{1,3}}", "[2,2]<=[2,2]T(1,0)")
SUM = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


Step = tuple[int, str, int]
"""The kind of a collective, its groups and its channel."""


def line(number: int, kind: int, groups: str, channel: int = 1) -> list[str]:
    """The lines of a collective that takes %v<number> and makes the next one."""
    source = f"%v{number}"
    tail = f"channel_id={channel}, replica_groups={groups}, use_global_device_ids=true"
    if kind == 0:
        return [f"%v{number + 1} = f32[8] all-reduce({source}), {tail}, to_apply=%sum"]
    if kind == 1:
        return [
            f"%begun{number} = f32[8] all-reduce-start({source}), {tail}, to_apply=%sum",
            f"%v{number + 1} = f32[8] all-reduce-done(%begun{number})",
        ]
    if kind == 2:
        pairs = "{{0,1},{1,2},{2,3},{3,0}}"
        return [
            f"%v{number + 1} = f32[8] collective-permute({source}), channel_id={channel}, "
            f"source_target_pairs={pairs}"
        ]
    size = 4 if groups.startswith("{{0,1,2") else 2
    return [
        f"%whole{number} = f32[{8 * size}] all-gather({source}), {tail}, dimensions={{0}}",
        f"%v{number + 1} = f32[8] slice(%whole{number}), slice={{[0:8]}}",
    ]


def program(steps: list[list[str]], around: str = "") -> str:
    """A module that runs the steps, in the body of a loop where a condition is given."""
    body = "\n  ".join([x for step in steps for x in step])
    last = f"%v{len(steps)}"
    head = f"HloModule m, is_scheduled=true, num_partitions={DEVICES}\n\n{SUM}\n"
    if not around:
        return head + (
            f"ENTRY %main (p: f32[8]) -> f32[8] {{\n  %v0 = f32[8] parameter(0)\n  {body}\n"
            f"  ROOT %r = f32[8] negate({last})\n}}\n"
        )
    return head + (
        "%body (s: (s32[], f32[8])) -> (s32[], f32[8]) {\n"
        "  %s = (s32[], f32[8]) parameter(0)\n  %i = s32[] get-tuple-element(%s), index=0\n"
        "  %one = s32[] constant(1)\n  %j = s32[] add(%i, %one)\n"
        f"  %v0 = f32[8] get-tuple-element(%s), index=1\n  {body}\n"
        f"  ROOT %t = (s32[], f32[8]) tuple(%j, {last})\n}}\n"
        "%condition (s: (s32[], f32[8])) -> pred[] {\n"
        f"  %s = (s32[], f32[8]) parameter(0)\n{around}\n}}\n"
        "ENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8] parameter(0)\n"
        "  %zero = s32[] constant(0)\n  %init = (s32[], f32[8]) tuple(%zero, %p)\n"
        "  %loop = (s32[], f32[8]) while(%init), condition=%condition, body=%body\n"
        "  ROOT %r = f32[8] get-tuple-element(%loop), index=1\n}\n"
    )


COUNTED = """  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(5)
  ROOT %c = pred[] compare(%i, %n), direction=LT"""

BY_VALUE = """  %x = f32[8] get-tuple-element(%s), index=1
  %y = f32[1] slice(%x), slice={[0:1]}
  %z = f32[] reshape(%y)
  %n = f32[] constant(5)
  ROOT %c = pred[] compare(%z, %n), direction=LT"""


def drawn(random: Random) -> list[Step]:
    count = random.randrange(3, 7)
    return [(random.randrange(4), random.choice(GROUPS), i + 1) for i in range(count)]


def steps_of(steps: list[Step]) -> list[list[str]]:
    return [line(i, *step) for i, step in enumerate(steps)]


def swapped(steps: list[Step], random: Random) -> list[list[str]]:
    i = random.randrange(len(steps) - 1)
    return steps_of([*steps[:i], steps[i + 1], steps[i], *steps[i + 2 :]])


def other_group(steps: list[Step], random: Random) -> list[list[str]]:
    """One all-reduce among other devices; none where the steps have no all-reduce."""
    reductions = [i for i, step in enumerate(steps) if step[0] in (0, 1)]
    if not reductions:
        return []
    i = random.choice(reductions)
    kind, groups, channel = steps[i]
    other = GROUPS[1] if groups == GROUPS[0] else GROUPS[0]
    return steps_of([*steps[:i], (kind, other, channel), *steps[i + 1 :]])


def absent(steps: list[Step], random: Random) -> list[list[str]]:
    i = random.randrange(len(steps))
    lines = steps_of(steps)
    return [*lines[:i], [f"%v{i + 1} = f32[8] negate(%v{i})"], *lines[i + 1 :]]


@pytest.mark.parametrize("seed", range(300))
def test_right_programs_pass_and_broken_ones_do_not(seed: int) -> None:
    random = Random(seed)
    kinds = drawn(random)
    around = random.choice(("", COUNTED))
    text = program(steps_of(kinds), around)
    alone = check_communication([parse_hlo(text)])
    assert alone.is_free_of_deadlock, alone
    assert alone.collectives == len(kinds)
    together = [parse_hlo(text) for _ in range(DEVICES)]
    assert check_communication(together).is_free_of_deadlock
    for break_ in (swapped, other_group, absent):
        steps = break_(kinds, random)
        if not steps:
            continue
        broken = list(together)
        broken[random.randrange(DEVICES)] = parse_hlo(program(steps, around))
        assert check_communication(broken).faults, (break_.__name__, text)


def test_what_waits_for_whom_is_said() -> None:
    text = program(steps_of([(0, GROUPS[0], 1), (0, GROUPS[1], 2)]))
    broken = program([["%v1 = f32[8] negate(%v0)"], line(1, 0, GROUPS[1], 2)])
    programs = [parse_hlo(text) for _ in range(3)] + [parse_hlo(broken)]
    found = check_communication(programs)
    assert {str(x) for x in found.faults} == {
        "device 2, %v1: waits for device 3, which waits in %v2",
        "device 3, %v2: waits for device 2, which waits in %v1",
    }


def test_a_cycle_of_two_groups_is_a_deadlock() -> None:
    first, second = (0, "{{0,1},{2,3}}", 1), (0, "{{0,2},{1,3}}", 2)
    one, other = program(steps_of([first, second])), program(steps_of([second, first]))
    found = check_communication([parse_hlo(x) for x in (one, other, other, one)])
    assert found.faults
    assert all("waits for" in str(x) for x in found.faults)


def test_a_loop_that_ends_by_a_value_is_an_assumption() -> None:
    on_all = check_communication([parse_hlo(program([line(0, 0, GROUPS[1])], BY_VALUE))])
    assert on_all.assumed == ("loop",)
    assert not on_all.is_free_of_deadlock
    assert not on_all.faults


def test_values_that_were_reduced_over_all_are_alike() -> None:
    text = program([line(0, 0, GROUPS[0])], BY_VALUE)
    text = text.replace(
        "%init = (s32[], f32[8]) tuple(%zero, %p)",
        "%q = f32[8] all-reduce(%p), channel_id=9, replica_groups={{0,1,2,3}}, "
        "use_global_device_ids=true, to_apply=%sum\n"
        "  %init = (s32[], f32[8]) tuple(%zero, %q)",
    )
    assert check_communication([parse_hlo(text)]).is_free_of_deadlock


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("{{0,1},{2}}", "device 3 is in none of the replica_groups"),
        ("{{0,1},{2,7}}", "replica_groups names device 7; there are 4"),
        ("[2,4]<=[8]", "replica_groups names device 4; there are 4"),
    ],
)
def test_groups_that_cannot_be(groups: str, words: str) -> None:
    found = check_communication([parse_hlo(program([line(0, 0, groups)]))])
    assert [x.words for x in found.faults] == [words]


def test_sizes_are_those_of_the_groups() -> None:
    text = program([line(0, 3, "{{0,1},{2,3}}")]).replace("f32[16]", "f32[32]")
    found = check_communication([parse_hlo(text)])
    assert [x.words for x in found.faults] == [
        "dimension 0 is 8 and becomes 32 in groups of 2 devices"
    ]


def test_sends_and_receives_are_named() -> None:
    text = f"""HloModule m, is_scheduled=true, num_partitions={DEVICES}

ENTRY %main (p: f32[8]) -> f32[8] {{
  %p = f32[8] parameter(0)
  %t = token[] after-all()
  %s = (f32[8], u32[], token[]) send(%p, %t), channel_id=1
  %d = token[] send-done(%s), channel_id=1
  ROOT %r = f32[8] negate(%p)
}}
"""
    found = check_communication([parse_hlo(text)])
    assert found.unchecked == ("s", "d")
    assert not found.is_free_of_deadlock


def test_one_program_or_one_for_each_device() -> None:
    module = parse_hlo(program([line(0, 0, GROUPS[0])]))
    with pytest.raises(LowtideError, match="for 4 devices, found programs of 2"):
        check_communication([module, module])
