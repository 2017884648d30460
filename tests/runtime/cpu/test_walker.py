"""Thunks of all kinds, run from tables, against the same steps in NumPy."""

import random

import numpy as np
import pytest
from tests.runtime.cpu.handmade import (
    ADD,
    LESS,
    MULTIPLY,
    SUBTRACT,
    SUM,
    SUM_UNITS,
    TRUNCATE,
    UNIT,
    Draft,
    kernel,
    vector,
)

from lowtide.ir.buffer import NO_BYTES, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import array_shape
from lowtide.ir.thunk import ConditionalThunk, CopyThunk, Thunk, WhileThunk
from lowtide.runtime.cpu import call
from lowtide.runtime.cpu.arena import Arena
from lowtide.runtime.cpu.call import load

THREADS = (1, 2, 3)
LONG = 30e-6
"""Seconds of a unit, pretended, that make a kernel be shared out."""


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(count, np.float32)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("seconds", [1e-9, LONG])
def test_kernels_and_copies(threads: int, seconds: float) -> None:
    draft = Draft(units=700, seconds=seconds)
    a, b = draft.argument(), draft.argument()
    c, d, e = (draft.temporary() for _ in range(3))
    draft.result(e)
    thunks = [kernel(ADD, a, b, c), CopyThunk("copy", c, d), kernel(MULTIPLY, d, a, e)]
    run = load(draft.program(thunks, threads=threads))
    x, y = numbers(draft.count, 1), numbers(draft.count, 2)
    np.testing.assert_array_equal(run(x, y), (x + y) * x)


@pytest.mark.parametrize("threads", THREADS)
def test_phases_follow_one_another_and_share_scratch(threads: int) -> None:
    draft = Draft(units=SUM_UNITS, seconds=LONG)
    a = draft.argument()
    sums = [draft.temporary(4) for _ in range(2)]
    scratch = [draft.temporary(64 * SUM_UNITS) for _ in range(2)]
    scalar = array_shape(ElementType.F32)
    draft.result(sums[0], scalar)
    draft.result(sums[1], scalar)
    thunks = [kernel(SUM, a, to, scratch=own) for to, own in zip(sums, scratch, strict=True)]
    run = load(draft.program(thunks, threads=threads, structure=(0, 1)))
    for seed in range(20):
        x = numbers(draft.count, seed)
        rows = x.reshape(SUM_UNITS, UNIT)
        parts = np.add.accumulate(rows, axis=1)[:, -1]
        expected = np.add.accumulate(parts)[-1]
        assert run(x) == (expected, expected)


def counting_loop(
    draft: Draft, step: BufferSlice, end: BufferSlice, body: list[Thunk]
) -> tuple[BufferSlice, Thunk]:
    """A loop whose counter, which begins at what is there, grows by `step` up to `end`."""
    counter, flag = draft.temporary(), draft.temporary(1)
    condition = (kernel(LESS, counter, end, flag),)
    count = kernel(ADD, counter, step, counter)
    return counter, WhileThunk("loop", condition, flag, (*body, count))


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("trips", (0, 1, 5))
def test_loops_nest(threads: int, trips: int) -> None:
    draft = Draft(units=3, seconds=LONG)
    a, end, inner_end = (draft.argument() for _ in range(3))
    zero = draft.constant(np.zeros(draft.count, np.float32))
    one = draft.constant(np.ones(draft.count, np.float32))
    total = draft.temporary()
    inner, inner_loop = counting_loop(draft, one, inner_end, [kernel(ADD, total, a, total)])
    body: list[Thunk] = [CopyThunk("start", zero, inner), inner_loop]
    outer, loop = counting_loop(draft, one, end, body)
    draft.result(total)
    start = [CopyThunk("start", zero, outer), CopyThunk("start", zero, total)]
    run = load(draft.program([*start, loop], threads=threads))
    x = np.ones(draft.count, np.float32)
    result = run(x, x * trips, x * 3)
    np.testing.assert_array_equal(result, x * trips * 3)


@pytest.mark.parametrize("selector", (-7, 0, 1, 2, 3, 100))
def test_conditional_takes_the_last_branch_out_of_range(selector: int) -> None:
    draft = Draft()
    a, b, s = draft.argument(), draft.argument(), draft.argument()
    chosen, result = draft.temporary(4), draft.temporary()
    branches = tuple([(kernel(x, a, b, result),) for x in (ADD, MULTIPLY, SUBTRACT)])
    draft.result(result)
    conditional = ConditionalThunk("choose", chosen, False, branches)
    run = load(draft.program([kernel(TRUNCATE, s, chosen), conditional]))
    x, y = numbers(draft.count, 1), numbers(draft.count, 2)
    expected = [x + y, x * y, x - y][selector if 0 <= selector < 3 else 2]
    np.testing.assert_array_equal(run(x, y, np.full(draft.count, selector, np.float32)), expected)


@pytest.mark.parametrize("flag", (False, True))
def test_predicate_takes_branch_0_where_true(flag: bool) -> None:
    draft = Draft()
    a, b = draft.argument(), draft.argument()
    test, result = draft.temporary(1), draft.temporary()
    draft.result(result)
    branches = ((kernel(ADD, a, b, result),), (kernel(SUBTRACT, a, b, result),))
    thunks = [kernel(LESS, a, b, test), ConditionalThunk("choose", test, True, branches)]
    run = load(draft.program(thunks))
    x = numbers(draft.count)
    y = x + 1 if flag else x - 1
    np.testing.assert_array_equal(run(x, y), x + y if flag else x - y)


def test_slices_without_bytes_have_an_address() -> None:
    draft = Draft(units=0)
    a = draft.argument(vector(0))
    draft.result(NO_BYTES, vector(0))
    run = load(draft.program([kernel(ADD, a, NO_BYTES, NO_BYTES)], threads=2))
    assert run(np.zeros(0, np.float32)).shape == (0,)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threads", (1, 2, 4))
def test_random_programs_run_as_if_in_order(seed: int, threads: int) -> None:
    random_ = random.Random(seed)
    draft = Draft(units=5, seconds=random_.choice([1e-9, LONG]))
    arguments = [draft.argument() for _ in range(3)]
    places = [draft.temporary() for _ in range(6)]
    thunks: list[Thunk] = [CopyThunk("start", arguments[0], place) for place in places]
    operations = {ADD: np.add, MULTIPLY: np.multiply, SUBTRACT: np.subtract}
    values = [numbers(draft.count, n) for n in range(3)]
    known = dict(zip(arguments, values, strict=True)) | dict.fromkeys(places, values[0])
    for _ in range(200):
        number = random_.choice(list(operations))
        one, two, to = (random_.choice([*arguments, *places][k:]) for k in (0, 0, 3))
        thunks.append(kernel(number, one, two, to))
        with np.errstate(all="ignore"):
            known[to] = operations[number](known[one], known[two])
    for place in places:
        draft.result(place)
    structure = tuple(range(len(places)))
    run = load(draft.program(thunks, threads=threads, structure=structure))
    for _ in range(30):
        for result, place in zip(run(*values), places, strict=True):
            np.testing.assert_array_equal(result, known[place])


def test_profile_runs_in_memory_that_calls_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """New pages would count as time of the thunks that are the first to touch them."""
    made: list[Arena] = []

    def counted(nbytes: int, *, huge: bool) -> Arena:
        made.append(Arena(nbytes, huge=huge))
        return made[-1]

    monkeypatch.setattr(call, "Arena", counted)
    draft = Draft(units=2)
    source, between, target = draft.argument(), draft.temporary(), draft.temporary()
    draft.result(target)
    thunks = [CopyThunk("there", source, between), CopyThunk("back", between, target)]
    run = load(draft.program(thunks, threads=1))
    x = np.ones(draft.count, np.float32)
    for _ in range(3):
        result, _ = run.profile(x)
        np.testing.assert_array_equal(result, x)
        run(x)
    assert len(made) == 1


def test_profile_tells_of_each_run_of_each_thunk() -> None:
    draft = Draft(units=2)
    _, end = draft.argument(), draft.argument()
    one = draft.constant(np.ones(draft.count, np.float32))
    zero = draft.constant(np.zeros(draft.count, np.float32))
    counter, loop = counting_loop(draft, one, end, [])
    draft.result(counter)
    run = load(draft.program([CopyThunk("start", zero, counter), loop], threads=2))
    x = np.ones(draft.count, np.float32)
    result, spans = run.profile(x, 4 * x)
    np.testing.assert_array_equal(result, 4 * x)
    assert [s.name for s in spans] == ["start", "k3", *["k0", "k3"] * 4, "loop"]
    assert all(s.begin <= s.end for s in spans)
    assert spans[-1].begin <= spans[1].begin and spans[-1].end >= spans[-2].end
