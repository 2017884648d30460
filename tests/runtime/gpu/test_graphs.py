"""Graphs of launches on an emulated device: the same results, and what a capture may not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.codegen.gpu.programs import flat
from tests.runtime.gpu.test_device import expected, is_right
from tests.runtime.gpu.test_device import wide as wide

from lowtide.emulator.device import DeviceFaults, EmulatedDriver
from lowtide.emulator.shadow import EmulationError
from lowtide.runtime.gpu import sequences
from lowtide.runtime.gpu.driver import DriverError
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.sequences import PlannedSteps
from lowtide.runtime.gpu.streams import StreamStep


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The graphs that are launched."""
    found: list[int] = []
    launch = EmulatedDriver.launch_graph

    def noted(self: EmulatedDriver, graph: int, stream: int) -> None:
        found.append(graph)
        launch(self, graph, stream)

    monkeypatch.setattr(EmulatedDriver, "launch_graph", noted)
    return found


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_graphs_give_the_bits_of_streams(wide: Any, launched: list[int], streams: int) -> None:
    module, program, arguments = wide
    first = flat(LoadedGpuProgram(program, EmulatedDriver(), streams, graphs=False)(*arguments))
    assert is_right(tuple(first), expected(module, arguments))
    assert not launched
    for seed in range(6):
        device = LoadedGpuProgram(program, EmulatedDriver(seed), streams)
        for call in range(4):
            given = [x * (call + 1) for x in arguments]
            found = flat(device(*given))
            assert is_right(tuple(found), expected(module, given))
        again = flat(device(*arguments))
        assert all(np.array_equal(x, y) for x, y in zip(again, first, strict=True))
    assert len(launched) == 6 * 4


def test_a_wait_left_out_of_a_graph_is_found(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait, in the captured call only: the first call ran in streams and was right."""
    _, program, arguments = wide
    captured = sequences.Sequences._captured
    counts: list[int] = []

    def without(number: int) -> Any:
        def changed(self: Any, planned: PlannedSteps) -> int:
            counts.append(sum([len(x.waits) for x in planned.places]))
            places, left = [], number
            for place in planned.places:
                kept = []
                for wait in place.waits:
                    if left:
                        kept.append(wait)
                    left -= 1
                places.append(StreamStep(place.stream, tuple(kept)))
            return captured(self, PlannedSteps(planned.steps, tuple(places), True))

        return changed

    number = 0
    while not counts or number < counts[0]:
        monkeypatch.setattr(sequences.Sequences, "_captured", without(number))
        device = LoadedGpuProgram(program, EmulatedDriver(number))
        device(*arguments)
        with pytest.raises(EmulationError, match="a race between works in streams: "):
            device(*arguments)
        number += 1
    assert number >= 6


def test_a_launch_that_fails_in_a_graph(wide: Any) -> None:
    _, program, arguments = wide
    per_call = sum([len(x.launches) for x in program.kernels])
    faults = DeviceFaults(failing_launch=1)
    device = LoadedGpuProgram(program, EmulatedDriver(faults=faults))
    assert per_call > 0
    with pytest.raises(DriverError, match="failed on an emulated device: an illegal address"):
        device(*arguments)


def prepared() -> tuple[EmulatedDriver, list[int], int, int]:
    driver = EmulatedDriver()
    return driver, [driver.stream(), driver.stream()], driver.event(), driver.allocate(256)


def test_a_graph_that_is_not_joined() -> None:
    driver, (one, other), event, address = prepared()
    driver.begin_capture(one)
    driver.record(event, one)
    driver.wait(event, other)
    driver.copy(address, address + 128, 64, other)
    with pytest.raises(EmulationError, match="ends and does not wait for a copy of 64 bytes"):
        driver.end_capture(one)


def test_what_a_capture_may_not_do() -> None:
    driver, (one, other), event, _ = prepared()
    with pytest.raises(EmulationError, match="ends in a stream in which it did not begin"):
        driver.end_capture(one)
    driver.record(event, other)
    driver.begin_capture(one)
    with pytest.raises(EmulationError, match="waits for an event that was not captured"):
        driver.wait(event, one)
    with pytest.raises(EmulationError, match="waited for while work is captured"):
        driver.synchronize(other)
    with pytest.raises(EmulationError, match="captured already"):
        driver.begin_capture(other)


def test_a_graph_is_launched_after_what_is_in_the_stream() -> None:
    for seed in range(20):
        driver = EmulatedDriver(seed)
        one, address = driver.stream(), driver.allocate(256)
        driver.begin_capture(one)
        driver.copy(address + 64, address, 64, one)
        graph = driver.end_capture(one)
        found = [np.zeros(64, np.uint8) for _ in range(3)]
        for value, out in enumerate(found):
            driver.upload(address, np.full(64, value, np.uint8), one)
            driver.launch_graph(graph, one)
            driver.download(out, address + 64, one)
        driver.synchronize(one)
        assert [int(x[0]) for x in found] == [0, 1, 2]
