import numpy as np
import pytest
from tests.evaluator.against_xla import run_text

from lowtide.ir import UnsupportedOpError

ADD = """add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
"""
ARRAY = np.arange(4, dtype=np.float32)


def run(body, *, header=""):
    text = f"""HloModule m{header}
{ADD}ENTRY e {{
  p = f32[4] parameter(0)
  {body}
}}"""
    return run_text(text, ARRAY)


ALONE = {
    "all-reduce": "ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={}",
    "several operands": """ROOT r = (f32[4], f32[4]) all-reduce(p, p), to_apply=add,
    replica_groups={{0}}""",
    "iota groups": "ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups=[1,1]<=[1]",
    "all-gather": "ROOT r = f32[4] all-gather(p), dimensions={0}, replica_groups={{0}}",
    "reduce-scatter": """ROOT r = f32[4] reduce-scatter(p), dimensions={0}, to_apply=add,
    replica_groups={}""",
    "all-to-all": "ROOT r = f32[4] all-to-all(p), dimensions={0}, replica_groups={{0}}",
    "all-to-all of tuples": "ROOT r = (f32[4]) all-to-all(p), replica_groups={{0}}",
    "broadcast": "ROOT r = f32[4] collective-broadcast(p), replica_groups={{0}}",
    "permute": "ROOT r = f32[4] collective-permute(p), source_target_pairs={{0,0}}",
    "all-reduce pair": """s = f32[4] all-reduce-start(p), to_apply=add, replica_groups={}
  ROOT r = f32[4] all-reduce-done(s)""",
    "all-gather pair": """s = (f32[4], f32[4]) all-gather-start(p), dimensions={0},
    replica_groups={}
  ROOT r = f32[4] all-gather-done(s)""",
    "all-gather pair of two": """s = ((f32[4], f32[4]), (f32[4], f32[4])) all-gather-start(p, p),
    dimensions={0}, replica_groups={}
  ROOT r = (f32[4], f32[4]) all-gather-done(s)""",
    "permute pair": """s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(p),
    source_target_pairs={{0,0}}
  ROOT r = f32[4] collective-permute-done(s)""",
}


@pytest.mark.parametrize("form", ALONE)
def test_one_device_gets_its_own_values(form):
    found = run(ALONE[form])
    assert found
    for x in found:
        np.testing.assert_array_equal(x, ARRAY)


def test_groups_of_one_among_many_devices():
    header = ", replica_count=2, num_partitions=2"
    body = "ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups="
    np.testing.assert_array_equal(run(body + "{{1},{0}}", header=header)[0], ARRAY)
    global_ids = body + "{{0},{1},{2},{3}}, channel_id=1, use_global_device_ids=true"
    np.testing.assert_array_equal(run(global_ids, header=header)[0], ARRAY)
    with pytest.raises(UnsupportedOpError, match="2 devices"):
        run(body + "{{0},{1}}, channel_id=1", header=header)  # both partitions of one replica


def test_permute_without_a_source_gives_zeros():
    found = run("ROOT r = f32[4] collective-permute(p), source_target_pairs={{0,1}}")
    assert found[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("body", "header", "message"),
    [
        ("ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={{0,1}}", "", "2 devices"),
        (
            "ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={}",
            ", replica_count=8",
            "8 devices",
        ),
        ("ROOT r = f32[8] all-gather(p), dimensions={0}, replica_groups={}", "", "by its shape"),
        (
            "ROOT r = f32[4] collective-permute(p), source_target_pairs={{0,1},{1,0}}",
            "",
            "0 receives from 1",
        ),
        (
            "ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={{1}}",
            "",
            "without device 0",
        ),
    ],
)
def test_other_devices_are_refused(body, header, message):
    with pytest.raises(UnsupportedOpError, match=message):
        run(body, header=header)


def test_ragged_all_to_all_moves_slices():
    text = """HloModule m
ENTRY e {
  a = f32[4,2] parameter(0)
  b = f32[5,2] parameter(1)
  i = s32[2] constant({0, 3})
  n = s32[2] constant({2, 1})
  o = s32[2] constant({3, 0})
  ROOT r = f32[5,2] ragged-all-to-all(a, b, i, n, o, n), replica_groups={{0}}
}"""
    source = np.arange(8, dtype=np.float32).reshape(4, 2)
    (found,) = run_text(text, source, np.full((5, 2), -1, np.float32))
    assert found.tolist() == [[6, 7], [-1, -1], [-1, -1], [0, 1], [2, 3]]


def test_device_numbers_are_0():
    text = """HloModule m
ENTRY e {
  a = u32[] partition-id()
  b = u32[] replica-id()
  ROOT t = (u32[], u32[]) tuple(a, b)
}"""
    assert [(int(x), x.dtype) for x in run_text(text)] == [(0, np.uint32)] * 2


@pytest.mark.parametrize(
    "body",
    [
        "t = token[] after-all()\n  ROOT i = (f32[4], token[]) infeed(t)",
        "t = token[] after-all()\n  ROOT o = token[] outfeed(p, t), outfeed_shape=f32[4]",
        """t = token[] after-all()
  ROOT s = (f32[4], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true""",
    ],
)
def test_transfers_with_the_host_are_refused(body):
    with pytest.raises(UnsupportedOpError, match="no host program"):
        run(body)
