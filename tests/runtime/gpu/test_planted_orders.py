"""Faults of order planted between programs and a device, and 500 broken plans: all found."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.codegen.gpu.programs import flat
from tests.runtime.gpu.test_streams import conflict, ordered

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator import device as emulated
from lowtide.emulator.device import EmulatedDriver
from lowtide.emulator.running import HostKernels
from lowtide.emulator.shadow import EmulationError
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import LowtideError
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.sequences import PlannedSteps, Sequences
from lowtide.runtime.gpu.streams import StreamStep

LEAVES, SIZE = 8, 64
SHAPE = f"f32[{SIZE}]{{0}}"


def tree() -> str:
    """Return a scheduled module, of kernels by themselves: products of arrays, then differences."""
    names = [f"p{i}" for i in range(LEAVES)]
    lines = [f"  x{i} = {SHAPE} parameter({i})" for i in range(LEAVES)]
    lines += [
        f"  {name} = {SHAPE} multiply(x{i}, x{(i + 1) % LEAVES})" for i, name in enumerate(names)
    ]
    while len(names) > 1:
        pairs = list(zip(names[::2], names[1::2], strict=True))
        names = [f"{a}_{b}" for a, b in pairs]
        lines += [
            f"  {name} = {SHAPE} subtract({a}, {b})"
            for name, (a, b) in zip(names, pairs, strict=True)
        ]
    lines.append(f"  ROOT r = ({SHAPE}, {SHAPE}) tuple({names[0]}, p0)")
    return "HloModule tree, is_scheduled=true\n\nENTRY e {\n" + "\n".join([*lines, "}"])


@cache
def program() -> GpuProgram:
    return build(parse_hlo(tree()), GpuBackend("cuda")).program


@cache
def kernels(_: GpuProgram) -> HostKernels:
    return HostKernels(program())


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program()
    monkeypatch.setattr(emulated, "HostKernels", kernels)


def arguments(seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(SIZE).astype(np.float32) for _ in range(LEAVES)]


def is_right(found: Any, given: list[Any]) -> bool:
    level = [x * y for x, y in zip(given, [*given[1:], given[0]], strict=True)]
    first = level[0]
    while len(level) > 1:
        level = [x - y for x, y in zip(level[::2], level[1::2], strict=True)]
    result, same = flat(found)
    return np.array_equal(result, level[0]) and np.array_equal(same, first)


class Between:
    """A driver that passes calls on, but for what a plant does to some of them."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self.driver = driver
        self.counts: dict[str, int] = {}
        self.streams: list[int] = []
        self.events: list[int] = []
        self.functions: list[int] = []
        self.addresses: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def stream(self) -> int:
        self.streams.append(self.driver.stream())
        return self.streams[-1]

    def event(self) -> int:
        self.events.append(self.driver.event())
        return self.events[-1]

    def allocate(self, nbytes: int) -> int:
        self.addresses.append(self.driver.allocate(nbytes))
        return self.addresses[-1]

    def load(self, loaded: GpuProgram) -> Any:
        found = self.driver.load(loaded)
        self.functions = list(found.values())
        return found

    def other(self, stream: int) -> int:
        """Another stream."""
        return self.streams[(self.streams.index(stream) + 1) % len(self.streams)]

    def change(self, name: str, which: int, changed: Callable[..., None]) -> None:
        """Have the call number `which` of a method, from 1 on, be another one."""
        real = getattr(self, name)

        def call(*given: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            if self.counts[name] == which:
                return changed(*given)
            return real(*given)

        setattr(self, name, call)


def _left_out(name: str, which: int) -> Callable[[Between], None]:
    return lambda x: x.change(name, which, lambda *_: None)


def _in_another_stream(name: str, which: int) -> Callable[[Between], None]:
    return lambda x: x.change(
        name, which, lambda *given: getattr(x.driver, name)(*given[:-1], x.other(given[-1]))
    )


def _never(name: str) -> Callable[[Between], None]:
    return lambda x: setattr(x, name, lambda *_: None)


def _early_record(x: Between) -> None:
    """Record an event ahead of the launch that it is about."""
    real = x.launch

    def launch(*given: Any) -> None:
        x.pending = given
        if x.counts.setdefault("launch", 0) != 9:
            real(*given)
        x.counts["launch"] += 1

    def record(event: int, stream: int) -> None:
        x.driver.record(event, stream)
        if x.counts.get("launch") == 10:
            real(*x.pending)
            x.counts["launch"] += 1

    x.launch, x.record = launch, record


def _moved(name: str, which: int, place: int, nbytes: int) -> Callable[[Between], None]:
    def plant(x: Between) -> None:
        def changed(*given: Any) -> None:
            values = list(given)
            values[place] += nbytes
            getattr(x.driver, name)(*values)

        x.change(name, which, changed)

    return plant


def _launch(which: int, change: Callable[..., tuple[Any, ...]]) -> Callable[[Between], None]:
    def plant(x: Between) -> None:
        x.change("launch", which, lambda *given: x.driver.launch(*change(x, *given)))

    return plant


def _addresses(which: int, change: Callable[[list[int]], list[int]]) -> Callable[[Between], None]:
    return _launch(which, lambda x, f, g, a, s: (f, g, change(list(a)), s))


def _freed(x: Between) -> None:
    def changed(*given: Any) -> None:
        x.driver.launch(*given)
        x.driver.free(given[2][0] if given[2][0] in x.addresses else x.addresses[-1])

    x.change("launch", 3, changed)


def _changed_argument(x: Between) -> None:
    real = x.driver.upload

    def upload(address: int, data: Any, stream: int) -> None:
        real(address, data, stream)
        data[:] = 0xFF

    x.upload = upload


def _wrong_wait(x: Between) -> None:
    x.change("wait", 14, lambda event, stream: x.driver.wait(x.event(), stream))


PLANTED: dict[str, Callable[[Between], None]] = {
    "an event is not recorded": _left_out("record", 4),
    "a wait between uploads and launches is left out": _left_out("wait", 1),
    "a wait between launches is left out": _left_out("wait", 14),
    "an event is recorded ahead of its launch": _early_record,
    "an event that nobody recorded is waited for": _wrong_wait,
    "a wait in another stream": _in_another_stream("wait", 14),
    "a launch in another stream": _in_another_stream("launch", 11),
    "a launch ahead of others in another stream": _in_another_stream("launch", 2),
    "nothing waits": _never("wait"),
    "nothing is recorded": _never("record"),
    "the results are not waited for": _never("synchronize"),
    "an upload at another place": _moved("upload", 2, 0, 16),
    "a download from another place": _moved("download", 1, 1, 64),
    "a download beyond the memory": _moved("download", 1, 1, 1 << 20),
    "an upload is left out": _left_out("upload", 3),
    "a download is left out": _left_out("download", 2),
    "a launch is left out": _left_out("launch", 7),
    "an argument of a launch is moved": _addresses(9, lambda a: [a[0] + 4, *a[1:]]),
    "operand and result are swapped": _addresses(9, lambda a: [a[2], a[1], a[0], *a[3:]]),
    "a result goes to memory that is not there": _addresses(2, lambda a: [a[0], a[1] + (1 << 40)]),
    "another kernel": _launch(1, lambda x, f, g, a, s: (x.functions[-1], g, a, s)),
    "no block": _launch(4, lambda x, f, g, a, s: (f, (0, g[1]), a, s)),
    "memory is freed while it is used": _freed,
    "an argument is changed before it is copied": _changed_argument,
    "a graph in another stream": _in_another_stream("launch_graph", 1),
    "a graph is left out": _left_out("launch_graph", 1),
}


def found_in(plant: Callable[[Between], None] | None, seeds: int = 12) -> int:
    """Return for how many seeds a call, and a second one by graphs, is an error or wrong."""
    count = 0
    for seed in range(seeds):
        driver: Any = Between(EmulatedDriver(seed))
        if plant is not None:
            plant(driver)
        try:
            device = LoadedGpuProgram(program(), driver)
            right = [is_right(device(*x), y) for x, y in _calls()]
        except EmulationError:
            right = [False]
        count += not all(right)
    return count


def _calls() -> list[tuple[list[Any], list[Any]]]:
    """Arguments of two calls that are given, and copies of them."""
    return [(arguments(x), arguments(x)) for x in range(2)]


def test_there_are_twenty() -> None:
    assert len(PLANTED) >= 20


def test_without_a_fault_all_is_right() -> None:
    assert found_in(None) == 0


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    assert found_in(PLANTED[name]), "no seed shows it"


# -- broken plans ----------------------------------------------------------------------------------


def broken(planned: PlannedSteps, draw: random.Random) -> PlannedSteps:
    """Return steps in streams with one thing wrong: two steps that conflict may run at once."""
    while True:
        places = list(planned.places)
        at = draw.randrange(len(places))
        place = places[at]
        match draw.randrange(3):
            case 0 if place.waits:
                lost = draw.choice(place.waits)
                places[at] = StreamStep(place.stream, tuple(x for x in place.waits if x != lost))
            case 1:
                places[at] = StreamStep(draw.randrange(4), place.waits)
            case 2 if place.waits and at > 1:
                waits = {*place.waits[1:], draw.randrange(at)}
                places[at] = StreamStep(place.stream, tuple(sorted(waits)))
        before, touched = ordered(places), [x.touched for x in planned.steps]
        if any(
            a not in before[b] and conflict(touched[a], touched[b])
            for b in range(len(places))
            for a in range(b)
        ):
            return PlannedSteps(planned.steps, tuple(places), planned.is_fixed)


@pytest.mark.parametrize("part", range(5))
def test_broken_plans_are_found(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 of 500: races between works are told in whatever order they were done."""
    draw = random.Random(part)
    plan = Sequences.planned

    def planned(self: Sequences, steps: Any, *, is_fixed: bool) -> PlannedSteps:
        found = plan(self, steps, is_fixed=is_fixed)
        return broken(found, draw) if is_fixed else found

    monkeypatch.setattr(Sequences, "planned", planned)
    for number in range(100):
        with pytest.raises(LowtideError, match="a race between works in streams: "):
            LoadedGpuProgram(program(), EmulatedDriver(number))(*arguments())
