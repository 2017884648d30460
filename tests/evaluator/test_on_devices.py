"""Collectives among several devices, each of which the evaluator runs."""

import numpy as np
import pytest

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import InputError, InvalidModuleError, UnsupportedOpError
from lowtide.ir.literal import DTYPES
from lowtide.verifier import verify

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


def run(body: str, arguments: list[np.ndarray], partitions: int = 4) -> list[np.ndarray]:
    text = f"HloModule m, num_partitions={partitions}\n{ADD}\nENTRY e {{\n{body}\n}}\n"
    results = evaluate_on_devices(parse_hlo(text), [[x] for x in arguments])
    return [np.asarray(x) for x in results]


def values(count: int = 4, size: int = 4) -> list[np.ndarray]:
    return [np.arange(size, dtype=np.float32) + 10 * i for i in range(count)]


def collective(opcode: str, shape: str, rest: str) -> str:
    return f"""
  x = f32[4] parameter(0)
  ROOT y = {shape} {opcode}(x), channel_id=1, {rest}"""


GLOBAL = "use_global_device_ids=true"


@pytest.mark.parametrize("type_", [x for x in DTYPES if x.is_integer], ids=str)
@pytest.mark.parametrize(
    ("opcode", "combined"),
    [("or", 1 | 2), ("and", 0), ("add", 3), ("maximum", 2), ("minimum", 1), ("xor", 3)],
)
def test_numbers_of_every_integer_type_are_reduced(opcode, combined, type_) -> None:
    name = type_.value
    text = f"""HloModule m, num_partitions=2
reducer {{
  a = {name}[] parameter(0)
  b = {name}[] parameter(1)
  ROOT c = {name}[] {opcode}(a, b)
}}
ENTRY e {{
  x = {name}[3] parameter(0)
  ROOT y = {name}[3] all-reduce(x), channel_id=1, replica_groups={{{{0,1}}}}, {GLOBAL},
    to_apply=reducer
}}
"""
    given = [np.array([value] * 3).astype(DTYPES[type_]) for value in (1, 2)]
    if type_.bits == 1 or (type_.bits == 2 and type_.is_signed):
        given[1], combined = given[0], {"xor": 0, "add": 2}.get(opcode, 1)
    found = evaluate_on_devices(parse_hlo(text), [[x] for x in given])
    expected = np.array([combined] * 3).astype(DTYPES[type_])
    assert [np.asarray(x).tobytes() for x in found] == [expected.tobytes()] * 2


def test_all_reduce_adds_within_groups() -> None:
    rest = f"replica_groups={{{{0,2}},{{1,3}}}}, {GLOBAL}, to_apply=add"
    found = run(collective("all-reduce", "f32[4]", rest), values())
    x = values()
    for device, expected in enumerate([x[0] + x[2], x[1] + x[3]] * 2):
        np.testing.assert_array_equal(found[device], expected)


def test_the_order_of_a_group_is_the_order_of_its_parts() -> None:
    rest = f"replica_groups={{{{1,0}},{{2,3}}}}, {GLOBAL}, dimensions={{0}}"
    found = run(collective("all-gather", "f32[8]", rest), values())
    x = values()
    np.testing.assert_array_equal(found[0], np.concatenate([x[1], x[0]]))
    np.testing.assert_array_equal(found[3], np.concatenate([x[2], x[3]]))


def test_reduce_scatter_gives_part_i_to_member_i() -> None:
    rest = f"replica_groups={{{{3,2}},{{1,0}}}}, {GLOBAL}, dimensions={{0}}, to_apply=add"
    found = run(collective("reduce-scatter", "f32[2]", rest), values())
    x = values()
    np.testing.assert_array_equal(found[3], (x[3] + x[2])[:2])
    np.testing.assert_array_equal(found[0], (x[1] + x[0])[2:])


def test_all_to_all_deals_pieces() -> None:
    rest = "replica_groups={{3,2,1,0}}, dimensions={0}"
    found = run(collective("all-to-all", "f32[4]", rest), values())
    x = values()
    np.testing.assert_array_equal(found[3], [x[d][0] for d in (3, 2, 1, 0)])
    np.testing.assert_array_equal(found[0], [x[d][3] for d in (3, 2, 1, 0)])


def test_permute_gives_zeros_where_nothing_comes() -> None:
    rest = "source_target_pairs={{0,1},{1,2}}"
    found = run(collective("collective-permute", "f32[4]", rest), values())
    np.testing.assert_array_equal(found[0], np.zeros(4))
    np.testing.assert_array_equal(found[2], values()[1])


def test_each_device_knows_its_number() -> None:
    body = """
  x = f32[4] parameter(0)
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[4] broadcast(f), dimensions={}
  ROOT y = f32[4] add(x, b)"""
    for device, found in enumerate(run(body, values())):
        np.testing.assert_array_equal(found, values()[device] + device)


def test_uneven_groups_reduce() -> None:
    rest = f"replica_groups={{{{0}},{{1,2,3}}}}, {GLOBAL}, to_apply=add"
    found = run(collective("all-reduce", "f32[4]", rest), values())
    x = values()
    np.testing.assert_array_equal(found[0], x[0])
    np.testing.assert_array_equal(found[2], x[1] + x[2] + x[3])


LOOP = (
    """HloModule m, num_partitions=2
ADDER
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    to_apply=add
  ROOT r = (s32[], f32[4]) tuple(next, y)
}
ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT y = f32[4] get-tuple-element(w), index=1
}
"""
).replace("ADDER", ADD)


def test_a_collective_in_a_loop_meets_each_time() -> None:
    found = evaluate_on_devices(parse_hlo(LOOP), [[x] for x in values(2)])
    expected = 4 * (values(2)[0] + values(2)[1])
    np.testing.assert_array_equal(np.asarray(found[0]), expected)
    np.testing.assert_array_equal(np.asarray(found[1]), expected)


DIVERGING = (
    """HloModule m, num_partitions=2
ADDER
yes {
  x = f32[4] parameter(0)
  ROOT y = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    to_apply=add
}
no {
  ROOT x = f32[4] parameter(0)
}
ENTRY e {
  x = f32[4] parameter(0)
  i = u32[] partition-id()
  zero = u32[] constant(0)
  first = pred[] compare(i, zero), direction=EQ
  ROOT y = f32[4] conditional(first, x, x), true_computation=yes, false_computation=no
}
"""
).replace("ADDER", ADD)


def test_what_nothing_calls_may_name_any_devices() -> None:
    text = """HloModule m, num_partitions=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
dead {
  p = f32[4] parameter(0)
  ROOT q = f32[4] all-reduce(p), replica_groups={{0,1,2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=add
}
ENTRY e {
  p = f32[4] parameter(0)
  ROOT q = f32[4] negate(p)
}
"""
    found = evaluate_on_devices(parse_hlo(text), [[np.ones(4, np.float32)]] * 2)
    assert [np.asarray(x).tolist() for x in found] == [[-1.0] * 4] * 2


def test_devices_that_wait_for_ever_are_an_error() -> None:
    with pytest.raises(InvalidModuleError, match=r"device 0 at %y.* for \(0, 1\)"):
        evaluate_on_devices(parse_hlo(DIVERGING), [[x] for x in values(2)])


def test_arguments_are_needed_of_each_device() -> None:
    with pytest.raises(InputError, match="runs on 2 devices, found 1"):
        evaluate_on_devices(parse_hlo(LOOP), [[values()[0]]])


def test_sharded_arrays_are_refused() -> None:
    text = """HloModule m, num_partitions=2
ENTRY e {
  ROOT x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
}
"""
    with pytest.raises(UnsupportedOpError, match="not partitioned yet"):
        evaluate_on_devices(parse_hlo(text), [[np.zeros(4)]] * 2)


@pytest.mark.parametrize(
    ("opcode", "rest", "message"),
    [
        ("collective-permute", "source_target_pairs={{5,0}}", "device 5 of its pairs is none of 4"),
        ("collective-permute", "source_target_pairs={{0,4}}", "device 4 of its pairs is none of 4"),
        ("all-to-all", "replica_groups={{0,1,2,4}}, dimensions={0}", "in none of its groups"),
        ("all-to-all", "replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}", "device 7 of 4"),
        ("all-reduce", f"replica_groups={{{{0,1}}}}, {GLOBAL}, to_apply=add", "device 2 of 4"),
    ],
)
def test_devices_that_there_are_not_are_named(opcode: str, rest: str, message: str) -> None:
    with pytest.raises(UnsupportedOpError, match=message):
        run(collective(opcode, "f32[4]", rest), values())


def test_a_permute_names_no_device_below_0() -> None:
    body = collective("collective-permute", "f32[4]", "source_target_pairs={{0,-1}}")
    module = parse_hlo(f"HloModule m, num_partitions=4\nENTRY e {{{body}\n}}")
    with pytest.raises(InvalidModuleError, match="names device -1; numbers go from 0 on"):
        verify(module)
