"""Speed of programs on MPI ranks: a step of training, and all-reduces beside MPI's own.

    python benchmarks/mpi.py [--rounds N]
    mpiexec -n 2 python benchmarks/mpi.py [--rounds N]

Alone it times a step of training on all rows of data; on N ranks the same step on an N-th of them
each, with one thread each, and the all-reduces. Each round times all once, in turn, and the least
time over all rounds counts: give a busy machine many rounds. The speedup is the quotient of the
times of one rank and of several.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import numpy as np
from mpi4py import MPI

import lowtide

ROWS, WIDTH, HIDDEN = 1024, 512, 1024
SIZES: Final = (4, 64 << 10, 1 << 20, 64 << 20)
"""Bytes of the arrays that are reduced."""

ADD: Final = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"

STEP: Final = """HloModule step, num_partitions=DEVICES
ADD
ENTRY e {
  x = f32[ROWS,WIDTH] parameter(0), sharding={devices=[DEVICES,1]<=[DEVICES]}
  y = f32[ROWS,WIDTH] parameter(1), sharding={devices=[DEVICES,1]<=[DEVICES]}
  w = f32[WIDTH,HIDDEN] parameter(2), sharding={replicated}
  v = f32[HIDDEN,WIDTH] parameter(3), sharding={replicated}
  a = f32[ROWS,HIDDEN] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  none = f32[ROWS,HIDDEN] broadcast(zero), dimensions={}
  h = f32[ROWS,HIDDEN] maximum(a, none)
  o = f32[ROWS,WIDTH] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[ROWS,WIDTH] subtract(o, y)
  gv = f32[HIDDEN,WIDTH] dot(h, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dh = f32[ROWS,HIDDEN] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  on = pred[ROWS,HIDDEN] compare(a, none), direction=GT
  da = f32[ROWS,HIDDEN] select(on, dh, none)
  gw = f32[WIDTH,HIDDEN] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  rate = f32[] constant(1e-6)
  rw = f32[WIDTH,HIDDEN] broadcast(rate), dimensions={}
  rv = f32[HIDDEN,WIDTH] broadcast(rate), dimensions={}
  sw = f32[WIDTH,HIDDEN] multiply(gw, rw)
  sv = f32[HIDDEN,WIDTH] multiply(gv, rv)
  nw = f32[WIDTH,HIDDEN] subtract(w, sw)
  nv = f32[HIDDEN,WIDTH] subtract(v, sv)
  ROOT t = (f32[WIDTH,HIDDEN], f32[HIDDEN,WIDTH]) tuple(nw, nv)
}
"""

SUM: Final = """HloModule sum, num_partitions=DEVICES
ADD
ENTRY e {
  x = f32[COUNT] parameter(0)
  ROOT y = f32[COUNT] all-reduce(x), channel_id=1, use_global_device_ids=true,
    replica_groups={}, to_apply=add
}
"""

Times = dict[str, float]


def filled(text: str, **sizes: int) -> lowtide.Module:
    """Return a module with numbers in the place of names."""
    text = text.replace("ADD", ADD).replace(",\n    ", ", ")
    for name, size in sizes.items():
        text = text.replace(name, str(size))
    return lowtide.parse_hlo(text)


def compiled(module: lowtide.Module) -> tuple[Callable[..., Any], Callable[..., list[Any]]]:
    """Return what runs a module on one thread, and what makes its arguments of whole arrays."""
    if module.num_partitions == 1:
        return lowtide.compile(module, threads=1), lambda *arrays: list(arrays)
    program = lowtide.compile_for_ranks(module)
    return program, program.tiles


def step() -> Callable[[], Any]:
    """Return one step of training on as many ranks as there are."""
    count = MPI.COMM_WORLD.Get_size()
    sizes = {"DEVICES": count, "ROWS": ROWS, "WIDTH": WIDTH, "HIDDEN": HIDDEN}
    run, cut = compiled(filled(STEP, **sizes))
    rng = np.random.default_rng(0)
    shapes = [(ROWS, WIDTH), (ROWS, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)]
    own = cut(*[rng.normal(0, 0.1, x).astype(np.float32) for x in shapes])
    own = [np.ascontiguousarray(x) for x in own]
    return lambda: run(*own)


def sums(nbytes: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a program that is one all-reduce, and MPI's own of the same array."""
    world = MPI.COMM_WORLD
    run = lowtide.compile_for_ranks(filled(SUM, DEVICES=world.Get_size(), COUNT=nbytes // 4))
    array = np.ones(nbytes // 4, np.float32)
    result = np.empty_like(array)
    return lambda: run(array), lambda: world.Allreduce(array, result)


def main() -> None:
    parser = argparse.ArgumentParser(description="programs on MPI ranks")
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    world = MPI.COMM_WORLD
    works: dict[str, Callable[[], Any]] = {"step": step()}
    if world.Get_size() > 1:
        for size in SIZES:
            works[f"lowtide's all-reduce of {size:,}"], works[f"MPI's of {size:,}"] = sums(size)
    least: Times = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            world.Barrier()
            start = perf_counter()
            work()
            world.Barrier()
            least[name] = min(least[name], perf_counter() - start)
    if world.Get_rank() == 0:
        for name, seconds in least.items():
            print(f"{name:40} {seconds * 1e6:12,.0f} us")


main()
