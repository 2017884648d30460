"""What is measured decides, what is remembered is not measured again, and all ways are right."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowtide.backends.build import Build, build
from lowtide.backends.cpu import CpuBackend
from lowtide.client.errors import OverMemoryError
from lowtide.client.executable import compile_module
from lowtide.files.object_cache import ObjectCache
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.llvm.target import host_target
from lowtide.options import Options
from lowtide.runtime.cpu.call import LinkedExecutable
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.serial import serialize
from lowtide.tuning import measuring
from lowtide.tuning.candidates import Candidate, Tunable
from lowtide.tuning.tuner import Measure, Tuner, TuningLimits, read_times

THREADS = 2

DOT = "dot({}), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}"


def dot(m: int, k: int, n: int, rows: str = "mk", columns: str = "kn", finish: str = "") -> Module:
    sizes = {"m": m, "k": k, "n": n}
    shapes = [f"f32[{','.join(str(sizes[x]) for x in y)}]" for y in (rows, columns)]
    product = DOT.format("a, b", rows.index("k"), columns.index("k"))
    last = f"ROOT y = f32[{m},{n}] tanh(d)" if finish else ""
    return parse_hlo(
        "HloModule m\nENTRY main {\n"
        f"a = {shapes[0]} parameter(0)\nb = {shapes[1]} parameter(1)\n"
        f"{'' if finish else 'ROOT '}d = f32[{m},{n}] {product}\n{last}\n}}"
    )


def convolution(size: int, features: int, outputs: int, window: int, pad: int) -> Module:
    rest = size + 2 * pad - window + 1
    return parse_hlo(
        "HloModule m\nENTRY main {\n"
        f"x = f32[2,{size},{size},{features}] parameter(0)\n"
        f"w = f32[{window},{window},{features},{outputs}] parameter(1)\n"
        f"ROOT y = f32[2,{rest},{rest},{outputs}] convolution(x, w), "
        f"window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}}, "
        "dim_labels=b01f_01io->b01f\n}"
    )


MODULES = {
    "square": dot(200, 300, 190),
    "few columns": dot(150, 130, 10),
    "few rows": dot(3, 700, 600),
    "along k": dot(5, 700, 90, columns="nk"),
    "rows across": dot(130, 140, 70, rows="km", finish="tanh"),
    "both turned": dot(65, 129, 77, rows="km", columns="nk"),
    "convolution": convolution(12, 20, 40, 3, 1),
    "convolution in place": convolution(12, 32, 33, 3, 0),
    "pointwise": convolution(12, 32, 48, 1, 0),
}

ANY = TuningLimits(least_seconds=0.0)


class Favouring:
    """Stands for measuring: the way of a number takes least time, of those that there are."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ways: list[int] = []

    def __call__(self, work: Tunable, candidates: Sequence[Candidate], *_: object) -> list[float]:
        self.ways.append(len(candidates))
        return [0.5 if i == self.number else 1.0 for i in range(len(candidates))]


def fastest_is_largest(work: Tunable, candidates: Sequence[Candidate], *_: object) -> list[float]:
    return [1.0 / (1 + x.plan.shared_bytes + 2 * x.plan.thread_bytes) for x in candidates]


def never(*_: object) -> list[float]:
    raise AssertionError("measured")


def tuner(remembered: ObjectCache, measure: Measure, limits: TuningLimits = ANY) -> Tuner:
    none = ObjectCache(None)
    return Tuner(host_target(), THREADS, none, remembered, limits, measure)


def compiled(
    module: Module, chooser: Tuner | None = None, memory: int | None = None
) -> Build[NativeProgram]:
    return build(module, CpuBackend(THREADS, tuner=chooser), memory=memory)


def arguments(module: Module) -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    return [
        draw.normal(size=x.shape.dimensions).astype(np.float32) for x in module.entry.parameters
    ]


@pytest.mark.parametrize("name", list(MODULES))
def test_every_way_computes_the_same(name: str) -> None:
    module = MODULES[name]
    given = arguments(module)
    first = compiled(module)
    expected = LinkedExecutable(first.program)(*given)
    for number in (1, 2, 3):
        chooser = Favouring(number)
        other = compiled(module, tuner(ObjectCache(None), chooser))
        if number == chooser.ways[0]:
            break
        assert first.program.objects != other.program.objects
        found = LinkedExecutable(other.program)(*given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert number > 1


def test_what_is_remembered_is_not_measured(tmp_path: Path) -> None:
    module = MODULES["square"]
    one = compiled(module, tuner(ObjectCache(tmp_path), Favouring(1)))
    two = compiled(module, tuner(ObjectCache(tmp_path), never))
    assert serialize(one.program) == serialize(two.program) != serialize(compiled(module).program)


@pytest.mark.parametrize(
    "entry", [b"", b"[1", b"[1.0]", b"[1.0, 0.5, NaN]", b"[1.0, 0.5, -1.0]", b"{}"]
)
def test_an_entry_that_is_no_times_is_measured_anew(tmp_path: Path, entry: bytes) -> None:
    module, cache = MODULES["square"], ObjectCache(tmp_path)
    chooser = Favouring(1)
    compiled(module, tuner(cache, chooser))
    (path,) = [x for x in tmp_path.rglob("*") if x.is_file()]
    key = path.parent.name + path.name
    good = cache.get(key)
    cache.put(key, entry)
    assert read_times(entry, chooser.ways[0]) is None
    compiled(module, tuner(cache, chooser))
    assert len(chooser.ways) == 2
    assert cache.get(key) == good


def test_a_choice_stays_within_the_memory() -> None:
    module = MODULES["both turned"]  # With vectors of any length some ways take more scratch.
    plain = compiled(module).plan.report.ladder.arena_bytes
    free = compiled(module, tuner(ObjectCache(None), fastest_is_largest))
    assert free.plan.report.ladder.arena_bytes > plain
    for memory in (plain, plain + 4096):
        kept = compiled(module, tuner(ObjectCache(None), fastest_is_largest), memory)
        assert kept.plan.report.ladder.arena_bytes <= memory
    with pytest.raises(OverMemoryError):
        compiled(module, tuner(ObjectCache(None), fastest_is_largest), 1)


def test_slightly_faster_is_not_enough() -> None:
    module = MODULES["square"]

    def measure(work: Tunable, candidates: Sequence[Candidate], *_: object) -> list[float]:
        return [1.0, *[0.99] * (len(candidates) - 1)]

    plain = serialize(compiled(module).program)
    assert serialize(compiled(module, tuner(ObjectCache(None), measure)).program) == plain


@pytest.mark.parametrize(
    "limits",
    [replace(ANY, all_seconds=0.0), replace(ANY, most_bytes=1), TuningLimits(least_seconds=10.0)],
)
def test_nothing_is_measured_beyond_the_limits(limits: TuningLimits) -> None:
    module = MODULES["square"]
    plain = serialize(compiled(module).program)
    found = compiled(module, tuner(ObjectCache(None), never, limits))
    assert serialize(found.program) == plain


def test_off_means_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    module, options = MODULES["square"], Options(threads=THREADS)
    before = compile_module(module, replace(options, cache=False)).serialize()
    tuned = compile_module(module, replace(options, autotune=True))
    assert (tmp_path / "times").is_dir()
    assert compile_module(module, options).serialize() == before
    assert compile_module(module, replace(options, autotune=True)).making.was_cached
    given = arguments(module)
    np.testing.assert_allclose(tuned(*given), given[0] @ given[1], rtol=1e-3, atol=1e-4)


def test_measuring_a_kernel(tmp_path: Path) -> None:
    found: list[list[float]] = []

    def measure(*given: Any) -> list[float]:
        found.append(measuring.measure(*given))
        return found[-1]

    compiled(MODULES["convolution"], tuner(ObjectCache(tmp_path), measure))
    ((first, *rest),) = found
    assert rest
    assert all(1e-7 < x < 0.1 for x in (first, *rest))


class Clock:
    """Time that passes only when something runs; each call takes less time than the one before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs: list[float] = []

    def __call__(self) -> float:
        return self.now

    def run(self, seconds: float) -> None:
        self.now += seconds * (1 + 1 / (1 + len(self.runs)))
        self.runs.append(seconds)


@pytest.mark.parametrize(("each", "most"), [(1e-5, 0.06), (0.004, 0.07), (0.02, 0.3), (1.0, 7.0)])
def test_measuring_takes_turns_and_ends(each: float, most: float) -> None:
    clock = Clock()
    calls = [lambda: clock.run(each), lambda: clock.run(each / 2)]
    found = measuring.in_turns(calls, 0.05, clock)
    assert each < found[0] <= 2 * each
    assert found[1] < found[0]
    assert clock.now <= most
    assert clock.runs[:2] == [each, each / 2]
