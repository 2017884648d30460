"""The sanitizer on programs of several devices: what it compares, and the faults that it finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lowtide
from lowtide.client.errors import SanitizerError
from lowtide.client.executable.anew import compile_anew
from lowtide.inspection.device_sanitizer import check_on_devices
from lowtide.inspection.sanitizer import check_program
from lowtide.ir import InputError
from lowtide.ir.thunk import CollectiveThunk

TEXT = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[6] parameter(0)
  p = u32[] partition-id()
  q = f32[] convert(p)
  w = f32[6] broadcast(q), dimensions={}
  y = f32[6] multiply(x, w)
  g = f32[12] all-gather(y), GLOBAL, replica_groups={{1,0},{2,3}}, dimensions={0}
  ROOT r = f32[12] all-reduce(g), GLOBAL, replica_groups={}, to_apply=add
}
""".replace("GLOBAL", "channel_id=1, use_global_device_ids=true")


def arguments() -> list[list[np.ndarray]]:
    return [[np.arange(6, dtype=np.float32) + i] for i in range(4)]


def test_all_thunks_of_all_devices_are_checked() -> None:
    module = lowtide.parse_hlo(TEXT)
    made = compile_anew(module)
    found = check_on_devices(made.program, made.plan.module, arguments())
    assert found.not_compared == ()
    assert found.thunks >= 4 * 3
    wanted = lowtide.run_on_devices(lowtide.compile(module), arguments())
    for one, other in zip(found.result, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_received_in_another_order_is_a_fault() -> None:
    made = compile_anew(lowtide.parse_hlo(TEXT))
    thunks = []
    for x in made.program.thunks:
        if isinstance(x, CollectiveThunk) and x.collective.groups == ((1, 0), (2, 3)):
            x = replace(x, collective=replace(x.collective, groups=((0, 1), (2, 3))))
        thunks.append(x)
    wrong = replace(made.program, thunks=tuple(thunks))
    assert wrong != made.program
    with pytest.raises(SanitizerError, match=r"all-gather \(%g\S*\): does not give what the eval"):
        check_on_devices(wrong, made.plan.module, arguments())


def test_the_number_of_arguments_is_that_of_devices() -> None:
    made = compile_anew(lowtide.parse_hlo(TEXT))
    with pytest.raises(InputError, match="runs on 4 devices, found arguments of 1"):
        check_on_devices(made.program, made.plan.module, arguments()[:1])
    with pytest.raises(InputError, match="runs on 4 devices, and is checked on all at once"):
        check_program(made.program, made.plan.module, arguments()[0])
