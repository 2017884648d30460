"""Devices in orders that do not lie on one grid: tiles move between the two at the borders."""

import numpy as np
import pytest
from tests.spmd.equal_results import check_equal, partitioned_text

from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.values import as_array
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.spmd.partitioner import partition
from lowtide.spmd.shards import cut, joined


@pytest.mark.parametrize(
    ("parameter", "result"),
    [
        ("{devices=[4,1]0,1,3,2}", "{devices=[4,1]<=[4]}"),
        ("{devices=[4,1]<=[4]}", "{devices=[4,1]3,2,1,0}"),
        ("{devices=[4,1]3,1,0,2}", "{devices=[2,2]0,3,1,2}"),
        ("{devices=[2,1,2]0,3,1,2 last_tile_dim_replicate}", "{devices=[1,4]<=[4]}"),
        ("{devices=[2,1,2]0,3,1,2 last_tile_dims={unreduced}}", "{devices=[1,4]<=[4]}"),
        ("{devices=[1,4]<=[4]}", "{devices=[2,1,2]0,3,1,2 last_tile_dims={unreduced}}"),
        ("{devices=[4,1]<=[4]}", "{replicated}"),
    ],
)
def test_listed_devices(parameter: str, result: str) -> None:
    text = f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[8,4] parameter(0), sharding={parameter}
  a = f32[4,8] transpose(x), dimensions={{1,0}}
  n = f32[8,4] transpose(a), dimensions={{1,0}}
  y = f32[8,4] custom-call(n), custom_call_target="Sharding", sharding={{devices=[1,4]2,3,0,1}}
  ROOT z = f32[8,4] add(x, y), sharding={result}
}}
"""
    parts = partitioned_text(text)
    assert str(parts.parameters[0]) == parameter
    assert str(parts.results[0]) == result


MESHES = """HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=
    {mesh = #sdy.mesh<["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>, mesh_0 = #sdy.mesh<["x"=4]>}}
ENTRY e {
  x = s32[8,2] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {\\"y\\"}]>"}
  ROOT r = s32[8,2] custom-call(x), custom_call_target="xla.sdy.FuncResultSharding",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding=
    "#sdy.sharding_per_value<[<@mesh_0, [{\\"x\\"}, {}]>]>"}
}
""".replace("=\n    ", "=")


def test_meshes_of_different_orders() -> None:
    parts = partitioned_text(MESHES)
    (given,) = parts.parameters
    array = np.arange(16).reshape(8, 2)
    first = [int(tile[0, 0]) for tile in cut(array, given, parts.grid)]
    assert first == [9, 1, 8, 0]


def test_axes_of_six_split_by_parts() -> None:
    for sharding in ("{devices=[3,1,2]<=[6] last_tile_dim_replicate}", "{devices=[3,2]<=[6]}"):
        parts = partitioned_text(f"""HloModule m, num_partitions=6
ENTRY e {{
  x = f32[9,4] parameter(0), sharding={sharding}
  ROOT z = f32[9,4] negate(x), sharding={sharding}
}}
""")
        assert parts.module.entry.parameters[0].shape.dimensions[0] == 3


REGION = """HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes=
    {mesh = #sdy.mesh<["x"=4]>, turned = #sdy.mesh<["x"=4], device_ids=[1, 2, 3, 0]>}}
ENTRY e {
  x = f32[8] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}]>"}
  l = f32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.in_shardings="#sdy.sharding_per_value<[<@turned, [{\\"x\\"}]>]>",
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  i = u32[] partition-id()
  f = f32[] convert(i)
  b = f32[2] broadcast(f), dimensions={}
  t = f32[2] add(l, b)
  ROOT g = f32[8] custom-call(t), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={
    xla.sdy.out_shardings="#sdy.sharding_per_value<[<@turned, [{\\"x\\"}]>]>",
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
}
""".replace("=\n    ", "=")


def test_manual_regions_on_devices_in_another_order() -> None:
    parts = partition(parse_hlo(REGION))
    x = np.zeros(8, np.float32)
    given = cut(x, parts.parameters[0], parts.grid)
    found = [as_array(y) for y in evaluate_on_devices(parts.module, [[t] for t in given])]
    whole = joined(found, parts.results[0], parts.grid, (8,))
    np.testing.assert_array_equal(whole, np.repeat([1, 2, 3, 0], 2))


def test_a_mesh_of_one_device_splits_nothing() -> None:
    text = MESHES.replace('<["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>', '<["x"=1, "y"=1]>')
    parts = partitioned_text(text)
    assert str(parts.parameters[0]) == "{replicated}"


KEEPING = """HloModule m, num_partitions=4, allow_spmd_sharding_propagation_to_output={{true}}
later {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(b, a), direction=GE
  v = f32[] select(p, b, a)
  n = s32[] select(p, j, i)
  ROOT r = (f32[], s32[]) tuple(v, n)
}}
ENTRY e {{
  x = f32[16,64] parameter(0), sharding={sharding}
  i = s32[16,64] parameter(1), sharding={sharding}
  l = f32[] constant(-inf)
  n = s32[] constant(-1)
  ROOT r = ({shape}) reduce(x, i, l, n), dimensions={{{dimensions}}}, to_apply=later
}}
"""
"""A reducer that is associative and does not commute."""


@pytest.mark.parametrize(
    "sharding",
    [
        "{devices=[1,4]<=[4]}",
        "{devices=[1,4]<=[2,2]T(1,0)}",
        "{devices=[1,4]3,1,0,2}",
        "{devices=[4,1]<=[2,2]T(1,0)}",
        "{devices=[2,2]<=[4]}",
        "{devices=[2,2]<=[2,2]T(1,0)}",
    ],
)
@pytest.mark.parametrize(
    ("dimensions", "sizes"), [("0", "[64]"), ("1", "[16]"), ("0,1", "[]"), ("1,0", "[]")]
)
def test_the_later_of_equals_is_kept(dimensions: str, sizes: str, sharding: str) -> None:
    shape = f"f32{sizes}, s32{sizes}"
    text = KEEPING.format(sharding=sharding, dimensions=dimensions, shape=shape)
    numbers = np.arange(16 * 64, dtype=np.int32).reshape(16, 64)
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 8, numbers.shape).astype(np.float32)
        x[x == 7] *= numbers[x == 7] % 5 == 0
        check_equal(parse_hlo(text), [x, numbers])
