"""Whole programs on several devices: control flow, halves, plans, many runs, several at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.runtime.devices.judging import arguments_of, judge, same

import lowtide
from lowtide.evaluator.on_devices import evaluate_on_devices

GLOBAL = "channel_id=1, use_global_device_ids=true"
ALL = f"{GLOBAL}, replica_groups={{{{0,1,2,3}}}}"
RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
LOOP = f"""HloModule m, num_partitions=4
{ADD}
body {{
  s = (s32[], f32[6], f32[24]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = u32[] partition-id()
  q = f32[] convert(p)
  w = f32[6] broadcast(q), dimensions={{}}
  y = f32[6] subtract(x, w)
  r = f32[6] all-reduce(y), {GLOBAL}, replica_groups={{{{0,2}},{{1,3}}}}, to_apply=add
  n = f32[6] collective-permute(r), channel_id=2, {RING}
  g = f32[24] all-gather(n), {GLOBAL}, replica_groups={{{{3,1,0,2}}}}, dimensions={{0}}
  ROOT t = (s32[], f32[6], f32[24]) tuple(j, n, g)
}}
condition {{
  s = (s32[], f32[6], f32[24]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[6] parameter(0)
  z = s32[] constant(0)
  f = f32[] constant(0)
  g = f32[24] broadcast(f), dimensions={{}}
  t = (s32[], f32[6], f32[24]) tuple(z, x, g)
  w = (s32[], f32[6], f32[24]) while(t), condition=condition, body=body
  a = f32[6] get-tuple-element(w), index=1
  b = f32[24] get-tuple-element(w), index=2
  ROOT r = (f32[6], f32[24]) tuple(a, b)
}}
"""
BRANCHES = f"""HloModule m, num_partitions=4
{ADD}
sum {{
  x = f32[6] parameter(0)
  ROOT r = f32[6] all-reduce(x), {GLOBAL}, replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add
}}
first {{
  x = f32[6] parameter(0)
  ROOT r = f32[6] call(x), to_apply=sum
}}
second {{
  x = f32[6] parameter(0)
  n = f32[6] negate(x)
  ROOT r = f32[6] call(n), to_apply=sum
}}
third {{
  x = f32[6] parameter(0)
  ROOT r = f32[6] abs(x)
}}
ENTRY e {{
  x = f32[6] parameter(0)
  p = u32[] partition-id()
  two = u32[] constant(2)
  h = u32[] divide(p, two)
  i = s32[] convert(h)
  zero = u32[] constant(0)
  is = pred[] compare(h, zero), direction=EQ
  a = f32[6] CONDITIONAL
  ROOT s = f32[6] call(a), to_apply=sum
}}
"""
HALVES = f"""HloModule m, num_partitions=4
{ADD}
scatter {{
  x = f32[8] parameter(0)
  ROOT r = f32[2] reduce-scatter(x), {ALL}, dimensions={{0}}, to_apply=add
}}
ENTRY e {{
  x = f32[8] parameter(0)
  as = (f32[8], f32[32]) all-gather-start(x), {ALL}, dimensions={{0}}
  rs = f32[8] all-reduce-start(x), {ALL}, to_apply=add
  ps = (f32[8], f32[8], u32[], u32[]) collective-permute-start(x), channel_id=3, {RING}
  ss = ((f32[8]), f32[2], s32[]) async-start(x), calls=scatter
  n = f32[8] negate(x)
  a = f32[32] all-gather-done(as)
  r = f32[8] all-reduce-done(rs)
  p = f32[8] collective-permute-done(ps)
  s = f32[2] async-done(ss)
  ROOT t = (f32[32], f32[8], f32[8], f32[2], f32[8]) tuple(a, r, p, s, n)
}}
"""


@pytest.mark.parametrize("stage", ["input", "scheduled"])
def test_a_loop(stage: str) -> None:
    judge(LOOP, stage=stage)


@pytest.mark.parametrize("stage", ["input", "scheduled"])
@pytest.mark.parametrize(
    "conditional",
    [
        "conditional(i, x, x), branch_computations={first, third}",
        "conditional(is, x, x), true_computation=first, false_computation=third",
    ],
)
def test_branches_that_whole_groups_take(conditional: str, stage: str) -> None:
    judge(BRANCHES.replace("CONDITIONAL", conditional), stage=stage)


def test_one_instruction_reached_in_two_ways_is_one_place_to_meet() -> None:
    """Devices 0 and 1 go through different branches, which call the same computation."""
    text = BRANCHES.replace(
        "CONDITIONAL", "conditional(i, x, x), branch_computations={first, second}"
    )
    text = text.replace("h = u32[] divide(p, two)", "h = u32[] remainder(p, two)")
    judge(text, stage="input")


@pytest.mark.parametrize("stage", ["input", "scheduled"])
def test_operations_in_two_halves(stage: str) -> None:
    judge(HALVES, stage=stage)


def test_operations_in_two_halves_as_they_are_scheduled() -> None:
    judge(HALVES.replace("num_partitions=4", "is_scheduled=true, num_partitions=4"))


def test_operands_are_as_they_were() -> None:
    """Others read the operands of a device, and it may overwrite them only after that."""
    text = f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[60000] parameter(0)
  y = f32[60000] negate(x)
  r = f32[60000] all-reduce(y), {GLOBAL}, replica_groups={{}}, to_apply=add
  z = f32[60000] multiply(y, r)
  q = f32[60000] all-reduce(z), {GLOBAL}, replica_groups={{{{2,1}},{{0,3}}}}, to_apply=add
  ROOT s = f32[60000] add(q, y)
}}
"""
    for stage in ("input", "scheduled"):
        judge(text, stage=stage)


def test_a_stored_program_runs() -> None:
    module = lowtide.parse_hlo(LOOP)
    stored = lowtide.compile(module).serialize()
    arguments = arguments_of(module)
    found = lowtide.run_on_devices(lowtide.deserialize(stored, trust=True), arguments)
    for one, other in zip(found, evaluate_on_devices(module, arguments), strict=True):
        same(one, other)


def test_profiles_name_the_exchanges() -> None:
    executable = lowtide.compile(lowtide.parse_hlo(HALVES))
    from lowtide.runtime.devices.rendezvous import DeviceRendezvous

    rendezvous = DeviceRendezvous(1, 4)
    x = np.ones(8, np.float32)
    names: list[set[str]] = []

    def run(number: int) -> None:
        with rendezvous.device(number):
            names.append({span.name for span in executable.profile(x)[1]})

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 4
    assert all(any("all-gather" in x or x.startswith("a") for x in found) for found in names)


def test_many_runs_of_eight_devices() -> None:
    text = LOOP.replace("num_partitions=4", "num_partitions=8")
    text = text.replace("{{0,2},{1,3}}", "{{0,2,4,6},{1,3,5,7}}").replace(
        "{{3,1,0,2}}", "[2,4]<=[8]"
    )
    module = lowtide.parse_hlo(text)
    executable = lowtide.compile(module)
    arguments = arguments_of(module)
    wanted = evaluate_on_devices(module, arguments)
    before = threading.active_count()
    for number in range(1000):
        found = lowtide.run_on_devices(executable, arguments, timeout_seconds=60)
        if number % 100 == 0:
            for one, other in zip(found, wanted, strict=True):
                same(one, other)
    assert threading.active_count() == before


def test_several_runs_and_programs_at_once() -> None:
    modules = [lowtide.parse_hlo(LOOP), lowtide.parse_hlo(HALVES)]
    executables = [lowtide.compile(x) for x in modules]
    given = [arguments_of(x) for x in modules]
    wanted = [evaluate_on_devices(*x) for x in zip(modules, given, strict=True)]
    found: list[tuple[int, list[object]]] = []

    def runs(number: int) -> None:
        run = executables[number]
        found.extend([(number, lowtide.run_on_devices(run, given[number])) for _ in range(20)])

    threads = [threading.Thread(target=runs, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for number, results in found:
        for one, other in zip(results, wanted[number], strict=True):
            same(one, other)
