"""All interleavings of small cases of native code, and races that are planted in it."""

from __future__ import annotations

import pytest
from tests.native_language import scenarios
from tests.native_language.interleavings import RaceError, explore
from tests.native_language.scenarios import Case
from tests.native_language.stepping import Fault

CASES = {
    "queue": scenarios.QUEUE,
    "blocks": scenarios.BLOCKS,
    "held": scenarios.HELD,
    "event": scenarios.EVENT,
    "homes": scenarios.HOMES,
    "one does all": scenarios.ALONE,
    "each does its part": scenarios.SHARED,
}

LEAST = {
    "queue": 1000,
    "blocks": 150,
    "held": 9000,
    "event": 440,
    "homes": 1200,
    "one does all": 1000,
    "each does its part": 2400,
}
"""States of each case: fewer would say that the checker no longer looks."""


@pytest.mark.parametrize("name", CASES)
def test_no_interleaving_goes_wrong(name: str, record_property: pytest.RecordProperty) -> None:
    case = CASES[name]
    found = explore(case.start, case.check, externals=case.externals)
    print(f"{name}: {found.states} states, {found.steps} steps")
    assert found.states >= LEAST[name]


@pytest.mark.slow
def test_two_threads_and_the_worker() -> None:
    case = scenarios.THREE
    found = explore(case.start, case.check, externals=case.externals)
    print(f"three: {found.states} states, {found.steps} steps")
    assert found.states >= 30_000


COUNTS_PARTS = (
    "        participant_of(participant.rendezvous, own.group[1])"
    ".pending.store(own.group[0], RELAXED)"
)

RACES: dict[str, tuple[str, str, Fault]] = {
    "the last reference is counted without an order": (
        "blocks",
        "release_block",
        ("block.refs.add(-1, SEQ_CST)", "block.refs.add(-1, RELAXED)"),
    ),
    "the last one to let an event go has not seen what others did": (
        "event",
        "release",
        ("event.refs.add(-1, ACQ_REL)", "event.refs.add(-1, RELEASE)"),
    ),
    "a reference is taken behind the lock": (
        "blocks",
        "borrow",
        (
            "    retain(storage)\n    unlock(cell, ALIVE)",
            "    unlock(cell, ALIVE)\n    retain(storage)",
        ),
    ),
    "a buffer is deleted twice": (
        "blocks",
        "drop",
        ("lock(cell):", "cell.is_deleted.load(ACQUIRE) == ALIVE:"),
    ),
    "a parent is given back before its part": (
        "blocks",
        "free_storage",
        (
            "    free(storage.block)",
            "    if parent is not None:\n        release_block(parent)\n    free(storage.block)",
        ),
    ),
    "a block is read after it was pushed": (
        "held",
        "release_block",
        ("        if is_large:", "        if block.held and is_large:"),
    ),
    "what was destroyed is shown without an order": (
        "held",
        "push",
        ("compare_exchange(old, block, RELEASE)", "compare_exchange(old, block, RELAXED)"),
    ),
    "what was destroyed is taken without an order": (
        "held",
        "take",
        ("exchange(0, ACQUIRE)", "exchange(0, RELAXED)"),
    ),
    "a call is shown without an order": (
        "queue",
        "enqueue",
        ("compare_exchange(first, job, SEQ_CST)", "compare_exchange(first, job, RELAXED)"),
    ),
    "calls are taken without an order": (
        "queue",
        "next_of",
        ("exchange(None, SEQ_CST)", "exchange(None, RELAXED)"),
    ),
    "calls are taken from the newest on": (
        "queue",
        "next_of",
        ("turned(queue.pushed.exchange(None, SEQ_CST))", "queue.pushed.exchange(None, SEQ_CST)"),
    ),
    "the worker looks at the signal just before it sleeps": (
        "queue",
        "next_job",
        ("rest(queue, seen)", "rest(queue, queue.signal.load(SEQ_CST))"),
    ),
    "the worker says too late that it sleeps": (
        "queue",
        "signal",
        (
            "    queue.signal.add(1, SEQ_CST)\n    if queue.asleep.load(SEQ_CST):",
            "    sleeps = queue.asleep.load(SEQ_CST)\n"
            "    queue.signal.add(1, SEQ_CST)\n    if sleeps:",
        ),
    ),
    "one who sleeps is not counted": (
        "event",
        "wait_for",
        ("event.sleepers.add(1, SEQ_CST)", "event.sleepers.add(0, SEQ_CST)"),
    ),
    "that an event is done may be seen after the sleepers were counted": (
        "event",
        "wake_sleepers",
        ("event.done.store(1, SEQ_CST)", "event.done.store(1, RELEASE)"),
    ),
    "one who waits is shown without an order": (
        "event",
        "_joins",
        ("address_of(waiter), ACQ_REL)", "address_of(waiter), ACQUIRE)"),
    ),
    "the lock of the homes is taken without an order": (
        "homes",
        "guard",
        ("compare_exchange(0, 1, ACQUIRE)", "compare_exchange(0, 1, RELAXED)"),
    ),
    "the lock of the homes is given back without an order": (
        "homes",
        "unguard",
        ("store(0, RELEASE)", "store(0, RELAXED)"),
    ),
    "a device is let go without an order": (
        "one does all",
        "release_participant",
        ("store(how, RELEASE)", "store(how, RELAXED)"),
    ),
    "a rendezvous is unlocked without an order": (
        "one does all",
        "unlock_rendezvous",
        ("exchange(FREE, RELEASE)", "exchange(FREE, RELAXED)"),
    ),
    "nobody is woken who waits for the lock of a rendezvous": (
        "one does all",
        "unlock_rendezvous",
        ("== CONTENDED", "== TAKEN"),
    ),
    "a device that was let go does not look in order": (
        "one does all",
        "wait_to_be_met",
        ("if participant.released.load(ACQUIRE):", "if participant.released.load(RELAXED):"),
    ),
    "the others are let go before the work is done": (
        "one does all",
        "run_collective",
        (
            "        for number in range(own.group[0]):",
            "        release_others(participant, own.group, COME)\n"
            "        for number in range(own.group[0]):",
        ),
    ),
    "parts are counted after the others were let go": (
        "each does its part",
        "run_collective",
        (
            f"{COUNTS_PARTS}\n        release_others(participant, own.group, COME)",
            f"        release_others(participant, own.group, COME)\n{COUNTS_PARTS}",
        ),
    ),
    "parts are counted without an order": (
        "each does its part",
        "do_part",
        ("pending.add(-1, ACQ_REL)", "pending.add(-1, RELAXED)"),
    ),
    "a device sleeps though all is done": (
        "each does its part",
        "do_part",
        ("if found == DONE:", "if found == DONE and participant.number:"),
    ),
    "the last one to come counts itself": (
        "one does all",
        "come",
        ("rendezvous.waiting -= group[0] - 1", "rendezvous.waiting -= group[0]"),
    ),
}


@pytest.mark.parametrize("race", RACES)
def test_a_planted_race_is_found(race: str) -> None:
    name, function, fault = RACES[race]
    case: Case = CASES[name]
    with pytest.raises((RaceError, AssertionError)) as found:
        explore(case.start, case.check, {function: fault}, case.externals)
    assert "states" not in str(found.value)
