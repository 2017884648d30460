"""What a program is estimated to take before it runs: loops by what is said of their trips."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from tests.runtime.cpu.handmade import ADD, LESS, Draft, kernel

from lowtide.ir.thunk import BundleThunk, CopyThunk, Thunk, WhileThunk
from lowtide.runtime.cpu.call import load
from lowtide.runtime.cpu.table import COPY_BYTES_PER_SECOND

SECONDS = 1e-6
"""Of a unit of the kernel in the loops, which has two."""

TEST_SECONDS = 1e-8
"""Of the kernel that says whether a loop goes on."""


def plan_of(*trips: int | None, before: int = 0) -> tuple[float, bool]:
    """The estimate for loops within one another, the innermost last, behind so many kernels."""
    draft = Draft(units=2, seconds=SECONDS)
    a, b = draft.argument(), draft.argument()
    flag, c = draft.temporary(1), draft.temporary()
    draft.result(c)
    body: tuple[Thunk, ...] = (kernel(ADD, a, b, c),)
    for count in reversed(trips):
        body = (WhileThunk("w", (kernel(LESS, a, b, flag),), flag, body, count),)
    first = [kernel(ADD, a, b, c)] * before
    plan = load(draft.program([*first, *body])).launch_plan()
    return plan.seconds, plan.has_loops


def test_a_program_without_loops_takes_what_its_kernels_do() -> None:
    assert plan_of(before=2) == (pytest.approx(6 * SECONDS), False)


@pytest.mark.parametrize("trips", (1, 7, 10**18))
def test_a_loop_takes_its_trips(trips: int) -> None:
    seconds, has_loops = plan_of(trips, before=1)
    assert has_loops
    assert seconds == pytest.approx(2 * SECONDS + trips * (2 * SECONDS + TEST_SECONDS))


def test_loops_multiply() -> None:
    inner = 5 * (2 * SECONDS + TEST_SECONDS)
    assert plan_of(3, 5)[0] == pytest.approx(3 * (inner + TEST_SECONDS))


def test_nothing_is_known_of_what_has_a_loop_of_unknown_length() -> None:
    for trips in ((None,), (3, None), (None, 3)):
        assert plan_of(*trips) == (inf, True)


def test_what_does_not_run_takes_no_time_whatever_it_has() -> None:
    assert plan_of(0, None, before=1) == (pytest.approx(2 * SECONDS), True)


def test_loops_of_bundles_count_too() -> None:
    """Kernels that only bundles run have no functions of their own, so nothing else counts them."""
    draft = Draft(units=2, seconds=SECONDS)
    a, b = draft.argument(), draft.argument()
    flag, c = draft.temporary(1), draft.temporary()
    draft.result(c)
    copy = CopyThunk("c", a, c)
    loop = WhileThunk("w", (kernel(LESS, a, b, flag),), flag, (kernel(ADD, a, b, c), copy), 100)
    program = draft.program([kernel(ADD, a, b, c), kernel(LESS, a, b, flag)])
    # No code of a bundle is linked: it takes the function of a kernel, and nothing runs.
    bundle = BundleThunk("bundle", "plus", 3.0, (loop, copy))
    plan = load(replace(program, thunks=(*program.thunks, bundle))).launch_plan()
    copied = np.zeros(draft.count, np.float32).nbytes / COPY_BYTES_PER_SECOND
    first = 2 * SECONDS + TEST_SECONDS
    trip = TEST_SECONDS + 2 * SECONDS + copied
    assert plan.seconds == pytest.approx(first + 100 * trip + copied) and plan.has_loops
