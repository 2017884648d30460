"""Machine code for events: they happen once, others wait for that, by callbacks or asleep."""

from __future__ import annotations

from typing import Final

from lowtide.native import (
    ACQ_REL,
    ACQUIRE,
    RELAXED,
    SEQ_CST,
    U8,
    Address,
    Atomic,
    NativeRecord,
    address_of,
    at,
    free,
    futex_wait,
    futex_wake,
    native,
    new,
)
from lowtide.pjrt.blocks import (
    HAPPENED,
    Answer,
    HandleCell,
    PluginErrorBlock,
    PluginEvent,
    References,
    Waiter,
)
from lowtide.pjrt.native_errors import copied

EVERYBODY: Final = 1 << 30
"""More threads than sleep anywhere."""


class EventCall(NativeRecord):
    """The arguments of a function about an event."""

    size: int
    extension: Address
    event: PluginEvent
    answer: Answer
    given: Address


class EventFlagCall(NativeRecord):
    """The arguments of the one that asks whether an event has happened."""

    size: int
    extension: Address
    event: PluginEvent
    is_ready: U8


class ReadyCall(NativeRecord):
    """The arguments of the one that asks for the event of a buffer."""

    size: int
    extension: Address
    buffer: HandleCell
    event: PluginEvent | None


@native
def new_event() -> PluginEvent:
    """Return an event with one reference."""
    event = new(PluginEvent)
    event.refs.store(1, RELAXED)
    event.waiting.store(0, RELAXED)
    event.error = None
    event.done.store(0, RELAXED)
    event.sleepers.store(0, RELAXED)
    return event


@native
def retain(block: References) -> None:
    """Take one more reference to what is counted."""
    block.refs.add(1, RELAXED)


@native
def release(event: PluginEvent) -> None:
    """Give a reference to an event back."""
    if event.refs.add(-1, ACQ_REL) != 1:
        return
    free(event.error)
    free(event)


@native
def has_happened(event: PluginEvent) -> bool:
    """Return whether an event has happened."""
    return event.waiting.load(ACQUIRE) == HAPPENED


@native
def happen_unseen(event: PluginEvent) -> None:
    """Have an event happen without an error that no other thread knows of yet."""
    event.waiting.store(HAPPENED, RELAXED)
    event.done.store(1, RELAXED)


@native
def complete(event: PluginEvent, error: PluginErrorBlock | None) -> None:
    """Have an event happen, with an error if there is one; all who wait are told."""
    event.error = error
    first = event.waiting.exchange(HAPPENED, ACQ_REL)
    wake_sleepers(event)
    while first != 0:
        waiter = at(Waiter, first)
        first = waiter.next
        answer, given = waiter.answer, waiter.given
        free(waiter)
        answer(address_of(copied(event.error)), given)


@native
def wake_sleepers(event: PluginEvent) -> None:
    """Wake those who sleep until an event that has happened."""
    event.done.store(1, SEQ_CST)
    if event.sleepers.load(SEQ_CST):
        wake(event.done, EVERYBODY)


@native
def wait_for(event: PluginEvent) -> PluginErrorBlock | None:
    """Return a copy of the error, if there is one, once an event has happened."""
    while not has_happened(event):
        event.sleepers.add(1, SEQ_CST)
        sleep_at(event.done, 0)
        event.sleepers.add(-1, SEQ_CST)
    return copied(event.error)


@native
def wake(word: Atomic[int], count: int) -> None:
    """Wake up to so many of those who sleep at a word."""
    futex_wake(word, count)


@native
def sleep_at(word: Atomic[int], value: int) -> None:
    """Sleep until a word has another value, or less."""
    futex_wait(word, value)


# -- what C++ asks -------------------------------------------------------------------------------


@native
def is_ready(a: EventFlagCall) -> Address:
    """Serve Event_IsReady."""
    a.is_ready = int(has_happened(a.event))
    return 0


@native
def event_error(a: EventCall) -> PluginErrorBlock | None:
    """Serve Event_Error."""
    return copied(a.event.error)


@native
def await_event(a: EventCall) -> PluginErrorBlock | None:
    """Serve Event_Await."""
    return wait_for(a.event)


@native
def on_ready(a: EventCall) -> Address:
    """Serve Event_OnReady: the callback is called at once where the event has happened."""
    event, answer, given = a.event, a.answer, a.given
    if not _joins(event, answer, given):
        answer(address_of(copied(event.error)), given)
    return 0


@native
def _joins(event: PluginEvent, answer: Answer, given: Address) -> bool:
    """Join the list of those who wait; return False where the event has happened."""
    if has_happened(event):
        return False
    waiter = new(Waiter)
    waiter.answer, waiter.given = answer, given
    old = event.waiting.load(ACQUIRE)
    while old != HAPPENED:
        waiter.next = old
        seen = event.waiting.compare_exchange(old, address_of(waiter), ACQ_REL)
        if seen == old:
            return True
        old = seen
    free(waiter)
    return False


@native
def destroy_event(a: EventCall) -> Address:
    """Serve Event_Destroy."""
    release(a.event)
    return 0


@native
def ready_event(a: ReadyCall) -> Address:
    """Serve Buffer_ReadyEvent: one more reference to the event of a buffer."""
    event = a.buffer.event
    assert event is not None
    retain(event)
    a.event = event
    return 0
