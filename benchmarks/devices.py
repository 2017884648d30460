"""Time of an all-reduce among devices of one process, beside that of XLA:CPU.

    python benchmarks/devices.py [--rounds N] [--devices 2,8]

Each device runs a loop of all-reduces of f32 arrays of the given bytes, each followed by a product
with a number. XLA runs the same loop by `jax.jit` of `shard_map` on as many host devices. Both run
in turn, and the figure is the least time over all rounds. Only the ratio says something: it is
printed beside the microseconds of one all-reduce.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
)

import numpy as np

import lowtide

SIZES: Final = ((4, 400), (64 << 10, 100), (64 << 20, 3))
"""Bytes of the array, and how often the loop runs."""

TEXT: Final = """HloModule sums, num_partitions=DEVICES

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[COUNT]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[COUNT] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[COUNT] all-reduce(x), channel_id=1, replica_groups={}, use_global_device_ids=true,
    to_apply=add
  h = f32[] constant(0.125)
  w = f32[COUNT] broadcast(h), dimensions={}
  y = f32[COUNT] multiply(r, w)
  ROOT t = (s32[], f32[COUNT]) tuple(j, y)
}

condition {
  s = (s32[], f32[COUNT]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TRIPS)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[COUNT] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[COUNT]) tuple(z, x)
  w = (s32[], f32[COUNT]) while(t), condition=condition, body=body
  ROOT r = f32[COUNT] get-tuple-element(w), index=1
}
"""


def native(devices: int, count: int, trips: int) -> Callable[[], object]:
    """Return a run of the loop."""
    text = TEXT.replace("DEVICES", str(devices)).replace("COUNT", str(count))
    run = lowtide.compile(lowtide.parse_hlo(text.replace("TRIPS", str(trips))))
    given = [[np.full(count, i, np.float32)] for i in range(devices)]
    return lambda: lowtide.run_on_devices(run, given)


def of_xla(devices: int, count: int, trips: int) -> Callable[[], object]:
    """Return the same by XLA."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:devices]), "d")
    split = PartitionSpec("d")

    def loop(x: jax.Array) -> jax.Array:
        def body(_: object, x: jax.Array) -> jax.Array:
            return jax.lax.pcast(jax.lax.psum(x, "d") * 0.125, "d", to="varying")

        return jax.lax.fori_loop(0, trips, body, x)

    run = jax.jit(jax.shard_map(loop, mesh=mesh, in_specs=split, out_specs=split))
    whole = jnp.repeat(jnp.arange(devices, dtype=jnp.float32), count)
    given = jax.device_put(whole, NamedSharding(mesh, split))
    return lambda: run(given).block_until_ready()


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def main() -> None:
    """Print one line for each number of devices and size."""
    parser = argparse.ArgumentParser(description="all-reduce among devices, beside XLA:CPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--devices", default="2,8")
    given = parser.parse_args()
    print("devices       bytes   us an all-reduce      of XLA   ratio")
    for devices in map(int, given.devices.split(",")):
        for nbytes, trips in SIZES:
            calls = [make(devices, nbytes // 4, trips) for make in (native, of_xla)]
            for call in calls:
                call()
            found = [[seconds(call) for call in calls] for _ in range(given.rounds)]
            own, other = (min(column) / trips * 1e6 for column in zip(*found, strict=True))
            print(
                f"{devices:7}{nbytes:12,}{own:19,.1f}{other:12,.1f}{own / other:8.2f}", flush=True
            )


if __name__ == "__main__":
    main()
