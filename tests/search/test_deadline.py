"""When searches end: at a time, or when someone interrupts them."""

import pytest

from lowtide.search.deadline import Deadline
from lowtide.search.effort import SearchOptions


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
