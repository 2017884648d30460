"""Small collectives that wait for none of each other are joined."""

import numpy as np
from tests.spmd.equal_results import partitioned_text

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import value_leaves
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.spmd.combining import SMALL_BYTES, combine_collectives
from lowtide.spmd.wire import wire_traffic
from lowtide.verifier import verify

HEAD = """HloModule m, num_partitions=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[6] parameter(1)
"""
ALL = "replica_groups={{0,1}}, use_global_device_ids=true"


def joined(body: str, most_bytes: float = SMALL_BYTES) -> tuple[Module, int]:
    """Return the module of a body with its collectives joined, which computes the same, and how."""
    text = HEAD + body + "\n}\n"
    before, module = parse_hlo(text), parse_hlo(text)
    saved = combine_collectives(module, most_bytes)
    verify(module)
    assert wire_traffic(module).wire_bytes == wire_traffic(before).wire_bytes
    random = np.random.default_rng(0)
    given = [[random.random(4, np.float32), random.random(6, np.float32)] for _ in range(2)]
    for one, other in zip(
        evaluate_on_devices(before, given), evaluate_on_devices(module, given), strict=True
    ):
        for a, b in zip(value_leaves(one), value_leaves(other), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return module, saved


def count(module: Module, opcode: Opcode) -> int:
    return sum(x.opcode is opcode for x in module.entry.instructions.values())


def test_sums_of_equal_groups() -> None:
    module, saved = joined(f"""
  r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add
  s = f32[6] all-reduce(y), channel_id=2, {ALL}, to_apply=add
  ROOT t = (f32[4], f32[6]) tuple(r, s)""")
    assert saved == 1
    assert count(module, Opcode.ALL_REDUCE) == 1


def test_gathers_and_scattered_sums() -> None:
    module, saved = joined(f"""
  r = f32[8] all-gather(x), channel_id=1, {ALL}, dimensions={{0}}
  s = f32[12] all-gather(y), channel_id=2, {ALL}, dimensions={{0}}
  u = f32[2] reduce-scatter(x), channel_id=3, {ALL}, dimensions={{0}}, to_apply=add
  v = f32[3] reduce-scatter(y), channel_id=4, {ALL}, dimensions={{0}}, to_apply=add
  ROOT t = (f32[8], f32[12], f32[2], f32[3]) tuple(r, s, u, v)""")
    assert saved == 2
    assert count(module, Opcode.ALL_GATHER) == count(module, Opcode.REDUCE_SCATTER) == 1


def test_what_differs_stays() -> None:
    _, saved = joined(f"""
  r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add
  s = f32[6] all-reduce(y), channel_id=2, {ALL}, to_apply=max
  u = f32[6] all-reduce(y), channel_id=3, replica_groups={{{{1,0}}}}, use_global_device_ids=true,
    to_apply=add
  ROOT t = (f32[4], f32[6], f32[6]) tuple(r, s, u)""")
    assert saved == 0


def test_one_that_waits_for_the_other_stays() -> None:
    _, saved = joined(f"""
  r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add
  n = f32[4] negate(r)
  s = f32[4] all-reduce(n), channel_id=2, {ALL}, to_apply=add
  ROOT t = (f32[4], f32[4]) tuple(r, s)""")
    assert saved == 0


def test_two_groups_make_no_circle() -> None:
    """Of each kind one waits for one of the other kind, crosswise."""
    _, saved = joined(f"""
  a = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add
  b = f32[4] all-reduce(a), channel_id=2, {ALL}, to_apply=max
  c = f32[6] all-reduce(y), channel_id=3, {ALL}, to_apply=max
  d = f32[6] all-reduce(c), channel_id=4, {ALL}, to_apply=add
  ROOT t = (f32[4], f32[6]) tuple(b, d)""")
    assert saved == 0


def test_large_ones_stay() -> None:
    body = f"""
  r = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=add
  s = f32[6] all-reduce(y), channel_id=2, {ALL}, to_apply=add
  ROOT t = (f32[4], f32[6]) tuple(r, s)"""
    assert joined(body, 16 + 24)[1] == 1
    assert joined(body, 16 + 24 - 1)[1] == 0
    assert joined(body, 16)[1] == 0


def test_partitioned_modules_say_how_many() -> None:
    parts = partitioned_text("""HloModule m, num_partitions=4
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  z = f32[] constant(0)
  r = f32[6] reduce(x, z), dimensions={0}, to_apply=add
  n = f32[8,6] exponential(x)
  s = f32[] reduce(n, z), dimensions={0,1}, to_apply=add
  ROOT t = (f32[6], f32[]) tuple(r, s)
}
""")
    assert parts.combined == 1
