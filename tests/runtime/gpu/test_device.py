"""Programs through the driver layer on an emulated device: every order of work, and faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.codegen.gpu.programs import flat
from tests.support import EXAMPLES

import lowtide
from lowtide import compiler
from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.cli.inputs import generated
from lowtide.client.executable import compile_module
from lowtide.client.gpu import planned_for_gpu
from lowtide.compiler import PlanOptions
from lowtide.emulator.device import DeviceFaults, EmulatedDriver, on_emulated_device
from lowtide.emulator.shadow import EmulationError, Shadow
from lowtide.evaluator import evaluate
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.errors import InputError, LowtideError
from lowtide.runtime.gpu import sequences as planning
from lowtide.runtime.gpu.driver import DeviceMemoryError, DriverError
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.streams import StreamStep, Touched, in_streams

PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def tree(leaves: int) -> str:
    """Return a module of products: some at once, then two each."""
    names = [f"p{i}" for i in range(leaves)]
    lines = [
        f"  {name} = f32[16,16] dot({'xy'[i % 2]}, v{i}), {PRODUCT}" for i, name in enumerate(names)
    ]
    values = [f"  v{i} = f32[16,16] parameter({2 + i})" for i in range(leaves)]
    while len(names) > 1:
        pairs = [(names[i], names[i + 1]) for i in range(0, len(names), 2)]
        names = [f"{a}_{b}" for a, b in pairs]
        lines += [
            f"  {c} = f32[16,16] dot({a}, {b}), {PRODUCT}"
            for c, (a, b) in zip(names, pairs, strict=True)
        ]
    result = f"  ROOT r = (f32[16,16], f32[16,16]) tuple({names[0]}, p0)"
    given = [f"  {name} = f32[16,16] parameter({i})" for i, name in enumerate("xy")]
    return "\n".join(["HloModule wide", "ENTRY e {", *given, *values, *lines, result, "}"])


SEEDS = 12


@pytest.fixture(scope="module")
def wide() -> tuple[Module, GpuProgram, list[Any]]:
    module = parse_hlo(tree(8))
    program = build(module, GpuBackend("cuda")).program
    return module, program, [x / 4 for x in generated(list(parameter_leaves(module)), 1)]


def expected(module: Module, arguments: list[Any]) -> list[Any]:
    return flat(evaluate(module, arguments))


def is_right(found: Any, wanted: list[Any]) -> bool:
    pairs = zip(flat(found), wanted, strict=True)
    return all(np.allclose(x, y, rtol=1e-4, atol=1e-4 * np.abs(y).max()) for x, y in pairs)


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_all_orders_give_the_same_bits(wide: Any, streams: int) -> None:
    module, program, arguments = wide
    wanted = expected(module, arguments)
    result = on_emulated_device(program)(*arguments)
    assert is_right(result, wanted)
    first = flat(result)
    for seed in range(SEEDS):
        device = on_emulated_device(program, seed, streams)
        for _ in range(2):
            found = flat(device(*arguments))
            assert all(np.array_equal(x, y) for x, y in zip(found, first, strict=True))


def test_several_streams_are_used(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, program, arguments = wide
    used: set[int] = set()

    def noted(steps: Any, streams: int) -> tuple[StreamStep, ...]:
        found = in_streams(steps, streams)
        used.update(x.stream for x in found)
        return found

    monkeypatch.setattr(planning, "in_streams", noted)
    on_emulated_device(program)(*arguments)
    assert len(used) > 1


# -- waits that are left out -----------------------------------------------------------------------


def waits_of(program: GpuProgram, arguments: list[Any]) -> list[tuple[int, int, int]]:
    """Return the waits of a run: which sequence, which step, which step it waits for."""
    found = []
    sequences = 0

    def noted(steps: Any, streams: int) -> tuple[StreamStep, ...]:
        nonlocal sequences
        places = in_streams(steps, streams)
        found.extend([(sequences, i, x) for i, each in enumerate(places) for x in each.waits])
        sequences += 1
        return places

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "in_streams", noted)
        on_emulated_device(program)(*arguments)
    return found


def without(lost: tuple[int, int, int]) -> Callable[[Any, int], tuple[StreamStep, ...]]:
    """Return the streams of steps without one wait."""
    sequences = -1

    def planned(steps: list[Touched], streams: int) -> tuple[StreamStep, ...]:
        nonlocal sequences
        sequences += 1
        places = list(in_streams(steps, streams))
        if sequences == lost[0]:
            each = places[lost[1]]
            kept = tuple(x for x in each.waits if x != lost[2])
            places[lost[1]] = StreamStep(each.stream, kept)
        return tuple(places)

    return planned


def test_each_wait_that_is_left_out_is_found(wide: Any) -> None:
    """As a race, whatever the order of work; without the watch, as a wrong result for some."""
    _, program, arguments = wide
    lost = waits_of(program, arguments)
    assert len(lost) >= 6
    for each in lost:
        for seed in range(6):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(planning, "in_streams", without(each))
                with pytest.raises(EmulationError, match="a race between works in streams: "):
                    on_emulated_device(program, seed)(*arguments)


def test_waits_that_are_left_out_give_wrong_results(
    wide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, program, arguments = wide
    wanted = expected(module, arguments)
    lost = waits_of(program, arguments)
    for name in ("access", "raise_fault"):
        monkeypatch.setattr(Shadow, name, lambda *_: None)
    for each in lost:
        results = []
        for seed in range(40):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(planning, "in_streams", without(each))
                results.append(is_right(on_emulated_device(program, seed)(*arguments), wanted))
        assert not all(results), f"without {each} all seeds give the right result"


def test_a_join_that_is_left_out_is_found(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, program, arguments = wide
    monkeypatch.setattr(planning.Sequences, "_catch_up", lambda *_: None)
    for seed in range(6):
        with pytest.raises(EmulationError, match="a race between works in streams: "):
            on_emulated_device(program, seed)(*arguments)


def test_a_result_that_is_not_waited_for_is_found(
    wide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, program, arguments = wide
    wanted = expected(module, arguments)
    devices = [on_emulated_device(program, x) for x in range(40)]
    monkeypatch.setattr(EmulatedDriver, "synchronize", lambda *_: None)
    assert not all(is_right(device(*arguments), wanted) for device in devices)


# -- memory and faults ---------------------------------------------------------------------------


def test_memory_that_is_not_there(wide: Any) -> None:
    _, program, _ = wide
    driver = EmulatedDriver(faults=DeviceFaults(memory=10_000))
    with pytest.raises(
        DeviceMemoryError, match=r"10,000 bytes free of 10,000; wide takes 1\d,\d+ .*: no"
    ):
        LoadedGpuProgram(program, driver)
    room = sum([x.nbytes for x in program.interface.memories]) - 1
    with pytest.raises(
        DeviceMemoryError, match=r"--memory 5,?119 makes a plan that fits, if there"
    ):
        LoadedGpuProgram(program, EmulatedDriver(faults=DeviceFaults(memory=room)))
    driver.allocate(10_000)  # What the program had taken is given back.


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (DeviceFaults(failing_launch=2), "failed on an emulated device: an illegal address"),
        (DeviceFaults(losing_launch=3), "an emulated device was lost while it ran"),
    ],
)
def test_launches_that_fail(wide: Any, faults: DeviceFaults, said: str) -> None:
    _, program, arguments = wide
    device = LoadedGpuProgram(program, EmulatedDriver(faults=faults))
    for _ in range(2):  # A device that has failed stays so.
        with pytest.raises(DriverError, match=said):
            device(*arguments)


def test_memory_given_back_while_it_is_used() -> None:
    driver = EmulatedDriver()
    address, stream = driver.allocate(64), driver.stream()
    data = np.zeros(64, np.uint8)
    while True:  # Work may be done at once.
        driver.upload(address, data, stream)
        if driver._queues.pending():
            break
    with pytest.raises(EmulationError, match="that work in a stream still uses"):
        driver.free(address)
    driver.synchronize(stream)
    driver.free(address)
    with pytest.raises(EmulationError, match="is given back that is not allocated"):
        driver.free(address)


def test_memory_used_after_it_is_given_back() -> None:
    driver = EmulatedDriver()
    address, stream = driver.allocate(64), driver.stream()
    driver.free(address)
    with pytest.raises(EmulationError, match="where not all are allocated"):
        driver.upload(address, np.zeros(64, np.uint8), stream)
        driver.synchronize(stream)


@pytest.mark.parametrize("beyond", [-1, 64])
def test_bytes_around_an_allocation(beyond: int) -> None:
    driver = EmulatedDriver()
    address = driver.allocate(64)
    whole, _ = driver._memory[address]
    whole[address - whole.ctypes.data + beyond] ^= 1
    with pytest.raises(EmulationError, match="before or behind an allocation"):
        driver.free(address)


def test_new_memory_is_no_number() -> None:
    driver = EmulatedDriver()
    address, stream = driver.allocate(64), driver.stream()
    found = np.zeros(64, np.uint8)
    driver.download(found, address, stream)
    driver.synchronize(stream)
    assert np.isnan(found.view(np.float32)).all()


# -- as users call it ----------------------------------------------------------------------------


def test_compile_for_an_emulated_device() -> None:
    run = lowtide.compile(EXAMPLES / "mlp.hlo.xz", target="cuda:emulated")
    module = read(EXAMPLES / "mlp.hlo.xz")
    arguments = generated(list(parameter_leaves(module)), 3)
    assert is_right(run(*arguments), expected(module, arguments))
    assert run.memory["schema"] == "lowtide.memory/1"
    assert "an emulated device" in repr(run)
    with pytest.raises(InputError, match="takes 5 arrays, 0 were given"):
        run()


def test_plans_are_those_of_the_target() -> None:
    module = read(EXAMPLES / "vit_b16.hlo.xz")
    options = lowtide.Options(target="cuda", effort="fast")
    wanted = planned_for_gpu(PlanOptions.of(lowtide.Options(effort="fast")), "cuda")
    found = lowtide.explain(module, options).to_json()["ladder"]
    assert (
        found
        == compiler.plan(module, wanted, with_compilation_bound=True).report.to_json()["ladder"]
    )


def test_targets_that_cannot_be(wide: Any) -> None:
    module, _, _ = wide
    with pytest.raises(ValueError, match="no target 'cuda:emulatd'; did you mean 'cuda:emulated'"):
        lowtide.compile(module, target="cuda:emulatd")
    with pytest.raises(LowtideError, match=r"cuda: programs of a GPU are made by lowtide\.compile"):
        compile_module(module, lowtide.Options(target="cuda"))
