"""Programs of several emulated graphics processors, beside the evaluator on as many devices."""

import numpy as np
import pytest
from tests.runtime.devices.judging import arguments_of, same
from tests.runtime.devices.test_collectives import (
    GLOBAL,
    MODES,
    MODES_OF_PARTITIONS,
    UNEVEN,
    one,
    text,
)

import lowtide
from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.client.executable.on_devices import on_threads
from lowtide.client.gpu import DevicesExecutable, compile_for_device
from lowtide.emulator.device import EmulatedDriver, emulated_devices
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.runtime.devices.rendezvous import current_participant
from lowtide.runtime.gpu.execution import LoadedGpuProgram

EMULATED = lowtide.Options(target="cuda:emulated", cache=False)
ONE_GROUP = "replica_groups={{0,1,2,3,4,5,6,7}}"
ALL = f"{GLOBAL}, replica_groups={{}}"


def judge(text_: str) -> None:
    """Assert that all devices compute what the evaluator's do, run after run."""
    module = lowtide.parse_hlo(text_)
    executable = compile_for_device(module, EMULATED)
    assert isinstance(executable, DevicesExecutable)
    arguments = arguments_of(module)
    wanted = evaluate_on_devices(module, arguments)
    for _ in range(2):
        for found, expected in zip(executable.run(arguments), wanted, strict=True):
            same(found, expected)
    executable.close()


@pytest.mark.parametrize("mode", [*MODES, "uneven"])
def test_all_reduce_in_each_kind_of_groups(mode: str) -> None:
    groups = UNEVEN if mode == "uneven" else MODES[mode]
    module = text(one("all-reduce", "f32[5,3]", "f32[5,3]", f"{groups}, to_apply=add"))
    if mode == "alone":
        found = build(lowtide.parse_hlo(module), GpuBackend("cuda:sm_90")).program
        assert not found.first_collective
    else:
        judge(module)


@pytest.mark.parametrize("type_", ["bf16", "s32", "c64", "pred", "f64"])
def test_all_reduce_of_each_type(type_: str) -> None:
    reducer = "or" if type_ == "pred" else "add"
    body = one("all-reduce", f"{type_}[5,3]", f"{type_}[5,3]", f"{ALL}, to_apply=add")
    judge(text(body, type_, reducer))


@pytest.mark.parametrize(
    ("opcode", "result", "rest"),
    [
        ("all-gather", "f32[64,3]", f"{ALL}, dimensions={{0}}"),
        ("all-gather", "f32[8,24]", f"{ALL}, dimensions={{1}}"),
        ("reduce-scatter", "f32[1,3]", f"{ALL}, dimensions={{0}}, to_apply=add"),
        ("collective-permute", "f32[8,3]", "channel_id=1, source_target_pairs={{0,1},{1,2},{3,0}}"),
        ("all-to-all", "f32[8,3]", f"{MODES_OF_PARTITIONS['partitions']}, dimensions={{0}}"),
        ("collective-broadcast", "f32[8,3]", MODES_OF_PARTITIONS["partitions"]),
    ],
)
def test_each_collective(opcode: str, result: str, rest: str) -> None:
    judge(text(one(opcode, "f32[8,3]", result, rest)))


def test_what_stands_before_and_after_a_meeting_waits_for_it() -> None:
    rest = f"{ALL}, to_apply=add"
    body = f"""  x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  p = u32[] partition-id()
  f = f32[] convert(p)
  g = f32[64,64] broadcast(f), dimensions={{}}
  b = f32[64,64] add(a, g)
  c = f32[64,64] all-reduce(b), {rest}
  d = f32[64,64] tanh(c)
  e = f32[64,64] all-reduce(d), {rest}
  h = f32[64,64] multiply(e, g)
  ROOT r = (f32[64,64], f32[64,64]) tuple(h, d)"""
    judge(text(body, devices="1x3"))


def test_a_loop_with_a_meeting_in_each_trip() -> None:
    module = """HloModule m, num_partitions=3

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[6] all-reduce(x), ALL, to_apply=add
  h = f32[] constant(0.25)
  w = f32[6] broadcast(h), dimensions={}
  z = f32[6] multiply(y, w)
  ROOT t = (s32[], f32[6]) tuple(n, z)
}

condition {
  s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT r = pred[] compare(i, n), direction=LT
}

ENTRY e {
  x = f32[6] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[6]) tuple(zero, x)
  w = (s32[], f32[6]) while(s), condition=condition, body=body
  ROOT r = f32[6] get-tuple-element(w), index=1
}
"""
    judge(module.replace("ALL", ALL))


SHARDED = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
  d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[8,8] copy(d), sharding={devices=[4,1]<=[4]}
}
"""


def test_whole_arrays_of_a_module_with_shardings() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((8, 16), (16, 8)))
    found = lowtide.compile(lowtide.parse_hlo(SHARDED), options=EMULATED)(x, y)
    np.testing.assert_allclose(found, x @ y, rtol=1e-5, atol=1e-5)


def test_devices_that_do_not_wait_for_their_own_kernels_are_found(monkeypatch) -> None:
    """The others read memory that is not written yet, or is written over."""
    module = lowtide.parse_hlo(
        text(one("all-reduce", "f32[40]", "f32[40]", f"{ALL}, to_apply=add"))
    )
    program = build(module, GpuBackend("cuda:sm_90")).program
    arguments = arguments_of(module)
    wanted = evaluate_on_devices(module, arguments)
    monkeypatch.setattr(LoadedGpuProgram, "wait", lambda self: None)
    lost = 0
    for seed in range(0, 80, 8):
        devices = emulated_devices(program.devices, seed)
        loaded = [LoadedGpuProgram(program, x) for x in devices]
        for device in devices[1:]:
            monkeypatch.setattr(device, "synchronize", lambda stream: None)
        lost += not _agrees(loaded, program, arguments, wanted)
    assert lost


def _agrees(loaded, program, arguments, wanted) -> bool:
    def call(*arrays):
        device = loaded[current_participant().number]
        device.place(*arrays)
        device.run()
        for stream in device._sequences.streams:
            EmulatedDriver.synchronize(device.driver, stream)
        found = np.empty(program.interface.results[0].place.nbytes, np.uint8)
        address = device.address(program.interface.results[0].place)
        device.driver.download(found, address, device._first)
        EmulatedDriver.synchronize(device.driver, device._first)
        return found.view(np.float32)

    found = on_threads(program, call, arguments)
    return all(
        np.array_equal(x, np.asarray(y), equal_nan=True) for x, y in zip(found, wanted, strict=True)
    )


def test_a_device_that_fails_ends_the_others() -> None:
    module = lowtide.parse_hlo(
        text(one("all-reduce", "f32[40]", "f32[40]", f"{ALL}, to_apply=add"))
    )
    executable = compile_for_device(module, EMULATED)
    assert isinstance(executable, DevicesExecutable)
    arguments = arguments_of(module)
    arguments[3] = [np.zeros(7, np.float32)]
    with pytest.raises(InputError):
        executable.run(arguments)


def test_a_program_of_several_devices_is_run_on_all_of_them() -> None:
    module = lowtide.parse_hlo(
        text(one("all-reduce", "f32[40]", "f32[40]", f"{ALL}, to_apply=add"))
    )
    program = build(module, GpuBackend("cuda:sm_90")).program
    loaded = LoadedGpuProgram(program, emulated_devices(1)[0])
    with pytest.raises(InputError, match="runs on 8 devices"):
        loaded(np.zeros(40, np.float32))


def test_rows_whose_number_others_say_have_no_kernel() -> None:
    shapes = "x = f32[8,2] parameter(0)\n  o = f32[20,2] parameter(1)"
    numbers = [f"  {name} = s32[8] parameter({i})" for i, name in enumerate("istr", 2)]
    body = "\n".join(
        [
            f"  {shapes}",
            *numbers,
            f"  ROOT y = f32[20,2] ragged-all-to-all(x, o, i, s, t, r), {ONE_GROUP}",
        ]
    )
    with pytest.raises(UnsupportedOpError, match="devices of the CPU run it"):
        compile_for_device(lowtide.parse_hlo(text(body, devices="8x1")), EMULATED)
