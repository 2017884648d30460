"""When searches end: at a time, or when someone interrupts them."""

import pytest

from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions
from lowtide.search.stopwatch import Stopwatch


def test_none_never_comes_by_itself() -> None:
    deadline = Deadline()
    assert not deadline.passed and not deadline.is_timed
    assert Deadline(1e6).is_timed and not Deadline(1e6).passed
    assert Deadline(0).passed and not Deadline(0).was_interrupted


def test_an_interrupt_ends_it_and_raises_where_no_plan_is_lost() -> None:
    deadline = Deadline()
    with pytest.raises(KeyboardInterrupt):
        deadline.interrupt()
    assert deadline.passed and deadline.was_interrupted and not deadline.is_timed


def test_within_held_an_interrupt_raises_nothing() -> None:
    deadline = Deadline(1e6)
    with deadline.held():
        with deadline.held():
            deadline.interrupt()
        deadline.interrupt()
        assert deadline.passed
    with pytest.raises(KeyboardInterrupt):
        deadline.interrupt()


def test_the_innermost_block_decides_whether_an_interrupt_raises() -> None:
    deadline, reached = Deadline(), []
    with deadline.held():
        with deadline.until_interrupted():
            with deadline.held():
                deadline.interrupt()
            reached.append(1)
            deadline.interrupt()
            reached.append(2)
        deadline.interrupt()
        reached.append(3)
    assert reached == [1, 3]


def test_only_interrupts_that_it_knows_of_end_a_block() -> None:
    deadline = Deadline()
    with pytest.raises(KeyboardInterrupt), deadline.until_interrupted():
        raise KeyboardInterrupt
    reached = []
    with deadline.until_interrupted():
        deadline.interrupt()
        reached.append(1)
    assert not reached and deadline.was_interrupted


def test_a_search_begins_when_it_is_asked_for_and_only_once() -> None:
    assert SearchOptions(deadline=0.0).begun().passed
    assert not SearchOptions().begun().is_timed
    begun = Deadline(5)
    assert SearchOptions(deadline=begun).begun() is begun


def test_a_guard_ends_what_hangs_and_is_no_time_that_a_caller_set() -> None:
    deadline = Deadline()
    deadline.guard(-1.0)
    assert deadline.passed and not deadline.is_timed
    given = Deadline(1e6)
    given.guard(-1.0)
    assert not given.passed and given.is_timed


def test_a_part_comes_before_the_whole(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("lowtide.search.deadline.monotonic", lambda: now[0])
    whole = Deadline(40)
    now[0] += 8
    part, early = whole.part(0.25), whole.part(less=6)
    assert part.is_timed and not part.passed and part.leaves(7) and not part.leaves(9)
    now[0] += 8
    assert part.passed and not early.passed and not whole.passed
    now[0] += 18
    assert early.passed and not whole.passed
    now[0] += 6
    assert whole.passed and whole.part().passed


def test_what_a_part_ended_may_be_another_time_something_else(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("lowtide.search.deadline.monotonic", lambda: now[0])
    whole = Deadline(40)
    part = whole.part(0.5)
    now[0] += 30
    assert not whole.remarks()
    assert part.passed and not whole.passed and len(whole.remarks()) == 1


def test_a_part_of_no_time_ends_by_the_interrupt_of_the_whole() -> None:
    whole = Deadline()
    part = whole.part(0.5)
    assert not part.is_timed and not part.passed
    with part.held():
        whole.interrupt()
    assert part.passed and part.was_interrupted
    with pytest.raises(KeyboardInterrupt):
        whole.interrupt()


def test_a_part_counts_the_time_of_the_processor_that_the_whole_has(monkeypatch) -> None:
    now = [1.0]
    monkeypatch.setattr("lowtide.search.deadline.process_time", lambda: now[0])
    whole = Deadline.of_cpu_seconds(8)
    part = whole.part(0.25)
    now[0] += 2
    assert part.passed and not whole.passed


def test_an_interrupt_of_a_part_ends_the_whole() -> None:
    deadline = Deadline()
    part = deadline.part()
    with deadline.held():
        part.part().interrupt()
    assert part.passed and deadline.passed and deadline.was_interrupted and part.was_interrupted
    with pytest.raises(KeyboardInterrupt):
        part.interrupt()


@pytest.mark.parametrize("clock", ["monotonic", "process_time"])
def test_a_turn_has_a_share_of_the_time_and_gives_the_rest_back(clock, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(f"lowtide.search.deadline.{clock}", lambda: now[0])
    whole = Deadline(40) if clock == "monotonic" else Deadline.of_cpu_seconds(40)
    with whole.turn(0.25):
        part = whole.part(0.5)
        assert whole.leaves(10) and not whole.leaves(10.5)
        assert part.leaves(5) and not part.leaves(5.5)
        now[0] += 4
    assert whole.leaves(36) and not whole.leaves(36.5) and not whole.remarks()
    with whole.turn(0.5):
        now[0] += 18
        assert whole.passed
    assert whole.leaves(18) and not whole.passed and whole.remarks()


def test_a_turn_of_one_without_an_end_has_none() -> None:
    deadline = Deadline()
    with deadline.turn(0.0):
        assert not deadline.passed and deadline.leaves(1e6)
    assert not deadline.remarks()


def test_work_is_in_time_by_what_took_longest_and_somewhat_more(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("lowtide.search.deadline.process_time", lambda: now[0])
    watch = Stopwatch(Deadline.of_cpu_seconds(100), expected=90.0)
    assert not watch.is_in_time() and not watch.has_run
    for taken in (8.0, 10.0, 2.0):
        with watch.running():
            now[0] += taken
    assert watch.seconds == 10 and watch.reserve > 10
    now[0] = 100 - watch.reserve - 1
    assert watch.is_in_time() and not watch.is_in_time(beside=1.5)
    now[0] += 1.5
    assert not watch.is_in_time()
