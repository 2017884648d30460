"""Marks for the partitioner, random numbers and effects."""

import numpy as np
import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import as_array
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import UnsupportedOpError
from lowtide.spmd.partitioner import partition

GROUPS = """HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_output={true},
    frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}
ENTRY e {
  x = f32[8] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}]>"}
  y = f32[12] iota(), iota_dimension=0
  z = f32[8] slice(y), slice={[2:10]}
  b = f32[8] custom-call(x), custom_call_target="xla.sdy.PropagationBarrier",
    custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.allowed_direction="1 : i32"}
  n = f32[8] negate(z)
  g = () custom-call(n), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}
  h = () custom-call(x), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}
  ROOT t = (f32[8], f32[8]) tuple(b, n)
}
"""


def test_members_of_a_group_lie_alike() -> None:
    parts = partitioned_text(GROUPS)
    assert str(parts.results[1]) == "{devices=[4]<=[4]}"
    alone = partitioned_text(GROUPS.replace('"0 : i64"', '"1 : i64"', 1))
    assert str(alone.results[1]) == "{replicated}"


RANDOM = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  a = f32[] constant(0)
  b = f32[] constant(1)
  r = f32[8] rng(a, b), distribution=rng_uniform
  ROOT s = f32[8] add(x, r)
}
"""


def test_devices_share_random_numbers() -> None:
    module = partition(parse_hlo(RANDOM)).module
    assert "all-reduce" in str(module) or "reduce-scatter" in str(module)
    tiles = [[np.zeros(2, np.float32)]] * 4
    found = [as_array(x) for x in evaluate_on_devices(module, tiles)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_effects_are_refused() -> None:
    text = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  t = token[] after-all()
  o = token[] outfeed(x, t), outfeed_shape=f32[8]
  ROOT y = f32[8] negate(x)
}
"""
    with pytest.raises(UnsupportedOpError, match=r"outfeed.*talks to the host"):
        partition(parse_hlo(text))
