"""Manual regions: what is written for one device stays as it is written."""

import numpy as np
import pytest

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import as_array
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import UnsupportedOpError
from lowtide.ir.partitioning import check_partitioned
from lowtide.spmd.partitioner import partition
from lowtide.spmd.shards import cut, joined
from lowtide.verifier import verify

SHARDY = """HloModule m, num_partitions=8,
    frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  p = f32[8,4] parameter(0)
  s = f32[8,4] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}},
    use_global_device_ids=true, to_apply=add
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[8,4] broadcast(f), dimensions={}
  t = f32[8,4] collective-permute(s), channel_id=1, source_target_pairs={{0,4},{1,5},{2,6},{3,7},
    {4,0},{5,1},{6,2},{7,3}}
  ROOT r = f32[8,4] add(t, b)
}

ENTRY e {
  a = f32[16,16] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"y\\"}, {}]>"}
  n = f32[16,16] negate(a)
  l = f32[8,4] custom-call(n), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}, {\\"y\\"}]>]>",
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\", \\"y\\"}>"}
  c = f32[8,4] call(l), to_apply=body
  g = f32[16,16] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}, {\\"y\\"}]>]>",
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\", \\"y\\"}>"}
  ROOT d = f32[16,16] add(g, n)
}
"""


def results(text: str, argument: np.ndarray) -> np.ndarray:
    parts = partition(parse_hlo(text))
    verify(parts.module)
    given = cut(argument, parts.parameters[0], parts.grid)
    found = [as_array(x) for x in evaluate_on_devices(parts.module, [[x] for x in given])]
    whole: np.ndarray = joined(found, parts.results[0], parts.grid, argument.shape)
    return whole


def expected(argument: np.ndarray) -> np.ndarray:
    whole = -argument
    tiles = whole.reshape(2, 8, 4, 4)  # x, rows, y, columns
    sums = np.broadcast_to(tiles.sum(axis=2, keepdims=True), tiles.shape)
    moved = sums[::-1]
    numbers = np.arange(8).reshape(2, 1, 4, 1)
    inside: np.ndarray = (moved + numbers).reshape(16, 16) + whole
    return inside


def test_a_shard_map_runs_as_written() -> None:
    argument = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(results(SHARDY, argument), expected(argument))


def test_collectives_of_a_region_get_channels_of_their_own() -> None:
    text = str(partition(parse_hlo(SHARDY)).module)
    numbers = [line.split("channel_id=")[1].split(",")[0] for line in text.split("\n")
               if "channel_id=" in line]  # fmt: skip
    assert len(set(numbers)) == len(numbers) > 1


OLDER = """HloModule m, num_partitions=4
ENTRY e {
  a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = f32[8,4] custom-call(a), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  l = f32[2,4] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[2,4] broadcast(f), dimensions={}
  t = f32[2,4] add(l, b), sharding={manual}
  ROOT g = f32[8,4] custom-call(t), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
}
"""


def test_the_older_form() -> None:
    argument = np.arange(32, dtype=np.float32).reshape(8, 4)
    added = np.repeat(np.arange(4), 2)[:, None]
    np.testing.assert_array_equal(results(OLDER, argument), argument + added)


def test_a_border_that_does_not_fit() -> None:
    text = OLDER.replace("f32[2,4]", "f32[4,4]")
    with pytest.raises(UnsupportedOpError, match="does not cut the whole array"):
        partition(parse_hlo(text))


def test_a_free_argument_lies_as_a_region_takes_it() -> None:
    """JAX leaves open how an argument lies of which no sharding is said."""
    asked = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"y\\"}, {}]>"}'
    free = "num_partitions=8, allow_spmd_sharding_propagation_to_parameters={true}"
    assert asked in SHARDY
    text = SHARDY.replace(",\n    " + asked, "").replace("num_partitions=8", free)
    parts = partition(parse_hlo(text))
    assert parts.module.entry.parameters[0].shape.dimensions == (8, 4)
    argument = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(results(text, argument), expected(argument))


def test_a_region_waits_to_be_partitioned() -> None:
    """Its borders are the only ones to say a sharding."""
    text = SHARDY.replace("xla.sdy.sharding=", "other=")
    with pytest.raises(UnsupportedOpError, match=r"not partitioned yet: %l has sharding="):
        check_partitioned(parse_hlo(text))
