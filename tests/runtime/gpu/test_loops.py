"""Loops on an emulated device: their trips in graphs where it is certain how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.codegen.gpu.programs import flat
from tests.runtime.gpu.test_graphs import launched as launched

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.emulator.device import EmulatedDriver
from lowtide.emulator.shadow import EmulationError
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.loop_counter import LoopCounter
from lowtide.ir.thunk import ConditionalThunk, CopyThunk, WhileThunk, all_thunks
from lowtide.runtime.gpu import stretches, walk
from lowtide.runtime.gpu.execution import LoadedGpuProgram
from lowtide.runtime.gpu.program import GpuProgram
from lowtide.runtime.gpu.sequences import PlannedSteps, Sequences
from lowtide.runtime.gpu.streams import StreamStep, Touched
from lowtide.runtime.gpu.stretches import DeviceStretch, chunk_of, parts_of

LOOP = """HloModule loop

body {{
  s = (s32[], f32[4,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,4] get-tuple-element(s), index=1
  limit = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[4,4] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  half = f32[] constant(0.5)
  h = f32[4,4] broadcast(half), dimensions={{}}
  z = f32[4,4] multiply(y, h)
  t = f32[4,4] tanh(z)
  ROOT r = (s32[], f32[4,4], s32[]) tuple(n, t, limit)
}}

condition {{
  s = (s32[], f32[4,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] get-tuple-element(s), index=2
  {condition}
}}

ENTRY e {{
  x = f32[4,4] parameter(0)
  given = s32[] parameter(1)
  zero = s32[] constant({start})
  start = (s32[], f32[4,4], s32[]) tuple(zero, x, given)
  w = (s32[], f32[4,4], s32[]) while(start), condition=condition, body=body{claim}
  z = f32[4,4] get-tuple-element(w), index=1
  i = s32[] get-tuple-element(w), index=0
  ROOT r = (f32[4,4], s32[]) tuple(z, i)
}}
"""
FIXED = "five = s32[] constant(5)\n  ROOT less = pred[] compare(i, five), direction=LT"
COUNTED = "ROOT less = pred[] compare(limit, i), direction=GT"
ASKED = (
    "two = s32[] constant(2)\n  twice = s32[] multiply(i, two)\n"
    "  ROOT less = pred[] compare(twice, limit), direction=LT"
)


def compiled(condition: str, start: int = 0, claim: str = "") -> GpuProgram:
    text = LOOP.format(condition=condition, start=start, claim=claim)
    return build(parse_hlo(text), GpuBackend("cuda")).program


def the_loop(program: GpuProgram) -> WhileThunk:
    (found,) = [x for x in program.thunks if isinstance(x, WhileThunk)]
    return found


def argument() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def expected(trips: int) -> np.ndarray[Any, Any]:
    x = argument().astype(np.float64)
    for _ in range(trips):
        x = np.tanh(x @ x * 0.5)
    return x


def is_right(found: Any, trips: int, start: int = 0) -> bool:
    values, counter = flat(found)
    return bool(np.allclose(values, expected(trips), atol=1e-5)) and int(counter) == start + trips


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each copy to the host."""
    found: list[int] = []
    download = EmulatedDriver.download

    def noted(self: EmulatedDriver, data: Any, address: int, stream: int) -> None:
        found.append(data.nbytes)
        download(self, data, address, stream)

    monkeypatch.setattr(EmulatedDriver, "download", noted)
    return found


def test_trips_that_are_known_are_part_of_one_graph(
    launched: list[int], downloads: list[int]
) -> None:
    program = compiled(FIXED)
    counter = the_loop(program).counter
    assert counter is not None and counter.trips == 5
    for seed in range(4):
        device = LoadedGpuProgram(program, EmulatedDriver(seed))
        assert all(is_right(device(argument(), 0), 5) for _ in range(3))
    assert len(launched) == 4 * 2, "all of each call but the first is one graph"
    assert sorted(downloads) == [4] * 12 + [64] * 12, "nothing but results is read"


@pytest.mark.parametrize("limit", [-3, 0, 1, 7, 40])
def test_trips_are_counted_when_a_loop_begins(
    limit: int, launched: list[int], downloads: list[int]
) -> None:
    program = compiled(COUNTED)
    assert the_loop(program).counter is not None and len(the_loop(program).counted) == 2
    trips = max(limit, 0)
    for seed in range(3):
        device = LoadedGpuProgram(program, EmulatedDriver(seed))
        assert all(is_right(device(argument(), limit), trips) for _ in range(3))
        again = device(argument(), limit + 2)
        assert is_right(again, max(limit + 2, 0))
    assert sorted(set(downloads)) == [4, 64], "no predicate is read"
    assert bool(launched)


def test_a_limit_that_the_counter_does_not_reach(downloads: list[int]) -> None:
    """Counting would go on beyond the largest number: the predicate is asked then."""
    program = compiled("ROOT less = pred[] compare(i, limit), direction=NE", start=5)
    assert the_loop(program).counter is not None
    counter = the_loop(program).counter
    assert counter is not None and counter.trips_from(5, 3) is None
    device = LoadedGpuProgram(program, EmulatedDriver(0))
    assert is_right(device(argument(), 9), 4, start=5)
    assert 1 not in downloads


def test_other_predicates_are_asked_before_each_trip(
    launched: list[int], downloads: list[int]
) -> None:
    """On a device that does not decide: the second trip captures the body."""
    program = compiled(ASKED)
    assert the_loop(program).counter is None
    for seed in range(4):
        driver = EmulatedDriver(seed)
        driver.decides = False
        device = LoadedGpuProgram(program, driver)
        for _ in range(2):
            assert is_right(device(argument(), 9), 5)
    assert len(launched) >= 4 * 5
    assert downloads.count(1) == 4 * 2 * 6


def test_the_device_asks_predicates_in_a_graph(launched: list[int], downloads: list[int]) -> None:
    """Only the first call is asked by the host."""
    program = compiled(ASKED)
    for seed in range(4):
        device = LoadedGpuProgram(program, EmulatedDriver(seed))
        for trips in (0, 1, 3, 5, 30):
            assert is_right(device(argument(), 2 * trips), trips)
    assert len(launched) == 4 * 4
    assert downloads.count(1) == 4


CHOICES = """HloModule choices

largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

negated {
  a = f32[4,4] parameter(0)
  ROOT n = f32[4,4] negate(a)
}

squared {
  a = f32[4,4] parameter(0)
  b = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[4,4] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

curved {
  a = f32[4,4] parameter(0)
  b = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[4,4] tanh(b)
}

body {
  s = (s32[], f32[4,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,4] get-tuple-element(s), index=1
  k = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  two = s32[] constant(2)
  odd = s32[] remainder(i, two)
  z = s32[] constant(0)
  even = pred[] compare(odd, z), direction=EQ
  y = f32[4,4] conditional(even, x, x), true_computation=curved, false_computation=negated
  w = f32[4,4] conditional(k, y, y, y), branch_computations={negated, squared, curved}
  t = f32[4,4] tanh(w)
  ROOT r = (s32[], f32[4,4], s32[]) tuple(n, t, k)
}

condition {
  s = (s32[], f32[4,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,4] get-tuple-element(s), index=1
  z = f32[] constant(-10)
  top = f32[] reduce(x, z), dimensions={0,1}, to_apply=largest
  least = f32[] constant(0.05)
  big = pred[] compare(top, least), direction=GT
  five = s32[] constant(5)
  early = pred[] compare(i, five), direction=LT
  ROOT both = pred[] and(big, early)
}

ENTRY e {
  x = f32[4,4] parameter(0)
  k = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[4,4], s32[]) tuple(zero, x, k)
  l = (s32[], f32[4,4], s32[]) while(start), condition=condition, body=body
  z = f32[4,4] get-tuple-element(l), index=1
  i = s32[] get-tuple-element(l), index=0
  c = f32[4,4] conditional(k, z, x, z), branch_computations={squared, curved, negated}
  d = f32[4,4] add(c, x)
  ROOT r = (f32[4,4], s32[]) tuple(d, i)
}
"""
"""Branches by a predicate and by a number within a loop that ends early, and behind it."""


def test_branches_within_a_loop_are_in_one_graph(launched: list[int], downloads: list[int]) -> None:
    program = build(parse_hlo(CHOICES), GpuBackend("cuda")).program
    kinds = [type(x) for x in all_thunks(program.thunks)]
    assert kinds.count(ConditionalThunk) == 3 and kinds.count(WhileThunk) == 1
    for seed in range(4):
        device = LoadedGpuProgram(program, EmulatedDriver(seed))
        device(argument(), np.int32(0))
        downloads.clear()
        for number in (-5, 0, 1, 2, 3):
            given = argument(), np.int32(number)
            wanted = flat(evaluate(parse_hlo(CHOICES), given))
            pairs = zip(flat(device(*given)), wanted, strict=True)
            assert all(np.allclose(x, y, atol=1e-5) for x, y in pairs)
        assert set(downloads) == {4, 64}
    assert len(launched) >= 4 * 5


def test_what_does_not_wait_for_a_loop_in_a_graph_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps around the loop, and then the loop itself, each in a stream of its own."""
    program = build(parse_hlo(CHOICES), GpuBackend("cuda")).program
    captured = Sequences._captured

    def apart(self: Sequences, planned: PlannedSteps) -> int:
        places = tuple([StreamStep(i % 4, ()) for i in range(len(planned.places))])
        return captured(self, PlannedSteps(planned.steps, places, True))

    monkeypatch.setattr(Sequences, "_captured", apart)
    for seed in range(4):
        device = LoadedGpuProgram(program, EmulatedDriver(seed))
        device(argument(), np.int32(0))
        with pytest.raises(EmulationError, match="a race between works in streams: "):
            device(argument(), np.int32(0))


def test_each_byte_that_a_loop_touches_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop writes, or what it reads, is left out of what is known of it."""
    program = build(parse_hlo(CHOICES), GpuBackend("cuda")).program
    whole = walk.touched_by
    for change in (lambda x: Touched(x.reads, ()), lambda x: Touched((), ())):
        monkeypatch.setattr(walk, "touched_by", lambda x, change=change: change(whole(x)))
        device = LoadedGpuProgram(program, EmulatedDriver(1))
        device(argument(), np.int32(0))
        with pytest.raises(EmulationError, match="a race between works in streams: "):
            device(argument(), np.int32(0))


BRANCHES_ALONE = """HloModule alone

up {
  x = f32[4] parameter(0)
  ROOT y = f32[4] ceil(x)
}

down {
  x = f32[4] parameter(0)
  ROOT y = f32[4] floor(x)
}

ENTRY e {
  x = f32[4] parameter(0)
  k = s32[] parameter(1)
  ROOT c = f32[4] conditional(k, x, x), branch_computations={up, down}
}
"""


def test_branches_that_are_all_of_a_program_are_a_graph(launched: list[int]) -> None:
    module = parse_hlo(BRANCHES_ALONE)
    device = LoadedGpuProgram(build(module, GpuBackend("cuda")).program, EmulatedDriver())
    x = np.linspace(-1.5, 1.5, 4, dtype=np.float32)
    for number in (0, 1, 0, 1):
        arguments = [x, np.int32(number)]
        assert (
            flat(device(*arguments))[0].tobytes() == flat(evaluate(module, arguments))[0].tobytes()
        )
    assert launched


def test_a_loop_outside_of_a_capture_is_an_error() -> None:
    driver = EmulatedDriver()
    with pytest.raises(EmulationError, match="a loop outside of a capture"):
        driver.capture_loop(driver.allocate(1), lambda stream: None, driver.stream())


def test_what_a_module_claims_is_not_believed() -> None:
    claim = ', backend_config={"known_trip_count":{"n":"2"}}'
    for condition, limit in ((FIXED, 0), (ASKED, 9)):
        program = compiled(condition, claim=claim)
        device = LoadedGpuProgram(program, EmulatedDriver(0))
        assert all(is_right(device(argument(), limit), 5) for _ in range(2))


@pytest.mark.parametrize("most", [1, 4, 7, 11])
def test_loops_of_too_many_steps_are_several_graphs(
    most: int, monkeypatch: pytest.MonkeyPatch, launched: list[int]
) -> None:
    monkeypatch.setattr(stretches, "MOST_STEPS", most)
    for condition, limit in ((FIXED, 5), (COUNTED, 5)):
        device = LoadedGpuProgram(compiled(condition), EmulatedDriver(most))
        assert all(is_right(device(argument(), limit), 5) for _ in range(3))
    assert len(launched) >= 2 * 3


PLACE = BufferSlice(0, 0, 4)
STEP = CopyThunk("c", PLACE, BufferSlice(0, 4, 4))


def loop(trips: int, *body: Any) -> WhileThunk:
    return WhileThunk("w", (STEP,), PLACE, tuple(body), None, LoopCounter(trips))


def test_nested_loops_are_one_stretch() -> None:
    (found,) = parts_of((STEP, loop(3, STEP, loop(2, STEP)), loop(0, STEP), STEP))
    assert isinstance(found, DeviceStretch) and len(found.steps) == 1 + 3 * (1 + 2) + 1


def test_a_loop_around_a_decision_is_one() -> None:
    asked = WhileThunk("a", (STEP,), PLACE, (STEP,))
    outer = loop(3, STEP, asked)
    found = parts_of((STEP, outer, STEP))
    assert [type(x) for x in found] == [DeviceStretch, WhileThunk, DeviceStretch]
    assert chunk_of(outer, 3) == 1


def test_chunks_of_trips() -> None:
    many = loop(5000, STEP, STEP)
    assert [type(x) for x in parts_of((STEP, many))] == [DeviceStretch, WhileThunk]
    chunk = chunk_of(many, 5000)
    assert 2 * chunk <= stretches.MOST_STEPS and 5000 % chunk <= 5000 // chunk
    begun = WhileThunk("w", (STEP,), PLACE, (STEP,), None, LoopCounter(None))
    assert chunk_of(begun, 100) == stretches.MOST_CHUNK
    assert chunk_of(begun, 0) == 1
