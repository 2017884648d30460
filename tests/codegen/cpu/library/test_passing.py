"""Collectives of one device, copies in two halves, marks, and what is refused."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import check, run

from lowtide.ir.errors import UnsupportedOpError

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""

ONE = "f32[40,30]"

ALONE = [
    f"ROOT r = {ONE} all-reduce(x), replica_groups={{}}, to_apply=add",
    f"ROOT r = {ONE} all-gather(x), replica_groups={{{{0}}}}, dimensions={{0}}",
    f"ROOT r = {ONE} reduce-scatter(x), replica_groups={{{{0}}}}, dimensions={{1}}, to_apply=add",
    f"ROOT r = {ONE} all-to-all(x), replica_groups={{{{0}}}}, dimensions={{0}}",
    f"ROOT r = {ONE} collective-permute(x), source_target_pairs={{{{0,0}}}}",
    f"ROOT r = {ONE} collective-permute(x), source_target_pairs={{{{0,1}}}}",
    f"s = ({ONE}, {ONE}, u32[]) copy-start(x)\n  ROOT r = {ONE} copy-done(s)",
    f"s = ({ONE}, {ONE}) all-gather-start(x), replica_groups={{{{0}}}}, dimensions={{0}}\n"
    f"  ROOT r = {ONE} all-gather-done(s)",
    f"s = {ONE} all-reduce-start(x), replica_groups={{}}, to_apply=add\n"
    f"  ROOT r = {ONE} all-reduce-done(s)",
    f'ROOT r = {ONE} custom-call(x), custom_call_target="Sharding"',
    f'p = b({ONE}) custom-call(x), custom_call_target="Pin"\n'
    f'  ROOT r = {ONE} custom-call(p), custom_call_target="Unpin"',
    "p = u32[] partition-id()\n  q = u32[] replica-id()\n  ROOT t = (u32[], u32[]) tuple(p, q)",
    f"t = ({ONE}, {ONE}) tuple(x, x)\n  ROOT r = ({ONE}, {ONE}) copy(t)",
]

REFUSED = [
    (f"ROOT r = {ONE} all-reduce(x), replica_groups={{{{0,1}}}}, to_apply=add", "other devices"),
    (f"ROOT r = {ONE} collective-permute(x), source_target_pairs={{{{1,0}}}}", "other devices"),
    (f'ROOT r = {ONE} custom-call(x), custom_call_target="nobody"', '"nobody"'),
    (
        "z = token[] after-all()\n  s = (f32[40,30], token[]) infeed(z)\n"
        f"  ROOT r = {ONE} get-tuple-element(s), index=0",
        "no host program",
    ),
]


def text_of(body: str) -> str:
    return f"""
HloModule m, replica_count=1
{ADD}
ENTRY main {{
  x = {ONE} parameter(0)
  {body}
}}
"""


def values():
    return np.random.default_rng(0).random((40, 30), np.float32)


@pytest.mark.parametrize("stage", ["input", "fused"])
@pytest.mark.parametrize("body", ALONE, ids=lambda x: x.split("(")[-2].split()[-1])
def test_one_device_alone(body, stage):
    check(text_of(body), [values()], stage=stage)


@pytest.mark.parametrize(("body", "reason"), REFUSED, ids=lambda x: x[:40])
def test_what_needs_others_is_refused(body, reason):
    with pytest.raises(UnsupportedOpError, match=reason):
        run(text_of(body), [values()])


IN_PLACE = "output_to_operand_aliasing={{}: (0, {})}"

PINNED = f"""
HloModule m
body {{
  s = (s32[], b({ONE}), b({ONE})) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  b = b({ONE}) get-tuple-element(s), index=1
  n = b({ONE}) get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = {ONE} custom-call(b), custom_call_target="Unpin", {IN_PLACE}
  w = {ONE} add(v, v)
  p = b({ONE}) custom-call(w), custom_call_target="Pin", {IN_PLACE}
  ROOT t = (s32[], b({ONE}), b({ONE})) tuple(j, p, n)
}}
condition {{
  s = (s32[], b({ONE}), b({ONE})) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}}
ENTRY main {{
  x = {ONE} parameter(0)
  zero = s32[] constant(0)
  p = b({ONE}) custom-call(x), custom_call_target="Pin", {IN_PLACE}
  n = b({ONE}) custom-call(), custom_call_target="CreateBuffer"
  t = (s32[], b({ONE}), b({ONE})) tuple(zero, p, n)
  w = (s32[], b({ONE}), b({ONE})) while(t), condition=condition, body=body
  q = b({ONE}) get-tuple-element(w), index=1
  v = {ONE} custom-call(q), custom_call_target="Unpin"
  ROOT r = {ONE} add(v, x)
}}
"""


@pytest.mark.parametrize("stage", ["input", "fused"])
def test_buffers_are_carried_by_loops(stage):
    """What is pinned lies in the argument's own memory, and the argument is read again."""
    check(PINNED, [values()], stage=stage)


RAGGED = """
HloModule m

ENTRY main {
  a = f32[6,2] parameter(0)
  b = f32[5,2] parameter(1)
  i = s32[2] parameter(2)
  n = s32[2] parameter(3)
  o = s32[2] parameter(4)
  ROOT r = f32[5,2] ragged-all-to-all(a, b, i, n, o, n), replica_groups={{0}}
}
"""


def test_ragged_rows_are_written_over_others():
    random = np.random.default_rng(1)
    rows, before = random.random((6, 2), np.float32), random.random((5, 2), np.float32)
    numbers = [np.array(x, np.int32) for x in ([0, 4], [3, 2], [2, 0])]
    check(RAGGED, [rows, before, *numbers])
    outside = [np.array(x, np.int32) for x in ([-1, 5], [3, 9], [2, 4])]
    found = run(RAGGED, [rows, before, *outside])[0]
    assert np.array_equal(found, [*before[:4], rows[5]])
