"""Large results: pages that move out of the arena, come back, and are given back."""

import gc
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.cpu.handmade import ADD, UNIT, Draft, kernel
from tests.support import HANG_SECONDS

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import Layout, array_shape
from lowtide.ir.thunk import CopyThunk
from lowtide.runtime.cpu import handover, pages
from lowtide.runtime.cpu.call import CallOptions, LinkedExecutable, load
from lowtide.runtime.cpu.handover import Recycled, form_at
from lowtide.runtime.cpu.pages import HUGE_PAGE, PAGE
from lowtide.runtime.cpu.results import COPIED_BYTES, MOVED_BYTES

ROOT = Path(__file__).parents[3]
MEGABYTES = 5
UNITS = MEGABYTES * 2**20 // (4 * UNIT)


def large(before: int = 64, **options: object) -> tuple[Draft, LinkedExecutable]:
    """A program whose sum of two arguments lies `before` bytes into the arena."""
    draft = Draft(units=UNITS)
    a, b = draft.argument(), draft.argument()
    draft.temporary(before)
    c = draft.temporary()
    draft.temporary(100)
    draft.result(c)
    return draft, load(draft.program([kernel(ADD, a, b, c)]), options=CallOptions(**options))


@pytest.mark.parametrize("before", [0, 64, PAGE, 2 * PAGE - 64, HUGE_PAGE - 4160])
@pytest.mark.parametrize("huge_pages", [True, False])
def test_large_results_are_right_and_their_own(before: int, huge_pages: bool) -> None:
    draft, run = large(before, huge_pages=huge_pages)
    x = np.random.default_rng(0).random(draft.count, np.float32)
    kept = []
    for k in range(12):
        result = run(x, np.full_like(x, k))
        np.testing.assert_array_equal(result, x + np.float32(k))
        if k % 3 == 0:
            kept.append((k, result))
        result += 0
    for k, result in kept:
        np.testing.assert_array_equal(result, x + np.float32(k))


def test_pages_of_dead_results_are_used_again() -> None:
    draft, run = large()
    x = np.ones(draft.count, np.float32)
    addresses = {run(x, x).ctypes.data for _ in range(20)}
    assert len(addresses) == 2
    assert run.idle_bytes > 4 * draft.count
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        run(x, x)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 4 * draft.count // PAGE
    run.empty()
    assert run.idle_bytes == 0
    assert (run(x, x) == 2).all()


def test_results_outlive_the_executable() -> None:
    draft, run = large()
    x = np.ones(draft.count, np.float32)
    results = [run(x, x) for _ in range(3)]
    part = results[0][7:9]
    del run, results
    gc.collect()
    assert (part == 2).all()


def test_results_are_copied_where_pages_do_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages.can_move()  # Found out once, before moves fail.
    monkeypatch.setattr(pages, "can_move", lambda: False)
    draft, run = large()
    x = np.ones(draft.count, np.float32)
    assert (run(x, x) == 2).all() and (run(x, x) == 2).all()
    monkeypatch.undo()
    monkeypatch.setattr(handover.pages, "move", lambda *_, **__: False)
    assert (run(x, x) == 2).all()


def test_many_results_are_not_there_twice() -> None:
    """Results below the bound for moving are copied only up to a few in all."""
    draft = Draft(units=MOVED_BYTES // 2 // (4 * UNIT))
    a, b = draft.argument(), draft.argument()
    places = [draft.temporary() for _ in range(16)]
    for place in places:
        draft.result(place)
    thunks = [kernel(ADD, a, b, place) for place in places]
    run = load(draft.program(thunks, structure=tuple(range(16))))
    x = np.ones(draft.count, np.float32)
    for _ in range(3):
        results = run(x, x)
        assert all((result == 2).all() for result in results)
        copied = sum([result.nbytes for result in results if result.base is None])
        assert 0 < copied <= COPIED_BYTES


def test_large_results_of_other_layouts_and_types() -> None:
    shape = array_shape(ElementType.BF16, (512, 1024, 3), Layout((0, 1, 2)))
    draft = Draft()
    a, to = draft.argument(shape), draft.temporary(shape.nbytes)
    draft.result(to, shape)
    run = load(draft.program([CopyThunk("copy", a, to)]))
    x = np.arange(shape.element_count).reshape(shape.dimensions).astype("bfloat16")
    for _ in range(3):
        result = run(x)
        assert result.dtype == x.dtype and result.shape == x.shape
        np.testing.assert_array_equal(result, x)


def test_results_that_share_bytes_stay_right() -> None:
    draft = Draft(units=UNITS)
    a = draft.argument()
    place = draft.temporary()
    part = BufferSlice(place.allocation, place.offset + 4 * UNIT, place.nbytes - 4 * UNIT)
    draft.result(place)
    draft.result(part, array_shape(ElementType.F32, (draft.count - UNIT,)))
    run = load(draft.program([CopyThunk("copy", a, place)], structure=(0, 1)))
    x = np.arange(draft.count, dtype=np.float32)
    for _ in range(3):
        whole, rest = run(x)
        whole += 1
        np.testing.assert_array_equal(rest, x[UNIT:])
        assert not np.shares_memory(whole, rest)


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def test_nothing_leaks() -> None:
    draft, run = large()
    x = np.ones(draft.count, np.float32)
    small = np.ones(3, np.float32)

    def calls(count: int) -> None:
        kept = []
        for k in range(count):
            kept.append(run(x, x))
            del kept[: len(kept) - k % 4]

    def work() -> None:
        for _ in range(20):
            calls(5)
            run.empty()

    def all_of_it() -> None:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(5):
            _, other = large()
            other(x, x)
        for _ in range(300):
            with pytest.raises(Exception, match="needs f32"):
                run(x, small)
        gc.collect()
        run.empty()

    all_of_it()
    before, maps = resident(), len(Path("/proc/self/maps").read_text().splitlines())
    all_of_it()
    assert resident() - before < 12 * 2**20
    assert len(Path("/proc/self/maps").read_text().splitlines()) - maps < 50


def test_no_memory_is_an_error_with_the_bytes_wanted() -> None:
    draft = Draft(units=1)
    a = draft.argument()
    t = draft.temporary(2**62)
    c = draft.temporary()
    draft.result(c)
    run = load(draft.program([kernel(ADD, a, a, c)]))
    assert t.nbytes == 2**62
    with pytest.raises(pages.OutOfMemoryError, match=str(2**62 // 10**6)[:4]) as found:
        run(np.ones(draft.count, np.float32))
    assert isinstance(found.value, MemoryError)


EXIT = """
import atexit, sys
def clear():  # Runs last. What the interpreter does to modules before it lets the last results go.
    handover.pages = None
    kept_longest.clear()
atexit.register(clear)
sys.path.insert(0, {root!r})
import numpy as np
from lowtide.runtime.cpu import handover
from tests.runtime.cpu.test_handover import large
draft, run = large()
x = np.ones(draft.count, np.float32)
run(x, x)
kept = [run(x, x), run(x, x)]
kept_longest = [run(x, x)]
"""


def test_the_process_ends_in_peace_while_results_are_alive() -> None:
    paths = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    run = subprocess.run(
        [sys.executable, "-c", EXIT.format(root=str(ROOT))],
        capture_output=True,
        text=True,
        env=paths,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert run.stderr == ""


def test_more_of_one_size_wait_where_a_call_has_more() -> None:
    """Other sizes keep to what holds for all, so that little memory waits that nobody takes."""
    often, seldom = form_at(0, MOVED_BYTES), form_at(0, 2 * MOVED_BYTES)
    recycled = Recycled(2, alike={MOVED_BYTES: 5}, huge=False)
    for form in (often, seldom):
        for address in [recycled.whole(form) for _ in range(8)]:
            recycled.keep_full(address, form)
    assert recycled.nbytes == 5 * often.pages + 2 * seldom.pages
    recycled.close()
    assert recycled.nbytes == 0
