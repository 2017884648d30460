"""Signals during a run: their handlers are called, and what they raise ends the run."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.runtime.cpu.handmade import ADD, LESS, Draft, kernel

from lowtide.ir.thunk import CopyThunk, Thunk, WhileThunk
from lowtide.runtime.cpu.call import LinkedExecutable, load


class StoppedError(Exception):
    """What the handlers raise."""


@contextmanager
def alarm(handler: Callable[[], None], first: float, every: float = 0.0) -> Iterator[None]:
    """Call a handler after so many seconds, and every so many more, while the block runs.

    One that raises is called once: another call could come before this block stops the clock.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    try:
        signal.setitimer(signal.ITIMER_REAL, first, every)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def loop(
    threads: int, seconds: float, *, nested: bool = False, empty: bool = False
) -> LinkedExecutable:
    """From the first argument on, the second is added until the third one is reached.

    A unit of work claims to take that many seconds. Where `empty`, the loop does nothing.
    """
    draft = Draft(units=2, seconds=seconds)
    a, step, end = (draft.argument() for _ in range(3))
    total, flag, forever = draft.temporary(), draft.temporary(1), draft.temporary(1)
    start = CopyThunk("start", a, total)
    add, test = kernel(ADD, total, step, total), kernel(LESS, total, end, flag)
    body: tuple[Thunk, ...] = (add,)
    if nested:
        body = (WhileThunk("inner", (test,), flag, (add,)), kernel(LESS, total, end, flag))
    whole = WhileThunk("outer", (test,), flag, body)
    if empty:
        whole = WhileThunk("outer", (), forever, ())
    draft.result(total)
    thunks = [start, kernel(LESS, a, end, forever), whole]
    return load(draft.program(thunks, threads=threads))


def arrays(step: float, trips: float) -> list[np.ndarray]:
    return [np.full(512, x, np.float32) for x in (0.0, step, step * trips)]


@pytest.mark.parametrize("form", [{}, {"nested": True}, {"empty": True}])
@pytest.mark.parametrize(("threads", "seconds"), [(1, 1e-9), (2, 1e-3)])
def test_what_a_handler_raises_ends_a_run_without_end(
    threads: int, seconds: float, form: dict[str, bool]
) -> None:
    run = loop(threads, seconds, **form)

    def stop() -> None:
        raise StoppedError

    for call in (run, run.profile, lambda *x: run(*[np.repeat(a, 2)[::2] for a in x])):
        with pytest.raises(StoppedError), alarm(stop, 0.05):
            call(*arrays(0.0, 1.0)[:2], np.ones(512, np.float32))
    if not form.get("empty"):
        np.testing.assert_array_equal(run(*arrays(1.0, 7)), np.full(512, 7, np.float32))
        assert run.idle_bytes > 0


def test_a_run_goes_on_after_handlers_that_return() -> None:
    run = loop(2, 1e-3)
    calls: list[int] = []
    trips = 1 << 20
    with alarm(lambda: calls.append(1), 0.01, 0.01):
        while not calls:
            result = run(*arrays(1.0, trips))
            np.testing.assert_array_equal(result, np.full(512, trips, np.float32))


def test_handlers_may_call_the_program_that_runs() -> None:
    run = loop(2, 1e-3)
    found: list[np.ndarray] = []

    def stop() -> None:
        found.append(run(*arrays(1.0, 3)))
        raise StoppedError

    with pytest.raises(StoppedError), alarm(stop, 0.05):
        run(*arrays(0.0, 1.0)[:2], np.ones(512, np.float32))
    np.testing.assert_array_equal(found[0], np.full(512, 3, np.float32))


def test_a_thread_of_its_own_runs_while_the_main_one_sees_to_signals() -> None:
    run = loop(1, 1e-9)
    calls: list[int] = []
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(run(*arrays(1.0, 1 << 21))))
    with alarm(lambda: calls.append(1), 0.005, 0.005):
        thread.start()
        thread.join()
    assert calls
    np.testing.assert_array_equal(results[0], np.full(512, 1 << 21, np.float32))
