"""Programs that the partitioner wrote: natively on all devices they compute what they should."""

import numpy as np
import pytest
from tests.runtime.devices.judging import same
from tests.spmd.equal_results import arguments_for
from tests.spmd.test_random_modules import random_module

import lowtide
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.spmd.partitioner import partition
from lowtide.spmd.shards import cut


@pytest.mark.parametrize("seed", range(20))
def test_random_modules(seed: int) -> None:
    module = random_module(seed)
    parts = partition(module)
    pairs = zip(arguments_for(module), parts.parameters, strict=True)
    tiles = [cut(x, sharding, parts.grid) for x, sharding in pairs]
    given = [[tile[i] for tile in tiles] for i in range(parts.grid.count)]
    executable = lowtide.compile(parts.module)
    found = lowtide.run_on_devices(executable, given, timeout_seconds=60)
    wanted = evaluate_on_devices(parts.module, given)
    for one, other in zip(found, wanted, strict=True):
        same(one, other)


def test_whole_arrays_in_and_out() -> None:
    module = lowtide.parse_hlo(LOOP)
    arguments = arguments_for(module)
    executable = lowtide.compile(lowtide.parse_hlo(LOOP))
    kept = [np.array(x) for x in arguments]
    same(executable(*arguments), lowtide.evaluate(without_devices(module), kept))
    for one, other in zip(arguments, kept, strict=True):
        np.testing.assert_array_equal(one, other)
    assert executable.program.devices == 4
    assert any("each of 4 devices" in x for x in executable.memory["caveats"])
    with pytest.raises(lowtide.InputError, match=r"takes 2 arguments, found 1; .*%w"):
        executable(arguments[0])
    with pytest.raises(lowtide.InputError, match=r"%x.* needs f32\[8,8\] .*found float32\[4, 8\]"):
        executable(arguments[0][:4], arguments[1])
    with pytest.raises(lowtide.InputError, match="takes whole arrays"):
        lowtide.run_on_devices(executable, [arguments] * 4)
    with pytest.raises(lowtide.LowtideError, match="lowtide partition"):
        executable.serialize()


def without_devices(module: lowtide.Module) -> lowtide.Module:
    whole = lowtide.parse_hlo(str(module))
    whole.num_partitions = 1
    return whole


LOOP = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  w = f32[8,8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8], f32[8,8]) tuple(j, d, w)
}

condition {
  s = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[8,8] parameter(1), sharding={devices=[2,2]<=[4]}
  z = s32[] constant(0)
  t = (s32[], f32[8,8], f32[8,8]) tuple(z, x, w)
  l = (s32[], f32[8,8], f32[8,8]) while(t), condition=condition, body=body
  f = f32[] constant(0)
  y = f32[8,8] get-tuple-element(l), index=1
  ROOT r = f32[8] reduce(y, f), dimensions={1}, to_apply=add
}
"""


def test_a_loop_of_products() -> None:
    module = lowtide.parse_hlo(LOOP)
    parts = partition(module)
    pairs = zip(arguments_for(module), parts.parameters, strict=True)
    tiles = [cut(x, sharding, parts.grid) for x, sharding in pairs]
    given = [[tile[i] for tile in tiles] for i in range(4)]
    executable = lowtide.compile(parts.module)
    assert executable.program.first_collective
    found = lowtide.run_on_devices(executable, given, timeout_seconds=60)
    for one, other in zip(found, evaluate_on_devices(parts.module, given), strict=True):
        same(one, other)
