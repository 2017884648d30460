"""Executables: serialized, capped, kept in the cache, by several processes at once."""

import gc
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.budgeting.chains import training_step

import lowtide
from lowtide.backends import cpu
from lowtide.certificate import REJECTED
from lowtide.certificate import check as check_certificate
from lowtide.client.executable import compile_module
from lowtide.client.executable.anew import compile_anew, executable_of
from lowtide.files.object_cache import ObjectCache
from lowtide.ir.printer import to_text
from lowtide.llvm.target import host_target, restricted
from lowtide.options import Options
from lowtide.planning.certificates import certificate_text

TEXT = """HloModule sums, input_output_alias={ {1}: (1, {}, may-alias) }

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[33,70] parameter(0)
  s = f32[70] parameter(1)
  k = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})
  e = f32[33,70] exponential(x)
  zero = f32[] constant(0)
  rows = f32[70] reduce(e, zero), dimensions={0}, to_apply=add
  next = f32[70] add(s, rows)
  ROOT r = (f32[33,70], f32[70], f32[12]) tuple(e, next, k)
}
"""

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own."""
    path = tmp_path / "cache"
    monkeypatch.setenv("LOWTIDE_CACHE", str(path))
    return path


def arguments():
    random = np.random.default_rng(1)
    return random.random((33, 70), np.float32), random.random(70, np.float32)


def check(executable):
    x, s = arguments()
    e, rows, k = executable(x, s)
    np.testing.assert_allclose(e, np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(rows, s + np.exp(x).sum(0), rtol=1e-5)
    assert k.tolist() == list(range(1, 13))


@pytest.fixture
def compiled_kernels(monkeypatch):
    """The numbers of kernels that LLVM compiled, call by call."""
    counts = []
    usual = cpu.compile_modules

    def counting(texts, target, cached, threads=0, progress=None, *, whole=False, **named):
        done = []
        found = usual(
            texts, target, cached, threads, lambda a, b: done.append(a), whole=whole, **named
        )
        if not whole:
            counts.append(len(done))
        return found

    monkeypatch.setattr(cpu, "compile_modules", counting)
    return counts


@pytest.mark.parametrize("apart", [False, True])
def test_without_a_cache_nothing_is_written(apart, tmp_path):
    """LOWTIDE_CACHE=off names no folder; a process that compiles for another keeps nothing too."""
    script = (
        "import lowtide\nfrom lowtide.client.executable.apart import compile_apart\n"
        "from lowtide.client.executable.compiling import compile_module\n"
        f"text = {TEXT!r}\nfor _ in range(2):\n"
        f"    made = compile_{'apart' if apart else 'module'}(lowtide.parse_hlo(text), "
        "lowtide.Options())\n    assert not made.making.was_cached\n"
    )
    environment = {**os.environ, "LOWTIDE_CACHE": "off", "XDG_CACHE_HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, cwd=tmp_path)
    assert {x.name for x in tmp_path.rglob("*") if x.is_file()} <= {"signing.key"}


def test_bytes_hold_all_of_an_executable(folder, tmp_path):
    made = lowtide.compile(lowtide.parse_hlo(TEXT), threads=2)
    data = made.serialize()
    file = tmp_path / "sums.exe"
    file.write_bytes(data)
    for source in (data, bytearray(data), memoryview(data), file, str(file)):
        found = lowtide.deserialize(source)
        check(found)
        assert {**found.memory, "seconds": {}} == {**made.memory, "seconds": {}}
        assert found.as_text() == made.as_text()
        assert found.serialize() == data
        assert found.module.is_scheduled
    with pytest.raises(lowtide.OverMemoryError, match="more than the 10 that it may use"):
        lowtide.deserialize(data, Options(memory=10))


def test_no_byte_may_be_another_one(folder):
    data = compile_module(lowtide.parse_hlo(TEXT)).serialize()
    for place in {*range(0, len(data), 97), *range(70), len(data) - 1}:
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises(lowtide.InputError):
            lowtide.deserialize(changed)


@pytest.mark.parametrize("cut", [0, 10, 21, 25, 29, 200, -1])
def test_other_bytes_are_input_errors(folder, tmp_path, cut):
    data = compile_module(lowtide.parse_hlo(TEXT)).serialize()[:cut]
    with pytest.raises(lowtide.InputError):
        lowtide.deserialize(data)
    file = tmp_path / "cut.exe"
    file.write_bytes(data)
    with pytest.raises(lowtide.InputError, match=r"cut\.exe"):
        lowtide.deserialize(file)
    with pytest.raises(lowtide.InputError, match="no such file"):
        lowtide.deserialize(tmp_path / "none.exe")


def test_what_is_known_is_not_compiled_again(folder, compiled_kernels):
    module = lowtide.parse_hlo(TEXT)
    first = compile_module(module)
    assert not first.making.was_cached
    assert compiled_kernels[-1] > 0
    second = compile_module(module)
    assert second.making.was_cached
    assert len(compiled_kernels) == 1
    assert second.serialize() == first.serialize()
    check(second)
    other = lowtide.parse_hlo(TEXT.replace("11,12}", "11,13}"))
    assert compile_module(other)(*arguments())[2][-1] == 13
    renamed = lowtide.parse_hlo(TEXT.replace("HloModule sums", "HloModule other"))
    assert not compile_module(renamed).making.was_cached
    assert compiled_kernels[1:] == [0, 0]


@pytest.mark.parametrize(
    "changed", [{"threads": 3}, {"effort": "fast"}, {"stage": "input"}, {"target": "avx2"}]
)
def test_options_that_change_code_are_in_the_key(folder, changed):
    module = lowtide.parse_hlo(TEXT)
    compile_module(module, Options(threads=2))
    try:
        found = compile_module(module, Options(**{"threads": 2, **changed}))
    except ValueError:
        pytest.skip("this processor has no AVX2")
    is_same = "target" in changed and restricted(host_target(), "avx2") == host_target()
    assert found.making.was_cached == is_same
    check(found)
    assert compile_module(module, Options(threads=2, huge_pages=False)).making.was_cached


@pytest.mark.parametrize("kind", ["programs", "objects"])
def test_damaged_entries_are_written_again(folder, kind, compiled_kernels):
    module = lowtide.parse_hlo(TEXT)
    whole = compile_module(module).serialize()
    entries = sorted((folder / kind).glob("*/*"))
    before = [x.read_bytes() for x in entries]
    for path, data in zip(entries, before, strict=True):
        path.write_bytes(data[: len(data) // 2])
    if kind == "objects":
        for path in (folder / "programs").glob("*/*"):
            path.unlink()
    made = compile_module(module)
    assert not made.making.was_cached
    assert (compiled_kernels[-1] > 0) == (kind == "objects")
    assert made.serialize() == whole
    if kind == "programs":
        assert [x.read_bytes() for x in entries] == before
    assert compile_module(module).making.was_cached


def test_entries_that_are_no_programs_are_written_again(folder):
    module = lowtide.parse_hlo(TEXT)
    compile_module(module)
    (path,) = (folder / "programs").glob("*/*")
    cached = ObjectCache(folder / "programs")
    key = path.parent.name + path.name
    cached.put(key, b"something else")
    assert not compile_module(module).making.was_cached
    assert compile_module(module).making.was_cached


def test_failures_leave_nothing_in_the_cache(folder):
    text = "HloModule d\nENTRY e { p = f32[<=8] parameter(0) ROOT n = f32[<=8] negate(p) }"
    with pytest.raises(lowtide.UnsupportedOpError):
        compile_module(lowtide.parse_hlo(text))
    assert not list(folder.rglob("*"))


def test_without_the_cache_nothing_is_kept(folder):
    check(compile_module(lowtide.parse_hlo(TEXT), Options(cache=False)))
    assert not list((folder / "programs").rglob("*"))


def test_memory_is_capped_at_the_plan(folder):
    module = lowtide.parse_hlo(TEXT)
    needed = compile_module(module).memory["ladder"]["arena_bytes"]
    check(lowtide.compile(module, memory=needed))
    for _ in range(2):  # Compiled, and from the cache.
        with pytest.raises(lowtide.OverMemoryError, match=f"sums needs {needed:,} bytes beyond"):
            lowtide.compile(module, memory=10)


def test_processes_that_compile_at_once_share_the_cache(folder, tmp_path):
    file = tmp_path / "sums.hlo"
    file.write_text(TEXT)
    code = (
        "import sys, hashlib, lowtide;"
        f"made = lowtide.compile({str(file)!r}, threads=2);"
        "print(hashlib.sha256(made.serialize()).hexdigest(), made.making.was_cached)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}

    def started():
        return subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )

    found = [process.communicate()[0].split() for process in [started(), started()]]
    digests = {x[0] for x in found}
    after = started().communicate()[0].split()
    assert digests == {after[0]}
    assert after[1] == "True"
    assert not list(folder.rglob(".new-*"))


THREADS_THAT_COMPILE = """
import threading
import numpy as np
import lowtide

def work(size):
    text = f"HloModule m\\nENTRY e {{ a = f32[{size},{size}] parameter(0) " \\
        f"d = f32[{size},{size}] dot(a, a), lhs_contracting_dims={{1}}, " \\
        f"rhs_contracting_dims={{0}} ROOT t = f32[{size},{size}] tanh(d) }}"
    run = lowtide.compile(lowtide.parse_hlo(text), cache=False, threads=1)
    found = run(np.full((size, size), 1 / size, np.float32))
    right.append(bool(np.allclose(found, np.tanh(1 / size), atol=1e-5)))

right = []
threads = [threading.Thread(target=work, args=(size,)) for size in range(9, 21)]
[x.start() for x in threads]
[x.join() for x in threads]
print(right.count(True))
"""


def test_threads_compile_different_programs(folder):
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", THREADS_THAT_COMPILE],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr[-500:]


def test_compiling_anew_shows_passes_and_gives_equal_code(folder):
    from lowtide.passes.instrumentation import Timing

    module = lowtide.parse_hlo(TEXT)
    timing = Timing()
    seen = executable_of(compile_anew(module, Options(threads=2), observers=[timing]))
    assert timing.passes
    plain = compile_module(module, Options(threads=2))
    assert seen.as_text() == plain.as_text()
    assert seen.program.objects == plain.program.objects
    assert {"passes", "kernels", "linking"} <= set(seen.making.seconds)
    check(seen)


def test_processors_have_the_names_of_the_command_line() -> None:
    assert lowtide.Options(target="cpu") == lowtide.Options()
    assert lowtide.Options(target="cpu:avx2") == lowtide.Options(target="avx2")


def test_options_by_name():
    module = lowtide.parse_hlo(TEXT)
    made = lowtide.compile(module, "1MiB", Options(threads=3), threads=1)
    assert made.program.threads == 1
    with pytest.raises(TypeError, match="no option 'thread'; did you mean 'threads'"):
        lowtide.compile(module, thread=1)
    with pytest.raises(TypeError, match="no option 'progres'; did you mean 'progress'"):
        lowtide.compile(module, progres=print)
    with pytest.raises(ValueError, match="expected a size"):
        lowtide.compile(module, memory="much")
    with pytest.raises(ValueError, match="no target 'sse'; there are: native, avx2"):
        lowtide.compile(module, target="sse")
    with pytest.raises(TypeError, match=r"functions are compiled by lowtide\.jit"):
        lowtide.compile(len)


def test_the_certificate_within_a_budget_proves_what_that_costs(folder) -> None:
    module = training_step(layers=6)
    budget = compile_module(module, Options(threads=1)).arena_bytes * 3 // 4
    made = compile_module(module, Options(threads=1, memory=budget))
    found = made.memory["budget"]
    certificate = made.certificate
    verdict = check_certificate(certificate_text(certificate).encode())
    assert verdict.answer != REJECTED
    assert 0 < verdict.bound <= found["extra_seconds_bound"] * 1e13 + 1
    text = to_text(made.module)
    inner = certificate["plan"]["problem"]
    assert inner["text"] == hashlib.sha256(text.encode()).hexdigest()
    assert lowtide.deserialize(made.serialize()).certificate == certificate


def test_the_certificate_is_of_the_text_that_runs(folder, tmp_path) -> None:
    made = compile_module(lowtide.parse_hlo(TEXT))
    certificate = made.certificate
    verdict = check_certificate(certificate_text(certificate).encode())
    ladder, scratch = made.memory["ladder"], made.memory["scratch_bytes"]
    assert verdict.answer != REJECTED
    assert verdict.bound <= verdict.size <= ladder["arena_bytes"] <= verdict.size + scratch
    text = to_text(made.module)
    assert certificate["problem"]["text"] == hashlib.sha256(text.encode()).hexdigest()
    assert lowtide.deserialize(made.serialize()).certificate == certificate


WITHOUT_WORK = """HloModule m, is_scheduled=true

add { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }

ENTRY main {
  x = s32[1,0,0] parameter(0)
  zero = s32[] constant(0)
  sums = s32[0,0] reduce(x, zero), dimensions={0}, to_apply=add
  again = s32[1,0,0] broadcast(sums), dimensions={1,2}
  part = s32[1,0,0] slice(again), slice={[0:1], [0:0], [0:0]}
  other = s32[1,0,0] negate(x)
  ROOT both = (s32[1,0,0], s32[1,0,0]) tuple(part, other)
}
"""


def test_programs_without_work_are_stored_twice_in_equal_bytes() -> None:
    """What kernels without elements cost is a number of seconds, as that of all others."""
    data = compile_module(lowtide.parse_hlo(WITHOUT_WORK), Options(effort="fast")).serialize()
    assert lowtide.deserialize(data).serialize() == data


def test_values_that_a_text_leaves_out_are_told():
    text = """HloModule m
ENTRY e { x = f32[20] parameter(0)  k = f32[20] constant({...})  ROOT y = f32[20] add(x, k) }"""
    with pytest.warns(
        RuntimeWarning, match=r"leaves out the values of a constant, \{\.\.\.\}"
    ) as told:
        lowtide.compile(lowtide.parse_hlo(text))
    assert [x.filename for x in told] == [__file__]


LONG = "\n".join(
    [
        "HloModule m",
        "ENTRY e {",
        "  n0 = f32[20] parameter(0)",
        *[f"  n{i} = f32[20] sine(n{i - 1})" for i in range(1, 200)],
        "  ROOT y = f32[20] negate(n199)",
        "}",
    ]
)


def test_the_collector_of_garbage_rests_while_a_module_is_compiled():
    module = lowtide.parse_hlo(LONG)
    collected: list[int] = []

    def note(phase: str, found: dict[str, int]) -> None:
        if phase == "start":
            collected.append(found["generation"])

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        lowtide.compile(module, cache=False)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert len(collected) <= 20  # Some around the call, and one at its end.
